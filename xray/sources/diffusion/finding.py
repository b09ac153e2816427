"""The settings of a model of diffusers: by its class, a folder or file, or a pipeline, here or on the hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xray.errors import TraceError
from xray.sources.hub import CONFIG, Found, fetch_config, find_config, read_settings
from xray.text import show_controls

INDEX = "model_index.json"
"""Where a pipeline says of which parts it is."""
PREFERRED = ("transformer", "unet", "prior", "controlnet", "decoder", "vae")
"""Of the parts of a pipeline the first of these is what it is about."""


def find_part(name: str, classes: Any) -> Found:
    """The settings of a model, of the part of a pipeline that it is about, or none where a class is named.

    Raises:
        TraceError: there is no such model, file or class, or the pipeline has no part that is known.
    """
    path = Path(name).expanduser()
    if path.exists():
        index = path / INDEX
        is_pipeline = index.is_file() and not (path / CONFIG).is_file()
        return find_config(str(path / choose_part(read_settings(index), name)) if is_pipeline else name)
    if "/" not in name:
        if not name.isidentifier() or not hasattr(classes, name):
            raise TraceError(
                f"diffusers {classes.__version__} has no class {show_controls(name)}, and there is no such folder. "
                "Give one of its models, as FluxTransformer2DModel, owner/model for a pipeline of the hub, or a folder."
            )
        return Found(name, None, {"_class_name": name})
    owner, _, rest = name.partition("/")
    model, _, part = rest.partition("/")
    if not part:
        try:
            index = fetch_config(name, INDEX)
        except TraceError:
            return find_config(name)
        part = choose_part(read_settings(index), name)
    path = fetch_config(f"{owner}/{model}", f"{part}/{CONFIG}")
    return Found(name, path, read_settings(path), is_from_hub=True)


def choose_part(index: Mapping[str, Any], name: str) -> str:
    """The part that a pipeline is about.

    Raises:
        TraceError: it has none of those that are looked for.
    """
    parts = {key for key, value in index.items() if isinstance(value, list) and value[:1] == ["diffusers"]}
    found = next((part for part in PREFERRED if part in parts), None)
    if found is None:
        listed = ", ".join(sorted(map(show_controls, parts))) or "(there is none)"
        raise TraceError(
            f"the pipeline {show_controls(name)} has none of the parts {', '.join(PREFERRED)}. Give one of it behind a "
            f"slash: {listed}."
        )
    return found
