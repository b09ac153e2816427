"""Numbers written over scores at the places that an index names: what they hide is known where the places are."""

import pytest
import torch
from printed import words_of
from story.body.test_mistaken import HEADS, PLACES, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster

LEFT_OUT = "Worked out, and in no box"


class Writes(nn.Module):
    """Attention whose scores are written over before softmax; `heads` may be one axis with the batch."""

    def __init__(self, write, is_flat):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.write, self.is_flat = write, is_flat

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        if self.is_flat:
            q, k, v = (one.flatten(0, 1) for one in (q, k, v))
        scores = q @ k.mT / (WIDTH // HEADS) ** 0.5
        self.write(scores)
        found = (scores.softmax(-1) @ v).unflatten(0, (len(x), -1)) if self.is_flat else scores.softmax(-1) @ v
        return x + self.out(found.transpose(1, 2).flatten(2))


def record(write, is_flat=False):
    model = nn.Sequential(*(one for _ in range(2) for one in (Writes(write, is_flat), FeedForwardPart()))).eval()
    return xray.trace(model, torch.rand(2, PLACES, WIDTH))


def read_causal(trace):
    (attention,) = (one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention))
    return attention.causal


def hide_future(scores):
    places = torch.triu_indices(PLACES, PLACES, offset=1)
    scores[..., places[0], places[1]] = -torch.inf


def hide_some(scores):
    """Which ones hangs on the scores themselves."""
    rows, columns = scores[(0,) * (scores.dim() - 2)].topk(2)[1].unbind(-1)
    scores[..., rows, columns] = -torch.inf


def hide_in_first(scores):
    places = torch.triu_indices(PLACES, PLACES, offset=1)
    scores[0, ..., places[0], places[1]] = -torch.inf


@pytest.mark.parametrize("is_flat", [False, True])
def test_a_future_that_is_written_over_is_hidden(is_flat):
    trace = record(hide_future, is_flat)
    told = words_of(compose_poster(trace, text_width))

    assert read_causal(trace) is True
    assert "Every place looks back, never ahead." in told
    assert "MASK" in told
    assert LEFT_OUT not in told


@pytest.mark.parametrize("write", [hide_some, hide_in_first])
def test_what_is_written_over_elsewhere_proves_no_order(write):
    trace = record(write)

    assert read_causal(trace) is None
    assert "every other" not in words_of(compose_poster(trace, text_width))


class Unknown(Writes):
    """No attention: nothing is multiplied by what softmax gives."""

    def forward(self, x):
        q, k, _ = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT
        self.write(scores)
        return x + self.out(scores.softmax(-1).sum(-1, keepdim=True) * x)


def test_what_hides_scores_of_no_known_attention_is_listed():
    model = nn.Sequential(*(one for _ in range(2) for one in (Unknown(hide_future, False), FeedForwardPart()))).eval()
    told = words_of(compose_poster(xray.trace(model, torch.rand(2, PLACES, WIDTH)), text_width))

    assert "index_put × 2" in told[told.index(LEFT_OUT) :]
