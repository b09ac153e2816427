"""Which keys a place sees: those that a mask shows because they were chosen, and those of a window that is set."""

from types import SimpleNamespace

import pytest
import torch
from story.body.test_kept_waist import WIDTH, Layer
from torch import nn

import xray
from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.facts.kept_keys import measure_growth
from xray.story.poster import compose_poster
from xray.story.recognition.scored_parts import read_scored
from xray.story.sentences.attentions.of_windows import describe_chosen_keys
from xray.story.sentences.of_rows import describe_listed

LENGTH, CHOSEN = 5, 3


class Scoring(nn.Module):
    """A single head with other scores beside its own, and a window that is set."""

    def __init__(self, window=None):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.asks, self.asked = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.sliding_window = window

    def forward(self, x):
        scores = self.change(self.query(x) @ self.key(x).transpose(-1, -2), self.asks(x) @ self.asked(x).mT)
        return self.out(torch.softmax(scores, dim=-1) @ self.value(x))

    def change(self, scores, others):
        return scores


class Indexed(Scoring):
    """Each place sees the keys that have the highest of the other scores (DeepSeek-V3.2)."""

    def change(self, scores, others):
        hidden = torch.ones_like(others, dtype=torch.bool).scatter(-1, others.topk(CHOSEN, dim=-1).indices, False)
        return scores.masked_fill(hidden, -1e9)


class OfSoMany(Scoring):
    """Each place sees so many keys at most, or all where there are no more (DeepSeek-V3.2)."""

    def __init__(self, most, **others):
        super().__init__()
        self.index_topk = most
        for name, value in others.items():
            setattr(self, name, value)

    def change(self, scores, others):
        best = others.topk(min(self.index_topk, LENGTH), dim=-1).indices
        return scores.masked_fill(torch.ones_like(others, dtype=torch.bool).scatter(-1, best, False), -1e9)


class Keeping(Indexed):
    """What the other scores are made of is put into a cache that is empty (DeepSeek-V3.2)."""

    def forward(self, x):
        self.kept = torch.cat([torch.tensor([]), self.asked(x)], dim=1)
        scores = self.change(self.query(x) @ self.key(x).transpose(-1, -2), self.asks(x) @ self.kept.mT)
        return self.out(torch.softmax(scores, dim=-1) @ self.value(x))


class HandsOut(nn.Sequential):
    """Words through layers, and what these keep."""

    def forward(self, ids):
        x = super().forward(ids)
        return x, [one.kept for one in self.modules() if isinstance(one, Keeping)]


class Taking(nn.Module):
    """An attention that chooses keys, and hands its choice on, or takes what the one before chose (HY 4)."""

    def __init__(self, before=None):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.asks, self.asked = (nn.Linear(WIDTH, WIDTH) if before is None else None for _ in range(2))
        self.before = [before]

    def forward(self, x):
        if self.asks is not None:
            others = self.asks(x) @ self.asked(x).mT
            self.hidden = torch.ones_like(others, dtype=torch.bool).scatter(-1, others.topk(CHOSEN).indices, False)
        (before,) = self.before
        hidden = self.hidden if before is None else before.hidden
        scores = (self.query(x) @ self.key(x).mT).masked_fill(hidden, -1e9)
        return self.out(torch.softmax(scores, dim=-1) @ self.value(x))


class Hiding(nn.Module):
    """Adds a mask in which more is hidden (HY 4)."""

    def forward(self, scores, attention_mask, hidden):
        return scores + attention_mask.masked_fill(hidden, -1e9)


class Filled(Scoring):
    """The highest of the other scores are seen of those that a mask shows."""

    def __init__(self):
        super().__init__()
        self.hide = Hiding()

    def change(self, scores, others):
        hidden = torch.ones_like(others, dtype=torch.bool).scatter(-1, others.topk(CHOSEN, dim=-1).indices, False)
        return self.hide(scores, attention_mask=torch.full((1, LENGTH, LENGTH), -1e9).triu(1), hidden=hidden)


class Added(Scoring):
    """Something is added at those keys, and none is hidden."""

    def change(self, scores, others):
        return scores + torch.zeros_like(others).scatter(-1, others.topk(CHOSEN, dim=-1).indices, 0.5)


class Picked(Scoring):
    """The rows of a mask are picked, one for each query that scored high (Informer)."""

    def change(self, scores, others):
        highest = others.amax(dim=-1).topk(LENGTH).indices
        hidden = torch.ones(len(others), LENGTH, LENGTH, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden[torch.arange(len(others))[:, None], highest], -1e9)


