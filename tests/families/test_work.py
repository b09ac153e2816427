"""The accounts of whole transformers, held to what torch counts and stores."""

import pytest
import torch
from families.recordings import recorded_inference
from families.specimens import BY_NAME, IN_TIERS, LIBRARY_IN_TIERS
from measured import count_flops_in_torch, measure_storage_in_torch

import xray
from xray.story.facts.totals import count_work

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.mark.parametrize("name", IN_TIERS)
def test_flops_are_those_of_torchs_own_counter(name):
    specimen = BY_NAME[name]
    model = specimen.build().eval()

    assert count_work(recorded_inference(name)).flops == count_flops_in_torch(model, **specimen.make_inputs())


@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_is_left_uncounted(name):
    assert count_work(recorded_inference(name)).not_counted == ()


@pytest.mark.parametrize("name", LIBRARY_IN_TIERS)
def test_activation_bytes_are_those_that_torch_stores(name):
    specimen = BY_NAME[name]
    model = specimen.build().eval()

    stored = measure_storage_in_torch(model, **specimen.make_inputs())

    assert count_work(recorded_inference(name)).activation_bytes == stored


@pytest.mark.parametrize("name", IN_TIERS)
def test_parameters_and_their_bytes_are_those_of_the_model(name):
    model, work = BY_NAME[name].build(), count_work(recorded_inference(name))

    assert work.params == sum(one.numel() for one in model.parameters())
    assert work.param_bytes == sum(one.numel() * one.element_size() for one in model.parameters())


def test_half_precision_halves_the_bytes():
    specimen = BY_NAME["GPT-2"]
    with torch.no_grad():
        work = count_work(xray.trace(specimen.build().eval().to(torch.bfloat16), **specimen.make_inputs()))

    assert work.param_bytes * 2 == count_work(recorded_inference("GPT-2")).param_bytes
