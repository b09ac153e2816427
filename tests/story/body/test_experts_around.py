"""What stands around all experts alike: a linear layer before them, and one behind; and one expert alone."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, draw, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import Experts
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage


class Latent(nn.Module):
    """Experts that work on rows of their own width, be it with one beside them that all rows go through."""

    def __init__(self, *, shared=False, gated=False):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)
        self.gate = nn.Linear(WIDTH, 1) if gated else None
        self.down, self.up, self.inner = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH), nn.RMSNorm(8)
        self.wide, self.back = nn.Parameter(torch.randn(4, 8, 9)), nn.Parameter(torch.randn(4, 9, 8))
        self.beside = nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH)) if shared else None

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        each = self.inner(self.down(given)).expand(4, -1, -1)
        made = torch.bmm(functional.relu(torch.bmm(each, self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        found = self.up((made * shares.t().unsqueeze(-1)).sum(0))
        if self.beside is not None:
            beside = self.beside(given)
            found = found + (beside if self.gate is None else self.gate(given).sigmoid() * beside)
        return x + found.view(x.shape)


def test_the_linear_layers_around_all_experts_are_drawn():
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Latent()), rows())}

    assert nodes["down"].record.shape[-1] == nodes["mixed"].record.shape[-1] == 8
    assert nodes["down"].label == "LINEAR + NORM"
    assert nodes["down"].extra == f"{WIDTH * 8 + 8 + 8} parameters"
    assert nodes["up"].record.shape[-1] == WIDTH
    assert nodes["mixed"].label == "SUM, WEIGHTED BY THE ROUTER"


def test_an_expert_beside_them_is_added_behind_the_last_of_these():
    labels = [node.label for node in draw(Reader(AttentionPart(), Latent(shared=True)), rows())]

    assert "ADD SHARED EXPERT" in labels
    assert "SUM, WEIGHTED BY THE ROUTER + SHARED EXPERT" not in labels


@pytest.mark.parametrize("gated", [False, True])
def test_an_expert_beside_them_tells_its_parameters_and_its_gate(gated):
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Latent(shared=True, gated=gated)), rows())}

    held = WIDTH * 9 + 9 + 9 * WIDTH + WIDTH + gated * (WIDTH + 1)
    assert nodes["shared"].record.shape[-1] == WIDTH
    assert nodes["shared"].told == (f"{held} parameters", *["× a sigmoid gate"] * gated)
    assert nodes["router"].row == nodes["shared"].row < nodes["choice"].row


class Weighed(nn.Module):
    """Two experts for all rows beside those that are chosen, which the router scores and weighs too (Inkling)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 6)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))
        self.up, self.down = nn.Parameter(torch.randn(2, WIDTH, 7)), nn.Parameter(torch.randn(2, 7, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        scores = self.router(given).sigmoid()
        picked, chosen = scores[:, :4].topk(2)
        weights = torch.cat([picked, scores[:, 4:]], dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights[:, :2])
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        always = functional.relu(torch.bmm(given.expand(2, -1, -1), self.up)) * weights[:, 2:].t().unsqueeze(-1)
        found = (made * shares.t().unsqueeze(-1)).sum(0) + torch.bmm(always, self.down).sum(0)
        return x + found.view(x.shape)


def test_experts_for_all_rows_that_the_router_weighs_are_told_and_drawn():
    model = Reader(AttentionPart(), Weighed())
    nodes = {node.key: node for node in draw(model, rows())}
    branches = [branch for one in xray.anatomy(xray.trace(model, rows())).towers for branch in one.branches]

    assert nodes["shared"].label == "2 SHARED EXPERTS"
    assert nodes["shared"].told[-1] == "× their scores"
    assert nodes["mixed"].label == "SUM, WEIGHTED BY THE ROUTER + 2 SHARED EXPERTS"
    assert [one.shared for one in branches if isinstance(one, Experts)] == [2]


@pytest.mark.parametrize("weighed", [False, True])
def test_the_router_leads_to_experts_for_all_rows_that_it_weighs(weighed):
    experts = Weighed() if weighed else Latent(shared=True, gated=True)
    with torch.no_grad():
        reading = read_pass(xray.trace(Reader(AttentionPart(), experts), rows()).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[1])

    assert (("choice", "shared") in {(edge.source, edge.target) for edge in chart.edges}) is weighed
    assert (chart.node("shared").row > chart.node("choice").row) is weighed


class Lonely(nn.Module):
    """A router with one expert, whose weights are turned before rows meet them (Hunyuan's default)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1)
        self.wide, self.back = nn.Parameter(torch.randn(1, 9, WIDTH)), nn.Parameter(torch.randn(1, WIDTH, 9))
        self.beside = nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(1)
        made = torch.bmm(functional.relu(torch.bmm(given[None], self.wide.mT)), self.back.mT)[0]
        shares = torch.zeros(len(given), 1).scatter(1, chosen, weights)
        return x + (made * shares + self.beside(given)).view(x.shape)


def test_one_expert_of_one_is_told():
    trace = xray.trace(Reader(AttentionPart(), Lonely()).eval(), rows())
    experts = [one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts)]

    assert [(one.experts, one.chosen, one.shared, one.d_ff) for one in experts] == [(1, 1, 1, 9)]


class Closed(nn.Module):
    """Experts whose sum is multiplied by one number, normed, and multiplied by another one (Beam)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4), nn.RMSNorm(WIDTH)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        found = (made * shares.t().unsqueeze(-1)).sum(0) * 2.5
        return x + self.last(found.view(x.shape)) * 0.5


def test_what_multiplies_and_norms_what_all_experts_give_is_drawn_in_its_order():
    nodes = draw(Reader(AttentionPart(), Closed()), rows())

    keys = [node.key for node in nodes]
    labels = [node.label for node in nodes][keys.index("mixed") :]
    assert labels[:4] == ["SUM, WEIGHTED BY THE ROUTER, × 2.5", "RMS NORM", "÷ 2", "ADD"]


class Weighing(nn.Module):
    """A small network whose last layer scores experts."""

    def __init__(self):
        super().__init__()
        self.narrow, self.norm, self.score = nn.Linear(WIDTH, 5), nn.RMSNorm(5), nn.Linear(5, 4)

    def forward(self, x):
        return self.score(functional.gelu(self.norm(self.narrow(x))))


class GatedNorm(nn.Module):
    """A norm that is multiplied by shares that are worked out of itself (A.X K2)."""

    def __init__(self):
        super().__init__()
        self.norm, self.narrow, self.wide = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)

    def forward(self, x):
        normed = self.norm(x)
        return normed * self.wide(self.narrow(normed)).sigmoid()


