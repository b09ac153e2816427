import pytest

from xray.story.canvas import polygon, rounded, through
from xray.story.layout import Box, Run, baselines, block_height, line_width


def measure(text, size, weight):
    return len(text) * size


def make_box(*sizes, filled=True):
    lines = tuple((Run("x", size),) for size in sizes)
    return Box("b", 0, 0, 100, 50, lines, "page", filled)


def test_baselines_go_down_from_line_to_line():
    first, second, third = baselines(make_box(10, 18, 10))
    assert first > second > third


def test_what_is_seen_stands_in_the_middle_of_a_box():
    box = make_box(10, 18)
    upper, lower = baselines(box)
    capitals_top = upper + 0.66 * 10
    assert box.top - capitals_top == pytest.approx(lower - box.bottom, abs=0.2)


def test_a_line_is_as_high_as_its_largest_run():
    assert block_height(((Run("a", 10), Run("b", 20)),)) == pytest.approx(22.4)


def test_a_raised_run_is_narrower():
    assert line_width((Run("T", 10, shift="sup"),), measure) < line_width((Run("T", 10),), measure)


def test_outlines_are_closed_chains_of_cubics():
    for path in (rounded(0, 0, 40, 20, 6), polygon((0, 0), (4, 0), (4, 4))):
        assert path[0] == path[-1]
        assert len(path) % 3 == 1


def test_corners_are_cut_by_at_most_half_of_a_side():
    path = through(((0, 0), (10, 0), (10, 10)), 50)
    assert path[3] == pytest.approx((5, 0))
