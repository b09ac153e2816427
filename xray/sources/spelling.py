"""How models are named: told apart from files with traces by the name alone, without loading anything."""

import re
from pathlib import Path

from xray.errors import UsageError
from xray.text import show_controls

PREFIXES = ("hf", "timm", "torchvision", "diffusers")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(?<!\.json)(?<!\.py)")
OWN_CODE = re.compile(r".+\.py:\w+|\w+(\.\w+)*:\w+")


def names_model(text: str) -> bool:
    """Whether a command's argument names a model that is to be recorded, rather than a file with a trace."""
    scheme, colon, _ = text.partition(":")
    if colon and scheme in PREFIXES:
        return True
    return text.endswith(".pt2") or is_settings(text) or bool(OWN_CODE.fullmatch(text))


def check_there(text: str) -> None:
    """Make sure that what is no name of a model, and no file either, is not taken for something else.

    Raises:
        UsageError: there is no such file; where it may be a model on the hub, the message says how that is written.
    """
    if names_model(text) or ":" in text or Path(text).expanduser().exists():
        return
    if HUB_NAME.fullmatch(text):
        raise UsageError(f"there is no file {text}. Write hf:{text} for the model of this name on the hub.")
    raise UsageError(
        f"there is no file {show_controls(text)}. Name a model, as hf:owner/model or hf:bert, a folder with a "
        "config.json, or my_model.py:build."
    )


def names_settings(text: str) -> bool:
    """Whether a command's argument names a model of the transformers library: by the hub, a folder or a file."""
    return text.startswith("hf:") or is_settings(text)


def is_settings(text: str) -> bool:
    """Whether a name is that of a folder, or of a file with a model's settings."""
    path = Path(text).expanduser()
    return path.is_dir() or path.name.endswith("config.json")
