"""Models of timm, torchvision and diffusers by their names."""

import importlib.util

import pytest

from xray.capture.targets.target import run_target
from xray.errors import TraceError
from xray.sources.loading import load_source
from xray.sources.request import Request
from xray.sources.sizes import Wishes

HAS = {name: importlib.util.find_spec(name) is not None for name in ("timm", "torchvision", "diffusers")}


@pytest.mark.skipif(not HAS["timm"], reason="timm is not installed")
def test_a_model_of_timm_is_recorded_without_storage():
    outcome = run_target(load_source("timm:vit_tiny_patch16_224", Request(wishes=Wishes(batch=1))))

    assert outcome.error is None
    assert outcome.trace.passes[0].steps[0].inputs[0].shape == (1, 3, 224, 224)


@pytest.mark.skipif(not HAS["timm"], reason="timm is not installed")
def test_timm_tells_what_it_has_instead():
    with pytest.raises(TraceError, match="timm has no model vit_tiny_patch"):
        load_source("timm:vit_tiny_patch")


@pytest.mark.skipif(not HAS["torchvision"], reason="torchvision is not installed")
@pytest.mark.parametrize("name", ["resnet18", "vit_b_16", "swin_t"])
def test_a_model_of_torchvision_is_recorded_without_storage(name):
    outcome = run_target(load_source(f"torchvision:{name}"))

    assert outcome.error is None
    assert outcome.trace.passes[0].steps[0].outputs[0].shape == (2, 1000)


@pytest.mark.parametrize("name", [name for name, has in HAS.items() if not has] or [None])
def test_a_package_that_is_missing_is_named(name):
    if name is None:
        pytest.skip("none is missing")
    with pytest.raises(TraceError, match=f"needs the package {name}. Install it with: pip install {name}"):
        load_source(f"{name}:anything")
