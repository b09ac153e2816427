"""Products of queries and keys that are written in pieces: which of the two the queries are stays known."""

import torch
from handwritten import Layer
from printed import words_of
from torch import nn

import xray
from xray.ir.flow.attention_sites import has_keys_first, list_sites
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, HEADS, PLACES = 15, 3, 7


class InPieces(nn.Module):
    """Scores as an einsum works them out: an axis of 1 stands where keys are, and changes places with them."""

    def __init__(self, *, has_keys_first):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.has_keys_first = has_keys_first

    def forward(self, x, memory, mask):
        q, k, v = (
            one(x).view(*x.shape[:2], HEADS, -1).transpose(1, 2).flatten(0, 1) for one in (self.q, self.k, self.v)
        )
        q = q / q.shape[-1] ** 0.5
        one, other = (k, q) if self.has_keys_first else (q, k)
        scores = torch.bmm(one, other.transpose(1, 2)).view(len(x), HEADS, PLACES, 1, PLACES)
        scores = scores.permute(0, 1, 2, 4, 3).view(-1, PLACES, PLACES)
        scores = scores.transpose(1, 2) if self.has_keys_first else scores
        return self.o((scores.softmax(-1) @ v).view(len(x), HEADS, PLACES, -1).transpose(1, 2).flatten(2))


def record(**how):
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer(WIDTH, InPieces(**how), norm="before") for _ in range(2)))
    return xray.trace(model.eval(), torch.rand(2, PLACES, WIDTH))


def test_an_axis_of_one_that_keys_change_places_with_turns_no_scores():
    words = words_of(compose_poster(record(has_keys_first=False), text_width))

    assert "SCORES Q·KT" in words
    assert "Q ÷ √d_k" in words


def test_scores_that_are_turned_besides_are_of_keys_first():
    flow = read_flow(record(has_keys_first=True).passes[0])

    assert [has_keys_first(flow, site) for site in list_sites(flow)] == [True, True]