class Bucketed(Scoring):
    """What is added is looked up by how far apart places are, near ones each, far ones together (ProphetNet)."""

    def __init__(self):
        super().__init__()
        self.near = nn.Linear(WIDTH, 4)

    def forward(self, x):
        apart = (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).abs()
        buckets = torch.where(apart < 2, apart, torch.full_like(apart, 3)).expand(len(x), -1, -1)
        bias = self.near(x).gather(-1, buckets)
        scores = self.query(x) @ self.key(x).transpose(-1, -2) + bias
        return self.out(torch.softmax(scores, dim=-1) @ self.value(x))


class InPieces(Scoring):
    """Each place sees the places of the pieces that score highest, and the last ones, which fill none (GLM-5.3)."""

    def __init__(self, size, dim=-1):
        super().__init__()
        self.size, self.dim = size, dim

    def forward(self, x):
        many = LENGTH // self.size
        places = torch.arange(many * self.size).view(1, many, self.size).expand(len(x), -1, -1)
        pieces = self.asked(x)[:, : many * self.size].reshape(len(x), many, self.size, WIDTH).mean(2)
        best = (self.asks(x) @ pieces.mT).topk(min(1, many), dim=-1).indices
        chosen = places[torch.arange(len(x))[:, None, None], best].flatten(-2)
        last = torch.arange(many * self.size, LENGTH).expand(len(x), LENGTH, -1)
        written = torch.cat([chosen, last], dim=-1)
        counts = torch.zeros(len(x), LENGTH, LENGTH).scatter_add(self.dim, written, torch.ones_like(written).float())
        scores = (self.query(x) @ self.key(x).mT).masked_fill(counts == 0, -1e9)
        return self.out(torch.softmax(scores, dim=-1) @ self.value(x))


class Listed(Scoring):
    """What each place may see is listed, and filled up with numbers of no key; a mask shows the listed ones (Qwen4)."""

    def __init__(self, most, mark=True):
        super().__init__()
        self.most, self.mark = most, mark

    def change(self, scores, others):
        visible = torch.ones(1, LENGTH, LENGTH, dtype=torch.bool).tril()
        listed = torch.full((1, LENGTH, self.most), -1)
        for place in range(LENGTH):
            seen = torch.nonzero(visible[0, place]).flatten()[: self.most]
            listed[0, place, : len(seen)] = seen
        places = torch.where(listed >= 0, listed, LENGTH)
        marks = torch.zeros(1, LENGTH, LENGTH + 1, dtype=torch.bool).scatter(-1, places, self.mark)[..., :LENGTH]
        return scores.masked_fill(~(visible & marks), -1e9)


@pytest.mark.parametrize(("most", "mark", "listed"), [(7, True, 7), (7, False, None), (3, True, None)])
def test_keys_that_a_list_names_for_each_place_are_counted(most, mark, listed):
    assert look(Listed(most, mark)).listed == listed


def test_a_list_that_names_all_keys_is_said_to_be_such():
    trace = xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), Layer(Listed(7))), torch.arange(LENGTH)[None])

    assert describe_listed(xray.anatomy(trace)) == (
        "Keys are listed, 7 at most for each place: the mask shows no others. Here all are named: no row of this pass"
        " has more."
    )


def read_parts(attention):
    trace = xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), Layer(attention)), torch.arange(LENGTH)[None])
    flow = read_flow(trace.passes[0])
    (site,) = list_sites(flow)
    return [part.kind for part in read_scored(flow, site.scored)]


def look(attention):
    trace = xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), Layer(attention)), torch.arange(LENGTH)[None])
    return xray.anatomy(trace).towers[0].branches[0]


@pytest.mark.parametrize(("attention", "chosen"), [(Indexed, True), (Added, None), (Picked, None)])
def test_keys_are_chosen_where_a_mask_shows_the_highest_alone(attention, chosen):
    assert look(attention()).chosen_keys is chosen


@pytest.mark.parametrize(
    ("attention", "told"),
    [
        (InPieces(2), (True, 2, None)),
        (InPieces(LENGTH + 2), (True, LENGTH + 2, True)),
        (InPieces(2, dim=1), (None, None, None)),  # what is picked is no key
        (Indexed(), (True, None, None)),
    ],
)
def test_keys_are_chosen_in_pieces_where_places_of_these_are_written_along_a_mask(attention, told):
    found = look(attention)

    assert (found.chosen_keys, found.chosen_together, found.none_chosen) == told


@pytest.mark.parametrize(
    ("attention", "most", "is_all"),
    [
        (OfSoMany(CHOSEN), CHOSEN, None),
        (OfSoMany(LENGTH), LENGTH, True),
        (OfSoMany(2048), 2048, True),
        (OfSoMany(2048, other_topk=17), None, True),  # which of the two is meant is not known
        (InPieces(2), None, None),
    ],
)
def test_how_many_keys_are_chosen_is_told_and_where_all_were(attention, most, is_all):
    found = look(attention)

    assert (found.chosen_most, found.all_chosen) == (most, is_all)


