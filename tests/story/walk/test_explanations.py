"""What a step does: its formula, what became of the shape, and why."""

import pytest
from small_traces import record, step

from xray.story.walk.explanations import explain_step


@pytest.mark.parametrize(
    ("op", "before", "after", "told"),
    [
        ("relu", "batch d_ff", "batch d_ff", "The shape stays 2×13."),
        (
            "view",
            "batch src_len d_model",
            "batch src_len heads d_k",
            "2×5×33 becomes 2×5×3×11: the same 330 numbers, grouped differently. "
            "d_model (33) goes, heads (3) and d_k (11) come.",
        ),
        (
            "transpose",
            "batch src_len heads d_k",
            "batch heads src_len d_k",
            "2×5×3×11 becomes 2×3×5×11: the same 330 numbers, their axes in another order.",
        ),
        ("linear", "batch d_model", "batch d_ff", "2×33 becomes 2×13. d_model (33) goes, d_ff (13) comes."),
        ("embedding", "batch src_len", "batch src_len d_model", "2×5 becomes 2×5×33. d_model (33) is new."),
        ("last_row", "batch tgt_len tgt_vocab", "batch tgt_vocab", "2×7×19 becomes 2×19. tgt_len (7) is gone."),
    ],
)
def test_a_change_of_shape_is_told(op, before, after, told):
    one = step("some.step", op, [record("x", before)], [record("out", after)])

    assert explain_step(one).change == told


def test_a_product_tells_what_is_summed_over():
    one = step(
        "attention.scores",
        "matmul",
        [record("left", "batch heads tgt_len d_k"), record("right", "batch heads d_k src_len")],
        [record("out", "batch heads tgt_len src_len")],
    )

    assert explain_step(one).change == (
        "d_k (11) is summed over: 7×11 times 11×5 leaves 7×5; the axes before are carried along."
    )


def test_a_scale_shows_its_factor():
    one = step("s", "scale", [], [], settings={"formula": "1/sqrt(d_k)", "factor": 0.30151134})

    assert explain_step(one).formula == "x · 1/sqrt(d_k) = x · 0.3015"


def test_the_place_of_a_step_gives_its_reason(training_trace):
    steps = training_trace.passes[0].by_id
    query = explain_step(steps["encoder.layers.0.self_attention.query#0"])
    split = explain_step(steps["encoder.layers.0.self_attention.split_query#0"])

    assert query.reason == "What each word looks for."
    assert split.reason == ""


def test_every_operation_of_our_model_is_explained(training_trace, inference_trace):
    silent = {
        (step.op, step.path.rsplit(".", 1)[-1])
        for trace in (training_trace, inference_trace)
        for one_pass in trace.passes
        for step in one_pass.leaves
        if not (explain_step(step).formula and explain_step(step).change and explain_step(step).reason)
    }

    assert silent == set()


def test_a_call_that_failed_says_so():
    one = step("net", "linear", [record("x", "batch")], [], error="RuntimeError: no")

    assert explain_step(one).change == "The call did not return: RuntimeError: no"
