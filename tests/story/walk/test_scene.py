"""Which traces make the journey of the nine stations, whole."""

from dataclasses import replace

from xray.story.walk.scene import is_whole_journey


def test_a_trace_of_both_phases_is_a_journey(both_trace):
    assert is_whole_journey(both_trace)


def test_a_foreign_trace_is_no_journey(training_trace):
    foreign = replace(training_trace.passes[0], kind="forward")

    assert not is_whole_journey(replace(training_trace, passes=(foreign,)))


def test_a_trace_that_broke_off_is_no_whole_journey(training_trace):
    whole = training_trace.passes[0]

    assert not is_whole_journey(replace(training_trace, passes=(replace(whole, steps=whole.steps[:60]),)))
