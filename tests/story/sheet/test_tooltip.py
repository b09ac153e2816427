"""What a step says when it is pointed at."""

from dataclasses import replace

from xray.story.sheet.tooltip import describe


def test_a_tooltip_tells_all_that_is_known(training_trace):
    step = training_trace.passes[0].by_id["encoder.layers.0.self_attention.query#0"]

    text = describe([(0, step)])

    assert text.startswith(
        "encoder.layers.0.self_attention.query\ninput 8×10×32 (batch × src_len × d_model) → out 8×10×32"
    )
    assert "1,056 parameters · float32" in text


def test_of_many_inputs_the_first_few_are_told(training_trace):
    step = training_trace.passes[0].by_id["encoder.layers.0.self_attention.query#0"]

    text = describe([(0, replace(step, inputs=step.inputs * 11))])

    assert text.count("input 8×10×32") == 8
    assert " and 3 more → out 8×10×32" in text
