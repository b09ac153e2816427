"""What is made of the stream between two layers and added to it: a part of neither (Granite Speech's guess)."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import words_of
from story.body.test_mistaken import BATCH, PLACES, WIDTH
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

LETTERS = 11


class Guesses(nn.Module):
    """Letters are guessed behind some layers, and what is sure of them is added; `inside`: by the last of them."""

    def __init__(self, behind, *, inside=False, layers=4):
        super().__init__()
        self.lead, self.last = nn.Linear(7, WIDTH), nn.Linear(WIDTH, 3)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(layers))
        self.guesses = nn.ModuleDict({str(one): Guess(self.layers[one] if inside else nn.Identity()) for one in behind})
        self.inside = inside

    def forward(self, x):
        x = self.lead(x)
        for number, layer in enumerate(self.layers):
            guesses = str(number) in self.guesses
            if guesses and self.inside:
                x = self.guesses[str(number)](x)
            else:
                x = layer(x)
                x = x + self.guesses[str(number)].made(x) if guesses else x
        return self.last(x)


class Guess(nn.Module):
    """A layer that adds a guess at letters of its own."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.letters, self.back = layer, nn.Linear(WIDTH, LETTERS), nn.Linear(LETTERS, WIDTH)

    def made(self, x):
        return self.back(self.letters(x).softmax(-1))

    def forward(self, x):
        x = self.layer(x)
        return x + self.made(x)


def record(*behind, **how):
    return xray.trace(Guesses(behind, **how).eval(), torch.rand(BATCH, PLACES, 7))


def test_what_is_added_between_two_layers_is_a_part_of_neither():
    (tower,) = xray.anatomy(record(1)).towers

    assert [(one.before, one.added) for one in tower.bridges] == [(2, True)]
    assert [group.layers for group in tower.groups] == [(0, 1), (2, 3)]
    assert tower.groups[0].stages == tower.groups[1].stages
    assert [branch.part for stage in tower.groups[0].stages for branch in stage.branches] == [
        "attention",
        "feed_forward",
    ]


@pytest.mark.parametrize(
    "how", [{"behind": (1,), "inside": True}, {"behind": (0, 1, 2)}, {"behind": (3,)}], ids=["held", "often", "last"]
)
def test_what_a_layer_holds_or_comes_often_or_last_is_not_between_layers(how):
    behind = how.pop("behind")
    (tower,) = xray.anatomy(record(*behind, **how)).towers

    assert not tower.bridges


def test_what_is_added_between_layers_is_drawn_there_and_counted_once():
    trace = record(1)
    (column,) = read_columns(trace)
    (bridge,) = [frame.bridge for frame in column.frames if frame.bridge is not None]
    shares = {name: count for name, _, count in list_shares([column], trace)}

    assert [node.label for node in bridge.nodes] == ["LINEAR", "SOFTMAX", "LINEAR", "ADD"]
    assert [one.params for one in column.frames] == [sum(one.numel() for one in Guesses(()).layers[0].parameters())] * 2
    assert shares["between layers × 1"] == sum(one.numel() for one in Guess(nn.Identity()).parameters())
    assert "all else" not in shares


@pytest.mark.parametrize(("behind", "told"), [((1,), True), ((), False)])
def test_the_card_says_between_which_layers_something_is_added(behind, told):
    said = words_of(compose_poster(record(*behind), text_width))

    assert ("Between layers 2 and 3 of the" in said) == told
    assert "drawn by their operations" not in said


class Mixes(nn.Module):
    """Places mixed by a convolution, and a feed-forward, each added to what came in."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH))
        self.think = nn.Sequential(nn.Conv2d(WIDTH, 4 * WIDTH, 1), nn.ReLU(), nn.Conv2d(4 * WIDTH, WIDTH, 1))

    def forward(self, x):
        x = x + self.mix(x)
        return x + self.think(x)


class Fuses(nn.Module):
    """Such layers, among which something is made of all before and added (DehazeFormer)."""

    def __init__(self):
        super().__init__()
        self.lead, self.last = nn.Conv2d(3, WIDTH, 2, 2), nn.Conv2d(WIDTH, 3, 1)
        self.fuse = nn.Sequential(nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.ReLU(), nn.Conv2d(2 * WIDTH, WIDTH, 1))
        self.layers = nn.ModuleList(Mixes() for _ in range(6))

    def forward(self, x):
        x = self.lead(x)
        for number, layer in enumerate(self.layers):
            x = layer(x + self.fuse(x) if number == 3 else x)
        return self.last(x)


def test_what_is_added_between_layers_parts_none_that_begins_behind_it():
    (tower,) = xray.anatomy(xray.trace(Fuses().eval(), torch.rand(BATCH, 3, 14, 14))).towers

    assert [one.before for one in tower.bridges] == [3]
    assert [group.layers for group in tower.groups] == [(0, 1, 2), (3, 4, 5)]


class Predicts(nn.Module):
    """What many layers make of rows, each led to a convolution and back."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(layers))

    def made(self, x):
        for layer in self.layers:
            x = layer(x.transpose(1, 2)).transpose(1, 2).relu()
        return x


@pytest.mark.parametrize("layers", [3, 16])  # 12 or 64 steps, half of which move rows
def test_steps_that_move_rows_alone_are_not_counted_against_what_stands_between_layers(layers):
    model = Guesses([1])
    model.guesses["1"] = Predicts(layers)  # the pitch of FastSpeech 2's words
    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7))).towers

    assert (tower.layers, [one.before for one in tower.bridges]) == (4, [2])
