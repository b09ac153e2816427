"""Rows laid side by side at the ends of a tower are drawn where they are, and heads of one row are no rows."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH, LatentAttention, Layer
from story.endings import Ends
from story.endings import list_labels as list_first_lines
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.passages.joined_rows import BESIDE
from xray.story.poster import compose_poster

MEAN = nn.Conv1d(8, 1, 1)


class Joined(nn.Module):
    """Frames of 5 numbers, two layers, and a head behind moves of their rows."""

    def __init__(self, out=lambda x, _: x, *, frames=1, wide=WIDTH, centred=False):
        super().__init__()
        self.frames, self.out, self.centred = frames, out, centred
        self.into = nn.Linear(5 * frames, WIDTH)
        self.layers = nn.Sequential(*(Layer(LatentAttention("nothing")) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(wide, 4)

    def forward(self, x):
        x = x - x.sum(1, keepdim=True) / 8 if self.centred else x
        x = nn.functional.pad(x, (0, 0, 0, -x.shape[1] % self.frames))  # of four frames it adds nothing to eight
        x = self.into(x.reshape(len(x), -1, 5 * self.frames))
        between = self.layers[0](x)
        return self.head(self.out(self.norm(self.layers[1](between)), between))


def list_labels(**options):
    trace = xray.trace(Joined(**options), torch.rand(2, 8, 5))
    boxes = compose_poster(trace, text_width).boxes
    return {
        label for box in boxes if box.lines and "SIDE BY SIDE" in (label := "".join(one.text for one in box.lines[0]))
    }


def shuffle(x, _):
    """Pairs of places side by side by moves of a grid, as pixel shuffles make them, behind a row that is left out."""
    return x.view(len(x), 2, 4, -1)[:, :, :2].reshape(len(x), 2, -1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"out": lambda x, _: x.reshape(len(x), 4, -1), "wide": 2 * WIDTH}, {"2 PLACES SIDE BY SIDE"}),
        ({"out": shuffle, "wide": 2 * WIDTH}, {"2 PLACES SIDE BY SIDE"}),
        (
            {"out": lambda x, _: x.reshape(len(x), 4, 2, -1).transpose(2, 3).reshape(len(x), 4, -1), "wide": 2 * WIDTH},
            {"2 PLACES SIDE BY SIDE, CHANNEL BY CHANNEL"},  # what two places have of a channel is together
        ),
        ({"frames": 4}, {"4 PLACES SIDE BY SIDE"}),
        ({"frames": 4, "centred": True}, {"4 PLACES SIDE BY SIDE"}),
        (
            {"out": lambda x, other: torch.cat([x, other, other], dim=-1), "wide": 3 * WIDTH},
            {f"SIDE BY SIDE: {WIDTH} + {WIDTH} + {WIDTH} = {3 * WIDTH}"},
        ),
        ({}, set()),
        ({"out": lambda x, _: x.reshape(len(x), 24, -1), "wide": WIDTH // 3}, set()),  # each row cut in two
        ({"out": lambda x, other: torch.cat([x, other], dim=1)}, set()),
        ({"out": lambda x, _: MEAN(x).view(len(x), 1, -1)}, set()),  # one row, learned of all, as it was
        ({"out": lambda x, _: MEAN(x).view(len(x), -1)}, set()),
        ({"out": lambda x, _: x.view(len(x), 8, 3, -1).transpose(1, 2).transpose(1, 2).reshape(x.shape)}, set()),
    ],
)
def test_rows_side_by_side_are_drawn_where_several_become_one(options, told):
    assert list_labels(**options) == told


class Mapped(Joined):
    """Two convolutions over single places of a map twice as wide as they have channels, a padding of none between."""

    def __init__(self):
        super().__init__()
        self.narrow = nn.Conv2d(3, 4, 1)
        self.wider = nn.Conv2d(4, WIDTH, 1)

    def forward(self, x):
        x = self.wider(nn.functional.pad(self.narrow(x), (0, 0, 0, 0))).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)))


def test_a_map_that_a_convolution_reads_is_no_row_of_places():
    boxes = compose_poster(xray.trace(Mapped(), torch.rand(2, 3, 8, 8)), text_width).boxes

    labels = ["".join(one.text for one in box.lines[0]) for box in boxes if box.lines]
    assert any(label.startswith("CONVOLUTION 1×1") for label in labels)
    assert not any("SIDE BY SIDE" in label for label in labels)


class Padded(nn.Module):
    """A signal with places of zeros in front, which a convolution reads (Voxtral Realtime's cache of the last ones)."""

    def __init__(self):
        super().__init__()
        self.into = nn.Conv1d(5, WIDTH, 3)
        self.layers = nn.Sequential(*(Layer(LatentAttention("nothing")) for _ in range(2)))

    def forward(self, x):
        begin = torch.zeros(len(x), 5, 2) * x[:, :, :1]
        return self.layers(self.into(torch.cat((begin, x), dim=-1)).mT)


def test_places_of_zeros_in_front_of_a_signal_do_not_stand_beside_its_rows():
    boxes = compose_poster(xray.trace(Padded(), torch.rand(2, 5, 8)), text_width).boxes

    assert not [box for box in boxes for line in box.lines if "SIDE BY SIDE" in "".join(run.text for run in line)]


class Turned(nn.Module):
    """A signal of 12 channels at 4 places, which is turned, or columns of 12 numbers that are cut out of an image."""

    def __init__(self, cut):
        super().__init__()
        self.cut, self.into = cut, nn.Linear(12, WIDTH)
        self.layers = nn.Sequential(*(Layer(LatentAttention("nothing")) for _ in range(2)))

    def forward(self, x):
        x = nn.functional.unfold(x, 2, stride=2) if self.cut else x
        return self.layers(self.into(x.transpose(1, 2)))


@pytest.mark.parametrize(("shape", "cut"), [((2, 12, 4), False), ((2, 3, 4, 4), True)])
def test_axes_that_are_swapped_lay_no_places_side_by_side_where_one_is_thrice_as_long(shape, cut):
    boxes = compose_poster(xray.trace(Turned(cut), torch.rand(*shape)), text_width).boxes

    assert not [
        box for box in boxes for line in box.lines if "PLACES SIDE BY SIDE" in "".join(one.text for one in line)
    ]


class Spread(Ends):
    """A number that comes in is laid beside what the layers give at each place, as it is or worked out (InterFuser)."""

    def __init__(self, *, worked):
        super().__init__()
        self.head, self.wide = nn.Linear(WIDTH + 3, 4), nn.Linear(1, 1) if worked else None

    def forward(self, ids, speed=None):
        speed = speed[:, 1:] if self.wide is None else self.wide(speed[:, 1:])
        beside = speed.unsqueeze(1).repeat(1, ids.shape[1] - 1, 3)
        return self.head(torch.cat([self.layers(self.words(ids))[:, 1:], beside], dim=2))


@pytest.mark.parametrize("worked", [False, True])
def test_a_number_that_came_in_and_is_laid_beside_what_layers_give_is_not_what_came_before(worked):
    trace = xray.trace(Spread(worked=worked), torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.rand(2, 2))

    joined = {label for label in list_first_lines(trace) if "BESIDE" in label or label.startswith(BESIDE)}
    assert joined == {f"{BESIDE}: {WIDTH} + 3 = {WIDTH + 3}"}
