"""Models of timm and diffusers, recorded once and kept with the sizes that their modules tell.

`pytest tests/story/body/test_elsewhere.py -m "" --update-recordings` records anew those whose package is installed.
"""

import json
import lzma
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import xray
from xray.capture.targets.target import run_target
from xray.ir.json_form import trace_from_json, trace_to_json
from xray.sources.known_values import build_on_meta, known_values
from xray.sources.loading import load_source

FOLDER = Path(__file__).parent / "elsewhere"
OTHERS = (
    "xcit_nano_12_p16_224",
    "mixer_s16_224",
    "resmlp_12_224",
    "convnext_tiny",
    "resnet18",
    "efficientnet_b0",
    "mobilevit_s",
    "maxvit_nano_rw_256",
    "cait_xxs24_224",
    "davit_tiny",
    "twins_svt_small",
    "volo_d1_224",
    "mambaout_femto",
    "gmlp_s16_224",
    "shvit_s1",
    "tnt_s_patch16_224",
    "gcvit_xxtiny",
)
"""Those whose branches are not attention of places with a feed-forward each."""
USUAL = (
    "vit_tiny_patch16_224",
    "vit_relpos_small_patch16_224",
    "vit_small_patch14_dinov2",
    "vit_base_patch16_siglip_224",
    "deit_tiny_distilled_patch16_224",
    "deit3_small_patch16_224",
    "beit_base_patch16_224",
    "eva02_tiny_patch14_224",
    "swin_tiny_patch4_window7_224",
    "swinv2_tiny_window8_256",
    "hiera_tiny_224",
    "pvt_v2_b0",
)
HEADS = {"num_attention_heads": 4, "attention_head_dim": 32, "num_layers": 4, "sample_size": 32}
DIFFUSERS: dict[str, dict[str, Any]] = {
    "DiTTransformer2DModel": {**HEADS, "in_channels": 4, "out_channels": 8, "patch_size": 2},
    "PixArtTransformer2DModel": {**HEADS, "in_channels": 4, "cross_attention_dim": 128, "caption_channels": 48},
    "SD3Transformer2DModel": {
        **HEADS,
        "in_channels": 16,
        "joint_attention_dim": 64,
        "caption_projection_dim": 128,
        "pooled_projection_dim": 96,
        "pos_embed_max_size": 32,
    },
    "AuraFlowTransformer2DModel": {
        "num_attention_heads": 4,
        "attention_head_dim": 32,
        "num_mmdit_layers": 4,
        "num_single_dit_layers": 3,
        "sample_size": 32,
        "joint_attention_dim": 64,
        "caption_projection_dim": 128,
        "pos_embed_max_size": 256,
    },
    "FluxTransformer2DModel": {
        **HEADS,
        "num_single_layers": 3,
        "in_channels": 16,
        "joint_attention_dim": 64,
        "pooled_projection_dim": 96,
        "axes_dims_rope": [8, 12, 12],
    },
    "SanaTransformer2DModel": {
        **HEADS,
        "num_cross_attention_heads": 4,
        "cross_attention_head_dim": 32,
        "cross_attention_dim": 128,
        "caption_channels": 48,
        "in_channels": 4,
        "out_channels": 4,
    },
    "UNet2DConditionModel": {
        "sample_size": 16,
        "block_out_channels": [32, 64],
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
        "cross_attention_dim": 48,
        "attention_head_dim": 8,
        "layers_per_block": 1,
    },
}
NAMES = (*USUAL, *OTHERS, *DIFFUSERS)


@cache
def kept(name):
    """The trace of a model, and its sizes."""
    found = json.loads(lzma.decompress(path_of(name).read_bytes()))
    return trace_from_json(json.dumps(found["trace"])), found["sizes"]


def path_of(name):
    return FOLDER / f"{name}.json.xz"


def find_package(name):
    """The package of a model; None if it is not installed, or does not load beside this torch."""
    with suppress(ImportError, RuntimeError):
        return import_module("diffusers" if name in DIFFUSERS else "timm")
    return None


def record(name):
    """What is kept of a model, recorded now."""
    package = find_package(name)
    if name in DIFFUSERS:
        with TemporaryDirectory() as folder:
            settings = {"_class_name": name, **DIFFUSERS[name]}
            (Path(folder) / "config.json").write_text(json.dumps(settings))
            outcome = run_target(load_source(f"diffusers:{folder}"))
        assert outcome.error is None
        trace, sizes = outcome.trace, {"params": next(iter(outcome.trace.steps)).params}
    else:
        model = build_on_meta(lambda: package.create_model(name).eval())
        image = torch.zeros(2, *model.default_cfg["input_size"], device="meta")
        with known_values(), torch.no_grad():
            trace = xray.trace(model, image)
        sizes = measure(model)
    made = json.loads(trace_to_json(trace))
    return {"package": f"{package.__name__} {package.__version__}", "sizes": sizes, "trace": made}


def measure(model):
    """What the modules of a model say of its sizes, in order."""
    modules = list(model.modules())
    return {
        "params": sum(one.numel() for one in model.parameters()),
        "attentions": [
            [one.num_heads, getattr(one, "head_dim", None) or find_inner(one).in_features // one.num_heads]
            for one in modules
            if hasattr(one, "num_heads") and find_inner(one) is not None
        ],
        "forwards": [count_wide(one) for one in modules if hasattr(one, "fc1") and hasattr(one, "fc2")],
    }


def find_inner(attention):
    """The linear layer that makes queries."""
    found = (getattr(attention, name, None) for name in ("qkv", "q", "q_proj"))
    return next((one for one in found if hasattr(one, "in_features")), None)


def count_wide(forward):
    """How wide a feed-forward is inside."""
    return forward.fc2.in_features if hasattr(forward.fc2, "in_features") else forward.fc2.in_channels


def write(name, found):
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(found, separators=(",", ":")).encode()
    path_of(name).write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
