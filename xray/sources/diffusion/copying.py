"""A small copy of a model of diffusers: the same settings with fewer layers."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from xray.sources.shrinking import FEWEST_LAYERS, LAYERS
from xray.sources.ways import SmallCopy

MORE_LAYERS = (
    *LAYERS,
    "num_single_layers",
    "num_mmdit_layers",
    "num_single_dit_layers",
    "mmdit_layers",
    "num_visual_blocks",
    "num_text_blocks",
    "transformer_num_layers",
    "nlayers",
    "dit_depth",
)
"""How diffusers calls the numbers of layers."""


def copy_small(model_class: Any, settings: Mapping[str, Any]) -> SmallCopy | None:
    """How to build a model with fewer layers than the settings say; None where they have few.

    Lists with an entry for each layer, of one kind or of all, are as short.
    """
    known = inspect.signature(model_class.__init__).parameters
    whole = {**{name: one.default for name, one in known.items()}, **settings}
    counts = {name: whole[name] for name in MORE_LAYERS if isinstance(whole.get(name), int)}
    many = {name: count for name, count in counts.items() if count > FEWEST_LAYERS}
    if not many:
        return None

    few = {**counts, **dict.fromkeys(many, FEWEST_LAYERS)}
    lengths = {**{count: few[name] for name, count in counts.items()}, sum(counts.values()): sum(few.values())}
    shorter = {
        name: value[: lengths[len(value)]]
        for name, value in whole.items()
        if isinstance(value, (list, tuple)) and len(value) in lengths
    }

    def make() -> nn.Module:
        model: nn.Module = model_class.from_config({**settings, **shorter, **few})
        return model.eval()

    return SmallCopy(make, tuple(f"{name} {FEWEST_LAYERS} of {count:,}" for name, count in many.items()))
