"""A model of the transformers library by its name, from its settings alone."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from torch import nn

from xray.capture.targets.inputs import Target
from xray.ir.trace import Setting
from xray.sources.answering import check_vocabulary, check_writes, let_answer, read_prompt
from xray.sources.family_inputs import propose_inputs, takes_images
from xray.sources.hub import Found
from xray.sources.library import Recipe, find_model, read_recipe
from xray.sources.request import Request
from xray.sources.shrinking import list_cuts, shrink
from xray.sources.sizes import Wishes
from xray.sources.tokenising import find_tokeniser
from xray.sources.ways import Feed, Made, SmallCopy, run_ways, tell_more

LITTLE_SIDE = 64
"""The side of an image that a model gets which takes too long over the one that its settings speak of."""

OF_DEFAULTS = "with the default settings of its family"


def load_named(name: str, request: Request) -> Target:
    """The model with the settings of a hub's model, a folder, a file or a family, and inputs made for it.

    Raises:
        TraceError: there is no such model, or the library cannot build it.
        UsageError: it does not come as what was asked for.
    """
    found = find_model(name)
    target = load_found(found, request, name)
    return tell_more(target, OF_DEFAULTS) if found.file is None else target


def load_found(found: Found, request: Request, name: str) -> Target:
    """The model with the settings that were found, to be called once, or to answer."""
    recipe = read_recipe(found, request.kind, trust_remote_code=request.trust_remote_code, dtype=request.dtype)
    if request.answer is None:
        return load_recipe(recipe, request, name)
    tokeniser = find_tokeniser(found)
    prompt = read_prompt(request.answer.prompt, tokeniser, name)
    check_vocabulary(prompt, recipe.config, name)
    wishes = replace(request.wishes, batch=request.wishes.batch or 1, prompt=prompt.ids)
    target = load_recipe(recipe, replace(request, wishes=wishes), name)
    return let_answer(target, prompt, request.answer.turns, tokeniser)


def load_recipe(recipe: Recipe, request: Request, name: str) -> Target:
    """The model of a recipe with made inputs."""

    def feed(model: nn.Module, wishes: Wishes = request.wishes, *, has_storage: bool) -> Iterator[Made]:
        config = getattr(model, "config", recipe.config)  # that of a small copy has other sizes
        if request.answer is not None:
            check_writes(model, name)
        return propose_inputs(model, config, wishes, has_storage=has_storage)

    small = Recipe(shrink(recipe.config), recipe.make)
    copied = SmallCopy(small.build, list_cuts(recipe.config, small.config))
    wishes = replace(request.wishes, image_size=LITTLE_SIDE)
    is_asked = request.wishes.image_size is not None or bool(request.inputs)

    def feed_little(model: nn.Module) -> Feed | None:
        return None if is_asked or not takes_images(model) else partial(feed, wishes=wishes)

    return run_ways(recipe.build, feed, request, name, copied, feed_little)


def list_settings(name: str) -> dict[str, Setting]:
    """The settings of a model of the library with all defaults, those inside others as "rope_parameters.rope_theta".

    Raises:
        TraceError: there is no such model, or the library does not know it.
    """
    settings: dict[str, Setting] = {}
    waiting = [("", read_recipe(find_model(name)).config.to_dict())]
    while waiting:
        before, inner = waiting.pop(0)
        for key, value in inner.items():
            if isinstance(value, dict):
                waiting.append((f"{before}{key}.", value))
            elif isinstance(value, (list, tuple)):
                settings[f"{before}{key}"] = ", ".join(map(str, value))
            elif value is None or isinstance(value, (str, int, float)):
                settings[f"{before}{key}"] = value
    return settings
