"""A model of the transformers library from its settings alone: which class it is, and how it is built."""

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xray.errors import TraceError, UsageError
from xray.sources.hub import Found, describe_missing, find_config
from xray.sources.quiet import quietly
from xray.sources.sizes import list_places
from xray.text import show_controls

AUTO = "AutoModelFor"
BASE = "base"
DEFAULT_KINDS = (
    "seq2seq-lm",
    "speech-seq2seq",
    "image-text-to-text",
    "multimodal-lm",
    "text-to-waveform",
    "causal-lm",
    "ctc",
    "masked-lm",
    "image-classification",
    "object-detection",
)
"""As the first of these that it comes as, a family is built of which the default settings are asked for, else bare."""
MOST_LISTED = 8
LACKING, PIP = re.compile(r"requires the ([\w.-]+) library"), re.compile(r"`(pip install [\w.-]+)`")
"""How the library says which package a class needs, and how it is installed."""


@dataclass(frozen=True)
class Recipe:
    """How to build a model: its settings as the library holds them, and the function that makes it of such settings."""

    config: Any
    make: Callable[[Any], nn.Module]

    def build(self) -> nn.Module:
        """A new model, as it is used: evaluating, not training."""
        return self.make(copy.deepcopy(self.config)).eval()


def find_model(name: str) -> Found:
    """The settings of a model by its name, or the defaults of a family of the library, as of "bert".

    Raises:
        TraceError: there is no such model, file or family.
    """
    if "/" in name or Path(name).expanduser().exists():
        return find_config(name)
    families = list_families()
    if name in families:
        return Found(name, None, {"model_type": name})
    try:
        return find_config(name)
    except TraceError as error:
        near = get_close_matches(name, families, 3)
        more = f" Or give a family of the library, such as {', '.join(near)}." if near else ""
        raise TraceError(f"{error}{more}") from error


def list_families() -> list[str]:
    """The names of the library's families; none where it is missing."""
    try:
        import transformers
    except ModuleNotFoundError:
        return []
    with quietly():
        return list(transformers.CONFIG_MAPPING)


def read_recipe(
    found: Found, kind: str | None = None, *, trust_remote_code: bool = False, dtype: str | None = None
) -> Recipe:
    """How the library builds the model with these settings; `kind`, as of "causal-lm", chooses another of its classes.

    `dtype` is the type of its weights, where it is to be another than that of the settings. Code that comes with a
    model on the hub runs only with `trust_remote_code`.

    Raises:
        TraceError: the library is missing or does not know such a model, or the settings name no class.
        UsageError: there is no such kind of model, or not of this one.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise TraceError(describe_missing("transformers", found.name)) from error
    with quietly():
        if trust_remote_code and found.settings.get("auto_map"):
            return read_remote(transformers, found, kind)
        config = read_config(transformers, found)
        model_class = choose_class(transformers, config, found, kind)
    if dtype is not None:
        for place in list_places(config, ()):
            place.dtype = getattr(torch, dtype)
    return Recipe(config, lambda settings: call_class(model_class, settings, found.name))


def read_config(transformers: Any, found: Found) -> Any:
    """The settings as the library's own object.

    Raises:
        TraceError: the library has no such type of model, or takes no such settings.
    """
    shown, kind = show_controls(found.name), found.settings.get("model_type")
    if not isinstance(kind, str):
        raise TraceError(f"the settings of {shown} name no model_type. Choose a model of the transformers library.")
    if kind not in transformers.CONFIG_MAPPING:
        raise TraceError(describe_unknown(f"the model type {show_controls(kind)!r}", transformers, found, ""))
    try:
        own = transformers.CONFIG_MAPPING[kind]
        config = own() if found.file is None else own.from_json_file(str(found.file))
    except Exception as error:  # the library's own checks, and whatever a wrong type of value breaks in them
        raise TraceError(f"transformers cannot take the settings of {shown}: {describe(error)}. Mend them.") from error
    config.name_or_path = found.name
    return config


def choose_class(transformers: Any, config: Any, found: Found, kind: str | None) -> Any:
    """The class of the model: that of the kind asked for, else the one that the settings name.

    Of default settings, which name none, it is the first of the kinds that families are built as.

    Raises:
        TraceError: the settings name none, or one that the library does not have.
        UsageError: the kind is none, or this model does not come as one.
    """
    kinds = list_kinds(transformers, config)
    if kind is not None:
        if kind in kinds:
            return kinds[kind]
        raise UsageError(
            f"{show_controls(found.name)} does not come as {show_controls(kind)!r}. Choose --as {list_some(kinds)}."
        )
    if found.file is None and kinds:
        return choose_default(kinds)
    named = found.settings.get("architectures")
    if not isinstance(named, list) or not named or not isinstance(named[0], str):
        raise TraceError(
            f"the settings of {show_controls(found.name)} name no architectures. Choose one with --as "
            f"{list_some(kinds)}."
        )
    model_class = getattr(transformers, named[0], None) if named[0].isidentifier() else None
    if not isinstance(model_class, type):
        raise TraceError(describe_unknown(f"the class {show_controls(named[0])}", transformers, found))
    if not issubclass(model_class, nn.Module) and not hasattr(model_class, "_backends"):
        raise TraceError(
            f"the class {named[0]} of {show_controls(found.name)} is no model. Choose one with --as {list_some(kinds)}."
        )
    return model_class


def choose_default(kinds: Mapping[str, Any]) -> Any:
    """The class of a family of which the default settings are asked for."""
    return next((kinds[one] for one in DEFAULT_KINDS if one in kinds), next(iter(kinds.values())))


def list_kinds(transformers: Any, config: Any) -> dict[str, Any]:
    """Every kind as which a model with such settings comes, "causal-lm" or "image-classification", and its class."""
    kinds = {}
    for name in ("AutoModel", *sorted({one for one in transformers.__all__ if one.startswith(AUTO)})):
        mapping = getattr(getattr(transformers, name), "_model_mapping", None)
        try:
            found = None if mapping is None else find_class(mapping, config)
        except ValueError:  # the library names a class that it does not have
            continue
        if found is not None:
            kinds[spell_kind(name)] = found[0] if isinstance(found, (tuple, list)) else found
    return kinds


def find_class(mapping: Any, config: Any) -> Any:
    """What the library maps settings to by their type, or by the name of their family; None where it has nothing.

    A family's settings are lost to the first where the library lists them under another name too (Evolla).
    """
    if type(config) in mapping:
        return mapping[type(config)]
    named = getattr(mapping, "_model_mapping", {}).get(config.model_type)
    return None if named is None else mapping._load_attr_from_module(config.model_type, named)


def spell_kind(name: str) -> str:
    """A class's kind as it is written on the command line: "causal-lm" for AutoModelForCausalLM."""
    bare = name.removeprefix(AUTO).replace("Seq2Seq", "Seq2seq")
    if name == "AutoModel":
        return BASE
    spelt = "".join(
        f"-{letter}" if letter.isupper() and place and (not bare[place - 1].isupper()) else letter
        for place, letter in enumerate(bare)
    )
    return spelt.lower()


