"""Local attention: heads lie in one axis with the batch, and the second axis is that of the pieces of rows."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray

BATCH, HEADS, PIECES, PIECE, D_K = 2, 3, 5, 7, 11
PLACES, WIDTH = PIECES * PIECE, HEADS * D_K


def look_by_letters(query, key, value):
    weights = (torch.einsum("bhie,bhje->bhij", query, key) * D_K**-0.5).softmax(-1)
    return torch.einsum("bhij,bhje->bhie", weights, value)


def look_by_products(query, key, value):
    return (query @ key.transpose(-1, -2) * D_K**-0.5).softmax(-1) @ value


class Local(nn.Module):
    """Attention within pieces of the places."""

    def __init__(self, look):
        super().__init__()
        self.look, self.norm = look, nn.LayerNorm(WIDTH)
        self.made, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = (one.view(BATCH, PLACES, HEADS, D_K) for one in self.made(self.norm(x)).chunk(3, dim=-1))
        parts = (one.transpose(1, 2).reshape(BATCH * HEADS, PLACES, D_K) for one in parts)
        found = self.look(*(one.view(BATCH * HEADS, PIECES, PIECE, D_K) for one in parts))
        found = found.view(BATCH * HEADS, PLACES, D_K).view(BATCH, HEADS, PLACES, D_K)
        return x + self.out(found.transpose(1, 2).reshape(BATCH, PLACES, WIDTH))


@pytest.mark.parametrize("look", [look_by_letters, look_by_products, scaled_dot_product_attention])
def test_pieces_of_rows_are_no_heads(look):
    trace = xray.trace(nn.Sequential(Local(look)).eval(), torch.rand(BATCH, PLACES, WIDTH))

    given = {step.inputs[0].axes for step in trace.steps if step.op in ("einsum", "matmul", look.__name__)}
    words = {word for step in trace.steps for one in step.outputs for word in one.axes}
    assert ("batch*heads", "", "", "d_k") in given
    assert not any("heads" in axes for axes in given)
    assert words.isdisjoint({"kv_heads"})
    assert {"batch", "heads"} <= words


class ValuesLast(nn.Module):
    """Scores of heads that lie in one axis with the batch, weighed at each place by itself (Anchor DETR)."""

    def __init__(self):
        super().__init__()
        self.made, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        cut = self.made(x).view(PLACES, BATCH, 3, HEADS, D_K).unbind(2)
        query, key, value = (one.reshape(PLACES, BATCH * HEADS, D_K).transpose(0, 1) for one in cut)
        weights = torch.bmm(query, key.transpose(1, 2)).softmax(-1).permute(1, 0, 2)
        found = weights.unsqueeze(2) @ value.unsqueeze(0).expand(PLACES, -1, -1, -1)
        return x + self.out(found.squeeze(2).reshape(PLACES, BATCH, WIDTH))


def test_heads_of_all_sequences_in_one_axis_are_no_key_heads():
    trace = xray.trace(nn.Sequential(ValuesLast()).eval(), torch.rand(PLACES, BATCH, WIDTH))

    assert {"kv_heads"}.isdisjoint(word for step in trace.steps for one in step.inputs for word in one.axes)


class HeadsFirst(nn.Module):
    """Heads before the batch, and a norm of all places, laid out in one axis, behind the sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.made = nn.BatchNorm1d(WIDTH), nn.Parameter(torch.rand(HEADS, WIDTH, D_K))

    def forward(self, x):
        made = (x.view(-1, WIDTH) @ self.made).view(HEADS, BATCH, PLACES, D_K)
        found = (made @ made.transpose(2, 3) * D_K**-0.5).softmax(-1) @ made
        added = x + found.permute(1, 2, 0, 3).reshape(x.shape)
        return self.norm(added.view(-1, WIDTH)).view(x.shape)


def test_a_batch_norm_of_rows_in_one_axis_keeps_their_axes():
    trace = xray.trace(nn.Sequential(HeadsFirst(), HeadsFirst()).eval(), torch.rand(BATCH, PLACES, WIDTH))

    weights = {step.outputs[0].axes for step in trace.steps if step.op == "softmax"}
    assert weights == {("heads", "batch", "seq_len", "seq_len")}


class Blocks(nn.Module):
    """Blocks of a map look at themselves and what lies around them; heads lie in one axis with the batch (HaloNet)."""

    def __init__(self, side=2, halo=1, heads=HEADS):
        super().__init__()
        self.side, self.halo, self.heads = side, halo, heads
        self.query, self.both, self.out = (nn.Conv2d(WIDTH, WIDTH * n, 1) for n in (1, 2, 1))

    def forward(self, x):
        batch, _, high, wide = x.shape
        rows, columns, around = high // self.side, wide // self.side, self.side + 2 * self.halo
        query = self.query(x).reshape(-1, D_K, rows, self.side, columns, self.side).permute(0, 1, 3, 5, 2, 4)
        query = query.reshape(batch * self.heads, D_K, -1, rows * columns).transpose(1, 3)
        both = nn.functional.pad(self.both(x), [self.halo] * 4)
        both = both.unfold(2, around, self.side).unfold(3, around, self.side)
        both = both.reshape(batch * self.heads, 2 * D_K, rows * columns, -1).permute(0, 2, 3, 1)
        key, value = both.split(D_K, dim=-1)
        found = (look_by_products(query, key, value)).transpose(1, 3)
        found = found.reshape(-1, self.side, self.side, rows, columns).permute(0, 3, 1, 4, 2)
        return x + self.out(found.contiguous().view(batch, WIDTH, high, wide))


def test_blocks_of_a_map_are_no_heads():
    trace = xray.trace(nn.Sequential(Blocks(), Blocks()).eval(), torch.rand(BATCH, WIDTH, 10, 14))

    words = {word for step in trace.steps for one in step.outputs for word in one.axes}
    assert words.isdisjoint({"heads", "kv_heads"})
    assert "d_k" in words
