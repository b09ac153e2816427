"""Plain names for what a module is: its operation in one word, its layer, its settings."""

import re
from collections.abc import Mapping

from torch import nn

from xray.ir.trace import Setting


def name_op(module: nn.Module) -> str:
    """The operation in one word: what the class says of itself as `operation`, else its name in small letters.

    "linear" for Linear, "layer_norm" for LayerNorm, "relu" for ReLU.
    """
    said = getattr(type(module), "operation", None)
    if isinstance(said, str) and said:
        return said
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", type(module).__name__).lower()


def name_layer(path: str) -> int | None:
    """The number of the layer that a path leads through: 2 for "decoder.layers.2.norm", None where there is none."""
    for part in path.split("."):
        if part.isdecimal():
            return int(part)
    return None


def describe_settings(module: nn.Module) -> Mapping[str, Setting]:
    """The plain public attributes of a module: a dropout's p, a softmax's dim, a linear layer's features."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and isinstance(value, str | int | float | bool)
    }
