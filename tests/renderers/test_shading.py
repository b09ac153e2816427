import pytest

from xray.renderers.sheet.shading import cell_shapes, weight_colour
from xray.renderers.themes import load_theme
from xray.story.layout import Cells

THEME = load_theme()


def shapes_of(value):
    return list(cell_shapes(Cells("x", 0, 0, 10, ((value,),), "mask"), THEME))


def width(shape):
    return shape.corners[1][0] - shape.corners[0][0]


def test_padding_is_smaller_than_a_visible_cell():
    assert width(shapes_of("p")[0]) < 0.5 * width(shapes_of(".")[0])


def test_the_future_is_a_frame():
    shape = shapes_of("f")[0]
    assert shape.fill != shape.line


def test_padding_in_the_future_is_a_frame_around_a_square():
    assert len(shapes_of("b")) == 2


@pytest.mark.parametrize(("weight", "role"), [(0.0, "weight_low"), (1.0, "weight_high")])
def test_weights_run_from_low_to_high(weight, role):
    assert weight_colour(weight, THEME) == THEME.cells[role]


def test_a_hidden_weight_is_no_colour_of_the_scale():
    assert shapes_of(None)[0].fill == THEME.cells["weight_hidden"]
