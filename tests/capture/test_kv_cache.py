"""Recording with a key-value cache: one query row a turn, growing keys, the memory's keys and values once."""

import pytest


@pytest.fixture(scope="module")
def cached_trace(untrained_run):
    return untrained_run.trace("inference", max_turns=4, kv_cache=True)


SELF, CROSS = "decoder.layers.1.self_attention", "decoder.layers.1.cross_attention"


@pytest.mark.parametrize("turn", [1, 2, 3, 4])
def test_the_scores_are_one_row_against_all_keys_so_far(cached_trace, turn):
    record = cached_trace.passes_of("decode")[turn - 1].by_id[f"{SELF}.scores#0"].outputs[0]

    assert (record.shape, record.axes) == ((1, 4, 1, turn), ("batch", "heads", "1", "tgt_len"))


def test_the_keys_grow_from_what_was_kept(cached_trace):
    extend = cached_trace.passes_of("decode")[2].by_id[f"{SELF}.extend_key#0"]

    assert [record.shape for record in (*extend.inputs, *extend.outputs)] == [(1, 4, 2, 8), (1, 4, 1, 8), (1, 4, 3, 8)]
    assert extend.inputs[0].axes == ("batch", "heads", "tgt_len-1", "d_k")


def test_the_keys_and_values_of_the_memory_are_computed_in_the_first_turn_only(cached_trace):
    computed = [
        one.number
        for one in cached_trace.passes_of("decode")
        for step in one.steps
        if step.path in (f"{CROSS}.key", f"{CROSS}.value")
    ]

    assert computed == [1, 1]


def test_later_turns_read_the_keys_that_the_first_made(cached_trace):
    transpose = cached_trace.passes_of("decode")[3].by_id[f"{CROSS}.transpose_key#0"]

    assert transpose.inputs[0].shape == (1, 4, 9, 8)
    assert transpose.inputs[0].source == f"{CROSS}.split_key.transpose#0"


def test_the_mask_is_the_newest_row(cached_trace):
    record = cached_trace.passes_of("decode")[3].by_id["newest_row#0"].outputs[0]

    assert (record.shape, record.mask.cells) == ((1, 1, 1, 4), (("....",),))


def test_the_answer_is_the_same_as_without_a_cache(cached_trace, untrained_run):
    plain = untrained_run.trace("inference", max_turns=4)

    assert cached_trace.config["answer"] == plain.config["answer"]
