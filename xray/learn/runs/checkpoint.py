"""A moment of training as one file: tensors and facts, sealed with a SHA-256 so that no bit changes unnoticed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor

from xray.config import SHOWN, Amount, Count, ModelConfig
from xray.errors import RunError
from xray.learn.runs.run_folder import FORMAT, READABLE, RunFolder, xray_version
from xray.text import reason_of, show_controls


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, such as "model.head.weight" and "adam.exp_avg.head.weight", and facts that JSON can hold."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        """The checkpoint as a safetensors file."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        facts = json.dumps({"format": FORMAT, "xray": xray_version(), **self.facts})
        return to_safetensors(tensors, {"facts": facts, "sha256": seal(tensors, facts)})


class Progress(msgspec.Struct):
    """Which model a checkpoint is of, and how far its training had come; other facts may stand beside."""

    model: dict[str, Any]
    epoch: Count
    step: Count
    elapsed_s: Amount
    history: list[dict[str, Any]]


def read_checkpoint(folder: RunFolder, name: str, config: ModelConfig | None = None) -> Checkpoint:
    """The checkpoint of a run, its seal checked and its model that of `config`; tensors are on the CPU.

    Raises:
        RunError: it is missing, damaged, made by a newer X-Ray, or of a model with another configuration.
    """
    path = folder.path / name
    shown = f"{folder.name}/{name}"
    damaged = f'{shown} is damaged ({{}}). Train again with "xray train FILE.csv --overwrite".'
    try:
        if path.stat().st_size == 0:  # nor has a device or a pipe any size, of which reading may never end
            raise RunError(damaged.format("it is empty"))
        data = path.read_bytes()
        tensors = from_safetensors(data)  # what opens a file as tensors makes a ValueError of a Ctrl-C in its midst
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        facts = json.loads(metadata["facts"])
    except FileNotFoundError as error:
        raise RunError(f'{shown} is missing. Train first, with "xray train FILE.csv".') from error
    except SafetensorError as error:
        reason = show_controls(str(error))[:SHOWN]
        raise RunError(damaged.format(f"truncated, or no checkpoint: {reason}")) from error
    except OSError as error:
        raise RunError(f"cannot read {shown}: {reason_of(error)}.") from error
    except (KeyError, ValueError, RecursionError) as error:
        raise RunError(damaged.format("it was not written by X-Ray")) from error
    if not isinstance(facts, dict):
        raise RunError(damaged.format("it was not written by X-Ray"))
    if facts.get("format") not in READABLE:
        raise RunError(wrong_format(shown, facts))
    if metadata.get("sha256") != seal(tensors, metadata["facts"]):
        raise RunError(damaged.format("its contents do not have the SHA-256 that was written with them"))
    try:
        msgspec.convert(facts, Progress)
    except msgspec.ValidationError as error:
        raise RunError(damaged.format(show_controls(str(error)))) from error
    if config is not None:
        check_config(shown, facts["model"], config)
        found = sum(tensor.numel() for name, tensor in tensors.items() if name.startswith("model."))
        if found < config.least_weights:
            raise RunError(damaged.format(f"{found:,} weights, and its settings want {config.least_weights:,}"))
    return Checkpoint(tensors, facts)


def seal(tensors: Mapping[str, Tensor], facts: str) -> str:
    """The SHA-256 of everything in a checkpoint."""
    sealed = sha256(facts.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        sealed.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sealed.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return sealed.hexdigest()


def check_config(shown: str, found: Mapping[str, Any], config: ModelConfig) -> None:
    """Name the first setting in which a checkpoint's model is not the one asked for.

    Raises:
        RunError: there is one.
    """
    for entry in fields(config):
        wanted = getattr(config, entry.name)
        if found.get(entry.name) != wanted:
            raise RunError(
                f"{shown} has {entry.name}={found.get(entry.name)}, this run asks for {wanted}. "
                "They belong to different runs; use the folder that the checkpoint came from."
            )


def wrong_format(shown: str, facts: Mapping[str, Any]) -> str:
    """What to say of a run that an older or newer X-Ray wrote."""
    found = facts.get("format")
    if found != FORMAT and found in READABLE:
        return (
            f"{shown} has the older run format {found}, and this xray {xray_version()} trains format {FORMAT}: "
            'it can be talked to, but not trained further. Train again with "xray train FILE.csv --overwrite".'
        )
    age = "newer" if isinstance(found, int) and found > FORMAT else "unknown"
    maker, form = (show_controls(str(fact))[:60] for fact in (facts.get("xray", "?"), found))
    return (
        f"{shown} was made by xray {maker} (run format {form}, {age}); "
        f"this is {xray_version()} (format {FORMAT}). Use the X-Ray that made it, or train again."
    )
