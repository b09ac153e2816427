"""Masks of more than a million cells are audited too."""

import pytest
import torch
from story.alarms.planted.pairs import Fused, Layer, Stack, attend_given

import xray
from xray.story.alarms.whole import audit
from xray.story.recognition.values.known_values import MOST

LONG = 1031
WHOLE = torch.ones(LONG, LONG, dtype=torch.bool)
DOCUMENTS = torch.arange(LONG) // 300
SAME = DOCUMENTS[:, None] == DOCUMENTS[None, :]
NO_ROW = WHOLE.tril() & (torch.arange(LONG) != 700)[:, None]
BAD = {
    "one too late": ("future", WHOLE.tril(1), {}),
    "turned round": ("inverted", WHOLE.triu(), {}),
    "a window one too wide": ("window", WHOLE.tril().triu(-100), {"sliding_window": 100}),
    "one triangle for all": ("packed", WHOLE.tril(), {}),
    "a row that sees nothing": ("blind", NO_ROW & SAME, {}),
}
GOOD = {
    "a triangle of each sequence": (WHOLE.tril() & SAME, {}),
    "a window": (WHOLE.tril().triu(-99) & SAME, {"sliding_window": 100}),
}


def fill(scores, mask, number):
    return scores.masked_fill(~mask, float("-inf"))


def audit_of(mask, says, kind):
    assert mask.numel() > MOST
    model = Stack(kind, attend_given if kind is Fused else fill, lambda ids, given, **others: mask.clone(), **says)
    documents = {} if says or mask.triu(1).any() else {"document_ids": DOCUMENTS[None]}
    with torch.no_grad():
        return audit(xray.trace(model.eval(), torch.ones(1, LONG, dtype=torch.long), **documents))


@pytest.mark.parametrize("kind", [Fused, pytest.param(Layer, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BAD)
def test_a_bug_in_a_large_mask_is_told_by_its_kind(name, kind):
    expected, mask, says = BAD[name]

    assert [alarm.kind for alarm in audit_of(mask, says, kind).alarms] == [expected]


@pytest.mark.parametrize("kind", [Fused, pytest.param(Layer, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GOOD)
def test_a_large_mask_as_it_should_be_raises_nothing(name, kind):
    assert audit_of(*GOOD[name], kind).alarms == ()
