"""X-Ray's own model with all names scrambled comes out of recognition under its own canonical paths."""

import pytest
from scrambled import scramble

from xray.story.retelling import retell


@pytest.fixture(scope="module")
def retold(both_trace):
    scrambled, names = scramble(both_trace)
    told = retell(scrambled)
    assert told is not None
    return both_trace, told, names


def keyed(one):
    return f"{one.kind}{one.number or ''}"


def test_every_step_stands_under_its_own_path(retold):
    _, told, names = retold

    wrong = [
        (key, step_id, names[origin.path])
        for key, origins in told.origins.items()
        for step_id, origin in origins.items()
        if step_id != f"{names[origin.path]}#0"
    ]

    assert wrong == []


def test_no_step_is_left_out(retold):
    trace, told, _ = retold

    missing = {
        keyed(one): {step.path for step in one.steps} - {step.path for step in two.steps}
        for one, two in zip(trace.passes, told.trace.passes, strict=True)
    }

    assert set().union(*missing.values()) <= {"tokenize.src"}


@pytest.mark.parametrize("aspect", ["op", "parent", "depth", "layer", "params"])
def test_every_step_says_what_its_own_said(retold, aspect):
    trace, told, _ = retold
    own = {(keyed(one), step.id): getattr(step, aspect) for one in trace.passes for step in one.steps}

    found = {(keyed(one), step.id): getattr(step, aspect) for one in told.trace.passes for step in one.steps}

    assert found.items() <= own.items()


def tensors_of(trace, side):
    return {
        (keyed(one), step.id, place): (record.shape, record.axes, record.role, record.source, record.mask)
        for one in trace.passes
        for step in one.steps
        for place, record in enumerate(getattr(step, side))
    }


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_every_tensor_is_what_its_own_is(retold, side):
    trace, told, _ = retold

    assert tensors_of(told.trace, side).items() <= tensors_of(trace, side).items()


def test_kinds_and_numbers_of_the_passes_stay(retold):
    trace, told, _ = retold

    assert [(one.kind, one.number) for one in told.trace.passes] == [(one.kind, one.number) for one in trace.passes]


def test_sizes_stay(retold):
    trace, told, _ = retold

    assert trace.sizes.items() <= told.trace.sizes.items()
