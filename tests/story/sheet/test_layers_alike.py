"""Layers that are drawn as one work out the same: each operation as often, and with the same shapes."""

import pytest
import torch
from recorded import FOLDER, recorded
from story.body.test_mistaken import BATCH, WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.body.widths import list_works
from xray.story.sheet.columns import read_columns

NAMES = sorted(file.name.removesuffix(".json.xz") for file in FOLDER.iterdir())
WINDOW, SIDE = 3, 6


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_layers_of_one_frame_of_a_recorded_run_work_out_the_same(name):
    for column in read_columns(recorded(name)):
        for phase in column.phases:
            flow, layers = phase.reading.flow, phase.towering.layers
            for group in phase.towering.tower.groups:
                assert len({tuple(list_works(flow, one) for one in layers[number]) for number in group.layers}) == 1


class WindowMixing(nn.Module):
    """Places of each window of a map are mixed by a table, be it that zeros are put around the map first (Swin MLP)."""

    def __init__(self, padded):
        super().__init__()
        self.norm, self.mix, self.padded = nn.LayerNorm(WIDTH), nn.Conv1d(WINDOW**2, WINDOW**2, 1), padded

    def forward(self, x):
        rows = self.norm(x).view(BATCH, SIDE, SIDE, WIDTH)
        rows = nn.functional.pad(rows, (0, 0, 2, 1, 2, 1)) if self.padded else rows
        many = rows.shape[1] // WINDOW
        rows = rows.view(BATCH, many, WINDOW, many, WINDOW, WIDTH).permute(0, 1, 3, 2, 4, 5)
        made = (
            self.mix(rows.reshape(-1, WINDOW**2, WIDTH))
            .view(BATCH, many, many, WINDOW, WINDOW, WIDTH)
            .permute(0, 1, 3, 2, 4, 5)
        )
        made = made.reshape(BATCH, many * WINDOW, many * WINDOW, WIDTH)
        made = made[:, 2:-1, 2:-1] if self.padded else made
        return x + made.reshape(BATCH, SIDE**2, WIDTH)


class PaddedAttention(AttentionPart):
    """Attention whose rows zeros are put behind first, which are cut off again (SAM 2's Hiera)."""

    def __init__(self, padded):
        super().__init__()
        self.padded = padded

    def forward(self, x):
        rows = nn.functional.pad(self.norm(x), (0, 0, 0, self.padded))
        q, k, v = self.qkv(rows).unflatten(-1, (3, 3, -1)).permute(2, 0, 3, 1, 4)
        made = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return x + self.out(made[:, : x.shape[1]])


class Recalling(nn.Module):
    """Each feed-forward but the first mixes in what the first one made of its rows (RWKV 7's values)."""

    def __init__(self):
        super().__init__()
        self.begin, self.looks = nn.Linear(7, WIDTH), nn.ModuleList(AttentionPart() for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.wide, self.back = (nn.ModuleList(nn.Linear(*way) for _ in range(3)) for way in ((WIDTH, 17), (17, WIDTH)))

    def forward(self, x):
        x, first = self.begin(x), None
        for look, norm, wide, back in zip(self.looks, self.norms, self.wide, self.back, strict=True):
            x = look(x)
            made = torch.relu(wide(norm(x)))
            first = made if first is None else first
            x = x + back(made if made is first else made + (first - made) * torch.sigmoid(made))
        return x


def read_frames(model, places=SIDE**2):
    torch.manual_seed(0)
    columns = read_columns(xray.trace(model.eval(), torch.rand(BATCH, places, 7)))
    return columns, columns[0].frames


def stack(*parts):
    return nn.Sequential(nn.Linear(7, WIDTH), *(part for one in parts for part in (one, FeedForwardPart())))


def layers_of(frames):
    return [frame.group.layers for frame in frames]


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        (stack(*map(WindowMixing, (False, True, False, True))), [(0, 2), (1, 3)]),
        (stack(*map(PaddedAttention, (0, 0, 0, 5, 5))), [(0, 1, 2), (3, 4)]),
        (Recalling(), [(0,), (1, 2)]),
    ],
)
def test_layers_that_work_out_more_than_others_are_drawn_apart(model, layers):
    _, frames = read_frames(model)

    assert layers_of(frames) == layers


@pytest.mark.parametrize(
    ("padded", "are_open", "told"),
    [
        ((False, False, True), [True, True], []),
        ((False, True, True), [False, True], [""]),
        ((False, False, True, False), [True, True, False], ["boxes as at 2"]),
    ],
)
def test_what_is_not_known_is_not_said_to_be_as_what_works_out_more(padded, are_open, told):
    columns, frames = read_frames(stack(*map(WindowMixing, padded)))
    mixing = [panel for frame in frames for panel in frame.panels if panel.staging.stage.branches[0].part == "unknown"]

    assert [panel.is_open for panel in mixing] == are_open
    assert [node.extra for panel in mixing if not panel.is_open for node in panel.chart.nodes] == told
    assert dict(list_unsaid(columns))["operations"]["pad"] == sum(padded)
