"""How models are named: told apart from files with traces by the name alone, without loading anything."""

import re
from pathlib import Path

PREFIXES = ("hf", "timm", "torchvision", "diffusers")
OWN_CODE = re.compile(r".+\.py:\w+|\w+(\.\w+)*:\w+")


def names_model(text: str) -> bool:
    """Whether a command's argument names a model that is to be recorded, rather than a file with a trace."""
    scheme, colon, _ = text.partition(":")
    if colon and scheme in PREFIXES:
        return True
    return text.endswith(".pt2") or is_settings(text) or bool(OWN_CODE.fullmatch(text))


def names_settings(text: str) -> bool:
    """Whether a command's argument names a model of the transformers library: by the hub, a folder or a file."""
    return text.startswith("hf:") or is_settings(text)


def is_settings(text: str) -> bool:
    """Whether a name is that of a folder, or of a file with a model's settings."""
    path = Path(text).expanduser()
    return path.is_dir() or path.name.endswith("config.json")
