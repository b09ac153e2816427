"""Failures explained: which axes of which operands do not fit, by operation."""

import pytest
from small_traces import step

from xray.ir.records import Preview, TensorRecord
from xray.story.failure.rules import find_misfit


def tensor(name, *shape, preview=None):
    return TensorRecord(name, shape, ("",) * len(shape), "float32", "cpu", "activation", preview=preview)


def fail(op, *shapes, error="RuntimeError: no", **settings):
    inputs = [tensor(f"x{place}", *shape) for place, shape in enumerate(shapes)]
    return find_misfit(step("net", op, inputs, error=error, settings=settings))


def wrong_sizes(misfit):
    return [[operand.sizes[axis] for axis in operand.wrong] for operand in misfit.operands]


@pytest.mark.parametrize(
    ("op", "shapes", "wrong"),
    [
        ("matmul", [(2, 3), (2, 3)], [[3], [2]]),
        ("matmul", [(5, 2, 3), (5, 7, 11)], [[3], [7]]),
        ("matmul", [(5, 2, 3), (7, 3, 11)], [[5], [7]]),
        ("matmul", [(3,), (5,)], [[3], [5]]),
        ("bmm", [(2, 3, 5), (2, 7, 11)], [[5], [7]]),
        ("addmm", [(2, 11), (2, 3), (5, 11)], [[], [3], [5]]),
        ("linear", [(2, 3), (5, 7)], [[3], [7]]),
        ("add", [(2, 3), (2, 5)], [[3], [5]]),
        ("add", [(2, 1, 3), (5, 7)], [[3], [7]]),
        ("cat", [(2, 3), (5, 3), (2, 7)], [[3], [3], [7]]),
        ("stack", [(2, 3), (2, 5)], [[3], [5]]),
    ],
)
def test_the_axes_that_do_not_fit_are_marked(op, shapes, wrong):
    assert wrong_sizes(fail(op, *shapes)) == wrong


def test_the_inner_axes_are_named():
    assert fail("matmul", (2, 3), (2, 3)).rule == "the inner axes have to be equal: 3 and 2"


def test_the_axis_that_tensors_are_joined_along_may_differ():
    assert wrong_sizes(fail("cat", (2, 3), (5, 7), dim=1)) == [[2], [5]]


def test_joined_tensors_have_as_many_axes():
    assert fail("cat", (2, 3), (2, 3, 5)).rule == "all have to have as many axes: 2 and 3"


def test_a_linear_layer_shows_the_weights_it_was_made_with():
    found = fail("linear", (8, 14, 32), in_features=64, out_features=950)

    assert found.operands[1].sizes == (950, 64)
    assert wrong_sizes(found) == [[32], [64]]


def test_a_view_shows_the_shape_that_was_asked_for():
    found = fail("view", (2, 3), error="RuntimeError: shape '[4, 5]' is invalid for input of size 6")

    assert (found.operands[1].name, found.operands[1].sizes) == ("asked for", (4, 5))
    assert found.rule == "both have to hold as many numbers: 6, but the shape asked for holds 20"


def test_a_view_with_a_free_axis_asks_for_a_multiple():
    found = fail("view", (2, 3), error="RuntimeError: shape '[-1, 5]' is invalid for input of size 6")

    assert found.rule.endswith("holds a multiple of 5")


def test_an_embedding_shows_its_table_and_the_largest_id():
    ids = tensor("input", 2, preview=Preview((0,), (2,), (3, 99)))
    failed = step("words", "embedding", [ids], error="IndexError: index out of range in self")
    failed = type(failed)(**{**vars(failed), "settings": {"num_embeddings": 10, "embedding_dim": 4}})

    assert find_misfit(failed).rule == "every id has to be from 0 to 9; the largest here is 99"
    assert wrong_sizes(find_misfit(failed)) == [[], [10]]


def test_a_convolution_marks_the_channels():
    assert wrong_sizes(fail("conv2d", (2, 5, 8, 8), in_channels=3)) == [[5]]


def test_a_norm_marks_the_axis_it_was_not_made_for():
    error = "RuntimeError: Given normalized_shape=[5], expected input with shape [*, 5], but got input of size[2, 3]"

    assert wrong_sizes(fail("layer_norm", (2, 3), error=error)) == [[3], [5]]


def test_an_unknown_operation_that_tells_of_sizes_is_compared_from_the_end():
    error = "RuntimeError: The size of tensor a (3) must match the size of tensor b (5) at non-singleton dimension 1"

    assert wrong_sizes(fail("lerp", (2, 3), (2, 5), error=error)) == [[3], [5]]


@pytest.mark.parametrize("op", ["matmul", "linear", "cat", "stack", "view", "embedding", "add", "conv2d", "odd"])
def test_a_failure_that_is_not_about_shapes_marks_nothing(op):
    found = fail(op, (3, 3), (3, 3), error="RuntimeError: something else")

    assert wrong_sizes(found) == [[], []]
    assert found.rule == ""


@pytest.mark.parametrize("op", ["matmul", "linear", "cat", "stack", "view", "embedding", "add", "conv2d"])
def test_a_step_without_operands_is_no_problem(op):
    assert find_misfit(step("net", op, error="RuntimeError: no")).operands == ()


def test_what_was_read_and_what_the_weights_are_for_are_told_apart():
    convolved = fail("conv2d", (2, 8, 14, 14), in_channels=768)
    normed = fail("batch_norm2d", (2, 8, 14, 14), num_features=16)

    assert convolved.rule == "axis 1 holds 8 channels, but the weights are for 768"
    assert normed.rule == "axis 1 holds 8 channels, but the norm is made for 16"
