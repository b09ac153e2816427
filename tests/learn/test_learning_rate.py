"""The learning rate over a run."""

import pytest

from xray.config import TrainConfig
from xray.learn.steps.learning_rate import learning_rate, rate_at


def rates(schedule="cosine", steps=100, climb=20):
    return [learning_rate(step, steps, 0.5, climb, schedule) for step in range(steps)]


@pytest.mark.parametrize("schedule", ["plateau", "cosine", "inverse-sqrt", "constant"])
def test_every_schedule_climbs_straight_to_the_highest(schedule):
    assert rates(schedule)[:20] == pytest.approx([0.5 * (step + 1) / 20 for step in range(20)])


@pytest.mark.parametrize("schedule", ["cosine", "inverse-sqrt"])
def test_it_falls_all_the_way_after_the_climb(schedule):
    falling = rates(schedule)[20:]
    assert falling == sorted(falling, reverse=True)


def test_a_plateau_stays_and_falls_straight_over_the_last_three_tenths():
    assert set(rates("plateau")[19:71]) == {0.5}
    assert rates("plateau")[70:] == pytest.approx([0.5 * (100 - step) / 30 for step in range(70, 100)])


def test_a_cosine_ends_near_nothing():
    assert 0 < rates()[-1] < 0.001


def test_the_inverse_root_is_that_of_the_paper():
    d_model, climb = 512, 4000
    highest = d_model**-0.5 * climb**-0.5
    paper = [
        d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * climb**-1.5) for step in (0, 1999, 3999, 4000, 90_000)
    ]
    ours = [learning_rate(step, 100_000, highest, climb, "inverse-sqrt") for step in (0, 1999, 3999, 4000, 90_000)]
    assert ours == pytest.approx(paper)


def test_a_constant_rate_stays_after_the_climb():
    assert set(rates("constant")[19:]) == {0.5}


def test_a_single_step_has_the_highest_rate():
    assert rate_at(0, 1, TrainConfig(learning_rate=0.5, warmup=0.0)) == 0.5


def test_warm_up_steps_go_before_the_share():
    config = TrainConfig(learning_rate=0.5, warmup=0.5, warmup_steps=4)
    assert rate_at(1, 100, config) == pytest.approx(0.25)
