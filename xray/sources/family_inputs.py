"""Inputs made for a model of the library: which ones its forward wants, one combination of shapes after the other."""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from xray.sources.known_values import MOST_KNOWN
from xray.sources.media import list_askable, list_needed, list_signs, place_media
from xray.sources.rules import SOUNDS, TEXTS, Rule, choose_rules, spell_axes
from xray.sources.sizes import Sizes, Wishes, find_setting, first_number
from xray.sources.ways import Made

MOST_TRIES, MOST_TOGETHER = 12, 6
"""So many combinations of shapes are tried, and of those with images and sounds together."""
FIRST_WORD, LAST_WORD = 5, 1_000
"""Made ids lie between these: the first ones often are signs of their own."""
END = "eos_token_id"
"""How the library calls the id at which a text ends."""


def propose_inputs(model: nn.Module, config: Any, wishes: Wishes, *, has_storage: bool) -> Iterator[Made]:
    """Keywords to call a model with, the likeliest first: which of them it takes, only a trial shows.

    Words with all images and sounds that it knows come first, then those with one kind of them, then words alone.
    """
    sizes = Sizes(config, wishes, entrance=find_entrance(model), side=find_side(model), end=find_end(model))
    parameters = read_parameters(model)
    needed = list_needed(model)
    rules = choose_rules(parameters, needed)
    asked = [
        name
        for name in choose_names(model, config, parameters, rules, needed)
        if rules[name].may_be_empty or is_required(parameters[name]) or 0 not in sizes.shape(rules[name].shapes[0])
    ]
    choices = list(list_fewer(asked, parameters))
    for chosen in choices:
        both = not SOUNDS.isdisjoint(chosen) and are_of_images(chosen)
        guesses = guess(chosen, rules, sizes, read_dtype(model), has_storage=has_storage, in_turn=both)
        for made in islice(guesses, MOST_TOGETHER if both and len(choices) > 1 else None):
            yield Made(place_media(model, config, set_prompt(made.values, wishes.prompt), parameters), made.axes)
    if wishes.batch is None:
        yield from propose_inputs(model, config, replace(wishes, batch=1), has_storage=has_storage)


def takes_images(model: nn.Module) -> bool:
    """Whether a model asks for images, or can do with them."""
    return are_of_images(read_parameters(model))


def are_of_images(names: Iterable[str]) -> bool:
    """Whether any of the names of some inputs is that of an image, whole or in patches."""
    return any("pixel_values" in name for name in names)


def list_fewer(asked: Sequence[str], parameters: Mapping[str, inspect.Parameter]) -> Iterator[list[str]]:
    """What is asked for, then without masks; where words are asked for too, images, sounds, and words alone.

    What a forward cannot do without is in all of them.
    """
    always = TEXTS | {name for name in asked if is_required(parameters[name])}
    bare = always | {name for name in asked if not name.endswith("mask")}
    chosen = (bare, always | set(asked) - SOUNDS, always | SOUNDS, always) if not TEXTS.isdisjoint(asked) else ()
    fewer = (tuple(name for name in asked if name in one) for one in chosen)
    yield from map(list, dict.fromkeys((tuple(asked), *fewer)))


def find_entrance(model: nn.Module) -> int:
    """The width that the first linear layer of a model reads; 0 where it has none."""
    return next((one.in_features for one in model.modules() if isinstance(one, nn.Linear)), 0)


def find_side(model: nn.Module) -> int:
    """The side of the images for which a model's patches are cut, where a part of it says so; 0 where none does."""
    sizes = (vars(one).get("img_size") for one in model.modules())
    return next((size[-1] for size in sizes if isinstance(size, tuple) and size), 0)


def find_end(model: nn.Module) -> int | None:
    """The id of the end of a text, where some forward of a model that does not go on writing searches for it."""
    if getattr(model, "can_generate", bool)():
        return None
    parts = (one for one in model.modules() if END in read_names(one))
    ends = (find_setting(one, (END,)) or find_setting(getattr(one, "config", one), (END,)) for one in parts)
    return next((first_number(end) for end in ends if end is not None), None)


def read_names(module: nn.Module) -> tuple[str, ...]:
    """The names of attributes that the forward of a module reads."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return () if code is None else code.co_names


def read_dtype(model: nn.Module) -> torch.dtype:
    """The type of a model's numbers, in which images and sounds are handed to it: that of its first weights."""
    return next((one.dtype for one in model.parameters() if one.is_floating_point()), torch.float32)


def guess(
    asked: Sequence[str],
    rules: Mapping[str, Rule],
    sizes: Sizes,
    dtype: torch.dtype = torch.float32,
    *,
    has_storage: bool,
    in_turn: bool = False,
) -> Iterator[Made]:
    """The arguments that are asked for, in one combination of shapes after the other, chance as `dtype`.

    With `in_turn` those come first in which few arguments have another than their likeliest shape.
    """
    shapes = [[words for words in rules[name].shapes if sizes.knows(words)] for name in asked]
    ways = product(*(range(len(one)) for one in shapes))
    ordered = sorted(ways, key=lambda places: sum(place > 0 for place in places)) if in_turn else ways
    for places in islice(ordered, MOST_TRIES):
        chosen = [one[place] for one, place in zip(shapes, places, strict=True)]
        words = dict(zip(asked, chosen, strict=True))
        yield Made(
            {
                name: fill(rules[name].fill, sizes.shape(words[name]), sizes, dtype, has_storage=has_storage)
                for name in asked
            },
            {name: spell_axes(words[name], are_mels=sizes.are_mels()) for name in asked},
        )


