"""Scores that no number multiplies are told, and others are not (T5)."""

import pytest
import torch
from torch import nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.where import attentions

WIDTH, HEADS, D_K = 15, 3, 5
TOLD = "Scores are not divided by √d_k."


class Meets(nn.Module):
    """Attention whose queries, keys or scores are scaled in one of several ways, or in none."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.more = nn.Parameter(torch.ones(D_K))
        self.one = nn.Parameter(torch.ones(1))

    def forward(self, x):
        q, k, v = (made(x).view(*x.shape[:2], HEADS, D_K).transpose(1, 2) for made in (self.q, self.k, self.v))
        if self.how.startswith("kernel"):
            scale = 1.0 if self.how == "kernel by 1" else None
            found = scaled_dot_product_attention(q, k, v, scale=scale)
        else:
            ways = {
                "query": lambda: q * D_K**-0.5,
                "normed": lambda: rms_norm(q, (D_K,)) * self.more,
                "one learned": lambda: q * self.one,
                "learned, by the root": lambda: q * (self.more * D_K**-0.5),
            }
            q = ways.get(self.how, lambda: q)()
            scores = q @ k.transpose(-2, -1)
            scores = scores / D_K**0.5 if self.how == "scores" else scores
            found = scores.softmax(-1) @ v
        return self.out(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.look, self.norm, self.again = Meets(how), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 31), nn.ReLU(), nn.Linear(31, WIDTH))

    def forward(self, x):
        x = x + self.look(self.norm(x))
        return x + self.think(self.again(x))


def anatomy_of(*hows):
    model = nn.Sequential(nn.Embedding(31, WIDTH), *map(Layer, hows))
    return xray.anatomy(xray.trace(model, torch.arange(14).view(2, 7)))


@pytest.mark.parametrize("how", ["none", "kernel by 1", "normed"])
def test_scores_that_no_number_multiplies_are_told(how):
    found = anatomy_of(how, how)

    assert {one.unscaled for one in attentions(found)} == {True}
    assert TOLD in list_sentences(found)


@pytest.mark.parametrize("how", ["scores", "query", "kernel", "one learned", "learned, by the root"])
def test_scores_that_a_number_multiplies_or_may_multiply_are_not(how):
    found = anatomy_of(how, how)

    assert {one.unscaled for one in attentions(found)} == {None}
    assert not any("divided" in text for text in list_sentences(found))


def test_scores_of_some_attentions_alone_are_told_of_these():
    assert "In some attentions, scores are not divided by √d_k." in list_sentences(anatomy_of("none", "scores"))


class LearnedRows(nn.Module):
    """A stream that is made of learned rows alone, and reads nothing of what the model is given but how many."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(7, WIDTH))

    def forward(self, ids):
        return (self.rows * WIDTH**0.5).expand(len(ids), -1, -1)


def test_rows_made_of_learned_numbers_alone_are_no_number_that_multiplies():
    model = nn.Sequential(LearnedRows(), *(Layer("normed") for _ in range(3)))
    found = xray.anatomy(xray.trace(model, torch.arange(14).view(2, 7)))

    assert {one.unscaled for one in attentions(found)} == {True}


@pytest.mark.parametrize("sizes", [(1, 0), (0, 5)], ids=["no words", "no sequences"])
def test_a_model_that_is_given_nothing_has_an_anatomy_too(sizes):
    model = nn.Sequential(nn.Embedding(31, WIDTH), Layer("none"), Layer("none"))
    found = xray.anatomy(xray.trace(model, torch.zeros(sizes, dtype=torch.long)))

    looks = [one for tower in found.towers for one in tower.branches if isinstance(one, Attention)]
    assert [(one.d_k, one.window) for one in looks] == [(D_K, None)]
