"""Images, videos and sounds among words: as many signs stand there as rows come of them."""

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from xray.sources.known_values import known_values, shape_of
from xray.sources.sizes import find_setting


@dataclass(frozen=True)
class Medium:
    """What may stand among the words: by which argument it comes, what makes rows of it, and the sign for a row.

    Where nothing but the whole makes rows of it, `features` is empty.
    `filled` is the setting that says to how many rows each is filled up, where it is (Gemma 3n's sounds).
    """

    argument: str
    features: str
    signs: tuple[str, ...]
    number: int
    filled: str = ""


MEDIA = (
    Medium(
        "pixel_values", "get_image_features", ("image_token_id", "image_token_index", "media_placeholder_token_id"), 1
    ),
    Medium("pixel_values_videos", "get_video_features", ("video_token_id", "video_token_index"), 2),
    Medium(
        "input_features",
        "get_audio_features",
        ("audio_token_id", "audio_token_index"),
        3,
        "audio_soft_tokens_per_image",
    ),
    Medium("pixel_values", "get_video_features", ("video_token_index",), 2),
    Medium("input_values", "get_audio_features", ("audio_token_id", "audio_token_index"), 3),
    Medium("image_pixel_values", "", ("image_token_id",), 1),
    Medium("audio_input_features", "", ("audio_token_id",), 3),
)
LENGTHS = "_get_feat_extract_output_lengths"
"""The method by which encoders of sound tell how many rows they make, the last number of those that they tell."""
FEATURES = re.compile(r"\bfeatures: (\d+)")
"""How the library says how many rows came of a medium for which there are not as many signs."""

PUT = re.compile(r"value tensor of shape \[(\d+), ")
"""How torch says how many rows there were to put in the places of signs, where there are not as many."""


def place_media(
    model: nn.Module, config: Any, made: dict[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """The inputs with as many signs among the words as images, videos and sounds become rows."""
    ids = made.get("input_ids")
    if ids is None or ids.dim() != 2:
        return made
    kinds = torch.zeros_like(ids)
    for medium, sign in list_signs(config):
        asks = name_arguments(model, medium)
        if medium.argument not in made or (asks and medium.argument not in asks):
            continue
        each = find_setting(config, (medium.filled,)) if medium.filled else None
        made = {**made, "input_ids": ids}
        count = each * ids.shape[0] if each else find_count(medium, is_asked=bool(asks))(model, medium, made)
        if count:
            placed = torch.full((ids.shape[0], count // ids.shape[0]), sign)
            ids = torch.cat((ids[:, :1], placed, ids[:, 1:]), dim=1)
            kinds = torch.cat((kinds[:, :1], torch.full_like(placed, medium.number), kinds[:, 1:]), dim=1)
    made = {**made, "input_ids": ids}
    for name in ("mm_token_type_ids", "moe_mm_token_type_ids", "token_type_ids"):
        if name in parameters and bool(kinds.any()):
            made[name] = kinds
    return made


def find_count(medium: Medium, *, is_asked: bool) -> Callable[[nn.Module, Medium, Mapping[str, Any]], int]:
    """How rows of a medium are counted: by asking what makes them, by their ticks, or by a trial."""
    return count_rows if is_asked else count_ticks if medium.features else count_put


def list_signs(config: Any) -> list[tuple[Medium, int]]:
    """What may stand among the words of a model, each with its sign."""
    return [(medium, int(sign)) for medium in MEDIA if (sign := find_setting(config, medium.signs)) is not None]


def list_needed(model: nn.Module) -> set[str]:
    """The arguments without which a model makes no rows of an image or a sound, that itself left out."""
    media = [medium for medium in MEDIA if medium.features != "get_video_features"]
    told = [named for medium in media for named in list_arguments(model, medium)]
    plain = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    needed = {
        name
        for one in told
        for name, parameter in one.items()
        if parameter.kind in plain and parameter.default is inspect.Parameter.empty
    }
    return needed - {medium.argument for medium in MEDIA}


def name_arguments(model: nn.Module, medium: Medium) -> dict[str, inspect.Parameter]:
    """What the methods of a model and of its inner part take that make rows of a medium."""
    return {name: one for named in reversed(list_arguments(model, medium)) for name, one in named.items()}


def list_arguments(model: nn.Module, medium: Medium) -> list[Mapping[str, inspect.Parameter]]:
    """The same for each of the two, the model first: what one may leave out, the other may need."""
    asks = [ask for place in list_askable(model) if (ask := getattr(place, medium.features, None)) is not None]
    return [inspect.signature(ask).parameters for ask in asks]


def count_rows(model: nn.Module, medium: Medium, made: Mapping[str, Any]) -> int:
    """How many rows a model makes of an image, a video or a sound, all of a batch together: it is asked.

    A model with weights is asked without them first: to work out rows that nobody looks at takes long.
    """
    count = 0
    if any(not one.is_meta for one in model.parameters()):
        with suppress(Exception), known_values():  # what cannot be copied is asked as it is
            count = ask_rows(without_weights(model), medium, made)
    return count or ask_rows(model, medium, made)


def without_weights(model: nn.Module) -> nn.Module:
    """A copy of a model, its parameters without storage."""
    bare: dict[int, Any] = {
        id(one): nn.Parameter(shape_of(one.detach()), one.requires_grad) for one in model.parameters()
    }
    return copy.deepcopy(model, bare)


def ask_rows(model: nn.Module, medium: Medium, made: Mapping[str, Any]) -> int:
    """How many rows a model makes of a medium; 0 where it fails without telling."""
    for place in list_askable(model):
        ask = getattr(place, medium.features, None)
        if ask is None:
            continue
        named = name_arguments(model, medium)
        given = {name: value for name, value in made.items() if name in named}
        try:
            with torch.no_grad():
                answer = ask(**given)
        except Exception as error:  # whatever a model raises: the trial of the whole will tell
            found = FEATURES.search(str(error))
            return int(found[1]) if found else 0
        told = (getattr(answer, name, None) for name in ("pooler_output", "last_hidden_state"))
        rows = next((one for one in told if one is not None), answer)
        tensors = rows if isinstance(rows, (list, tuple)) else [rows]
        return sum(one.numel() // one.shape[-1] for one in tensors if isinstance(one, Tensor))
    return 0


def count_ticks(model: nn.Module, medium: Medium, made: Mapping[str, Any]) -> int:
    """How many rows the encoder of a model makes of sounds as long as their mask says, all of a batch together."""
    heard, told = made.get("feature_attention_mask"), (getattr(one, LENGTHS, None) for one in model.modules())
    ask = next((one for one in told if one is not None), None)
    if medium.argument != "input_features" or ask is None or heard is None:
        return 0
    return int(ask(heard.sum(-1))[-1].sum())


def count_put(model: nn.Module, medium: Medium, made: Mapping[str, Any]) -> int:
    """How many rows a model would put among the words, of a batch with one sign for each sequence: it is tried."""
    ids = made["input_ids"].clone()
    ids[:, -1] = find_setting(getattr(model, "config", None), medium.signs)
    try:
        with torch.no_grad():
            model(**{**made, "input_ids": ids})
    except Exception as error:  # whatever a model raises: the trial of the whole will tell
        found = PUT.search(str(error))
        return int(found[1]) if found else 0
    return len(ids)


def list_askable(model: nn.Module) -> list[nn.Module]:
    """The model and the part of it that may make rows of media."""
    return [one for one in (model, getattr(model, "model", None)) if isinstance(one, nn.Module)]
