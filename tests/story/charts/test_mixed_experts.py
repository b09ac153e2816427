"""What chosen experts give, mixed with that of neighbouring places before it is added to the stream."""

import pytest
import torch
from story.body.arrows import list_unproven
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.sentences.stations.of_stations import describe_chosen
from xray.story.sheet.columns import read_columns


class Chosen(nn.Module):
    """Two of four experts for each place, and a convolution of what they give for others, be they before (Inkling)."""

    def __init__(self, mixes):
        super().__init__()
        self.mixes = mixes
        self.router, self.norm = nn.Linear(WIDTH, 4), nn.RMSNorm(WIDTH)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))
        self.short = nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH, padding=1 if mixes == "around" else 2, bias=False)

    def forward(self, x):
        normed = self.norm(x)
        weights, chosen = self.router(normed.flatten(0, 1)).softmax(-1).topk(2)
        made = torch.bmm(functional.relu(torch.bmm(normed.flatten(0, 1).expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(chosen), 4).scatter(1, chosen, weights)
        found = (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)
        if self.mixes:
            found = found + self.short(found.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        return x + found


def read_stage(mixes):
    trace = xray.trace(Reader(AttentionPart(), Chosen(mixes)).eval(), rows())
    reading = read_pass(trace.passes[0])
    staging = reading.towers[0].stagings[1]
    return trace, staging.branches[0].branch, chart_stage(reading.flow, staging)


def test_a_convolution_behind_experts_is_drawn_above_their_sum():
    trace, _, chart = read_stage("before")
    ways = [(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges]

    assert ("SUM, WEIGHTED BY THE ROUTER", "CONVOLUTION OF THE LAST 3 BY CHANNEL") in ways
    assert ("CONVOLUTION OF THE LAST 3 BY CHANNEL", "ADDED UP") in ways
    assert {step.path.split(".")[-1] for step in chart.node("mixed").steps}.isdisjoint({"short"})
    assert list_unproven(read_columns(trace)) == []


@pytest.mark.parametrize(
    ("mixes", "told"),
    [
        ("before", "Each place through 2 of 4 experts, then mixed with those just before it."),
        ("around", "Each place through 2 of 4 experts, then mixed with places next to it."),
        (None, "Each place alone, through 2 of 4 experts."),
    ],
)
def test_places_go_alone_through_experts_that_nothing_mixes(mixes, told):
    _, branch, _ = read_stage(mixes)

    assert describe_chosen(branch) == told
