"""Attention by itself: a sheet as a picture, tables in the terminal."""

import pytest

from xray.renderers.attention import draw_attention, print_attention
from xray.renderers.table.walk import Screen
from xray.story.weights.reading import read_pictures


@pytest.fixture(scope="module")
def pictures(inference_trace):
    return read_pictures(inference_trace, inference_trace.passes[-1], "cross")


def test_a_sheet_shows_every_layer_and_head(pictures):
    svg = draw_attention(pictures, "svg")

    assert all(f"layer {one.layer + 1}, head {one.head + 1}" in svg for one in pictures)


def test_a_sheet_names_every_word(pictures):
    svg = draw_attention(pictures[:1], "svg")

    assert all(f">{word.replace('<', '&lt;').replace('>', '&gt;')}<" in svg for word in pictures[0].queries)


def test_a_sheet_can_be_a_picture(pictures):
    assert draw_attention(pictures[:1], "png", dpi=30)[:4] == b"\x89PNG"


def test_the_terminal_shows_percentages_and_entropy(pictures):
    text = print_attention(pictures, pictures[5], Screen(width=90))
    row = text.split("\n")[2]

    assert f"{round(pictures[5].weights[0][0] * 100):3d}" in row
    assert f"{pictures[5].entropy:.2f}" in text
    assert "layer 2, head 2" in text


@pytest.mark.parametrize("width", [30, 60])
def test_a_narrow_terminal_gets_the_columns_in_parts(pictures, width):
    text = print_attention(pictures, pictures[0], Screen(width=width))

    assert all(f"{place + 1} {word}" in text for place, word in enumerate(pictures[0].keys))


def test_hidden_cells_are_dots(inference_trace):
    pictures = read_pictures(inference_trace, inference_trace.passes[-1], "decoder")

    assert "   ·   ·" in print_attention(pictures, pictures[0], Screen())


def test_attention_can_be_printed(pictures):
    assert draw_attention(pictures[:1], "pdf")[:4] == b"%PDF"
