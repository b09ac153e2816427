"""What is told of runs: words that are chosen and looked up again, parts called alone, loops of layers, lengths."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import text_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, HEADS, WORDS, READ, PLACES = 18, 3, 31, 7, 40


class Speaks(nn.Module):
    """Layers that know places; with `turns` they say words, each of which they read next."""

    def __init__(self, turns=0, choose=None, between=None, loops=1):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, HEADS), norm="before") for _ in range(2))
        self.last, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)
        self.turns, self.choose, self.between, self.loops = turns, choose, between, loops

    def read(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for _ in range(self.loops):
            for layer in self.layers:
                x = layer(x)
            x = self.last(x) if self.between else x
        return self.out(self.last(x))

    def forward(self, ids):
        scores = self.read(ids)
        for _ in range(self.turns):
            ids = scores[:, -1:].argmax(-1)
            scores = self.read(ids)
        return scores if self.choose is None else self.choose(scores[:, -1])


def ids_of(length=READ):
    return torch.randint(0, WORDS, (2, length))


def texts_of(trace):
    return [" ".join(map(text_of, box.lines)) for box in compose_poster(trace, text_width).boxes]


def told_by(model):
    torch.manual_seed(0)
    return texts_of(xray.trace(model, ids_of()))


def test_a_word_that_was_chosen_is_looked_up_as_a_word():
    said = told_by(Speaks(turns=2))

    assert sum("PLACE LOOKUP" in one for one in said) == 3
    assert sum("TABLE LOOKUP" in one for one in said) == 3


class Beams(Speaks):
    """One more word for each of the likeliest beginnings, as the place among the scores of all of them says."""

    def forward(self, ids):
        places = self.read(ids)[:, -1].topk(READ).indices
        return self.read((places * 3) % WORDS)


def test_a_word_that_scores_chose_among_several_rows_is_looked_up_by_no_hash():
    assert not any("HASH" in one for one in told_by(Beams()))


@pytest.mark.parametrize(("count", "is_told"), [(1, True), (4, False)])
def test_one_is_said_to_be_drawn_where_one_is(count, is_told):
    said = told_by(Speaks(choose=lambda scores: torch.multinomial(scores.softmax(-1), count)))

    assert any("one drawn by chance" in one for one in said) is is_told


def test_the_highest_of_all_rows_together_is_no_word():
    assert not any("a word" in one for one in told_by(Speaks(choose=lambda scores: scores.argmax())))


def test_layers_that_are_called_alone_hand_nothing_out_and_are_no_forward_pass():
    model = Speaks()
    with xray.record(model) as recorder, torch.no_grad():
        model.read(ids_of())
    said = texts_of(recorder.trace)

    assert any("Every tensor of one run, recorded." in one for one in said)
    assert not any("handed out" in one for one in said)


def test_sets_of_weights_are_counted_for_the_layers_of_a_frame():
    said = told_by(Speaks(between=True, loops=3))

    assert [one.partition("  ")[2] for one in said if one.startswith("LAYERS 1, 3")] == ["one set of weights"]


class Grows(nn.Module):
    """Attention that puts the keys and values that it is given in front of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, kept=None):
        query, key, value = (
            one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.first, self.second, self.third)
        )
        if kept is not None:
            key, value = (torch.cat(pair, dim=2) for pair in zip(kept, (key, value), strict=True))
        scores = query @ key.mT / (WIDTH // HEADS) ** 0.5
        return self.last((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)), (key, value)


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.look, self.out = nn.Embedding(WORDS, WIDTH), Grows(), nn.Linear(WIDTH, WORDS)

    def forward(self, ids, kept=None):
        x = self.words(ids)
        looked, kept = self.look(x, kept)
        return self.out(x + looked), kept


def test_queries_and_keys_of_other_lengths_are_not_called_alike():
    model = Keeps()
    with xray.record(model) as recorder, torch.no_grad():
        _, kept = model(ids_of())
        for _ in range(2):
            _, kept = model(ids_of(1), kept)
    (scores,) = (one for one in texts_of(recorder.trace) if one.startswith("SCORES"))

    assert "1–7×7–9" in scores
    assert "seq_len" not in scores


class Horner(nn.Module):
    """A polynomial of each row alone, worked out from its highest power down."""

    def __init__(self):
        super().__init__()
        self.powers, self.row = nn.Parameter(torch.randn(READ + 2, WIDTH)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        made, row = torch.zeros_like(x), self.row(x)
        for one in self.powers:
            made = made * row + one
        return made


def test_what_is_changed_for_all_places_at_once_is_no_state():
    model = Speaks()
    for layer in model.layers:
        layer.two = Horner()

    assert not any("state" in one.lower() for one in told_by(model))


def test_losses_of_two_passes_that_are_sent_back_at_once_are_not_said_to_be_one():
    model = Speaks()
    with xray.record(model) as recorder:
        one, other = (nn.functional.cross_entropy(model(ids_of()).flatten(0, 1), ids_of().flatten()) for _ in range(2))
        (one + other).backward()
    said = texts_of(recorder.trace)

    assert any(
        "Every tensor of 2 forward passes, and back-propagation behind 1 of them, recorded." in one for one in said
    )


class Leaves(Keeps):
    """Keys that are given stand in front of the own ones, and both are handed out where `again` is asked for."""

    def __init__(self, again):
        super().__init__()
        self.again = again

    def forward(self, ids, kept=None):
        scores, kept = super().forward(ids, kept)
        return (scores, kept) if self.again else scores


@pytest.mark.parametrize(("again", "name"), [(True, "CACHE K"), (False, "JOIN K")])
def test_keys_that_come_in_are_a_cache_where_they_leave_with_the_own_ones(again, name):
    kept = torch.randn(2, 2, HEADS, 5, WIDTH // HEADS).unbind()
    said = texts_of(xray.trace(Leaves(again), ids_of(), kept))

    assert any(one.startswith(name) for one in said)


class Sinks(Grows):
    """Attention that reads of all keys the first and the last ones."""

    def forward(self, x, kept=None):
        key, value = (torch.cat((one[:, :, :1], one[:, :, -3:]), dim=2) for one in kept)
        query, own, said = (
            one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.first, self.second, self.third)
        )
        key, value = (torch.cat((one, new), dim=2) for one, new in ((key, own), (value, said)))
        key, value = (torch.cat((one[:, :, :1], one[:, :, -3:]), dim=2) for one in (key, value))
        return self.last(((query @ key.mT).softmax(-1) @ value).transpose(1, 2).flatten(2)), kept


def test_parts_of_the_same_keys_are_no_others_beside_them():
    model, kept = Keeps(), torch.randn(2, 2, HEADS, 5, WIDTH // HEADS).unbind()
    model.look = Sinks()

    assert not any("stand others" in one for one in texts_of(xray.trace(model, ids_of(1), kept)))
