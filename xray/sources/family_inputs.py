"""Inputs made for a model of the library: which ones its forward wants, and of what shape, as a table of rules."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor, nn

from xray.sources.sizes import Sizes, Wishes, find_setting
from xray.sources.ways import Made

MOST_TRIES = 12
FIRST_WORD, LAST_WORD = 5, 1_000
"""Made ids lie between these: the first ones often are signs of their own."""


@dataclass(frozen=True)
class Rule:
    """How an argument is made: the shapes that it may have, the likeliest first, and what they are filled with.

    It is made where the forward cannot do without it, and where it is `wanted` as well; one that may not be empty is
    left out where the settings leave no room for numbers.
    """

    shapes: tuple[str, ...]
    fill: str = "noise"
    wanted: bool = True
    may_be_empty: bool = True


IMAGES = (
    "batch channels height width",
    "batch 1 channels height width",
    "batch 2 channels height width",
    "batch frames channels height width",
    "batch channels frames height width",
    "batch channels 4*height 4*width",
)
VIDEOS = ("batch frames channels height width", "batch channels frames height width")
SOUND_ROWS = (
    "batch mels ticks",
    "batch ticks mels",
    "batch 1 ticks mels",
    "batch mels 4*ticks",
    "batch ticks entrance",
    "batch ticks 128",
)
RULES: Mapping[str, Rule] = {
    "input_ids": Rule(("batch words", "batch words codebooks", "batch words streams"), "ids"),
    "decoder_input_ids": Rule(("batch answer", "batch answer codebooks", "batch*codebooks answer"), "ids"),
    "attention_mask": Rule(("batch words",), "ones", wanted=False),
    "pixel_values": Rule(IMAGES),
    "pixel_values_videos": Rule(VIDEOS, wanted=False),
    "prompt_pixel_values": Rule(("batch channels height width",), wanted=False),
    "prompt_masks": Rule(("batch channels height width",), wanted=False),
    "input_features": Rule(SOUND_ROWS),
    "input_features_mask": Rule(("batch ticks",), "ones"),
    "feature_attention_mask": Rule(("batch ticks",), "ones"),
    "audio_mel": Rule(("batch ticks mels",), wanted=False),
    "audio_mel_mask": Rule(("batch ticks",), "no", wanted=False),
    "input_values": Rule(("batch samples", "batch sound_channels samples", "batch ticks mels")),
    "latents": Rule(("batch d_model words", "batch words d_model"), wanted=False),
    "bbox": Rule(("batch words 4",), "zeros"),
    "visual_feats": Rule(("batch 36 2048",)),
    "visual_pos": Rule(("batch 36 4",)),
    "qformer_input_ids": Rule(("batch words",), "ids"),
    "classes_input_ids": Rule(("batch*2 words",), "ids", wanted=False),
    "classes_attention_mask": Rule(("batch*2 words",), "ones", wanted=False),
    "classes_structure": Rule(("batch",), "twos", wanted=False),
    "tasks_input_ids": Rule(("batch words",), "ids", wanted=False),
    "tasks_attention_mask": Rule(("batch words",), "ones", wanted=False),
    "task_inputs": Rule(("batch task_words",), "ids", wanted=False),
    "query_embeds": Rule(("batch words d_model",), wanted=False),
    "inputs_embeds": Rule(("batch words d_model",), wanted=False),
    "noise_embeds": Rule(("batch words d_model",), wanted=False),
    "context_hidden_states": Rule(("batch words d_model", "batch words entrance"), wanted=False),
    "hidden_states": Rule(("batch words d_model", "batch d_model words", "batch 1 samples"), wanted=False),
    "lang_ids": Rule(("batch",), "zeros"),
    "state": Rule(("batch state",), wanted=False),
    "states": Rule(("batch words state",)),
    "actions": Rule(("batch words action",)),
    "rewards": Rule(("batch words 1",)),
    "returns_to_go": Rule(("batch words 1",)),
    "timesteps": Rule(("batch words",), "zeros"),
    "past_values": Rule(("batch past", "batch context variates", "batch past variates")),
    "past_values_padding": Rule(("batch context",), "zeros", wanted=False),
    "freq": Rule(("batch 1",), "zeros", wanted=False),
    "past_time_features": Rule(("batch past time_features",)),
    "past_observed_mask": Rule(("batch past",), "ones", wanted=False),
    "future_values": Rule(("batch prediction",)),
    "future_time_features": Rule(("batch prediction time_features",)),
    "static_categorical_features": Rule(("batch static_categories",), "zeros", may_be_empty=False),
    "static_real_features": Rule(("batch static_numbers",), may_be_empty=False),
}
PATCH_LISTS = ("batch*patches patch_numbers", "batch*patches channels patch patch", "batch*patches 2*patch_numbers")
GRIDS: Mapping[str, Rule] = {
    "pixel_values": Rule(PATCH_LISTS),
    "hidden_states": Rule(PATCH_LISTS),
    "image_grid_thw": Rule(("batch 3",), "grid"),
    "grid_thw": Rule(("batch 3",), "grid"),
    "merge_sizes": Rule(("batch",), "merges", wanted=False),
}
"""The rules for models that take images as one long list of patches, with a table of how many rows and columns."""
PATCHES: Mapping[str, Rule] = {
    "pixel_values": Rule(("batch patches patch_numbers", "batch channels patch patches*patch")),
    "pixel_attention_mask": Rule(("batch patches",), "ones"),
    "spatial_shapes": Rule(("batch 2",), "sides"),
    "target_sizes": Rule(("batch 2",), "sides"),
    "pixel_position_ids": Rule(("batch patches 2",), "places"),
    "image_position_ids": Rule(("batch patches 2",), "places"),
}
"""The rules for models that take the patches of each image in a row, and their places."""
HALVES = dict.fromkeys(("pixel_values", "prompt_pixel_values", "prompt_masks"), Rule(("batch channels half width",)))
"""The rules for models that see an image below another one, both together as large as their settings say."""
ASKING: Mapping[str, Rule] = {"encoder_hidden_states": Rule(("batch words memory",))}
"""The rules for a transformer whose learned queries look at what another network made."""
ROWS_OF_IMAGES: Mapping[str, Rule] = {
    "pixel_values": Rule(("batch 1 channels height width",)),
    "image_attention_mask": Rule(("batch words 1",), "ones"),
}
"""The rules for models in which every word says at which of several images it looks."""
PLACED: Mapping[str, Rule] = {
    "input_ids": Rule(("batch latents",), "ids"),
    "image_embeds_position_mask": Rule(("batch latents",), "ones"),
}
"""The rules for models that are told by a mask where the rows of an image stand among the words."""
CAMERAS: Mapping[str, Rule] = {
    "pixel_values": Rule(("batch 1 channels height width",)),
    "pixel_attention_mask": Rule(("batch 1",), "yes"),
    "actions": Rule(("batch chunk action",)),
}
"""The rules for models that act, with an image of every camera."""
MARKS = (
    ({"image_grid_thw", "grid_thw"}, GRIDS),
    (set(PATCHES) - {"pixel_values", "pixel_attention_mask"}, PATCHES),
    ({"prompt_masks"}, HALVES),
    ({"query_embeds"}, ASKING),
    ({"timestep"}, CAMERAS),
    ({"image_embeds_position_mask"}, PLACED),
    ({"perceiver_embeddings"}, ROWS_OF_IMAGES),
)
"""Arguments by which a forward tells that it takes images in another way, and the rules for that."""


def choose_rules(parameters: Mapping[str, inspect.Parameter]) -> Mapping[str, Rule]:
    """The rules for a forward with such parameters."""
    special = (rules for marks, rules in MARKS if marks & set(parameters))
    return {**RULES, **next(special, {})}


AXES: Mapping[str, str] = {
    "words": "seq_len",
    "answer": "tgt_len",
    "ticks": "frames",
    "mels": "mels",
    "batch*patches": "patches",
    **{word: word for word in ("batch", "channels", "height", "width", "frames", "samples")},
}
"""The words of axes by those of the rules."""


def propose_inputs(model: nn.Module, config: Any, wishes: Wishes, *, has_storage: bool) -> Iterator[Made]:
    """Keywords to call a model with, the likeliest first: which of them it takes, only a trial shows."""
    sizes = Sizes(config, wishes, entrance=find_entrance(model), side=find_side(model))
    parameters = read_parameters(model)
    rules = choose_rules(parameters)
    asked = [
        name
        for name in choose_names(model, config, parameters, rules)
        if rules[name].may_be_empty or is_required(parameters[name]) or 0 not in sizes.shape(rules[name].shapes[0])
    ]
    for made in guess(asked, rules, sizes, has_storage=has_storage):
        yield Made(place_media(model, config, set_prompt(made.values, wishes.prompt), parameters), made.axes)
    alone = [name for name in ("input_ids", "decoder_input_ids") if name in asked]
    if alone and len(alone) < len(asked) and not any(is_required(parameters[name]) for name in set(asked) - set(alone)):
        for made in guess(alone, rules, sizes, has_storage=has_storage):
            yield Made(set_prompt(made.values, wishes.prompt), made.axes)
    if wishes.batch is None:
        yield from propose_inputs(model, config, replace(wishes, batch=1), has_storage=has_storage)


def find_entrance(model: nn.Module) -> int:
    """The width that the first linear layer of a model reads; 0 where it has none."""
    return next((one.in_features for one in model.modules() if isinstance(one, nn.Linear)), 0)


def find_side(model: nn.Module) -> int:
    """The side of the images for which a model's patches are cut, where a part of it says so; 0 where none does."""
    sizes = (vars(one).get("img_size") for one in model.modules())
    return next((size[-1] for size in sizes if isinstance(size, tuple) and size), 0)


