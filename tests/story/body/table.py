"""All families of the table, from the modules that note them."""

from story.body import (
    decoders,
    encoders,
    images,
    joined,
    last_letters,
    mixed_layers,
    more_decoders,
    more_encoders,
    more_images,
    pairs,
    states,
)
from story.body.truth import FAMILIES

MODULES = (
    decoders,
    encoders,
    images,
    joined,
    last_letters,
    mixed_layers,
    more_decoders,
    more_encoders,
    more_images,
    pairs,
    states,
)

__all__ = ["FAMILIES", "MODULES"]
