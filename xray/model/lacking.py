"""A model that lacks one of its parts, with the weights of the one that has it: to see what the part is for."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torch import Tensor, nn

from xray.model.attention import MultiHeadAttention
from xray.model.embeddings import WordsAndPlaces
from xray.model.transformer import Transformer

Part = TypeVar("Part", bound=nn.Module)


def leave_out(model: Transformer, lacking: str) -> Transformer:
    """A copy of a model without what a twin is called after, as "no-scale": nothing runs in its place.

    It is there to be recorded step by step; the model itself stays as it is.
    """
    twin = copy.deepcopy(model)
    LACKING[lacking](twin)
    return twin


def leave_out_cross_mask(model: Transformer) -> None:
    model.config = replace(model.config, cross_mask="none")


def leave_out_causal_mask(model: Transformer) -> None:
    take_away(model.tgt_mask, "causal", lambda _ids: None)
    take_away(model.tgt_mask, "combine", lambda padding, _causal: padding)


def leave_out_scale(model: Transformer) -> None:
    for attention in list_parts(model, MultiHeadAttention):
        take_away(attention, "scale", hand_on)


def leave_out_embedding_scale(model: Transformer) -> None:
    model.config = replace(model.config, scale_embeddings=False)
    for entrance in list_parts(model, WordsAndPlaces):
        entrance.scale = None


def leave_out_positions(model: Transformer) -> None:
    for entrance in list_parts(model, WordsAndPlaces):
        take_away(entrance, "positions", lambda _ids, _start: None)
        take_away(entrance, "add", lambda words, _places: words)


LACKING: Mapping[str, Callable[[Transformer], None]] = {
    "no-cross-mask": leave_out_cross_mask,
    "no-causal-mask": leave_out_causal_mask,
    "no-scale": leave_out_scale,
    "no-embedding-scale": leave_out_embedding_scale,
    "no-positions": leave_out_positions,
}
"""What each twin lacks."""


def list_parts(model: Transformer, kind: type[Part]) -> list[Part]:
    """All parts of a kind."""
    return [module for module in model.modules() if isinstance(module, kind)]


def take_away(holder: nn.Module, name: str, instead: Callable[..., Any]) -> None:
    """No module any more under a name: what is called there is no step of a recording."""
    delattr(holder, name)
    object.__setattr__(holder, name, instead)


def hand_on(x: Tensor) -> Tensor:
    """What went in."""
    return x
