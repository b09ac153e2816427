"""Recording a transformer of any family changes nothing: results, gradients, random states, modules, inputs, torch."""

import pytest
from families.invariants import find_changes
from families.specimens import BY_NAME, IN_TIERS

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.mark.parametrize("name", IN_TIERS)
def test_recording_a_training_step_changes_nothing(name):
    specimen = BY_NAME[name]

    assert find_changes(specimen.build, specimen.make_inputs, training=True) == []


@pytest.mark.parametrize("name", IN_TIERS)
def test_recording_inference_changes_nothing(name):
    specimen = BY_NAME[name]

    assert find_changes(specimen.build, specimen.make_inputs) == []