def read_parameters(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    """The parameters of a model's forward by name."""
    fixed = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: one for name, one in inspect.signature(model.forward).parameters.items() if one.kind in fixed}


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether a forward cannot do without it."""
    return parameter.default is inspect.Parameter.empty


def is_asked(parameters: Mapping[str, inspect.Parameter], name: str, *, wanted: bool) -> bool:
    """Whether an argument is to be made: where there is such a one, and it is wanted or cannot be missed."""
    return name in parameters and (wanted or is_required(parameters[name]))


def choose_names(
    model: nn.Module,
    config: Any,
    parameters: Mapping[str, inspect.Parameter],
    rules: Mapping[str, Rule],
    needed: Collection[str],
) -> list[str]:
    """The names of the arguments to make, in the order of the rules: those `needed` for images and sounds too."""
    main = getattr(model, "main_input_name", "input_ids")
    mains = {main} if isinstance(main, str) else set(main)
    films = {"pixel_values_videos"} if has_tower(model, "video") or "pixel_values" not in parameters else set()
    chosen = [
        name
        for name, rule in rules.items()
        if is_asked(parameters, name, wanted=rule.wanted or name in mains or name in needed or name in films)
    ]
    if (
        not getattr(config, "is_encoder_decoder", False)
        and "decoder_input_ids" in chosen
        and "decoder_input_ids" not in mains
    ):
        chosen.remove("decoder_input_ids")
    return chosen


def has_tower(model: nn.Module, medium: str) -> bool:
    """Whether a part of a model is there for one medium alone."""
    parts = (name for place in list_askable(model) for name, _ in place.named_children())
    return any(medium in name and "tower" in name for name in parts)


def fill(kind: str, shape: tuple[int, ...], sizes: Sizes, dtype: torch.dtype, *, has_storage: bool) -> Tensor:
    """A tensor for one argument; what is chance has no values where the model has no storage."""
    if kind == "noise":
        return make_noise(shape, has_storage=has_storage).to(dtype)
    if kind == "flat":
        places = make_places((*shape[:2], 2), sizes).flip(-1) + 1
        noise = make_noise((*shape[:2], shape[2] - 2), has_storage=has_storage)
        return torch.cat((places.to(noise.dtype), noise), dim=-1).to(dtype)
    return FILLS[kind](shape, sizes)


def make_noise(shape: tuple[int, ...], *, has_storage: bool) -> Tensor:
    """Chance values; none of many numbers for a model without storage, where they are not worked with."""
    if not has_storage and prod(shape) > MOST_KNOWN:
        return torch.empty(shape, device="meta")
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def make_ids(shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    """Words by chance, and the end of a text where a model searches for it."""
    most = max(FIRST_WORD + 1, min(LAST_WORD, sizes["vocab"] - 1))
    ids = torch.randint(FIRST_WORD, most, shape, generator=torch.Generator().manual_seed(0))
    for _, sign in list_signs(sizes.config):
        ids = ids.where(ids != sign, ids + 1)  # no image stands where a word was made by chance
    if sizes.end is not None and len(shape) == 2 and sizes.end < sizes["vocab"]:
        ids[:, -1] = sizes.end
    return ids


def make_places(shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    """The column and the row of every patch of an image."""
    rows, columns = torch.arange(sizes["rows"]), torch.arange(sizes["columns"])
    return torch.cartesian_prod(rows, columns).flip(-1).expand(shape)


def make_first(shape: tuple[int, ...], _: Sizes) -> Tensor:
    """A one at the first place of every row."""
    return torch.eye(1, shape[-1], dtype=torch.long).expand(shape).contiguous()


FILLS: Mapping[str, Callable[[tuple[int, ...], Sizes], Tensor]] = {
    "ids": make_ids,
    "ones": lambda shape, _: torch.ones(shape, dtype=torch.long),
    "zeros": lambda shape, _: torch.zeros(shape, dtype=torch.long),
    "twos": lambda shape, _: torch.full(shape, 2),
    "yes": lambda shape, _: torch.ones(shape, dtype=torch.bool),
    "no": lambda shape, _: torch.zeros(shape, dtype=torch.bool),
    "first": make_first,
    "pixels": lambda shape, sizes: torch.tensor([sizes.image()] * shape[0]),
    "grid": lambda shape, sizes: torch.tensor([[1, sizes["rows"], sizes["columns"]]] * shape[0]),
    "sides": lambda shape, sizes: torch.tensor([[sizes["rows"], sizes["columns"]]] * shape[0]),
    "lengths": lambda shape, sizes: torch.full(shape, sizes["ticks"] * sizes["hop"]),
    "heard_rows": lambda shape, sizes: torch.full(shape, -(-sizes["ticks"] // sizes["fewer_ticks"])),
    "residues": lambda shape, _: FIRST_WORD + torch.arange(shape[-1]).expand(shape) % 18,
    "merges": lambda shape, sizes: torch.full(shape, sizes["merge"]),
    "places": make_places,
}
"""What an argument is filled with that is no chance."""


def set_prompt(made: dict[str, Any], prompt: Sequence[int]) -> dict[str, Any]:
    """The inputs with these ids in place of made ones, in every sequence."""
    ids = made.get("input_ids")
    if not prompt or ids is None or ids.dim() != 2:
        return made
    return {**made, "input_ids": ids.new_tensor(prompt).expand_as(ids).clone()}
