"""A small copy of a model's settings: the same parts, fewer of each."""

import copy
from contextlib import suppress
from typing import Any

from xray.sources.sizes import list_places

FEW = {
    2: (
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
    ),
    8: ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"),
}
"""How many of what a small copy has at most."""


def shrink(config: Any) -> Any:
    """The same settings with few layers and experts; lists with an entry for each layer are as short."""
    small = copy.deepcopy(config)
    for place in list_places(small, ()):
        layers = [getattr(place, name, None) for name in FEW[2]]
        counts = {count for count in layers if isinstance(count, int) and count > 2}
        for most, names in FEW.items():
            for name in names:
                count = getattr(place, name, None)
                if isinstance(count, int) and count > most:
                    with suppress(NotImplementedError):  # a number that others add up to is not for setting
                        setattr(place, name, most)
        for name, value in list(vars(place).items()):
            if isinstance(value, list) and len(value) in counts:
                setattr(place, name, value[:2])
    return small
