"""The learning rate over a run."""

import pytest

from xray.learn.schedule import learning_rate


def rates(steps=100, warmup=0.2):
    return [learning_rate(step, steps, 0.5, warmup) for step in range(steps)]


def test_it_climbs_straight_to_the_highest():
    assert rates()[:20] == pytest.approx([0.5 * (step + 1) / 20 for step in range(20)])


def test_it_falls_all_the_way_after_the_climb():
    falling = rates()[20:]
    assert falling == sorted(falling, reverse=True)


def test_it_ends_near_nothing():
    assert 0 < rates()[-1] < 0.001


def test_a_single_step_has_the_highest_rate():
    assert learning_rate(0, 1, 0.5, 0.0) == 0.5
