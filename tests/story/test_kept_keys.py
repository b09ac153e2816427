"""Keys and values that each layer of one tower gives the layer of the same number of another (π0)."""

import itertools

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Link
from xray.story.poster import compose_poster

WIDTH, READ, SAID, WORDS, HEADS, HEAD = 18, 7, 5, 31, 3, 6
LAYERS = 4


class Keeping(nn.Module):
    """Attention that gives its keys and values away, and puts others that it is given beside them."""

    def __init__(self, *, heads=HEADS):
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(WIDTH, heads * HEAD) for _ in range(2))

    def forward(self, x, given=None):
        query, key, value = (one(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for one in (self.q, self.k, self.v))
        kept = key, value
        if given is not None:
            key, value = (torch.cat(pair, dim=2) for pair in zip(given, kept, strict=True))
        key, value = (one.repeat_interleave(HEADS // one.shape[1], dim=1) for one in (key, value))
        scores = query @ key.mT / HEAD**0.5
        return self.o((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)), kept


class Keeps(nn.Module):
    """A layer around that."""

    def __init__(self, **keeping):
        super().__init__()
        self.before, self.look, self.after = nn.LayerNorm(WIDTH), Keeping(**keeping), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 41), nn.GELU(), nn.Linear(41, WIDTH))

    def forward(self, x, given=None):
        looked, kept = self.look(self.before(x), given)
        x = x + looked
        return x + self.think(self.after(x)), kept


class Hands(nn.Module):
    """Two towers, of which the second one's layers have keys and values of the first one's: by `order` of these."""

    def __init__(self, order=range(LAYERS), between=None, **keeping):
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.reads = nn.ModuleList(Keeps(**keeping) for _ in range(LAYERS))
        self.between = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, HEADS), norm="before") for _ in range(between or 0))
        self.says, self.acts = nn.ModuleList(Keeps(**keeping) for _ in range(LAYERS)), nn.Linear(4, WIDTH)
        self.last, self.order = nn.LayerNorm(WIDTH), [*order]

    def forward(self, ids, acts):
        x, all_kept = self.words(ids), []
        for layer in self.reads:
            x, kept = layer(x)
            all_kept.append(kept)
        y = self.acts(acts)
        for layer, number in zip(self.says, self.order, strict=True):
            y, _ = layer(y, all_kept[number])
        return self.out(self.last(y))


def trace_of(model):
    torch.manual_seed(0)
    return xray.trace(model, torch.randint(0, WORDS, (2, READ)), torch.randn(2, SAID, 4))


def compose(trace):
    return compose_poster(trace, text_width)


def list_ribbons(layout):
    return [one.points for one in layout.curves if one.kind == "ribbon" and one.head]


def name_at(layout, x, y):
    """The first line of the box whose edge a point is on."""
    found = [
        one
        for one in layout.boxes
        if one.filled and one.steps and one.left - 1 <= x <= one.right + 1 and one.bottom - 1 <= y <= one.top + 1
    ]
    assert len(found) == 1, (x, y, [one.lines for one in found])
    return "".join(run.text for run in found[0].lines[0]).strip(), found[0].steps[0]


def test_keys_and_values_are_led_from_the_layer_that_is_drawn_to_the_one_of_its_number():
    trace = trace_of(Hands())
    assert Link("keys", "tokens", "stack") in xray.anatomy(trace).links
    layout = compose(trace)
    ways = [(name_at(layout, *way[0]), name_at(layout, *way[-1])) for way in list_ribbons(layout)]

    assert [(start[0], end[0]) for start, end in ways] == [("HEADS K", "JOIN K"), ("HEADS V", "JOIN V")]
    assert all(start[1].startswith("forward/reads.0.") for start, _ in ways)
    assert all(end[1].startswith("forward/says.0.") for _, end in ways)


def test_ribbons_of_keys_pass_no_box_and_are_named_once():
    layout = compose(trace_of(Hands()))
    boxes = [one for one in layout.boxes if one.filled and one.steps]
    for way in list_ribbons(layout):
        ends = {name_at(layout, *way[0]), name_at(layout, *way[-1])}
        for (x, y), (to_x, to_y) in itertools.pairwise(way):
            for one in boxes:
                if ("".join(run.text for run in one.lines[0]).strip(), one.steps[0]) not in ends:
                    assert max(min(x, to_x), one.left) > min(max(x, to_x), one.right) or (
                        max(min(y, to_y), one.bottom) > min(max(y, to_y), one.top)
                    ), (one.lines, way)
    said = ["".join(run.text for run in line) for one in layout.boxes for line in one.lines]

    assert said.count("BY LAYER") == 1


def test_what_is_handed_is_not_what_is_repeated_behind_it():
    layout = compose(trace_of(Hands(heads=1)))
    starts = [name_at(layout, *way[0])[0] for way in list_ribbons(layout)]

    assert starts == ["ONE HEAD K", "ONE HEAD V"]


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [0, 0, 1, 2], [3, 3, 3, 3]])
def test_keys_of_layers_of_other_numbers_are_not_told_so(order):
    trace = trace_of(Hands(order))
    layout = compose(trace)
    said = "".join(run.text for one in layout.boxes for line in one.lines for run in line)

    assert not any(link.kind == "keys" for link in xray.anatomy(trace).links)
    assert "BY LAYER" not in said
    assert "of the same number" not in said


def test_it_is_said_which_layer_made_them():
    layout = compose(trace_of(Hands()))
    said = " ".join("".join(run.text for run in line) for one in layout.boxes for line in one.lines)

    assert "was made by the layer of the same number of the tokens tower." in " ".join(said.split())
