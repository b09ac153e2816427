import pytest

from xray.ir.records import TensorRecord
from xray.story.shapes import ShapeText, common_size, digits, hue, read_shape, symbols_in_two


def make_record(shape, axes):
    return TensorRecord("x", shape, axes, "float32", "cpu", "activation")


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ([(1, 7), (2, 7), (3, 7)], "7"),
        ([(1, 1), (2, 2), (3, 3)], "t"),
        ([(1, 2), (2, 3)], "t+1"),
        ([(1, 5), (2, 3)], "3–5"),
        ([(1, 1)], "1"),
    ],
)
def test_a_size_that_grows_with_the_turn_is_called_t(seen, text):
    assert common_size(seen) == text


def test_equal_sizes_keep_their_own_axes():
    shape = read_shape([(0, make_record((8, 4, 8), ("batch", "heads", "d_k")))])
    assert shape == ShapeText(("8", "4", "8"), ("batch", "heads", "d_k"))


def test_a_tensor_without_axes_is_one_number():
    assert ShapeText((), ()).plain == "one number"


def test_digits_are_coloured_by_axis():
    line = digits(ShapeText(("8", "14"), ("batch", "tgt_len")), 18)
    assert [(run.text, run.ink) for run in line] == [("8", "axis:batch"), ("×", "quiet"), ("14", "axis:tgt_len")]


@pytest.mark.parametrize(
    ("axis", "role"),
    [("d_k", "axis:d_k"), ("tgt_len+1", "axis:tgt_len"), ("batch*tgt_len", "axis:tgt_len"), ("rows", "axis:other")],
)
def test_a_compound_axis_takes_the_hue_of_its_part(axis, role):
    assert hue(axis) == role


def test_four_axes_break_into_two_lines():
    upper, lower = symbols_in_two(ShapeText(("2", "3", "5", "7"), ("batch", "heads", "src_len", "d_k")), 10)
    assert (upper[0].text, lower[0].text) == ("batch×heads×", "src_len×d_k")


def test_words_of_axes_are_cut_where_both_lines_are_shortest():
    (upper,), (lower,) = symbols_in_two(ShapeText(("20", "32", "128"), ("batch*seq_len", "heads", "d_k")), 11)

    assert (upper.text, lower.text) == ("batch*seq_len×", "heads×d_k")
