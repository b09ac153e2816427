"""Of masks too large to keep it is known which stretch of keys each row shows, and what kind of mask that makes."""

import pytest
import torch

from xray.capture.masks.facts import MAX_CELLS, imply_causal, look_at_mask
from xray.capture.masks.settling import turn_round

LONG = 257
WHOLE = torch.ones(LONG, LONG, dtype=torch.bool)
PADDED = torch.arange(LONG) < 200
DOCUMENTS = torch.arange(LONG) // 100
MASKS = {
    "none": WHOLE,
    "causal": WHOLE.tril(),
    "padding": WHOLE & PADDED,
    "padding+causal": WHOLE.tril() & PADDED,
    "custom": WHOLE.tril().triu(-30),
}
OTHERS = {
    "turned round": WHOLE.triu(1),
    "documents": WHOLE.tril() & (DOCUMENTS[:, None] == DOCUMENTS[None, :]),
    "rows that see nothing": WHOLE.tril() & (torch.arange(LONG) % 90 > 0)[:, None],
}


def facts_of(mask):
    assert mask.numel() > MAX_CELLS
    return look_at_mask(mask, None).to_facts()


def draw(spans):
    """The mask that stretches of keys stand for."""
    rows = [
        [first + step * row <= key < end + end_step * row for key in range(LONG)]
        for count, first, step, end, end_step in spans
        for row in range(count)
    ]
    return torch.tensor(rows)


@pytest.mark.parametrize("name", MASKS)
def test_a_large_mask_is_called_what_it_is(name):
    assert facts_of(MASKS[name]).kind == name


def test_the_first_places_of_a_longer_cache_see_no_future():
    longer = torch.ones(200, 400, dtype=torch.bool).tril()

    assert facts_of(longer).kind == "causal"
    assert facts_of(longer.roll(1, dims=1)).kind == "custom"


@pytest.mark.parametrize("name", [*MASKS, *OTHERS])
def test_the_stretches_are_the_whole_mask(name):
    mask = {**MASKS, **OTHERS}[name]
    (spans,) = facts_of(mask).spans

    assert torch.equal(draw(spans), mask)
    assert len(spans) < 12


def test_a_row_that_shows_two_stretches_leaves_the_share_and_the_rows_that_see_nothing():
    mask = WHOLE.clone()
    mask[5, 9], mask[7] = False, False
    facts = facts_of(mask)

    assert (facts.spans, facts.blind_rows) == (None, 1)
    assert facts.hidden_share == pytest.approx((1 + LONG) / LONG**2, abs=1e-6)


def test_sequences_that_repeat_one_mask_are_read_once():
    facts = facts_of(WHOLE.tril().expand(3, 2, LONG, LONG))

    assert facts == facts_of(WHOLE.tril().clone().expand(3, 2, LONG, LONG))
    assert len(facts.spans) == 1


def test_a_mask_that_turns_out_to_say_what_is_hidden_is_turned_round():
    seen = look_at_mask(WHOLE.triu(1), None)

    assert turn_round(seen, "true_is_hidden").to_facts().kind == "causal"


def test_is_causal_stands_for_a_triangle_of_any_size():
    assert imply_causal(LONG, LONG).to_facts().spans == facts_of(WHOLE.tril()).spans
