"""All families of the table, from the modules that note them."""

from importlib import import_module

from story.body.truth import FAMILIES

MODULES = (
    "by_chance",
    "decoders",
    "decoders_of_experts",
    "detectors",
    "drawn_at_random",
    "encoders",
    "given_besides",
    "heard_and_seen",
    "images",
    "joined",
    "last_letters",
    "latent_decoders",
    "mixed_layers",
    "more_decoders",
    "more_encoders",
    "more_images",
    "pairs",
    "resampled",
    "states",
    "unusual",
)

for module in MODULES:
    import_module(f"story.body.{module}")

__all__ = ["FAMILIES", "MODULES"]
