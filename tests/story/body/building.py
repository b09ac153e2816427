"""The models of the table, built without storage at their default sizes (or tiny, with numbers), and recorded."""

import inspect
import warnings
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch
import transformers

import xray
from xray.capture.targets.target import run_target
from xray.sources.loading import load_source

PLACES = 10
UNCACHED = patch("transformers.pytorch_utils.is_torchdynamo_compiling", lambda: True)
"""Numbers that the library keeps from one model to the next (RT-DETR's anchors) are made anew, to be seen."""


def record_family(family, **changes):
    """The configuration and the trace of a family's model; `changes` go to its configuration."""
    if family.named:
        return record_named(family, **changes)
    config, model, given = build_family(family, **changes)
    with torch.no_grad(), UNCACHED:
        return config, xray.trace(model, **given)


def record_named(family, **changes):
    """The same, recorded from its settings alone, with inputs made for it."""
    made = getattr(transformers, family.model)
    config = made.config_class(**family.config | changes)
    config.architectures = [family.model]
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the library has to say of settings without a tokenizer
        config.save_pretrained(folder)
        with UNCACHED:
            outcome = run_target(load_source(folder))
    assert outcome.error is None
    return config, outcome.trace


def build_family(family, **changes):
    """The configuration, the model and its inputs."""
    made = getattr(transformers, family.model)
    config = made.config_class(**family.config | changes)
    torch.manual_seed(0)
    with torch.device("cpu" if family.tiny else "meta"):
        model = made(config).eval()
        model = model.to(torch.bfloat16) if family.half else model  # experts are multiplied in no other type
        given = (family.inputs or propose_inputs)(model, config)
    return config, model, given


def propose_inputs(model, config):
    """Inputs by the names that a forward asks for."""
    asked = inspect.signature(model.forward).parameters
    given = {}
    if "input_ids" in asked:
        given["input_ids"] = ids(PLACES)
    if "pixel_values" in asked:
        vision = getattr(config, "vision_config", None) or config
        size = getattr(vision, "image_size", 224) or 224
        size = size[0] if isinstance(size, list | tuple) else size
        given["pixel_values"] = torch.zeros(2, getattr(vision, "num_channels", 3) or 3, size, size)
    if "decoder_input_ids" in asked:
        given["decoder_input_ids"] = ids(7)
    if "input_features" in asked:
        given["input_features"] = torch.zeros(2, config.num_mel_bins, 2 * config.max_source_positions)
    if "input_values" in asked:
        given["input_values"] = torch.zeros(2, 16000)
    return given


def ids(count, batch=2):
    """Ids that are no special ones."""
    return 5 + torch.arange(batch * count).view(batch, count)
