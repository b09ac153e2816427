"""Rows of a mask that see nothing are counted also where the mask is too large to keep."""

import torch

from xray.capture.masks.facts import MAX_CELLS, look_at_mask
from xray.ir.records import MaskFacts


def test_rows_that_see_nothing_are_counted_in_a_mask_too_large_to_keep():
    mask = torch.ones(1, 257, 263, dtype=torch.bool)
    mask[0, 5:8] = False
    facts = look_at_mask(mask, "padding").to_facts()
    assert mask.numel() > MAX_CELLS
    assert (facts.cells, facts.blind_rows) == (None, 3)


def test_a_mask_that_is_kept_needs_no_count():
    assert look_at_mask(torch.zeros(1, 2, 3, dtype=torch.bool), "padding").to_facts().blind_rows is None


def test_facts_without_a_count_can_still_be_made():
    assert MaskFacts("causal", 0.5).blind_rows is None
