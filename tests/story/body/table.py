"""All families of the table, from the modules that note them."""

from story.body import decoders, encoders, images, joined, pairs, states
from story.body.truth import FAMILIES

MODULES = (decoders, encoders, images, joined, pairs, states)

__all__ = ["FAMILIES", "MODULES"]
