"""Two recordings of one model beside each other: words, work and changes are those of the steps."""

from dataclasses import replace

import pytest
from recorded import recorded

from xray.errors import UsageError
from xray.ir.work import add_up_multiplications
from xray.story.compare.twins import find_furthest, hold_beside


@pytest.fixture(scope="module")
def turns(inference_trace, cached_trace):
    beside = hold_beside(inference_trace, cached_trace, "kv-cache")
    return [one for one in beside if one.kind == "decode" and one.before and one.after]


def test_the_work_is_that_of_each_pass(turns, inference_trace, cached_trace):
    for one in turns:
        for side, trace in ((one.before, inference_trace), (one.after, cached_trace)):
            (its,) = (each for each in trace.passes_of("decode") if each.number == one.number)
            assert side.products == add_up_multiplications(its)


def test_with_a_cache_each_turn_asks_with_one_row(turns):
    squares = [[(side.scored[0].queries, side.scored[0].keys) for side in (one.before, one.after)] for one in turns]

    assert squares[:3] == [[(1, 1), (1, 1)], [(2, 2), (1, 2)], [(3, 3), (1, 3)]]


def test_only_the_cache_keeps_bytes_and_they_grow(turns):
    kept = [one.after.kept for one in turns]

    assert [one.before.kept for one in turns] == [None] * len(turns)
    assert kept == sorted(set(kept))


def test_the_words_are_those_that_were_chosen(turns):
    for one in turns:
        assert one.before.said.chance == max(one.before.said.chances)
        assert (one.before.said.number, one.before.said.read) == (one.after.said.number, one.after.said.read)


def test_what_only_the_twin_has_is_shown_behind_what_ran_before_it(turns):
    added = next(one for one in turns[1].changes if one.step.endswith("layers.0.self_attention.extend_key"))

    assert (added.aspect, added.behind, added.more) == ("step added", True, 2)
    assert added.at == "decoder.layers.0.self_attention.split_value#0"


def test_a_recording_does_not_differ_from_itself(inference_trace):
    beside = hold_beside(inference_trace, inference_trace, "same")

    assert [one.changes for one in beside] == [()] * len(inference_trace.passes)
    assert all(one.before == one.after for one in beside)


def test_the_furthest_head_is_that_whose_width_differs_most(training_trace):
    (training,) = hold_beside(training_trace, training_trace, "same")
    first = training.before.scored[0]
    wider = replace(first.pictures[5], entropy=first.pictures[5].entropy + 1)
    other = replace(first, pictures=(*first.pictures[:5], wider, *first.pictures[6:]))

    assert find_furthest(first, other) == (first.pictures[5], wider)


def test_another_model_is_no_twin(inference_trace):
    with pytest.raises(UsageError, match="the twin 'other' is a trace of another model"):
        hold_beside(inference_trace, recorded("Llama, inference"), "other")


def test_other_passes_are_no_twin(inference_trace, training_trace):
    with pytest.raises(UsageError, match="the twin 'other' is a trace of other passes"):
        hold_beside(inference_trace, training_trace, "other")