def list_some(kinds: Mapping[str, Any]) -> str:
    listed = list(kinds)[:MOST_LISTED]
    return ", ".join(listed) + (", ..." if len(kinds) > MOST_LISTED else "") if listed else "(there is none)"


def describe_unknown(what: str, transformers: Any, found: Found, other: str = ", or choose another --as") -> str:
    version, shown = transformers.__version__, show_controls(found.name)
    if found.settings.get("auto_map"):
        return (
            f"transformers {version} has not {what} of {shown}, which brings code of its own. "
            "If you trust it, run it with --trust-remote-code."
        )
    return f"transformers {version} has not {what} of {shown}. Install a newer transformers{other}."


def call_class(model_class: Any, config: Any, name: str) -> nn.Module:
    """A model of random weights.

    Raises:
        TraceError: it needs a package that is missing, or cannot be built with such settings.
    """
    try:
        model: nn.Module = model_class._from_config(config)
    except ImportError as error:
        lacking, way = LACKING.search(str(error)), PIP.search(str(error))
        what = f"the package {lacking[1]}" if lacking else f"a package that is not there ({describe(error)})"
        how = f"with: {way[1]}" if way else "as its makers say, or choose another model."
        raise TraceError(f"{show_controls(name)} needs {what}. Install it {how}") from error
    return model


def read_remote(transformers: Any, found: Found, kind: str | None) -> Recipe:
    """How a model is built with code that comes with it; the caller has said that it may run.

    Raises:
        TraceError: the code cannot be fetched, or fails.
    """
    is_here = found.file is not None and found.file.exists() and not found.is_from_hub
    place = str(found.file.parent) if found.file is not None and is_here else found.name
    named = (found.settings.get("architectures") or [""])[0]
    auto = found.settings["auto_map"]
    chosen = next((key for key, code in auto.items() if named and str(code).endswith(f".{named}")), "AutoModel")
    if kind is not None:
        chosen = next((key for key in auto if key != "AutoConfig" and spell_kind(key) == kind), chosen)
    try:
        config = transformers.AutoConfig.from_pretrained(place, trust_remote_code=True)
    except Exception as error:  # whatever somebody's code raises
        raise TraceError(f"the code of {show_controls(found.name)} gave no settings: {describe(error)}.") from error
    return Recipe(config, lambda settings: getattr(transformers, chosen).from_config(settings, trust_remote_code=True))


def describe(error: BaseException) -> str:
    """What was raised, in one line."""
    return show_controls(" ".join(str(error).split())[:300]).rstrip(".") or type(error).__name__
