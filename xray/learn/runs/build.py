"""What a run begins with: its corpus stored, the configuration that follows from it, and a model of that."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from xray.config import ModelConfig, TextConfig
from xray.data.corpus.prepare import Prepared, prepare_corpus
from xray.data.reading.origin import Origin
from xray.data.stages import Tell, report_nobody
from xray.errors import ConfigError
from xray.model.transformer import Transformer

FLOAT_BYTES = 4


def prepare(
    origin: Origin, settings: Mapping[str, Any], text: TextConfig, path: Path, tell: Tell = report_nobody
) -> tuple[Prepared, ModelConfig, TextConfig]:
    """A corpus stored at `path`, the configuration of a model for it, and how its text was cut in the end.

    Of `settings`, `tgt_vocab` is the most tokens for answers; `src_vocab` follows from the corpus.

    Raises:
        DataError: the corpus cannot be read.
        ConfigError: the settings cannot be.
    """
    settings = {name: value for name, value in settings.items() if name != "src_vocab"}
    wished = ModelConfig.from_dict({"src_vocab": settings.get("tgt_vocab", ModelConfig.tgt_vocab), **settings})
    if "tgt_vocab" in settings:
        text = replace(text, tgt_limit=wished.tgt_vocab)
    elif text.tokeniser != "word" or wished.sharing == "all":
        text = replace(text, tgt_limit=0)
    prepared = prepare_corpus(origin, text, wished.sharing, wished.max_len, path, tell)
    if prepared.tokenisers.note:
        prepared = replace(prepared, notes=(*prepared.notes, prepared.tokenisers.note))
    sizes = {"src_vocab": prepared.tokenisers.src.vocab, "tgt_vocab": prepared.tokenisers.tgt.vocab}
    return prepared, ModelConfig.from_dict(settings | sizes), text


def check_memory(config: ModelConfig) -> None:
    """Make sure, before anything is allocated, that a model can fit into memory at all.

    Raises:
        ConfigError: its weights alone, or its table of positions, are larger.
    """
    wanted = FLOAT_BYTES * (config.least_weights + 2 * config.max_len * config.d_model)
    there = memory_bytes()
    if there is not None and wanted > there:
        raise ConfigError(
            f"a model with d_model={config.d_model:,}, d_ff={config.d_ff:,}, max_len={config.max_len:,} and "
            f"{config.encoder_layers}+{config.decoder_layers} layers takes {wanted / 1e9:,.1f} GB, and "
            f"this machine has {there / 1e9:,.1f} GB of memory. Choose smaller sizes."
        )


def memory_bytes() -> int | None:
    """The memory of this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def build_model(config: ModelConfig, seed: int) -> Transformer:
    """A model with the weights that `seed` decides; the caller's random state stays as it is.

    Raises:
        ConfigError: it is larger than the memory of this machine.
    """
    check_memory(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)
