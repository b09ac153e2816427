"""What a step says when it is pointed at."""

from xray.story.sheet.tooltip import describe


def test_a_tooltip_tells_all_that_is_known(training_trace):
    step = training_trace.passes[0].by_id["encoder.layers.0.self_attention.query#0"]

    text = describe([(0, step)])

    assert text.startswith(
        "encoder.layers.0.self_attention.query\ninput 8×10×32 (batch × src_len × d_model) → out 8×10×32"
    )
    assert "1,056 parameters · float32" in text
