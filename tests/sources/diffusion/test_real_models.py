"""Models of diffusers itself, by their classes: each is fed what its forward asks for, without storage."""

import inspect
import json

import pytest

from xray.capture.targets.target import run_target
from xray.sources.loading import load_source

diffusers = pytest.importorskip("diffusers", reason="the library whose models are built here")

FEW = ("num_layers", "num_single_layers", "num_refiner_layers", "num_mmdit_layers", "num_single_dit_layers")
"""Settings that say how many layers there are, of which the tests need but two."""
USUAL = {
    "FluxTransformer2DModel": ("batch", "", ""),
    "WanTransformer3DModel": ("batch", "channels", "frames", "height", "width"),
    "QwenImageTransformer2DModel": ("batch", "", ""),
    "LTXVideoTransformer3DModel": ("batch", "", ""),
    "SD3Transformer2DModel": ("batch", "channels", "height", "width"),
    "CogVideoXTransformer3DModel": ("batch", "frames", "channels", "height", "width"),
}
"""Those that are used most, and the axes of their latents."""
OTHERS = (
    "AllegroTransformer3DModel",
    "AuraFlowTransformer2DModel",
    "AutoencoderKL",
    "AutoencoderKLWan",
    "ChromaTransformer2DModel",
    "CogView4Transformer2DModel",
    "Flux2Transformer2DModel",
    "HunyuanVideoTransformer3DModel",
    "Kandinsky5Transformer3DModel",
    "Lumina2Transformer2DModel",
    "MochiTransformer3DModel",
    "OvisImageTransformer2DModel",
    "PRXTransformer2DModel",
    "PriorTransformer",
    "SanaTransformer2DModel",
    "SkyReelsV2Transformer3DModel",
    "StableAudioDiTModel",
    "UNet2DConditionModel",
    "UVit2DModel",
    "WanVACETransformer3DModel",
    "ZImageTransformer2DModel",
)


def record(name, folder):
    parameters = inspect.signature(getattr(diffusers, name).__init__).parameters
    few = {key: 2 for key in FEW if key in parameters} if name != "WanVACETransformer3DModel" else {}
    (folder / "config.json").write_text(json.dumps({"_class_name": name, **few}))
    outcome = run_target(load_source(f"diffusers:{folder}"))
    assert outcome.error is None, outcome.error
    return outcome.trace


@pytest.mark.parametrize("name", USUAL)
def test_the_latents_of_a_model_have_the_axes_that_its_code_gives_them(name, tmp_path):
    trace = record(name, tmp_path)

    assert trace.passes[0].steps[0].inputs[0].axes == USUAL[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_a_model_runs_on_what_is_made_for_it(name, tmp_path):
    assert record(name, tmp_path).passes[0].steps[0].outputs
