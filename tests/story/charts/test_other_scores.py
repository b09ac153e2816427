"""Scores of another attention that are added to scores are no bias, and are told by what they are."""

import pytest
import torch
from printed import lines_of
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.body.layers import find_mask
from xray.story.branches.weighed import list_other_scores
from xray.story.poster import compose_poster
from xray.story.recognition.scored_parts import read_scored

PLACES = 7


def cut(rows):
    """Rows of queries, keys and values, each cut into heads."""
    return rows.reshape(*rows.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)


class Beside(nn.Module):
    """Two attentions: the scores of the second are added to those of the first, halved (LiLT's text and layout)."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.bias = nn.Parameter(torch.rand(HEADS, PLACES, PLACES))

    def forward(self, x):
        query, key, value = cut(self.one(x))
        other_query, other_key, other_value = cut(self.other(x))
        others = other_query @ other_key.mT / 2
        first = (query @ key.mT + others).softmax(-1) @ value
        return first + (others + self.bias).softmax(-1) @ other_value


class After(nn.Module):
    """Each attention adds to its scores the masked ones of one before, the last or the first (RealFormer)."""

    def __init__(self, layers, back):
        super().__init__()
        self.ways, self.back = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(layers)), back
        self.outs = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(layers))

    def forward(self, x):
        kept = []
        for way, out, think in zip(self.ways, self.outs, self.thinks, strict=True):
            query, key, value = cut(way(x))
            scores = query @ key.mT * query.shape[-1] ** -0.5
            if kept:
                scores = scores + kept[max(-self.back, -len(kept))]
            scores = scores.masked_fill(torch.ones(PLACES, PLACES, dtype=torch.bool).triu(1), -1e30)
            kept.append(scores)
            x = think(x + out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)))
        return x


@pytest.mark.parametrize(
    ("back", "named", "label"),
    [
        (1, "before", "+ SCORES OF THE ATTENTION BEFORE"),
        (2, "earlier", "+ SCORES OF AN EARLIER ATTENTION"),
    ],
)
def test_masked_scores_of_an_attention_before_are_no_bias_and_no_second_mask(back, named, label):
    trace = xray.trace(After(3, back).eval(), torch.rand(2, PLACES, WIDTH))
    flow = read_flow(trace.passes[0])
    kinds = [[part.kind for part in read_scored(flow, site.scored)] for site in list_sites(flow)]
    told = {branch.earlier_scores for branch in xray.anatomy(trace).towers[0].branches if isinstance(branch, Attention)}
    boxes = [box for box in compose_poster(trace, text_width).boxes if box.lines]
    text = " ".join("".join(run.text for run in line) for box in boxes for line in box.lines)

    assert kinds == [["scale", "mask", "softmax"], *[["scale", "bias", "mask", "softmax"]] * 2]
    assert named in told
    assert None in told
    assert label in text
    assert "+ earlier scores + mask ) · V" in text
    assert "BIAS" not in text
    assert f"cores of {'the attention before' if back == 1 else 'an earlier attention'} are added to" in text


def test_scores_of_another_attention_are_told_from_a_bias():
    (one_pass,) = xray.trace(Beside().eval(), torch.rand(2, PLACES, WIDTH)).passes
    flow = read_flow(one_pass)

    found = []
    for site in list_sites(flow):
        found.append([list_other_scores(flow, site, part.nodes) for part in read_scored(flow, site.scored)])
    assert [any(told) for told in found] == [True, False]


class HiddenOnce(After):
    """The first attention hides the future, and the others add what its scores were behind the mask, or before."""

    def forward(self, x):
        kept = 0.0
        for number, (way, out, think) in enumerate(zip(self.ways, self.outs, self.thinks, strict=True)):
            query, key, value = cut(way(x))
            raw = scores = query @ key.mT * query.shape[-1] ** -0.5 + kept
            if not number:
                scores = scores.masked_fill(torch.ones(PLACES, PLACES, dtype=torch.bool).triu(1), -1e30)
            kept = scores if self.back else raw
            x = think(x + out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)))
        return x


@pytest.mark.parametrize(("is_behind", "mask"), [(1, "unknown"), (0, "none")])
def test_attentions_that_add_masked_scores_are_not_without_a_mask(is_behind, mask):
    trace = xray.trace(HiddenOnce(3, is_behind).eval(), torch.rand(2, PLACES, WIDTH))
    flow = read_flow(trace.passes[0])
    told = " ".join(lines_of(compose_poster(trace, text_width)))

    assert [find_mask(flow, site) for site in list_sites(flow)[1:]] == [mask] * 2
    assert ("no mask" in told) is (mask == "none")
