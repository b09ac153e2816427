"""Boxes of an attention that hold more than their way, or a share of it, say so."""

import pytest
import torch
from story.body.test_mistaken import HEADS, PLACES, WIDTH, AttentionPart, FeedForwardPart, draw
from story.charts.scaled_attentions import read_panel
from torch import nn
from torch.nn import functional


class Gated(nn.Module):
    """An attention whose queries and gate one linear layer makes, or each its own (Qwen3-Next)."""

    def __init__(self, *, apart):
        super().__init__()
        self.norm, self.kv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q = nn.Linear(WIDTH, WIDTH if apart else 2 * WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH) if apart else None

    def forward(self, x):
        rows = self.norm(x)
        made = self.q(rows)
        if self.gate is None:
            made, gate = (one.flatten(2) for one in made.unflatten(-1, (HEADS, -1)).chunk(2, dim=-1))
        else:
            gate = self.gate(rows)
        parts = (made, *self.kv(rows).chunk(2, dim=-1))
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        found = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(found * torch.sigmoid(gate))


class Layers(nn.Module):
    def __init__(self, attend, count=2):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        self.layers = nn.Sequential(*(part for _ in range(count) for part in (attend(), FeedForwardPart())))

    def forward(self, x):
        return self.layers(self.given(x))


@pytest.mark.parametrize(("apart", "told"), [(False, ("and the gate",)), (True, ())])
def test_a_linear_layer_that_makes_the_gate_with_the_queries_says_so(apart, told):
    nodes = draw(Layers(lambda: Gated(apart=apart)), torch.randn(2, PLACES, 7))

    assert next(node.told for node in nodes if node.label == "LINEAR Q") == told
    assert any(node.label == "× SIGMOID OF GATE" for node in nodes)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_box_that_shows_one_piece_of_a_packed_row_says_of_how_many(pieces):
    nodes = draw(Layers(lambda: AttentionPart(pieces=pieces)), torch.randn(1, pieces * PLACES, 7))

    said = [node.label for node in nodes if node.told == (f"1 of {pieces} pieces",)]
    assert set(said) == ({f"{PLACES} OF {pieces * PLACES} ROWS {one}" for one in "QKV"} if pieces > 1 else set())


class Spanned(nn.Module):
    """Each head learns how far it looks: what lies farther away has its weight multiplied by 0 (adaptive spans)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.span = nn.Parameter(torch.rand(HEADS, 1, 1))
        self.register_buffer("near", torch.linspace(-1, 0, 2))

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (query @ key.mT).softmax(-1) * (self.near + self.span * 2).clamp(0, 1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


def test_what_makes_the_numbers_that_weights_are_multiplied_by_is_in_their_box():
    _, _, nodes = read_panel(Spanned)
    (box,) = (node for node in nodes if node.label == "WEIGHTS · ONE NUMBER FOR EACH KEY")

    assert box.extra == f"{HEADS} parameters"
    assert [step.op for step in box.steps] == ["mul", "clamp", "add", "mul"]
