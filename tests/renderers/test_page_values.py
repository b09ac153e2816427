"""Cutting values: first sequences, then whatever is too much."""

import gzip

import pytest

from xray.ir.records import Preview
from xray.renderers.page.data import round_numbers
from xray.renderers.page.page import squeeze
from xray.renderers.page.values import LEVELS, Level, cut_values

BLOCK = Preview((0, 0, 0), (2, 3, 5), tuple(float(number) for number in range(30)))
IDS = Preview((0, 0), (2, 3), tuple(range(6)))
ONE = Preview((), (), (0.5,))


def level(name):
    return next(one for one in LEVELS if one.name == name)


def test_the_first_level_keeps_everything():
    assert cut_values(BLOCK, "linear", level("recorded")) == BLOCK


def test_sequences_are_cut_from_the_end():
    assert cut_values(BLOCK, "linear", level("one")) == Preview((0, 0, 0), (1, 3, 5), BLOCK.values[:15])


def test_rows_are_cut_after_sequences():
    assert cut_values(BLOCK, "linear", Level("x", None, None, 10, "")) == Preview(
        (0, 0, 0), (1, 2, 5), BLOCK.values[:10]
    )


def test_attention_outlives_other_values():
    assert cut_values(BLOCK, "linear", level("attention")) is None
    assert cut_values(BLOCK, "softmax", level("attention")) == BLOCK
    assert cut_values(BLOCK, "softmax", level("none")) is None


@pytest.mark.parametrize("preview", [IDS, ONE])
def test_ids_and_single_numbers_always_stay(preview):
    assert cut_values(preview, "linear", level("none")) == preview


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((0.123456, -2.00004, 1e-12, 0.0), [0.1235, -2.0, 1e-12, 0.0]),
        ((0.123456, 7, "nan"), [0.1235, 7, "nan"]),
        ((0.123456, float("inf"), -1.0), [0.1235, "inf", -1.0]),
        ((), []),
    ],
    ids=["numbers", "ids and words among them", "what JSON cannot write", "none"],
)
def test_numbers_have_four_digits_and_all_else_stays(values, told):
    assert round_numbers(values) == told


def test_what_has_no_room_is_packed_no_further():
    data = bytes(range(256)) * 9_000
    packed = squeeze(data, len(data))

    assert gzip.decompress(packed) == data
    assert squeeze(data, len(packed)) == packed
    assert squeeze(data, len(packed) - 1) is None
