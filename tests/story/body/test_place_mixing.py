"""Linear layers along the places of turned rows: told as what mixes places, and as nothing else."""

from functools import partial

import pytest
import torch
from story.body.test_context import PLACES, WIDTH, Thinks
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import PlaceMixing
from xray.story.poster import compose_poster

WIDE = 19


class Mixes(nn.Module):
    """Rows are turned, go out and back along their places, and are turned back (MLP-Mixer)."""

    def __init__(self):
        super().__init__()
        self.norm, self.out, self.back = nn.LayerNorm(WIDTH), nn.Linear(PLACES, WIDE), nn.Linear(WIDE, PLACES)

    def turn(self, x):
        return x.mT

    def forward(self, x):
        return x + self.turn(self.back(nn.functional.gelu(self.out(self.turn(self.norm(x))))))


class Once(Mixes):
    """One linear layer, and nothing bent (ResMLP)."""

    def forward(self, x):
        return x + self.turn(self.back(self.out(self.turn(self.norm(x)))))


class Square(Mixes):
    """There are as many places as a row is wide."""

    def __init__(self):
        super().__init__()
        self.out, self.back = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)


class TurnsBetween(Mixes):
    """Between both layers, rows are turned back for one over their channels, which are as many where it is `wide`."""

    def __init__(self, *, wide=False):
        super().__init__()
        wide = WIDTH if wide else WIDE
        self.out, self.back, self.channels = nn.Linear(PLACES, wide), nn.Linear(wide, PLACES), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        made = self.channels(self.turn(self.out(self.turn(self.norm(x)))))
        return x + self.turn(self.back(nn.functional.gelu(self.turn(made))))


class LaysAnew(Mixes):
    """Numbers are laid out anew instead: what stands in a row then is of several places."""

    def turn(self, x):
        return x.reshape(len(x), x.shape[2], x.shape[1])


class Convolves(nn.Module):
    """Convolutions of one place take the places for channels: rows are not turned."""

    def __init__(self, kernel=1):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Conv1d(PLACES, WIDE, kernel, padding="same")
        self.back = nn.Conv1d(WIDE, PLACES, kernel, padding="same")

    def forward(self, x):
        return x + self.back(nn.functional.gelu(self.out(self.norm(x))))


class Gates(nn.Module):
    """Each place goes out and back, and half of its numbers are mixed on the way with those of all (gMLP)."""

    def __init__(self, *, over="places"):
        super().__init__()
        self.norm, self.out, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDE), nn.Linear(WIDE, WIDTH)
        self.normed, self.over = nn.LayerNorm(WIDE), over
        many = PLACES if over == "places" else WIDE
        self.weights = nn.Parameter(torch.randn(1, many, many))

    def forward(self, x):
        kept, mixed = nn.functional.gelu(self.out(self.norm(x))).chunk(2, dim=-1)
        rows = self.normed(mixed).view(len(x), PLACES, 1, WIDE).transpose(1, 2)
        equation = "b h n d, h m n -> b h m d" if self.over == "places" else "b h n d, h e d -> b h n e"
        rows = torch.einsum(equation, rows, self.weights)
        return x + self.back(kept * rows.transpose(1, 2).reshape(len(x), PLACES, WIDE))


def record(make, places=PLACES):
    torch.manual_seed(0)
    layers = [one() for _ in range(3) for one in (make, Thinks)]
    ids = torch.arange(2 * places).view(2, places) % 31
    return xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), ids)


def read_texts(trace):
    layout = compose_poster(trace, text_width)
    boxes = () if layout is None else layout.boxes  # where an arrow would be false
    return ["".join(run.text for line in box.lines for run in line) for box in boxes]


@pytest.mark.parametrize(("make", "activation"), [(Mixes, "gelu"), (Once, None)])
def test_places_that_are_mixed_by_learned_weights_are_told_so(make, activation):
    trace = record(make)
    texts = read_texts(trace)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.stages[0].branches == (PlaceMixing(PLACES, WIDE, activation),)
    assert "MIXING OF PLACES" in texts
    assert sum(text.startswith("AXES SWAPPED") for text in texts) == 2
    assert any("Places are mixed by learned weights, the same for every channel." in text for text in texts)


def test_as_many_places_as_a_row_is_wide_are_mixed_all_the_same():
    (group,) = xray.anatomy(record(Square, WIDTH)).towers[0].groups

    assert group.stages[0].branches == (PlaceMixing(WIDTH, WIDE, "gelu"),)


def test_convolutions_of_one_place_over_places_mix_these():
    trace = record(Convolves)
    texts = read_texts(trace)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.stages[0].branches == (PlaceMixing(PLACES, WIDE, "gelu"),)
    assert "MIXING OF PLACES" in texts
    assert sum("Each place alone" in text for text in texts) == 1  # the layer that thinks


def test_a_learned_square_between_layers_over_each_place_mixes_these():
    trace = record(Gates)
    texts = read_texts(trace)

    (group,) = xray.anatomy(trace).towers[0].groups
    assert group.stages[0].branches == (PlaceMixing(PLACES, None, None),)
    assert any(text.startswith("PLACES MIXED") for text in texts)
    assert sum("Each place alone" in text for text in texts) == 1  # the layer that thinks


@pytest.mark.parametrize(
    "make",
    [
        partial(Gates, over="numbers"),
        partial(Convolves, kernel=3),
        LaysAnew,
        Thinks,
        TurnsBetween,
        partial(TurnsBetween, wide=True),
    ],
    ids=["square over numbers", "kernel of three", "laid anew", "thinks", "turns between", "turns a square"],
)
def test_rows_that_are_not_turned_or_turned_back_between_mix_no_places(make):
    trace = record(make)

    groups = xray.anatomy(trace).towers[0].groups
    assert not any(isinstance(one, PlaceMixing) for group in groups for stage in group.stages for one in stage.branches)
    assert not any("mixed by learned" in text or text.startswith("MIXING") for text in read_texts(trace))
