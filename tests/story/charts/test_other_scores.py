"""Scores of another attention that are added to scores are no bias, and are told by what they are."""

import torch
from story.body.test_mistaken import HEADS, WIDTH
from torch import nn

import xray
from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import read_flow
from xray.story.branches.distinctions import list_other_scores
from xray.story.recognition.scored_parts import read_scored

PLACES = 7


class Beside(nn.Module):
    """Two attentions: the scores of the second are added to those of the first, halved (LiLT's text and layout)."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.bias = nn.Parameter(torch.rand(HEADS, PLACES, PLACES))

    def forward(self, x):
        query, key, value = self.cut(self.one(x))
        other_query, other_key, other_value = self.cut(self.other(x))
        others = other_query @ other_key.mT / 2
        first = (query @ key.mT + others).softmax(-1) @ value
        return first + (others + self.bias).softmax(-1) @ other_value

    def cut(self, rows):
        return rows.reshape(*rows.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)


def test_scores_of_another_attention_are_told_from_a_bias():
    (one_pass,) = xray.trace(Beside().eval(), torch.rand(2, PLACES, WIDTH)).passes
    flow = read_flow(one_pass)

    found = []
    for site in list_sites(flow):
        found.append([list_other_scores(flow, site, part.nodes) for part in read_scored(flow, site.scored)])
    assert [any(told) for told in found] == [True, False]
