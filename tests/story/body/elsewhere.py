"""Models of timm, recorded once and kept with the sizes that their modules tell.

`pytest tests/story/body/test_elsewhere.py -m "" --update-recordings` records them anew where timm is installed.
"""

import json
import lzma
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import torch

import xray
from xray.ir.json_form import trace_from_json, trace_to_json

FOLDER = Path(__file__).parent / "elsewhere"
OTHERS = (
    "xcit_nano_12_p16_224",
    "mixer_s16_224",
    "resmlp_12_224",
    "convnext_tiny",
    "resnet18",
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
NAMES = (*USUAL, *OTHERS)


@cache
def kept(name):
    """The trace of a model, and its sizes."""
    found = json.loads(lzma.decompress(path_of(name).read_bytes()))
    return trace_from_json(json.dumps(found["trace"])), found["sizes"]


def path_of(name):
    return FOLDER / f"{name}.json.xz"


def find_package():
    """timm; None if it is not installed, or does not load beside this torch."""
    with suppress(ImportError, RuntimeError):
        return import_module("timm")
    return None


def record(name):
    """What is kept of a model, recorded now."""
    timm = find_package()
    with torch.device("meta"), torch.no_grad():
        model = timm.create_model(name).eval()
        trace = xray.trace(model, torch.zeros(2, *model.default_cfg["input_size"]))
    made = json.loads(trace_to_json(trace))
    return {"package": f"timm {timm.__version__}", "sizes": measure(model), "trace": made}


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
