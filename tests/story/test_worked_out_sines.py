"""Places that are worked out are called sines where they are sines and cosines of what was counted out."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.operation_kinds import SUMS
from xray.story.entrance.entry_labels import label_rows
from xray.story.passages.added_places import label_places

BATCH, PLACES, WIDTH = 2, 5, 14
BOTH = torch.sin, torch.cos


class Counting(nn.Module):
    """Rows to which waves of their places are added, laid side by side."""

    def __init__(self, waves=BOTH, learned=False):
        super().__init__()
        speeds = 1 / 100 ** (torch.arange(WIDTH // 2) / WIDTH)
        self.waves, self.speeds = waves, nn.Parameter(speeds) if learned else None

    def forward(self, x):
        speeds = 1 / 100 ** (torch.arange(WIDTH // 2) / WIDTH) if self.speeds is None else self.speeds
        angles = torch.ones(len(x), PLACES).cumsum(1)[..., None] / speeds
        return x + torch.stack([wave(angles) for wave in self.waves], dim=-1).flatten(-2)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "+ SINES OF PLACES"),
        ({"waves": (torch.sin, torch.sin)}, "+ PLACES"),
        ({"learned": True}, "+ PLACES"),
    ],
    ids=["both waves", "one wave", "of learned speeds"],
)
def test_places_that_are_sines_of_what_was_counted_out_are_called_so(settings, told):
    flow = read_flow(xray.trace(Counting(**settings), torch.rand(BATCH, PLACES, WIDTH)).passes[0])

    last = max(node for node, step in enumerate(flow.steps) if step.op in SUMS)
    assert label_places(flow, last) == told


LONG, WIDE = 37, 64
"""By so many rows and columns a table is known to be of sines."""


def make_sines(width):
    angles = torch.arange(LONG)[:, None] / 10_000 ** (torch.arange(width // 2) * 2 / max(width, 1))
    return torch.cat([angles.sin(), angles.cos()], -1)[None]


class Dated(nn.Module):
    """Rows to which sines of their places are added beside those of numbers that come in (SatMAE), or the latter."""

    def __init__(self, half):
        super().__init__()
        self.table = nn.Parameter(make_sines(half), requires_grad=False)

    def lay(self, x, numbers):
        width = (x.shape[-1] - self.table.shape[-1]) // 2
        angles = numbers[..., None].float() / 100 ** (torch.arange(width) / WIDTH)
        given = torch.cat([angles.sin(), angles.cos()], -1)
        return x + torch.cat([self.table.expand(len(x), -1, -1), given], -1) if self.table.shape[-1] else x + given


class Dates(Dated):
    def forward(self, x, dates):
        return self.lay(x, dates)


class Positions(Dated):
    def forward(self, x, position_ids):
        return self.lay(x, position_ids)


@pytest.mark.parametrize(
    ("model", "half", "told"),
    [(Dates, WIDE, ""), (Dates, 0, ""), (Positions, WIDE, "+ SINES OF PLACES"), (Positions, 0, "+ SINES OF PLACES")],
)
def test_sines_of_numbers_that_come_in_are_of_places_where_these_are_called_so(model, half, told):
    given = torch.rand(BATCH, LONG, 2 * WIDE), torch.arange(LONG).expand(BATCH, -1).clone()
    flow = read_flow(xray.trace(model(half), *given).passes[0])

    last = max(node for node, step in enumerate(flow.steps) if step.op in SUMS)
    assert label_places(flow, last) == told


class Joined(Dated):
    def forward(self, x):
        return x + torch.cat([self.table[:, :2], self.table[:, 2:]], 1)


def test_a_table_of_sines_of_which_pieces_lie_end_to_end_is_not_learned():
    flow = read_flow(xray.trace(Joined(WIDE), torch.rand(BATCH, LONG, WIDE)).passes[0])

    told = [label_rows(flow, node, [2, LONG - 2]) for node, step in enumerate(flow.steps) if step.op == "cat"]
    assert told == [f"END TO END: 2 + {LONG - 2}"]