def guess(asked: Sequence[str], rules: Mapping[str, Rule], sizes: Sizes, *, has_storage: bool) -> Iterator[Made]:
    """The arguments that are asked for, in one combination of shapes after the other."""
    shapes = ([words for words in rules[name].shapes if sizes.knows(words)] for name in asked)
    for chosen in islice(product(*shapes), MOST_TRIES):
        words = dict(zip(asked, chosen, strict=True))
        yield Made(
            {name: fill(rules[name].fill, sizes.shape(words[name]), sizes, has_storage=has_storage) for name in asked},
            {name: spell_axes(words[name]) for name in asked},
        )


def spell_axes(words: str) -> tuple[str, ...]:
    """The words of an input's axes."""
    return tuple(AXES.get(word, "") for word in words.split())


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
    model: nn.Module, config: Any, parameters: Mapping[str, inspect.Parameter], rules: Mapping[str, Rule]
) -> list[str]:
    """The names of the arguments to make, in the order of the rules."""
    main = getattr(model, "main_input_name", "input_ids")
    mains = {main} if isinstance(main, str) else set(main)
    chosen = [name for name, rule in rules.items() if is_asked(parameters, name, wanted=rule.wanted or name in mains)]
    if (
        not getattr(config, "is_encoder_decoder", False)
        and "decoder_input_ids" in chosen
        and "decoder_input_ids" not in mains
    ):
        chosen.remove("decoder_input_ids")
    return chosen


