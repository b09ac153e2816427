"""All families of the table, from the modules that note them."""

from story.body import decoders, encoders, pairs
from story.body.truth import FAMILIES

MODULES = (decoders, encoders, pairs)

__all__ = ["FAMILIES", "MODULES"]
