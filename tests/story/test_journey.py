from dataclasses import replace

import pytest

from xray.story.journey import describe, read_tale


def test_a_trace_of_both_phases_has_two_journeys_on_each_side(both_trace):
    tale = read_tale(both_trace)
    assert tale.phases == ("training", "inference")
    assert [journey.side for journey in (*tale.encoder, *tale.decoder)] == ["encoder"] * 2 + ["decoder"] * 2


def test_a_foreign_trace_is_no_tale(training_trace):
    foreign = replace(training_trace.passes[0], kind="forward")
    assert read_tale(replace(training_trace, passes=(foreign,))) is None


def test_a_trace_that_broke_off_is_no_tale(training_trace):
    whole = training_trace.passes[0]
    assert read_tale(replace(training_trace, passes=(replace(whole, steps=whole.steps[:60]),))) is None


def test_turns_are_read_together(inference_trace):
    decoder = read_tale(inference_trace).decoder[0]
    assert decoder.output("decoder.layers.0.self_attention.scores").sizes == ("1", "4", "t", "t")


def test_the_question_keeps_its_length(inference_trace):
    decoder = read_tale(inference_trace).decoder[0]
    assert decoder.output("decoder.layers.0.cross_attention.scores").sizes == ("1", "4", "t", "9")


def test_a_tooltip_tells_all_that_is_known(training_trace):
    steps = read_tale(training_trace).encoder[0].steps("encoder.layers.0.self_attention.query")
    text = describe(steps)
    assert text.startswith(
        "encoder.layers.0.self_attention.query\ninput 8×10×32 (batch × src_len × d_model) → out 8×10×32"
    )
    assert "1,056 parameters · float32" in text


@pytest.mark.parametrize("path", ["src_mask", "nothing.like.it"])
def test_a_step_that_was_not_recorded_has_no_shape(inference_trace, path):
    assert read_tale(inference_trace).decoder[0].output(path) is None
