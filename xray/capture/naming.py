"""Plain names for what a module is: its operation in one word, its layer, its settings."""

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

import torch
from torch import Tensor, nn

from xray.capture.values import is_of_sines
from xray.ir.records import spell_number
from xray.ir.trace import Setting

PLAIN = (str, bool, int, float)


def name_op(kind: type[nn.Module]) -> str:
    """The operation in one word: what the class says of itself as `operation`, else its name in small letters.

    "linear" for Linear, "layer_norm" for LayerNorm, "relu" for ReLU.
    """
    said = getattr(kind, "operation", None)
    if isinstance(said, str) and said:
        return said
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", kind.__name__).lower()


def name_layer(path: str) -> int | None:
    """The number of the layer that a path leads through: 2 for "decoder.layers.2.norm", None where there is none."""
    for part in path.split("."):
        if part.isdecimal():
            return int(part)
    return None


def describe_settings(module: nn.Module) -> Mapping[str, Setting]:
    """The plain public attributes of a module: a dropout's p, a linear layer's features, a kernel's size as "3x5".

    `weight_dtype` is said of a module whose own first parameter is not float32, `config.sliding_window` of one that has
    it in its configuration alone, and so `config.attention_chunk_size`, `sines` of a table of rows whose columns are
    sines, `input_modalities` of a model whose class says that it reads anything but text.
    """
    attributes = vars(module)
    settings: dict[str, Setting] = {}
    for name in choose_names(tuple(attributes)):
        value = attributes[name]
        if isinstance(value, PLAIN):
            settings[name] = make_plain(value)
        elif is_tuple_of_ints(value):
            settings[name] = "x".join(map(str, value))
    for name in ("sliding_window", "attention_chunk_size"):
        if name not in attributes and type(size := read_configured(attributes.get("config"), name)) is int:
            settings[f"config.{name}"] = size
    if isinstance(module, nn.Embedding) and isinstance(module.weight, Tensor) and is_of_sines(module.weight):
        settings["sines"] = True
    if modalities := read_modalities(type(module)):
        settings["input_modalities"] = modalities
    for weight in module._parameters.values():
        if weight is not None and weight.dtype is not torch.float32:
            settings["weight_dtype"] = str(weight.dtype).removeprefix("torch.")
        break
    return settings


def read_configured(config: object, name: str) -> object:
    """What a configuration names for all layers, as a window; None where it names nothing, or one for each layer."""
    try:
        return getattr(config, name, None)
    except Exception:  # a configuration with layers of their own raises an error of its own when it is asked for all
        return None


def read_modalities(kind: type[nn.Module]) -> str:
    """What a class of models says that they read, "image, text": empty where it says nothing, or text alone."""
    said = getattr(kind, "input_modalities", None)
    names = [said] if isinstance(said, str) else said if isinstance(said, tuple | list) else []
    told = [name for name in names if isinstance(name, str)]
    return "" if told == ["text"] else ", ".join(told)


def make_plain(value: str | float) -> Setting:
    """A text, truth value or number as itself, of Python's own type, and infinity and the like as a word.

    Attributes may be of numpy's floats, or of enumerations.
    """
    kind = type(value)
    if kind is bool or kind is str or kind is int:
        return value
    if isinstance(value, Enum):
        return make_plain(value.value) if isinstance(value.value, PLAIN) else value.name
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else spell_number(float(value))


@lru_cache(maxsize=4096)
def choose_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a module's attributes that may be settings; the modules of a class have the same ones."""
    return tuple(name for name in names if not name.startswith("_") and name != "training")


def is_tuple_of_ints(value: object) -> bool:
    """Whether a value is a few whole numbers, such as a kernel's sizes."""
    return type(value) is tuple and bool(value) and all(type(one) is int for one in value)
