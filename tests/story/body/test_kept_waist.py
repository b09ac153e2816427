"""A waist is said to be what a cache keeps only where it is the waist that rows are put behind."""

from dataclasses import replace

import pytest
import torch
from story.sentences.makers import FALSE, make_anatomy
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.anatomy.attentions import Attention, Latent
from xray.story.sentences.attentions.of_heads import describe_latent
from xray.story.sentences.of_parts import describe_box

WIDTH, WAIST, HEADS, D_K = 21, 7, 3, 5


class LatentAttention(nn.Module):
    """Keys and values by way of a waist; what is put into a cache is the waist, the keys and values, or nothing."""

    def __init__(self, keeps):
        super().__init__()
        self.keeps = keeps
        self.query = nn.Linear(WIDTH, HEADS * D_K)
        self.down, self.norm = nn.Linear(WIDTH, WAIST), nn.LayerNorm(WAIST)
        self.up = nn.Linear(WAIST, 2 * HEADS * D_K)
        self.out = nn.Linear(HEADS * D_K, WIDTH)

    def put_away(self, rows, what):
        return torch.cat([torch.tensor([]), rows], dim=-2) if self.keeps == what else rows

    def forward(self, x):
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, HEADS, D_K).transpose(1, 2)
        waist = self.put_away(self.norm(self.down(x)).view(batch, 1, length, WAIST), "waist")
        both = self.up(waist).view(batch, length, HEADS, 2 * D_K).transpose(1, 2)
        key, value = (self.put_away(rows, "keys") for rows in both.chunk(2, dim=-1))
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(batch, length, -1))


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.before, self.attention = nn.LayerNorm(WIDTH), attention
        self.think, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 33), nn.Linear(33, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.back(torch.relu(self.wide(self.think(x))))


@pytest.mark.parametrize(
    ("keeps", "kept", "told"),
    [("waist", WAIST, True), ("keys", None, False), ("nothing", None, False)],
)
def test_a_cache_is_said_to_keep_the_waist_only_where_it_does(keeps, kept, told):
    model = nn.Sequential(nn.Embedding(11, WIDTH), *(Layer(LatentAttention(keeps)) for _ in range(2)))
    trace = xray.trace(model, torch.tensor([[1, 2, 3, 4, 5]]))
    found = xray.anatomy(trace)
    (latent,) = (one.latent for one in found.towers[0].branches if isinstance(one, Attention))
    assert (latent.kv, latent.kept) == (WAIST, kept)
    assert ("a cache keeps this waist" in describe_latent(found)) == told
    assert (b"KEPT IN THE CACHE" in xray.render(trace, "svg").encode()) == told


def test_a_kept_waist_is_not_said_to_be_all_that_is_kept():
    model = nn.Sequential(nn.Embedding(11, WIDTH), *(Layer(LatentAttention("waist")) for _ in range(2)))
    trace = xray.trace(model, torch.tensor([[1, 2, 3, 4, 5]]))
    attention, *_ = (one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention))
    assert (
        describe_box("kept0_kv", attention) == "kept of a place in place of keys and values: these are made of it anew"
    )


def test_a_layer_that_makes_a_waist_alone_is_not_said_to_make_several():
    trace = xray.trace(
        nn.Sequential(nn.Embedding(11, WIDTH), Layer(LatentAttention("nothing"))), torch.tensor([[1, 2, 3]])
    )
    attention, *_ = (one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention))

    drawn = xray.render(trace, "svg")

    assert attention.latent is not None
    assert "DOWN TO A WAIST FOR K, V" in drawn
    assert describe_box("linear0_kv", attention) == ""


START = "Latent attention: keys and values are made from a waist of 11 numbers"


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ((None,), "."),
        ((11,), "; a cache keeps this waist in place of keys and values."),
        ((14,), ", keys from 3 beside it too; a cache keeps these in place of keys and values."),
        ((11, 14), ", some keys from 3 beside it too; a cache keeps these in place of keys and values."),
        ((14, None), "."),
    ],
)
def test_what_keys_are_made_from_beside_a_waist_is_told(kept, told):
    whole = make_anatomy(*(replace(FALSE, latent=Latent(None, 11, one)) for one in kept))

    assert describe_latent(whole) == f"{START}{told}"


class Sliced(nn.Module):
    """Rows are cut into heads, each of which is shared out among slices that then look at each other (Transolver)."""

    def __init__(self):
        super().__init__()
        self.given, self.into, self.slice = nn.Linear(WIDTH, 12), nn.Linear(WIDTH, 12), nn.Linear(4, 13)
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.out = nn.Linear(12, WIDTH)

    def forward(self, x):
        given, rows = (make(x).unflatten(-1, (HEADS, 4)).transpose(1, 2) for make in (self.given, self.into))
        shares = self.slice(rows).softmax(-1)
        slices = (shares.mT @ given) / (shares.sum(2) + 1e-5)[..., None].repeat(1, 1, 1, 4)
        scores = self.query(slices) @ self.key(slices).mT * 0.5
        seen = shares @ (scores.softmax(-1) @ self.value(slices))
        return self.out(seen.transpose(1, 2).flatten(2))


def test_rows_cut_into_heads_are_no_waist_before_a_wider_linear_layer():
    trace = xray.trace(nn.Sequential(nn.Linear(5, WIDTH), *(Layer(Sliced()) for _ in range(2))), torch.rand(2, 11, 5))

    (attention,) = {one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention)}

    assert attention.latent is None


def test_rows_that_are_shared_out_among_slices_by_a_softmax_are_made_by_operations():
    trace = xray.trace(nn.Sequential(nn.Linear(5, WIDTH), *(Layer(Sliced()) for _ in range(2))), torch.rand(2, 11, 5))

    drawn = xray.render(trace, "svg")

    assert "OPERATIONS" in drawn
    assert "LINEAR BESIDE" not in drawn
