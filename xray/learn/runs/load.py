"""Chatbots to talk to: one from a run folder, or one that has not learnt anything yet."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from xray.config import TextConfig, TrainConfig
from xray.data.corpus.stored import StoredCorpus
from xray.data.pairs import POSTER_PAIRS
from xray.data.reading.examples import example_corpus
from xray.data.reading.origin import AnySource, Origin, as_origin
from xray.errors import RunError
from xray.learn.answers.chatbot import Chatbot
from xray.learn.answers.decode import GREEDY, Way
from xray.learn.devices import choose_device
from xray.learn.runs.build import build_model, prepare
from xray.learn.runs.checkpoint import Checkpoint, read_checkpoint
from xray.learn.runs.run_facts import RunFacts, read_run
from xray.learn.runs.run_folder import AVERAGE, BEST, CORPUS, LAST, PREVIOUS, RunFolder
from xray.learn.steps.restoring import restore_model
from xray.scratch import scratch_folder

Which = Literal["last", "best", "average"]
"""Checkpoints of a run that answer."""


def load_run(
    folder: Path | str,
    device: str = "auto",
    checkpoint: Which = "last",
    way: Way = GREEDY,
) -> Chatbot:
    """The chatbot of a run folder, which answers greedily or as `way` says.

    "last" is where training stands or ended: a chatbot that learns its corpus by heart answers best there. "best" is
    where the loss on held-out pairs was lowest, "average" the mean of the last epochs' weights.
    If the last checkpoint is damaged, the one before it is taken, and `notes` says so.

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


def find_checkpoint(folder: RunFolder, facts: RunFacts, which: Which = "last") -> tuple[Checkpoint, tuple[str, ...]]:
    """The checkpoint wanted, or the one before it if that is damaged, and what there is to say about it.

    Raises:
        RunError: there is no whole one.
    """
    if which == "average" and not (folder.path / AVERAGE).exists():
        raise RunError(f"{folder.name} has no averaged weights. Train to the end with --average 5.")
    if which == "average":
        return read_checkpoint(folder, AVERAGE, facts.model), ()
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
