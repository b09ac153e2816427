"""What a page keeps of a tensor: a block within its budget, and the statistics of the whole."""

import math

import pytest
import torch

from xray.capture.targets.page_values import PAGE_VALUES, cut_shape, describe_values, preview_for_page
from xray.renderers.render import render


def test_a_batch_is_cut_to_its_first_sequences():
    preview = preview_for_page("p", "linear", torch.rand(7, 3, 5))

    assert preview.shape == (4, 3, 5)


def test_attention_weights_are_kept_whole():
    assert preview_for_page("p", "softmax", torch.rand(7, 3, 5, 5)).shape == (7, 3, 5, 5)


def test_a_large_tensor_is_cut_to_the_budget():
    preview = preview_for_page("p", "linear", torch.rand(8, 14, 950))

    assert math.prod(preview.shape) <= PAGE_VALUES
    assert preview.shape[-1] == 950


def test_a_gradient_is_kept_smaller():
    assert math.prod(preview_for_page("backward", "backward", torch.rand(64, 32)).shape) == 256


@pytest.mark.parametrize(
    "tensor", [torch.tensor([True]), torch.empty(0), torch.zeros(3, device="meta"), torch.zeros(2, dtype=torch.cfloat)]
)
def test_what_has_no_plain_numbers_is_left_out(tensor):
    assert preview_for_page("p", "linear", tensor) is None


@pytest.mark.parametrize(
    ("shape", "most", "cut"),
    [
        ((8, 14, 950), 4096, (1, 4, 950)),
        ((8, 14, 950), 14000, (1, 14, 950)),
        ((5,), 3, (3,)),
        ((2, 3), 9, (2, 3)),
        ((), 1, ()),
    ],
)
def test_first_axes_are_cut_before_last_ones(shape, most, cut):
    assert cut_shape(shape, most) == cut


def test_statistics_are_of_the_finite_values():
    found = describe_values(torch.tensor([1.0, 3.0, float("nan"), float("inf"), -float("inf"), 5.0]))

    assert (found.minimum, found.maximum, found.mean) == (1.0, 5.0, 3.0)
    assert (found.nans, found.infinities) == (1, 2)


def test_statistics_of_nothing_finite_are_none():
    found = describe_values(torch.tensor([float("nan")]))

    assert (found.minimum, found.maximum, found.mean, found.nans) == (None, None, None, 1)


def test_a_plain_trace_is_not_changed_by_what_a_page_asks(untrained_run, training_trace):
    untrained_run.trace("training", values="page")

    assert render(untrained_run.trace("training"), "json") == render(training_trace, "json")


def test_shapes_are_the_same_with_and_without_values(untrained_run, training_trace):
    page = untrained_run.trace("training", values="page")

    assert [(step.id, [record.shape for record in step.outputs]) for step in page.steps] == [
        (step.id, [record.shape for record in step.outputs]) for step in training_trace.steps
    ]


def test_every_turn_notes_the_likeliest_words(inference_trace):
    turns = inference_trace.passes_of("decode")

    assert len(turns) == 5
    for one_pass in turns:
        assert one_pass.tokens["candidates"][0][0] == one_pass.tokens["new"][0][0]
        assert len(one_pass.tokens["candidates"][0]) == 10


def test_the_mean_of_the_largest_numbers_is_a_number():
    assert describe_values(torch.full((3,), 1.5e308, dtype=torch.float64)).mean == pytest.approx(1.5e308)
