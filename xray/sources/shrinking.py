"""A small copy of a model's settings: the same parts, fewer of each."""

import copy
from contextlib import suppress
from typing import Any

from xray.sources.sizes import list_places, read_setting

LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "depth",
    "num_blocks",
)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "zero_expert_num")
FEWEST_LAYERS, FEW_EXPERTS = 2, 8


KINDS = ("layer_types", "layers_block_type", "mlp_layer_types")
"""Where settings say of every layer which kind it is."""
PERIODS = ("sparse_step", "expert_layer_period", "moe_layer_interval", "moe_layer_step")
"""How numbers are called that say of every how many layers one has experts (Switch Transformers, NLLB-MoE)."""
MOST_LAYERS = 12
"""No small copy has more layers, whatever kinds there are behind them."""


def shrink(config: Any) -> Any:
    """The same settings with few experts, and so many layers that there is one of each kind, two at least.

    Lists with an entry for each layer are as short.
    """
    small = copy.deepcopy(config)
    for place in list_places(small, ()):
        layers = [read_setting(place, name) for name in LAYERS]
        counts = {count for count in layers if isinstance(count, int) and count > FEWEST_LAYERS}
        few = count_needed(place)
        for most, names in ((few, LAYERS), (FEW_EXPERTS, EXPERTS)):
            for name in names:
                count = read_setting(place, name)
                if isinstance(count, int) and count > most:
                    with suppress(NotImplementedError):  # a number that others add up to is not for setting
                        setattr(place, name, most)
        for name, value in list(vars(place).items()):
            if isinstance(value, list) and len(value) in counts:
                setattr(place, name, value[:few])
    return small


def list_cuts(whole: Any, small: Any) -> tuple[str, ...]:
    """What a small copy has fewer of than the whole, each once: `("num_layers 1 of 28", ...)`."""
    places = zip(list_places(whole, ()), list_places(small, ()), strict=True)
    cuts = [
        f"{name} {left:,} of {count:,}"
        for many, few in places
        for name in (*LAYERS, *EXPERTS)
        if isinstance(count := read_setting(many, name), int) and name in vars(many)
        if isinstance(left := read_setting(few, name), int) and left != count
    ]
    return tuple(dict.fromkeys(cuts))


def count_needed(place: Any) -> int:
    """How many layers, from the first, have one of each kind among them."""
    needed = FEWEST_LAYERS
    for name in KINDS:
        kinds = read_setting(place, name)
        if isinstance(kinds, (list, tuple)) and all(isinstance(kind, str) for kind in kinds):
            needed = max(needed, *(kinds.index(kind) + 1 for kind in set(kinds)), 0)
    periods = [value for name, value in vars(place).items() if name.endswith(PERIODS) and isinstance(value, int)]
    needed = max([needed, *(one for one in periods if one <= MOST_LAYERS)])
    return min(needed, MOST_LAYERS)
