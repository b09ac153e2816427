"""Convolutions on the ways of an attention, each added to what it reads: of keys, and of what goes back (Inkling)."""

import pytest
import torch
from story.body.test_mistaken import HEADS, PLACES, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.story.sentences.of_rows import describe_mixed_back
from xray.story.sheet.columns import read_columns


class Short(nn.Module):
    """A convolution of the last places, added to what it reads."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, groups=WIDTH, bias=False)

    def forward(self, x):
        return self.conv(x.transpose(1, 2))[:, :, : x.shape[1]].transpose(1, 2) + x


class Around(Short):
    """The same of a place and the one on each side."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH, bias=False)


class Convolved(nn.Module):
    """An attention with such a convolution of its keys, and one of what its last linear layer gives."""

    def __init__(self, of_keys=Short, behind=Short):
        super().__init__()
        self.norm, self.short, self.behind = nn.LayerNorm(WIDTH), of_keys(), behind()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        given = self.norm(x)
        rows = self.query(given), self.short(self.key(given)), self.value(given)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        found = functional.scaled_dot_product_attention(query, key, value)
        return x + self.behind(self.out(found.transpose(1, 2).flatten(2)))


def chart_of():
    model = nn.Sequential(Convolved(), FeedForwardPart(), Convolved(), FeedForwardPart())
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, PLACES, WIDTH)))
    return column.frames[0].panels[0].chart


def test_keys_that_a_convolution_is_added_to_say_so():
    labels = [node.label for node in chart_of().nodes]

    assert "CONVOLUTION OF THE LAST 3 BY CHANNEL, ADDED UP K" in labels
    assert not [label for label in labels if "OPERATIONS" in label]


def test_a_sum_with_what_went_past_a_convolution_is_led_there_and_holds_no_convolution():
    chart = chart_of()
    labels = {node.key: node.label for node in chart.nodes}
    ways = [(labels[edge.source], labels[edge.target]) for edge in chart.edges]
    (added,) = (node for node in chart.nodes if node.label == "ADDED UP")

    assert ("LINEAR O", "ADDED UP") in ways
    assert [step.op for step in added.steps] == ["add"]
    assert sum(step.op == "conv1d" for node in chart.nodes for step in node.steps) == len(("keys", "behind"))


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ((Short, Short), "keys and what attention gives"),
        ((Around, Short), "what attention gives"),
        ((Short, nn.Identity), "keys"),
        ((nn.Identity, Around), None),
    ],
)
def test_what_convolutions_mix_with_places_before_is_said(kinds, told):
    model = nn.Sequential(Convolved(*kinds), FeedForwardPart(), Convolved(*kinds), FeedForwardPart())
    found = describe_mixed_back(xray.anatomy(xray.trace(model.eval(), torch.rand(2, PLACES, WIDTH))))

    assert found == ((told and f"Convolutions mix {told} of each place with those of places just before it.") or "")
