"""Steps that are done again and again before a stream begins stand in one box, where there is no room for each."""

import pytest
import torch
from story.entrances import WIDTH, labels_of, make_layers, read
from torch import nn

STAGES = 4


def make_turn(width, is_wide):
    """Convolutions of one place and of several by channel, or of several alone, each with a norm and a bend."""
    wide = (nn.Conv1d(width, width, 3, padding=1), nn.BatchNorm1d(width), nn.ReLU())
    by_channel = nn.Conv1d(width, width, 5, padding=2, groups=width)
    return nn.Sequential(*wide) if is_wide else nn.Sequential(nn.Conv1d(width, width, 1), by_channel, nn.ReLU())


class Stem(nn.Module):
    """A long stem, with so many turns of the same kind in each stage, before the layers (HGNet)."""

    def __init__(self, turns, *, is_wide):
        super().__init__()
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(3 if stage == 0 else WIDTH, WIDTH, 7, padding=3),
                *(make_turn(WIDTH, is_wide) for _ in range(turns)),
            )
            for stage in range(STAGES)
        )
        self.layers = make_layers(WIDTH, 3)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        x = x.mT
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("turns", "is_wide", "told"),
    [
        (8, True, "8 TIMES: CONVOLUTION 3 + BATCH NORM + ReLU"),
        (5, False, "5 TIMES: CONVOLUTION 1; CONVOLUTION 5 BY CHANNEL + ReLU"),
    ],
)
def test_turns_of_a_long_stem_stand_in_one_box_a_stage(turns, is_wide, told):
    torch.manual_seed(0)
    model = Stem(turns, is_wide=is_wide)

    _, chart = read(lambda: model, torch.rand(2, 3, 13))

    labels = [*labels_of(chart)]
    counts = [sum(one.numel() for one in stage[1:].parameters()) for stage in model.stages]
    found = [node for node in chart.nodes if node.label == told]
    assert [node.extra for node in sorted(found, key=lambda node: node.row)] == [
        f"{one:,} parameters" for one in counts
    ]
    assert not [label for label in labels if "MORE STEPS" in label]


class Beside(nn.Module):
    """Turns of which some, or all, are laid side by side behind the last, before the layers (HGNet)."""

    def __init__(self, kept):
        super().__init__()
        self.kept = kept
        self.first = nn.Conv1d(3, WIDTH, 7, padding=3)
        self.stages = nn.ModuleList(
            nn.ModuleList(make_turn(WIDTH, is_wide=True) for _ in range(6)) for _ in range(STAGES)
        )
        self.joins = nn.ModuleList(nn.Conv1d(WIDTH * (1 + len(kept)), WIDTH, 1) for _ in range(STAGES))
        self.layers = make_layers(WIDTH, 3)

    def forward(self, x):
        x = self.first(x)
        for stage, join in zip(self.stages, self.joins, strict=True):
            given = [x]
            for turn in stage.children():
                given.append(turn(given[-1]))
            x = join(torch.cat([given[0], *(given[one] for one in self.kept)], 1))
        x = x.mT
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ((1, 2, 3, 4, 5, 6), {"6 TIMES, EACH HANDED ON: CONVOLUTION 3 + BATCH NORM + ReLU"}),
        ((6,), {"6 TIMES: CONVOLUTION 3 + BATCH NORM + ReLU"}),
        ((2, 6), set()),
    ],
)
def test_a_box_of_turns_says_whether_what_each_gives_is_read_behind_them(kept, told):
    _, chart = read(lambda: Beside(kept), torch.rand(2, 3, 13))

    assert {label for label in labels_of(chart) if "TIMES" in label} == told


def test_turns_that_have_room_have_a_box_each():
    _, chart = read(lambda: Stem(3, is_wide=True), torch.rand(2, 3, 13))

    assert not [label for label in labels_of(chart) if "TIMES" in label]
