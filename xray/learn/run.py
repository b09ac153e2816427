"""Chatbots to talk to: one from a run folder, or one that has not learnt anything yet."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from xray.config import ModelConfig, TrainConfig
from xray.data.examples import example_corpus
from xray.data.pairs import POSTER_PAIRS, Corpus, sift_pairs
from xray.data.reading import read_pairs
from xray.data.source import Source
from xray.data.tokeniser import split_text
from xray.data.tokenisers import Tokenisers
from xray.errors import RunError
from xray.learn.chatbot import Chatbot, Question
from xray.learn.checkpoint import Checkpoint, read_checkpoint
from xray.learn.devices import choose_device
from xray.learn.fit import restore_model
from xray.learn.folder import BEST, LAST, PREVIOUS, RunFolder
from xray.learn.store import RunFacts, read_run
from xray.model.transformer import Transformer

__all__ = ["Chatbot", "Question", "build_model", "load_run", "prepare", "untrained_chatbot"]


def load_run(folder: Path | str, device: str = "auto", checkpoint: Literal["last", "best"] = "last") -> Chatbot:
    """The chatbot of a run folder.

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
        suggestions=facts.suggestions,
        notes=notes,
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
    source: Source | Path | None = None, settings: Mapping[str, Any] | None = None, seed: int = 0, device: str = "auto"
) -> Chatbot:
    """A chatbot before its first lesson: exact in its shapes, foolish in its answers.

    `source` is the corpus that gives it its words, by default examples/movie_qa.csv; `settings` are fields of
    `ModelConfig`, where `src_vocab` follows from the corpus and `tgt_vocab` is the most that the answers may fill.
    Nothing is drawn from the caller's random numbers.

    Raises:
        DataError: the corpus cannot be read.
        ConfigError: the settings cannot be.
    """
    if not isinstance(source, Source):
        source = Source(source or example_corpus())
    corpus, tokenisers, config = prepare(source, settings or {})
    chosen = choose_device(device)
    return Chatbot(
        name=source.path.stem,
        model=build_model(config, seed).to(chosen).eval(),
        tokenisers=tokenisers,
        poster_pairs=corpus.pairs[:POSTER_PAIRS],
        device=chosen,
        trained=False,
        label_smoothing=TrainConfig.label_smoothing,
        notes=corpus.notes,
    )


def prepare(source: Source, settings: Mapping[str, Any]) -> tuple[Corpus, Tokenisers, ModelConfig]:
    """The pairs of a corpus that can be learnt, its vocabularies, and the configuration of a model for them.

    Raises:
        DataError: the corpus cannot be read.
        ConfigError: the settings cannot be.
    """
    settings = {name: value for name, value in settings.items() if name != "src_vocab"}
    wished = ModelConfig.from_dict({"src_vocab": settings.get("tgt_vocab", ModelConfig.tgt_vocab), **settings})
    corpus = sift_pairs(source.name, read_pairs(source), split_text, wished.max_len)
    tokenisers = Tokenisers.learn(corpus.pairs, wished.tgt_vocab, wished.sharing)
    sizes = {"src_vocab": tokenisers.src.vocab, "tgt_vocab": tokenisers.tgt.vocab}
    return corpus, tokenisers, ModelConfig.from_dict(settings | sizes)


def build_model(config: ModelConfig, seed: int) -> Transformer:
    """A model with the weights that `seed` decides; the caller's random state stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)
