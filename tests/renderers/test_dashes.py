from itertools import pairwise
from math import dist

import pytest

from xray.renderers.sheet.dashes import dashes

LINE = ((0.0, 0.0), (30.0, 0.0), (60.0, 0.0), (90.0, 0.0))
ARC = ((0.0, 0.0), (0.0, 55.2), (44.8, 100.0), (100.0, 100.0))


def test_dashes_start_and_end_with_the_line():
    pieces = dashes(LINE, 6, 4)
    assert (pieces[0][0], pieces[-1][-1]) == ((0.0, 0.0), (pytest.approx(90.0), 0.0))


def test_dashes_and_gaps_have_one_rhythm():
    starts = [piece[0][0] for piece in dashes(LINE, 6, 4)]
    steps = [later - earlier for earlier, later in pairwise(starts)]
    assert steps == pytest.approx([steps[0]] * len(steps))


def test_every_dash_is_a_chain_of_cubics():
    assert all(len(piece) % 3 == 1 for piece in dashes(ARC, 6, 4))


def test_dashes_follow_a_curve():
    middle = [point for piece in dashes(ARC, 6, 4) for point in (piece[0], piece[-1])]
    assert all(98.5 < dist(point, (100.0, 0.0)) < 101.5 for point in middle)


def test_a_line_shorter_than_a_dash_is_drawn_whole():
    assert dashes(((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0)), 6, 4)[0][-1] == (3.0, 0.0)
