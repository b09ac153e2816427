"""What True means in a mask is told by how the mask is used, at its first step too."""

import pytest
import torch
from torch import nn

import xray

FUTURE = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
LOW = float("-inf")


class Attention(nn.Module):
    def __init__(self, hide):
        super().__init__()
        self.project = nn.Linear(7, 7)
        self.hide = hide

    def forward(self, x, mask):
        x = self.project(x)
        return self.hide(x @ x.transpose(-1, -2), mask).softmax(dim=-1) @ x


def masks_of(hide, mask):
    trace = xray.trace(Attention(hide), torch.randn(2, 5, 7), mask)
    found = [record.mask for step in trace.steps for record in step.inputs if record.mask is not None]
    return {(facts.kind, facts.polarity, facts.hidden_share) for facts in found}


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores, mask: scores.masked_fill(mask, LOW),
        lambda scores, mask: scores.masked_fill_(mask, LOW),
        lambda scores, mask: scores.masked_fill(mask.unsqueeze(0).expand(2, 5, 5), LOW),
        lambda scores, mask: scores.flatten(1).masked_fill(mask.flatten(), LOW).view(2, 5, 5),
        lambda scores, mask: scores.masked_fill(mask.permute(1, 0).contiguous().clone().permute(1, 0), LOW),
        lambda scores, mask: torch.where(mask, torch.tensor(LOW), scores),
        lambda scores, mask: torch.where(mask, LOW, scores),
    ],
    ids=["masked_fill", "in place", "moved first", "a map laid out", "turned and back", "where", "where a number"],
)
def test_true_hides_where_something_is_filled_in(hide):
    assert masks_of(hide, FUTURE) == {("causal", "true_is_hidden", 0.4)}


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores, mask: torch.where(mask, scores, torch.tensor(LOW)),
        lambda scores, mask: scores.masked_fill(~mask, LOW),
        lambda scores, mask: scores.masked_fill(mask == 0, LOW),
    ],
    ids=["where", "the opposite", "compared"],
)
def test_true_shows_where_the_opposite_is_filled_in(hide):
    assert ("causal", "true_is_visible", 0.4) in masks_of(hide, ~FUTURE)