@pytest.mark.parametrize(
    ("attention", "told"),
    [
        (OfSoMany(CHOSEN), "say which of them each place looks at, 3 at most."),
        (OfSoMany(2048), "looks at, 2,048 at most. Here all were chosen: no row of this pass has more."),
        (InPieces(2), "say which of them each place looks at."),
    ],
)
def test_a_choice_that_leaves_no_key_out_is_said_to_be_such(attention, told):
    trace = xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), Layer(attention)), torch.arange(LENGTH)[None])

    assert describe_chosen_keys(xray.anatomy(trace)).endswith(told)


@pytest.mark.parametrize(
    ("size", "mask", "pieces"),
    [(2, "MASK OF CHOSEN KEYS", "of 2 pieces of 2 places"), (LENGTH + 2, "MASK", "of 0 pieces of 7 places")],
)
def test_other_scores_of_pieces_stand_before_the_mask_and_say_of_how_many(size, mask, pieces):
    attention = InPieces(size)
    trace = xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), Layer(attention)), torch.arange(LENGTH)[None])
    boxes = [
        "\n".join("".join(run.text for run in line) for line in box.lines)
        for box in compose_poster(trace, text_width).boxes
    ]
    (other,) = (text for text in boxes if text.startswith("OTHER SCORES"))

    assert pieces in other
    assert f"{2 * (WIDTH + 1) * WIDTH:,} parameters" in other
    assert any(text.startswith((f"{mask} ", f"{mask}\n")) for text in boxes)


@pytest.mark.parametrize(("attention", "kept"), [(Keeping, WIDTH), (Indexed, None)])
def test_what_a_cache_keeps_to_choose_keys_is_told(attention, kept):
    trace = xray.trace(HandsOut(nn.Embedding(11, WIDTH), Layer(attention())), torch.arange(LENGTH)[None])
    found = xray.anatomy(trace)
    branch = found.towers[0].branches[0]
    assert isinstance(branch, Attention)
    assert branch.chosen_kept == kept
    assert (f"; a cache keeps {WIDTH} numbers of each place for them." in describe_chosen_keys(found)) == bool(kept)
    assert measure_growth(trace) is None  # no keys and values, of which a price tells


def test_layers_that_choose_keys_are_told_apart_from_those_that_take_a_choice():
    first, then = Taking(), Taking()
    layers = [Layer(one) for one in (first, Taking(first), then, Taking(then))]
    model = nn.Sequential(nn.Embedding(11, WIDTH), *layers).to("meta")  # so that what is chosen sets none apart
    trace = xray.trace(model, torch.arange(LENGTH, device="meta")[None])
    found = xray.anatomy(trace)
    told = [run.text for box in compose_poster(trace, text_width).boxes for line in box.lines for run in line]

    assert [group.layers for group in found.towers[0].groups] == [(0, 2), (1, 3)]
    looking = [branch for branch in found.towers[0].branches if isinstance(branch, Attention)]
    assert [branch.chosen_earlier for branch in looking] == [None, True]
    assert any(text.startswith("2, 4: self-attention (keys of an earlier choice)") for text in told)
    assert all(branch.chosen_keys for branch in found.towers[0].branches if isinstance(branch, Attention))


@pytest.mark.parametrize(("window", "told"), [(LENGTH + 1, LENGTH + 1), (LENGTH, None)])
def test_a_window_is_told_as_set_where_there_are_fewer_keys(window, told):
    assert look(Scoring(window)).sliding_window == told


class Configured(nn.Module):
    """A block around an attention, with a configuration that names a window for all layers."""

    def __init__(self, inner, window):
        super().__init__()
        self.inner, self.config = inner, SimpleNamespace(sliding_window=window)

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    ("own", "named", "told"),
    [
        (LENGTH + 5, LENGTH + 4, LENGTH + 4),  # a kernel is told of one more (UltraBERT)
        (LENGTH + 5, LENGTH + 5, LENGTH + 5),
        (LENGTH + 5, LENGTH + 9, LENGTH + 5),
        (None, LENGTH + 4, None),
    ],
)
def test_of_a_window_that_a_kernel_is_told_of_as_one_more_the_configuration_is_told(own, named, told):
    assert look(Configured(Scoring(own), named)).sliding_window == told


def test_a_mask_in_which_more_is_hidden_is_no_bias():
    assert read_parts(Filled()) == ["mask", "softmax"]


def test_numbers_of_what_is_looked_up_hide_nothing():
    assert read_parts(Bucketed()) == ["bias", "softmax"]
