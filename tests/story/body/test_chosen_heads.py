"""Heads that a router chooses for each place: experts make its queries, and take what these found (JetMoe)."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn
from torch.nn.functional import linear, scaled_dot_product_attention, silu, softmax

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Experts
from xray.story.sentences.attentions.of_heads import describe_chosen_heads
from xray.story.sheet.arrows.proof import keep_proven
from xray.story.sheet.columns import read_columns

EXPERTS, CHOSEN, D_K, PLACES, WIDE = 5, 2, 4, 7, 11


class ChosenHeads(nn.Module):
    """Attention of one head for each chosen expert, keys and values shared by all."""

    def __init__(self):
        super().__init__()
        self.router, self.norm = nn.Linear(WIDTH, EXPERTS, bias=False), nn.LayerNorm(WIDTH)
        self.ask = nn.Parameter(torch.randn(EXPERTS, D_K, WIDTH))
        self.back = nn.Parameter(torch.randn(EXPERTS, WIDTH, D_K))
        self.both = nn.Linear(WIDTH, 2 * CHOSEN * D_K)
        self.bias = nn.Parameter(torch.ones(WIDTH))

    def each(self, rows, weights, counts):
        return torch.cat([linear(part, weights[place]) for place, part in enumerate(rows.split(counts))])

    def forward(self, x):
        seen = self.norm(x)
        flat = seen.reshape(-1, WIDTH)
        shares, names = self.router(flat).topk(CHOSEN, dim=1)
        order = names.flatten().argsort()
        places, counts = order // CHOSEN, names.flatten().bincount(minlength=EXPERTS).tolist()
        asked = self.each(flat[places], self.ask, counts)
        query = torch.zeros(len(order), D_K).index_add(0, order, asked).view(*x.shape[:2], CHOSEN, D_K).transpose(1, 2)
        key, value = (one.unflatten(-1, (CHOSEN, D_K)).transpose(1, 2) for one in self.both(seen).chunk(2, dim=-1))
        found = scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).reshape(-1, D_K)
        given = self.each(found[order], self.back, counts) * softmax(shares, dim=1).flatten()[order][:, None]
        return x + (torch.zeros_like(flat).index_add(0, places, given).view(x.shape) + self.bias)


class GatedExperts(ChosenHeads):
    """Gated experts, each of which multiplies rows of its own by its part of all weights."""

    def __init__(self):
        super().__init__()
        self.ask = nn.Parameter(torch.randn(EXPERTS, 2 * WIDE, WIDTH))
        self.back = nn.Parameter(torch.randn(EXPERTS, WIDTH, WIDE))

    def forward(self, x):
        flat = self.norm(x).reshape(-1, WIDTH)
        shares, names = self.router(flat).topk(CHOSEN, dim=1)
        order = names.flatten().argsort()
        places, counts = order // CHOSEN, names.flatten().bincount(minlength=EXPERTS).tolist()
        gate, up = self.each(flat[places], self.ask, counts).chunk(2, dim=-1)
        given = self.each(silu(gate) * up, self.back, counts) * softmax(shares, dim=1).flatten()[order][:, None]
        return x + torch.zeros_like(flat).index_add(0, places, given).view(x.shape)


def test_what_experts_are_that_share_a_stack_of_weights_is_told_and_drawn():
    torch.manual_seed(0)
    model = nn.Sequential(ChosenHeads(), GatedExperts(), ChosenHeads(), GatedExperts())
    trace = xray.trace(model.eval(), torch.randn(2, PLACES, WIDTH))

    (experts,) = {one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts)}
    assert (experts.chosen, experts.experts, experts.d_ff) == (CHOSEN, EXPERTS, WIDE)
    assert (experts.activation, experts.gated) == ("silu", True)
    (column,) = read_columns(trace)
    labels = [node.label for node in column.frames[0].panels[1].chart.nodes]
    assert "IN EACH: GATE + SiLU, × UP, AND BACK" in labels


def trace_of():
    torch.manual_seed(0)
    model = nn.Sequential(ChosenHeads(), FeedForwardPart(), ChosenHeads(), FeedForwardPart())
    return xray.trace(model.eval(), torch.randn(2, PLACES, WIDTH))


def test_among_how_many_experts_heads_are_chosen_is_told():
    (attention,) = {one for one in xray.anatomy(trace_of()).towers[0].branches if isinstance(one, Attention)}

    assert (attention.query_chosen, attention.query_experts) == (CHOSEN, EXPERTS)
    assert describe_chosen_heads(xray.anatomy(trace_of())) == (
        "Heads are chosen: for each place a router takes 2 of 5 experts, and these make its queries."
    )


def test_what_the_chosen_experts_make_is_drawn_as_one_box_before_the_scores_and_one_behind():
    (column,) = read_columns(trace_of())
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert {"EXPERTS MAKE Q", "CHOSEN EXPERTS' LINEAR O", "ADDED AT THEIR PLACES"} <= {*labels}
    assert not {"LINEAR Q", "LINEAR O"} & {*labels}


def test_the_box_of_the_chosen_experts_counts_the_weights_of_all():
    (column,) = read_columns(trace_of())
    (box,) = [one for one in column.frames[0].panels[0].chart.nodes if one.label == "CHOSEN EXPERTS' LINEAR O"]

    assert box.extra == f"{EXPERTS * WIDTH * D_K} parameters"


def test_the_box_of_the_queries_says_how_many_experts_are_chosen_and_counts_them():
    (column,) = read_columns(trace_of())
    (box,) = [one for one in column.frames[0].panels[0].chart.nodes if one.label == "EXPERTS MAKE Q"]

    assert box.told == (f"{CHOSEN} of {EXPERTS} chosen",)
    assert box.extra == f"{EXPERTS * WIDTH * D_K} parameters"


def test_the_router_of_the_queries_has_a_box_below_them_and_says_how_what_they_found_is_weighed():
    (column,) = keep_proven(read_columns(trace_of()))
    chart = column.frames[0].panels[0].chart
    boxes = {node.label: node for node in chart.nodes}
    ways = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}
    router, weighed = boxes["ROUTER"], boxes["× SOFTMAX OF THE CHOSEN SCORES"]

    assert (router.record.shape, router.extra) == ((2 * PLACES, EXPERTS), f"{EXPERTS * WIDTH} parameters")
    assert [target for source, target in sorted(ways) if source == "ROUTER"] == ["EXPERTS MAKE Q", weighed.label]
    assert [step.op for step in weighed.steps] == ["mul", "softmax"]
    assert [step.op for step in router.steps] == ["linear", "topk"]
    assert all(chart.node(edge.source).row < chart.node(edge.target).row for edge in chart.edges)
    assert {node.row for node in chart.nodes} == set(range(chart.rows))
