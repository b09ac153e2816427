import pytest

from xray.renderers.sheet.svg_paths import straighten, straighten_paths


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M0,0C1,0 2,0 3,0", "M0,0L3,0"),
        ("M0,0C1,1 2,2 3,3", "M0,0L3,3"),
        ("M0,0C1,0 2,0 3,0 3,1 3,2 3,3", "M0,0L3,0 3,3"),
        ("M0,0C1,0 2,0 3,0Z", "M0,0L3,0Z"),
        ("M0,0C0,5 5,10 10,10", "M0,0C0,5 5,10 10,10"),
        ("M0,0C1,0 2,0 3,0 3,5 8,10 13,10", "M0,0L3,0C3,5 8,10 13,10"),
        ("M0,0C0,0 0,0 0,0C0,5 5,10 10,10", "M0,0C0,5 5,10 10,10"),
        ("M0,0C1,0 2,0 3,0M9,9C10,9 11,9 12,9", "M0,0L3,0M9,9L12,9"),
    ],
)
def test_only_what_is_straight_becomes_a_line(path, short):
    assert straighten(path) == short


def test_a_handle_beyond_the_end_makes_a_curve():
    assert "C" in straighten("M0,0C-5,0 8,0 3,0")


def test_other_text_is_left_alone():
    assert straighten_paths('<text d="C">M0,0C1,0</text>') == '<text d="C">M0,0C1,0</text>'