@pytest.mark.parametrize("gated", [False, True])
def test_how_wide_the_expert_is_that_all_go_through_is_told(gated):
    layer = Latent(shared=True, gated=gated)
    layer.register_module("beside", nn.Sequential(nn.Linear(WIDTH, 13), nn.ReLU(), nn.Linear(13, WIDTH)))
    _, think = xray.anatomy(xray.trace(Reader(AttentionPart(), layer), rows())).towers[0].branches

    assert isinstance(think, Experts)
    assert (think.d_ff, think.shared, think.shared_d_ff) == (9, 1, 13)


def draw_led(layer):
    """The labels of a stage's boxes, and of the boxes that each leads to."""
    with torch.no_grad():
        reading = read_pass(xray.trace(Reader(AttentionPart(), layer), rows()).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[1])
    names = {node.key: node.label for node in chart.nodes}
    return list(names.values()), [(names[edge.source], names[edge.target]) for edge in chart.edges]


@pytest.mark.parametrize("shared", [False, True])
def test_what_leads_to_a_router_alone_is_drawn(shared):
    layer = Latent(shared=shared)
    layer.register_module("router", Weighing())
    labels, led = draw_led(layer)

    assert labels[:5] == ["LAYER NORM", "LINEAR", "RMS NORM", "GELU", "ROUTER"]
    assert ("LAYER NORM", "LINEAR") in led
    assert ("GELU", "ROUTER") in led
    assert ("LAYER NORM", "ROUTER") not in led


def test_the_gate_of_a_norm_stands_before_router_and_experts():
    layer = Latent(shared=True)
    layer.register_module("norm", GatedNorm())
    labels, led = draw_led(layer)

    assert labels[:5] == ["RMS NORM", "LINEAR", "LINEAR", "SIGMOID", "× GATE"]
    assert {target for source, target in led if source == "RMS NORM"} == {"LINEAR", "× GATE"}
    assert {target for source, target in led if source == "× GATE"} == {"ROUTER", "LINEAR + NORM", "SHARED EXPERT"}


def test_the_gate_of_a_norm_stands_before_queries_keys_and_values():
    layer = AttentionPart()
    layer.register_module("norm", GatedNorm())
    labels, led = draw_led(layer)

    assert labels[:6] == ["RMS NORM", "LINEAR", "LINEAR", "SIGMOID", "× GATE", "ONE LINEAR FOR Q, K, V"]
    assert ("× GATE", "ONE LINEAR FOR Q, K, V") in led
