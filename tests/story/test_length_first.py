"""Attention over (places, batch) with einsum, memory in front of each layer's input (Transformer-XL)."""

from functools import lru_cache
from typing import Any

import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

PLACES, KEPT, BATCH, HEADS, D_K, WORDS = 5, 7, 2, 3, 11, 31
WIDTH = HEADS * D_K


class Looks(nn.Module):
    """An attention whose keys are made of memory and places; its biases are held outside."""

    def __init__(self):
        super().__init__()
        self.all, self.back, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, bias, hidden, memory):
        q, k, v = self.all(torch.cat([memory, x], 0)).chunk(3, dim=-1)
        q, k, v = (one.reshape(one.shape[0], BATCH, HEADS, D_K) for one in (q[-PLACES:], k, v))
        scores = torch.einsum("ibnd,jbnd->ijbn", q + bias, k) * D_K**-0.5
        weights = scores.masked_fill(hidden[:, :, :, None], -float("inf")).softmax(1)
        mixed = torch.einsum("ijbn,jbnd->ibnd", weights, v).reshape(PLACES, BATCH, WIDTH)
        return self.norm(x + self.back(mixed))


class Remembers(nn.Module):
    """A layer with such an attention."""

    def __init__(self):
        super().__init__()
        self.looks = Looks()
        self.wider, self.last, self.narrower = nn.Linear(WIDTH, 37), nn.LayerNorm(WIDTH), nn.Linear(37, WIDTH)

    def forward(self, x, *given):
        x = self.looks(x, *given)
        return self.last(x + self.narrower(torch.relu(self.wider(x))))


class LengthFirst(nn.Module):
    """Words and memories come in places first; the next memories are handed out."""

    def __init__(self):
        super().__init__()
        self.words, self.bias = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.rand(HEADS, D_K))
        self.layers: Any = nn.ModuleList(Remembers() for _ in range(3))
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, *memories):
        x, kept = self.words(ids), []
        hidden = torch.triu(x.new_ones(PLACES, KEPT + PLACES), diagonal=1 + KEPT).bool()[:, :, None]
        for layer, memory in zip(self.layers, memories, strict=True):
            x = layer(x, self.bias, hidden, memory)
            kept.append(torch.cat([memory, x], 0)[-KEPT:].detach())
        return self.out(x), kept


@lru_cache
def record():
    torch.manual_seed(0)
    memories = [torch.rand(KEPT, BATCH, WIDTH) for _ in range(3)]
    return xray.trace(LengthFirst().eval(), torch.arange(PLACES * BATCH).view(PLACES, BATCH), *memories)


@lru_cache
def words():
    layout = compose_poster(record(), text_width)
    return " ".join(run.text for box in layout.boxes for line in box.lines for run in line)


def outputs(op):
    return [step.outputs[0] for step in record().steps if step.op == op]


def test_heads_are_what_rows_were_cut_into_and_batch_what_both_operands_share():
    assert {one.axes for one in outputs("softmax")} == {("seq_len", "", "batch", "heads")}
    assert outputs("einsum")[1].axes == ("seq_len", "batch", "heads", "d_k")
    assert outputs("embedding")[0].axes == ("seq_len", "batch", "d_model")


def test_nothing_is_said_of_what_a_mask_hides_whose_last_axes_are_no_queries_and_keys():
    given = [one for step in record().steps for one in step.inputs]

    assert any(one.role == "mask" for one in given)
    assert all(one.mask is None for one in given)
    assert "hides" not in words()


def test_that_the_future_is_hidden_follows_from_the_axis_of_softmax():
    assert "Every place looks back, never ahead." in words()


def test_rows_that_came_in_and_stand_in_front_of_a_layers_input_are_no_cache_of_keys():
    assert "GIVEN ROWS PUT IN FRONT" in words()
    assert "CACHE" not in words()


def test_what_the_last_layer_gives_is_handed_out_with_memory_too():
    assert "Behind every layer something is handed out." in words()


def test_biases_that_layers_are_given_are_not_taken_off_what_they_hold():
    model = LengthFirst()
    held = sum(one.numel() for layer in model.layers for one in layer.looks.parameters())

    shares = list_shares(read_columns(record()), record())
    told = {name: count for name, _, count in shares}
    assert told["self-attention × 3, of their own"] == held
    assert told["self-attention × 3, in common"] == model.bias.numel()


def test_heads_are_those_of_the_axis_that_queries_and_keys_share():
    looking = xray.anatomy(record()).towers[0].branches[0]

    assert isinstance(looking, Attention)
    assert (looking.heads, looking.kv_heads, looking.d_k) == (HEADS, HEADS, D_K)