def fill(kind: str, shape: tuple[int, ...], sizes: Sizes, *, has_storage: bool) -> Tensor:
    """A tensor for one argument; what is chance has no values where the model has no storage."""
    if kind == "noise":
        return make_noise(shape, has_storage=has_storage)
    return FILLS[kind](shape, sizes)


def make_noise(shape: tuple[int, ...], *, has_storage: bool) -> Tensor:
    """Chance values, or none."""
    if not has_storage:
        return torch.empty(shape, device="meta")
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def make_ids(shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    """Words by chance."""
    end = max(FIRST_WORD + 1, min(LAST_WORD, sizes["vocab"] - 1))
    return torch.randint(FIRST_WORD, end, shape, generator=torch.Generator().manual_seed(0))


def make_places(shape: tuple[int, ...], sizes: Sizes) -> Tensor:
    """The column and the row of every patch of an image."""
    rows, columns = torch.arange(sizes["rows"]), torch.arange(sizes["columns"])
    return torch.cartesian_prod(rows, columns).flip(-1).expand(shape)


FILLS: Mapping[str, Callable[[tuple[int, ...], Sizes], Tensor]] = {
    "ids": make_ids,
    "ones": lambda shape, _: torch.ones(shape, dtype=torch.long),
    "zeros": lambda shape, _: torch.zeros(shape, dtype=torch.long),
    "twos": lambda shape, _: torch.full(shape, 2),
    "yes": lambda shape, _: torch.ones(shape, dtype=torch.bool),
    "no": lambda shape, _: torch.zeros(shape, dtype=torch.bool),
    "grid": lambda shape, sizes: torch.tensor([[1, sizes["rows"], sizes["columns"]]] * shape[0]),
    "sides": lambda shape, sizes: torch.tensor([[sizes["rows"], sizes["columns"]]] * shape[0]),
    "merges": lambda shape, sizes: torch.full(shape, sizes["merge"]),
    "places": make_places,
}
"""What an argument is filled with that is no chance."""


@dataclass(frozen=True)
class Medium:
    """What may stand among the words: by which argument it comes, what makes rows of it, and the sign for a row."""

    argument: str
    features: str
    signs: tuple[str, ...]
    number: int


MEDIA = (
    Medium(
        "pixel_values", "get_image_features", ("image_token_id", "image_token_index", "media_placeholder_token_id"), 1
    ),
    Medium("pixel_values_videos", "get_video_features", ("video_token_id", "video_token_index"), 2),
    Medium("input_features", "get_audio_features", ("audio_token_id", "audio_token_index"), 3),
    Medium("pixel_values", "get_video_features", ("video_token_index",), 2),
    Medium("input_values", "get_audio_features", ("audio_token_id", "audio_token_index"), 3),
)


def place_media(
    model: nn.Module, config: Any, made: dict[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """The inputs with as many signs among the words as images, videos and sounds become rows."""
    ids = made.get("input_ids")
    if ids is None or ids.dim() != 2:
        return made
    kinds = torch.zeros_like(ids)
    for medium in MEDIA:
        sign = find_setting(config, medium.signs)
        count = count_rows(model, medium, made) if sign is not None and medium.argument in made else 0
        if count:
            signs = torch.full((ids.shape[0], count // ids.shape[0]), int(sign))
            ids = torch.cat((ids[:, :1], signs, ids[:, 1:]), dim=1)
            kinds = torch.cat((kinds[:, :1], torch.full_like(signs, medium.number), kinds[:, 1:]), dim=1)
    made = {**made, "input_ids": ids}
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in parameters and bool(kinds.any()):
            made[name] = kinds
    return made


def set_prompt(made: dict[str, Any], prompt: Sequence[int]) -> dict[str, Any]:
    """The inputs with these ids in place of made ones, in every sequence."""
    ids = made.get("input_ids")
    if not prompt or ids is None or ids.dim() != 2:
        return made
    return {**made, "input_ids": ids.new_tensor(prompt).expand_as(ids).clone()}


def count_rows(model: nn.Module, medium: Medium, made: Mapping[str, Any]) -> int:
    """How many rows a model makes of an image, a video or a sound, all of a batch together: it is asked."""
    for place in (model, getattr(model, "model", None)):
        ask = getattr(place, medium.features, None)
        if ask is None:
            continue
        named = inspect.signature(ask).parameters
        given = {name: value for name, value in made.items() if name in named}
        try:
            with torch.no_grad():
                answer = ask(**given)
        except Exception:  # whatever a model raises: the trial of the whole will tell
            return 0
        rows = getattr(answer, "pooler_output", answer)
        tensors = rows if isinstance(rows, (list, tuple)) else [rows]
        return sum(one.numel() // one.shape[-1] for one in tensors if isinstance(one, Tensor))
    return 0
