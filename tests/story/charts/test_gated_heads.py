"""A gate of what heads find that one linear layer makes beside the queries, and one that has a layer of its own."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.sheet.columns import read_columns

WIDE = WIDTH // HEADS


class Gated(nn.Module):
    """Attention whose gate is the other half of what makes the queries (Qwen3-Next), or stands apart."""

    def __init__(self, *, apart, first=False, bias=False, bend=torch.sigmoid):
        super().__init__()
        self.bend = bend
        self.bias = nn.Parameter(torch.zeros(HEADS)) if bias else None
        self.first = first
        self.query = nn.Linear(WIDTH, WIDTH if apart else 2 * WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH) if apart else None
        self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        if self.gate is None:
            query, gate = self.query(x).unflatten(-1, (HEADS, 2 * WIDE)).chunk(2, -1)
            gate = gate.flatten(2)
        else:
            query, gate = self.query(x).unflatten(-1, (HEADS, WIDE)), self.gate(x)
        key, value = (one(x).unflatten(-1, (HEADS, WIDE)).transpose(1, 2) for one in (self.key, self.value))
        if self.bias is not None:
            gate = (gate.unflatten(-1, (HEADS, WIDE)) + self.bias[None, None, :, None]).flatten(2)
        weights = (query.transpose(1, 2) @ key.mT / WIDE**0.5).softmax(-1)
        found, gate = (weights @ value).transpose(1, 2).flatten(2), self.bend(gate)
        return x + self.out(gate * found if self.first else found * gate)


@pytest.mark.parametrize(("apart", "first"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_layer_that_makes_queries_and_their_gate_leads_to_both(apart, first):
    parts = (part for _ in range(2) for part in (Gated(apart=apart, first=first), FeedForwardPart()))
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *parts).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(2, 5, WIDTH)))
    chart = column.frames[0].panels[0].chart

    nodes = {node.key: node for node in chart.nodes}
    led = [edge.source for edge in chart.edges if edge.target == "gate"]
    assert nodes["gate"].label == "× SIGMOID OF GATE"
    assert ("linear0_q" in led) is not apart
    assert bool(nodes["gate"].extra) is apart
    assert any(step.op == "linear" for step in nodes["gate"].steps) is apart  # it stands in one box
    assert ("gate" in chart.feet) is apart  # a layer of its own reads the stream


@pytest.mark.parametrize(
    ("apart", "bias", "params"),
    [
        (True, False, f"{WIDTH * WIDTH + WIDTH} parameters"),
        (True, True, f"{WIDTH * WIDTH + WIDTH + HEADS} parameters"),
        (False, True, f"{HEADS} parameters"),
        (False, False, ""),
    ],
)
def test_what_is_added_to_a_gate_counts_beside_its_layer(apart, bias, params):
    parts = (part for _ in range(2) for part in (Gated(apart=apart, bias=bias), FeedForwardPart()))
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *parts).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(2, 5, WIDTH)))

    assert column.frames[0].panels[0].chart.node("gate").extra == params


@pytest.mark.parametrize(
    ("bend", "told", "curve"),
    [
        (torch.sigmoid, "× SIGMOID OF GATE", "sigmoid"),
        (nn.functional.silu, "× SiLU OF GATE", "silu"),
        (lambda gate: gate.tanh() + 1, "× GATE", None),
    ],
)
def test_a_gate_tells_the_curve_that_bends_it_at_last(bend, told, curve):
    parts = (part for _ in range(2) for part in (Gated(apart=True, bend=bend), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), *parts).eval(), torch.rand(2, 5, WIDTH))
    (column,) = read_columns(trace)
    (attend,) = xray.anatomy(trace).towers[0].groups[0].stages[0].branches

    assert column.frames[0].panels[0].chart.node("gate").label == told
    assert isinstance(attend, Attention)
    assert attend.gate_curve == curve


class Degrees(nn.Module):
    """Attention of which what heads find grows with how many keys each query lets in (EGT)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.lets = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, HEADS)

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, HEADS, WIDE)).permute(2, 0, 3, 1, 4)
        weights = (query @ key.mT / WIDE**0.5).softmax(-1)
        many = torch.log(1 + (self.lets(x)[:, :, None] + self.lets(x)[:, None]).sigmoid().sum(2))
        return x + self.out(((weights @ value).transpose(1, 2) * many[..., None]).flatten(2))


def test_what_is_summed_over_keys_is_no_gate():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Degrees(), FeedForwardPart(), Degrees(), FeedForwardPart())
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, 5, WIDTH)))
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert "MULTIPLIED" in labels
    assert not [label for label in labels if "GATE" in label]


class Meets(nn.Module):
    """What the heads found, and some numbers that are no gate, or one that the queries or values are."""

    def __init__(self, meet):
        super().__init__()
        self.qkv, self.out, self.meet = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), meet
        self.more = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (one.unflatten(-1, (HEADS, WIDE)).transpose(1, 2) for one in parts)
        found = ((query @ key.mT / WIDE**0.5).softmax(-1) @ value).transpose(1, 2).flatten(2)
        return x + self.out(self.meet(found, self.more(x), *parts))


@pytest.mark.parametrize(
    ("meet", "told"),
    [
        (lambda found, more, *_: found * more, "MULTIPLIED"),
        (lambda found, more, *_: found / nn.functional.softplus(more), "DIVIDED"),
        (lambda found, more, *_: found * (more + found.mean(1, keepdim=True)).sigmoid(), "MULTIPLIED"),
        (lambda found, _, query, *__: found * query.sigmoid(), "MULTIPLIED"),
        (lambda found, *parts: found * parts[-1].sigmoid(), "MULTIPLIED"),
    ],
    ids=["not bent", "divided", "of what heads found", "queries", "values"],
)
def test_what_is_no_gate_has_the_word_of_its_operation(meet, told):
    parts = (part for _ in range(2) for part in (Meets(meet), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Linear(WIDTH, WIDTH), *parts).eval(), torch.rand(2, 5, WIDTH))
    (column,) = read_columns(trace)
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert told in labels
    assert not [label for label in labels if "GATE" in label]
    assert not any(one.gate for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention))
