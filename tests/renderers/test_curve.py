"""Curves in letters and as pictures."""

import xml.etree.ElementTree as ET

import pytest

from xray.renderers.curve import Curve, draw_curves, draw_curves_as_svg

FALLING = Curve("loss", tuple(4.0 / (number + 1) for number in range(37)))
HELD_OUT = Curve("held out", tuple(1.0 + 3.0 / (number + 1) for number in range(37)))


def test_the_edges_show_the_highest_and_the_lowest():
    rows = draw_curves([FALLING]).splitlines()
    assert (rows[0].split("|")[0].strip(), rows[-2].split("|")[0].strip()) == ("4.000", "0.108")


@pytest.mark.parametrize("width", [20, 53, 100])
def test_no_row_is_wider_than_asked_for(width):
    assert max(map(len, draw_curves([FALLING], width=width).splitlines())) <= width


def test_a_falling_loss_is_a_falling_mountain():
    rows = draw_curves([FALLING], width=60, height=7).splitlines()[:-1]
    widths = [len(row) for row in rows]
    assert widths == sorted(widths)


def test_a_plain_curve_needs_ascii_only():
    assert draw_curves([FALLING, HELD_OUT], plain=True).isascii()


def test_every_curve_is_named_with_its_last_value():
    legend = draw_curves([FALLING, HELD_OUT]).splitlines()[-1]
    assert legend.strip() == "█ loss 0.108   o held out 1.081"


def test_a_flat_curve_is_drawn():
    assert "2.000" in draw_curves([Curve("loss", (2.0, 2.0, 2.0))])


def test_the_picture_holds_every_moment_of_every_curve():
    picture = ET.fromstring(draw_curves_as_svg([FALLING, HELD_OUT], "epoch"))
    lines = [one.get("points").split() for one in picture.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(points) for points in lines] == [37, 37]


def test_the_picture_has_no_colour_of_its_own():
    picture = draw_curves_as_svg([FALLING], "epoch")
    assert "#" not in picture.replace("http://", "")


def test_names_are_text_in_the_picture():
    picture = draw_curves_as_svg([Curve("<b>&", (1.0, 2.0))], "epoch")
    assert "<b>&" in "".join(ET.fromstring(picture).itertext())


def test_what_is_no_number_is_left_out_of_the_picture():
    assert "nan" not in draw_curves_as_svg([Curve("loss", (1.0, float("nan"), 2.0))], "epoch")
