"""Norms of one stream that a branch begins with side by side: each leads to what reads it."""

import torch
from story.body.arrows import list_unproven
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.sheet.columns import read_columns


class Apart(nn.Module):
    """A router, experts and a feed-forward beside them, each with a norm of its own, and one behind (Gemma 4)."""

    def __init__(self):
        super().__init__()
        self.last = nn.RMSNorm(WIDTH)
        self.norms, self.router = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3)), nn.Linear(WIDTH, 4)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))
        self.beside = nn.Sequential(nn.Linear(WIDTH, 11), nn.ReLU(), nn.Linear(11, WIDTH))

    def forward(self, x):
        asked, given, shared = (norm(x) for norm in self.norms)
        weights, chosen = self.router(asked.flatten(0, 1)).softmax(-1).topk(2)
        made = torch.bmm(functional.relu(torch.bmm(given.flatten(0, 1).expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(chosen), 4).scatter(1, chosen, weights)
        found = (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)
        return x + (self.last(found) + self.beside(shared))


def draw_apart():
    trace = xray.trace(Reader(AttentionPart(), Apart()).eval(), rows())
    reading = read_pass(trace.passes[0])
    return trace, chart_stage(reading.flow, reading.towers[0].stagings[1])


def test_each_norm_leads_to_what_reads_it():
    trace, chart = draw_apart()
    led = {(chart.node(edge.source).steps[0].path[-1], edge.target) for edge in chart.edges if "opening" in edge.source}

    assert led == {("0", "router"), ("1", "expert0"), ("1", "expert1"), ("2", "shared")}
    assert len({chart.node(edge.source).row for edge in chart.edges if "opening" in edge.source}) == 1
    assert all(key.startswith("opening") for key in chart.feet)
    assert list_unproven(read_columns(trace)) == []


def test_a_norm_of_what_experts_give_stands_before_what_is_added_to_it():
    _, chart = draw_apart()
    ways = {(edge.source, edge.target) for edge in chart.edges}

    assert {("mixed", "normed"), ("normed", "both"), ("shared", "both")} <= ways
    assert chart.node("mixed").label == "SUM, WEIGHTED BY THE ROUTER"
    assert {step.path.split(".")[-1] for step in chart.node("normed").steps} >= {"last"}


def test_what_every_place_goes_through_counts_no_norm_that_has_a_box_of_its_own():
    _, chart = draw_apart()

    assert chart.node("shared").told == (f"{WIDTH * 11 + 11 + 11 * WIDTH + WIDTH} parameters",)
