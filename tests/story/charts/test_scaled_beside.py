"""Branches that stand beside each other, each multiplied by learned numbers of its own before it is added."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, rows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Thinking(nn.Module):
    """A feed-forward of normalised rows, and the learned numbers by which it is multiplied (DeiT III)."""

    def __init__(self):
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(WIDTH), nn.Parameter(torch.ones(WIDTH))
        self.wide, self.back = nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        return self.scale * self.back(torch.relu(self.wide(self.norm(x))))


class Both(nn.Module):
    """Two of them, which read the same rows and are added one after the other."""

    def __init__(self):
        super().__init__()
        self.one, self.other = Thinking(), Thinking()

    def forward(self, x):
        return x + self.one(x) + self.other(x)


def test_each_branch_beside_another_has_its_own_learned_numbers():
    (column,) = read_columns(xray.trace(Reader(AttentionPart(), Both(), AttentionPart(), Both()), rows()))
    chart = column.frames[0].panels[1].chart

    scales = {node.key: node for node in chart.nodes if node.label == "× LEARNED NUMBERS"}
    assert [[step.id for step in node.steps] for node in scales.values()] == [
        ["layers.1.one.mul#0"],
        ["layers.1.other.mul#0"],
    ]
    led = {edge.source: edge.target for edge in chart.edges}
    names = {node.key: node.label for node in chart.nodes}
    assert [names[led[key]] for key in scales] == ["ADD", "ADD"]
    assert sorted(led[one] for one in led if names[one] == "LINEAR") == sorted(scales)
