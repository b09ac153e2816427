"""Chatbots to talk to: one from a run folder, or one that has not learnt anything yet."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from xray.config import ModelConfig, TextConfig, TrainConfig
from xray.data.corpus import Prepared, prepare_corpus
from xray.data.examples import example_corpus
from xray.data.origin import AnySource, Origin, as_origin
from xray.data.pairs import POSTER_PAIRS
from xray.data.stages import Tell, tell_nobody
from xray.data.store import StoredCorpus
from xray.errors import ConfigError, RunError
from xray.learn.chatbot import Chatbot, Question
from xray.learn.checkpoint import Checkpoint, read_checkpoint
from xray.learn.decode import GREEDY, Way
from xray.learn.devices import choose_device
from xray.learn.fit import restore_model
from xray.learn.folder import BEST, CORPUS, LAST, PREVIOUS, RunFolder
from xray.learn.store import RunFacts, read_run
from xray.model.transformer import Transformer
from xray.scratch import scratch_folder

FLOAT_BYTES = 4

__all__ = ["Chatbot", "Question", "build_model", "load_run", "prepare", "untrained_chatbot"]


def load_run(
    folder: Path | str,
    device: str = "auto",
    checkpoint: Literal["last", "best"] = "last",
    way: Way = GREEDY,
) -> Chatbot:
    """The chatbot of a run folder, which answers greedily or as `way` says.

    "last" is where training stands or ended: a chatbot that learns its corpus by heart answers best there. "best" is
    where the loss on held-out pairs was lowest. If the last checkpoint is damaged, the one before it is taken, and
    `notes` says so.

    Raises:
        RunError: there is no run, it is damaged, or another X-Ray made it.
        ConfigError: there is no such device here.
    """
    chosen = choose_device(device)
    place = RunFolder(Path(folder))
    facts = read_run(place)
    found, notes = find_checkpoint(place, facts, checkpoint)
    model = build_model(facts.model, 0)
    restore_model(model, found)
    epoch, epochs = found.facts["epoch"], facts.training.epochs
    trained = bool(epoch or found.facts["step"])
    if not trained:
        notes += (f"{place.name} has not been trained yet: continue with xray train --resume",)
    elif checkpoint == "last" and epoch < epochs:
        notes += (f"training stopped after epoch {epoch} of {epochs}: it goes on with xray train --resume",)
    return Chatbot(
        name=facts.name,
        model=model.to(chosen).eval(),
        tokenisers=facts.tokenisers,
        poster_pairs=facts.poster,
        device=chosen,
        trained=trained,
        label_smoothing=facts.training.label_smoothing,
        batch=facts.training.batch,
        batch_tokens=facts.training.batch_tokens,
        suggestions=facts.suggestions,
        notes=notes,
        way=way,
    )


def find_checkpoint(
    folder: RunFolder, facts: RunFacts, which: Literal["last", "best"] = "last"
) -> tuple[Checkpoint, tuple[str, ...]]:
    """The checkpoint wanted, or the one before it if that is damaged, and what there is to say about it.

    Raises:
        RunError: there is no whole one.
    """
    if which == "best" and (folder.path / BEST).exists():
        return read_checkpoint(folder, BEST, facts.model), ()
    try:
        return read_checkpoint(folder, LAST, facts.model), ()
    except RunError as error:
        if not (folder.path / PREVIOUS).exists():
            raise
        try:
            return read_checkpoint(folder, PREVIOUS, facts.model), (f"{error} The one before it is used now.",)
        except RunError:
            raise error from None


def untrained_chatbot(
    source: Origin | AnySource | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "auto",
) -> Chatbot:
    """A chatbot before its first lesson: exact in its shapes, foolish in its answers.

    `source` is the corpus that gives it its words, by default examples/movie_qa.csv; `settings` are fields of
    `ModelConfig`, where `src_vocab` follows from the corpus and `tgt_vocab` is the most that the answers may fill.
    Nothing is drawn from the caller's random numbers.

    Raises:
        DataError: the corpus cannot be read.
        ConfigError: the settings cannot be.
    """
    origin = as_origin(source or example_corpus())
    with scratch_folder() as folder:
        prepared, config, _ = prepare(origin, settings or {}, TextConfig(), folder / CORPUS)
        poster = StoredCorpus(folder / CORPUS)[:POSTER_PAIRS]
    chosen = choose_device(device)
    return Chatbot(
        name=origin.stem,
        model=build_model(config, seed).to(chosen).eval(),
        tokenisers=prepared.tokenisers,
        poster_pairs=poster,
        device=chosen,
        trained=False,
        label_smoothing=TrainConfig.label_smoothing,
        notes=prepared.notes,
    )


def prepare(
    origin: Origin, settings: Mapping[str, Any], text: TextConfig, path: Path, tell: Tell = tell_nobody
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
