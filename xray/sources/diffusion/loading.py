"""Models of diffusers from a local folder or file with their settings, with inputs made for their kind."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, product
from typing import Any

from torch import Tensor, nn

from xray.capture.targets.inputs import Target
from xray.errors import TraceError
from xray.sources.diffusion.copying import copy_small
from xray.sources.diffusion.finding import find_part
from xray.sources.diffusion.needs import AXES, Needs
from xray.sources.diffusion.parts import choose_rules
from xray.sources.diffusion.rules import Rule
from xray.sources.family_inputs import MOST_TRIES, is_asked
from xray.sources.hub import Found
from xray.sources.request import Request
from xray.sources.rules import spell_axes
from xray.sources.vision import import_package
from xray.sources.ways import Made, run_ways, tell_more
from xray.text import show_controls

WITHIN: Mapping[str, str] = {
    "MotionAdapter": "a UNetMotionModel",
    "ControlNetXSAdapter": "a UNetControlNetXSModel",
    "ZImageControlNetModel": "a pipeline with a ZImageTransformer2DModel, of which it takes the first layers",
}
"""Parts that another model is built with, as each of them needs layers of that one."""
TOLD = "told:"
NAMED, SIZED = re.compile(r"@\w+"), re.compile(r"[^\s@]+@")
"""What "5@channels" says of the axis, and of the size."""
OF_DEFAULTS = "with the default settings of its class"


def load_diffusers(name: str, request: Request) -> Target:
    """The model with the settings of a class, a folder or file, or a pipeline that is here or on the hub.

    Raises:
        TraceError: diffusers is missing, there are no such settings, or they name no model of it that runs by itself.
    """
    diffusers = import_package("diffusers", f"diffusers:{name}")
    found = find_part(name, diffusers)
    model_class = find_class(diffusers, found)
    settings = {key: value for key, value in found.settings.items() if not key.startswith("_")}

    def make() -> nn.Module:
        model: nn.Module = model_class.from_config(settings)  # type: ignore[attr-defined]  # a model of diffusers
        if hasattr(model, "kernel") and callable(tile := getattr(model, "enable_tiling", None)):
            tile()  # it is written for tiles of that size alone
        return model.eval()

    def feed(model: nn.Module, *, has_storage: bool) -> Iterator[Made]:
        return propose(Needs(model, request.wishes, has_storage=has_storage))

    target = run_ways(make, feed, request, f"diffusers:{name}", copy_small(model_class, settings))
    return tell_more(target, OF_DEFAULTS) if found.file is None else target


def find_class(diffusers: Any, found: Found) -> type[nn.Module]:
    """The class that settings name.

    Raises:
        TraceError: they name no model of the library that runs by itself.
    """
    named, shown = found.settings.get("_class_name"), show_controls(found.name)
    model_class = getattr(diffusers, named, None) if isinstance(named, str) and named.isidentifier() else None
    if not isinstance(model_class, type) or not issubclass(model_class, nn.Module):
        raise TraceError(
            f"the settings of {shown} name no model of diffusers {diffusers.__version__}. Give the folder of a part, "
            "such as unet or transformer, whose config.json has a _class_name."
        )
    if model_class.__name__ in WITHIN:
        raise TraceError(f"a {named} runs inside of {WITHIN[model_class.__name__]}, not by itself. Give that instead.")
    return model_class


def propose(needs: Needs) -> Iterator[Made]:
    """Keywords to call a model with: as its settings ask for them, then with all masks, then for one of a batch."""
    rules = {name: rule for name, rule in choose_rules(needs).items() if name in needs.parameters}
    asked = {
        name: rule for name, rule in rules.items() if is_asked(needs.parameters, name, wanted=bool(rule.wanted(needs)))
    }
    masked = {name: rule for name, rule in rules.items() if name in asked or name.endswith("mask")}
    yield from combine(needs, asked)
    if len(masked) > len(asked):
        yield from combine(needs, masked)
    if needs.wishes.batch is None:
        yield from propose(Needs(needs.model, replace(needs.wishes, batch=1), has_storage=needs.has_storage))


def combine(needs: Needs, asked: Mapping[str, Rule]) -> Iterator[Made]:
    """What is asked for, in one combination of shapes after the other."""
    for words in islice(product(*(list_shapes(needs, name, rule) for name, rule in asked.items())), MOST_TRIES):
        shapes = dict(zip(asked, words, strict=True))
        values = {
            name: rule.fill(needs, name, needs.shape(NAMED.sub("", shapes[name]))) for name, rule in asked.items()
        }
        yield Made(values, dict(spell_all(values, shapes)))


def spell_all(values: Mapping[str, Any], shapes: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The words for the axes of every tensor among the arguments, also of those in a list."""
    for name, value in values.items():
        axes = spell_axes(SIZED.sub("", shapes[name]), are_mels=False)
        if isinstance(value, list):
            yield from ((f"{name}.{place}", axes) for place, one in enumerate(value) if is_of(one, axes))
        elif is_of(value, axes):
            yield name, axes


def is_of(value: object, axes: tuple[str, ...]) -> bool:
    return isinstance(value, Tensor) and value.dim() == len(axes)


def list_shapes(needs: Needs, name: str, rule: Rule) -> tuple[str, ...]:
    """The shapes that an argument may have, in words."""
    if not rule.shape:
        return needs.latents(name)
    return tuple(" ".join(spell_own(needs, name, word) for word in one.split()) for one in list_words(needs, rule))


def list_words(needs: Needs, rule: Rule) -> tuple[str, ...]:
    """The shapes by a rule, in its own words."""
    if callable(rule.shape):
        return rule.shape(needs)
    if not rule.shape.startswith(TOLD):
        return tuple(rule.shape.split(" or "))
    of, _, other = rule.shape.removeprefix(TOLD).partition("|")
    told = [AXES.get(size, "") for size in needs.reading(of).sizes]
    return (" ".join(told) if told and all(told) else other,)


def spell_own(needs: Needs, name: str, word: str) -> str:
    """A word of a shape, with the width that the model's own layer reads in place of "own"."""
    size, at, axis = word.partition("@")
    own, _, other = size.partition("|")
    if own != "own":
        return word
    width = needs.width(name)
    return (other or "text_width" if width is None else str(width)) + at + axis
