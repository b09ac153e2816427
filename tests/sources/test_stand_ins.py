"""What stands in for parts of torch that want a device with numbers."""

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.attention import flex_attention

from xray.sources.stand_ins import stand_ins, unfold


def make_blocks(device: str) -> Any:
    """As much of a mask by blocks as is read."""
    return SimpleNamespace(mask_mod=lambda b, h, q, k: q >= k, kv_num_blocks=torch.ones(1, device=device))


def test_a_cast_may_be_asked_for_without_storage():
    with stand_ins(), torch.autocast("meta", enabled=False):
        pass


def test_a_mask_by_blocks_has_a_truth_for_each_query_and_key():
    assert unfold(make_blocks("cpu"), 3, 2).tolist() == [[[[True, False], [True, True], [True, True]]]]


def test_a_mask_whose_blocks_were_chosen_by_numbers_is_unknown():
    assert unfold(make_blocks("meta"), 3, 2).is_meta


def test_torch_is_as_before_afterwards():
    plain = flex_attention.flex_attention
    with stand_ins():
        pass

    assert flex_attention.flex_attention is plain


def test_a_large_mask_by_blocks_is_not_worked_out():
    def looks_back(batch, head, query, key):
        raise AssertionError

    with stand_ins():
        blocks = flex_attention.create_block_mask(looks_back, B=None, H=None, Q_LEN=5_000, KV_LEN=5_000, device="meta")
        query = torch.empty((1, 3, 5_000, 7), device="meta")

        assert flex_attention.flex_attention(query, query, query, block_mask=blocks).shape == (1, 3, 5_000, 7)
