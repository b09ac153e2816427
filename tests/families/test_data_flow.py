"""The data flow in the records of all families is complete: every tensor has a source, and leads to the result."""

import pytest
import torch
from families.data_flow import find_gaps, find_unreached
from families.invariants import call_with_gradients
from families.specimens import BY_NAME, IN_TIERS

from xray.capture.recorder import record

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.mark.parametrize("name", IN_TIERS)
def test_every_tensor_of_a_training_step_has_a_source(name):
    specimen = BY_NAME[name]
    model, inputs = specimen.build(), specimen.make_inputs()

    with record(model) as recorder:
        model(**inputs)

    assert find_gaps(recorder.trace, model, inputs.values()) == []


@pytest.mark.parametrize("name", IN_TIERS)
def test_every_tensor_of_inference_has_a_source(name):
    specimen = BY_NAME[name]
    model, inputs = specimen.build().eval(), specimen.make_inputs()

    with torch.no_grad(), record(model) as recorder:
        model(**inputs)

    assert find_gaps(recorder.trace, model, inputs.values()) == []


@pytest.mark.parametrize("name", IN_TIERS)
def test_all_modules_that_get_a_gradient_lead_to_the_result(name):
    specimen = BY_NAME[name]
    model, inputs = specimen.build(), specimen.make_inputs()

    with record(model) as recorder:
        call_with_gradients(model, inputs)

    assert find_unreached(recorder.trace, model) == []
