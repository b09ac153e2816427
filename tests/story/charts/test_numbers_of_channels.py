"""One number for each channel that a linear layer makes beside a part has a box where it is added to all places."""

import pytest
import torch
from story.body.counted import count_in_boxes
from torch import nn
from torch.nn.functional import silu
from unsaid import list_unsaid

import xray
from xray.story.cards.undrawn import list_unboxed
from xray.story.passages.held_factors import EACH_CHANNEL
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import count_frames

WIDE, TIMES = 12, 20


class Block(nn.Module):
    """Convolutions of a U-Net, between which the time is added (Denoising Diffusion Probabilistic Models)."""

    def __init__(self, lay=lambda made: made[:, :, None, None], wide=WIDE):
        super().__init__()
        self.first, self.second = nn.Conv2d(WIDE, WIDE, 3, padding=1), nn.Conv2d(WIDE, WIDE, 3, padding=1)
        self.one, self.two, self.time, self.lay = (
            nn.GroupNorm(3, WIDE),
            nn.GroupNorm(3, WIDE),
            nn.Linear(TIMES, wide),
            lay,
        )

    def forward(self, x, time):
        found = self.first(silu(self.one(x))) + self.lay(self.time(silu(time)))
        return x + self.second(silu(self.two(found)))


class Noised(nn.Module):
    def __init__(self, *given):
        super().__init__()
        self.begin, self.blocks, self.end = (
            nn.Conv2d(3, WIDE, 1),
            nn.ModuleList(Block(*given) for _ in range(3)),
            nn.Conv2d(WIDE, 3, 1),
        )

    def forward(self, image, time):
        x = self.begin(image)
        for block in self.blocks:
            x = block(x, time)
        return self.end(x)


class Timed(Noised):
    """The time is worked on once for all blocks."""

    def __init__(self):
        super().__init__()
        self.times = nn.Sequential(nn.Linear(TIMES, TIMES), nn.SiLU(), nn.Linear(TIMES, TIMES))

    def forward(self, image, time):
        return super().forward(image, self.times(time))


def read(*given, make=Noised):
    (column,) = read_columns(xray.trace(make(*given).eval(), torch.rand(2, 3, 6, 7), torch.rand(2, TIMES)))
    return column


def test_what_is_added_to_all_places_has_a_box_with_the_layer_that_makes_it():
    column = read()
    chart = column.frames[0].panels[0].chart
    box = next(node for node in chart.nodes if node.label == EACH_CHANNEL)

    assert box.extra == f"{TIMES * WIDE + WIDE:,} parameters"
    assert box.told == ("made beside it: SiLU, LINEAR",)
    assert list_unboxed([column]) == ()
    assert list_unsaid([column]) == ()
    (frame, *_) = count_frames(column.reading, column.towering, column.frames, {})
    assert count_in_boxes(chart) == frame.panels[0].params == sum(one.numel() for one in Block().parameters())


@pytest.mark.parametrize(
    ("lay", "wide"),
    [(lambda made: made.mean(1)[:, None, None, None], 1), (lambda made: made.unflatten(1, (6, 7))[:, None], 42)],
)
def test_numbers_of_no_channel_are_not_told_so(lay, wide):
    labels = [node.label for node in read(lay, wide).frames[0].panels[0].chart.nodes]
    assert "CONVOLUTION 3×3" in labels
    assert EACH_CHANNEL not in labels


def test_what_is_worked_out_once_for_all_of_them_is_a_condition():
    column = read(make=Timed)

    assert sorted(node.label for node in column.condition.nodes) == ["LINEAR", "LINEAR", "SiLU", "TIME"]
    assert column.towering.tower.conditioned == ("shifts",)
    assert not column.towering.tower.groups[0].stages[0].norm.adaptive
    assert list_unboxed([column]) == ()
