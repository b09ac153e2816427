"""The settings of a model, its `config.json`: from the hub by the model's name, or from a local folder or file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xray.errors import TraceError
from xray.text import show_controls

CONFIG = "config.json"
PATIENCE_S = 5.0
"""How long the hub may take for its first answer."""


@dataclass(frozen=True)
class Found:
    """A model's settings as they were found: under the name that was asked for, in a file; in none where they are the
    defaults of a library."""

    name: str
    file: Path | None
    settings: Mapping[str, Any]
    is_from_hub: bool = False


def find_config(name: str) -> Found:
    """The settings of a model on the hub, as of "Qwen/Qwen3-8B", or of a folder or file; weights are never fetched.

    Without a network, what the hub's client has in its cache is taken.

    Raises:
        TraceError: there is no such model or file, it is gated, the network is away, or it holds no settings.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return Found(name, path, read_settings(path))
    if path.is_dir():
        path = path / CONFIG
        if not path.is_file():
            raise TraceError(f"{show_controls(name)} has no {CONFIG}. Give a folder that has one, or a model's name.")
        return Found(name, path, read_settings(path))
    path = fetch_config(name)
    return Found(name, path, read_settings(path), is_from_hub=True)


def read_settings(path: Path) -> Mapping[str, Any]:
    """What a file of settings says.

    Raises:
        TraceError: it cannot be read, or is no JSON object.
    """
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = show_controls(" ".join(str(error).split())[:200])
        raise TraceError(f"cannot read {show_controls(str(path))}: {reason}. Give a model's {CONFIG}.") from error
    if not isinstance(settings, dict):
        raise TraceError(f"{show_controls(str(path))} holds a {type(settings).__name__}. A {CONFIG} is an object.")
    return settings


def fetch_config(name: str, file: str = CONFIG) -> Path:
    """A file of settings of a model on the hub, through the cache of the hub's client.

    The hub is asked once, without the client's retries: where there is no network, that is said at once.

    Raises:
        TraceError: it cannot be had; the message says why.
    """
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ModuleNotFoundError as error:
        raise TraceError(describe_missing("huggingface_hub", f"hf:{name}")) from error
    shown = show_controls(name)
    try:
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(name, file), timeout=PATIENCE_S)
        return Path(huggingface_hub.hf_hub_download(name, file))
    except errors.HFValidationError as error:
        raise TraceError(
            f"{shown!r} is no model's name. Write owner/model, as in hf:Qwen/Qwen3-8B, or a folder that is there."
        ) from error
    except errors.GatedRepoError as error:
        raise TraceError(
            f"{shown} is gated: its owner has to let you in. Ask for access on its page, log in with: hf auth login"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise TraceError(
            f"the hub has no model {shown}, or it is private. Check the name; for a private one: hf auth login"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        return find_cached(name, file, error)
    except errors.EntryNotFoundError as error:
        raise TraceError(f"{shown} has no {show_controls(file)} on the hub. Choose a model that has one.") from error
    except Exception as error:  # the network's errors are of whatever client stands below
        return find_cached(name, file, error)


def find_cached(name: str, file: str, cause: Exception) -> Path:
    """A file of a model's settings as it was fetched some time before.

    Raises:
        TraceError: it never was.
    """
    import huggingface_hub

    cached = huggingface_hub.try_to_load_from_cache(name, file)
    if isinstance(cached, str):
        return Path(cached)
    reason = show_controls(" ".join(str(cause).split())[:120]).rstrip(".")
    raise TraceError(
        f"cannot reach the hub for {show_controls(name)} ({reason}), and it is not in the local cache. Go online, or "
        f"give a folder or file with its {CONFIG}."
    ) from cause


def fetch_beside(found: Found, file: str) -> Path | None:
    """Another file of a model, from the place where its settings were found; None where it is not to be had."""
    if found.file is None:
        return None
    if not found.is_from_hub:
        path = found.file.parent / file
        return path if path.is_file() else None
    import huggingface_hub

    cached = huggingface_hub.try_to_load_from_cache(found.name, file)
    if isinstance(cached, str):
        return Path(cached)
    try:
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(found.name, file), timeout=PATIENCE_S)
        return Path(huggingface_hub.hf_hub_download(found.name, file))
    except Exception:  # no such file, or no network: whatever client stands below
        return None


def describe_missing(package: str, source: str) -> str:
    """What to say where a package is missing that a kind of source needs."""
    wanted = "'transformer-xray[hub]'" if package in ("transformers", "huggingface_hub") else package
    return f"{show_controls(source)} needs the package {package}. Install it with: pip install {wanted}"
