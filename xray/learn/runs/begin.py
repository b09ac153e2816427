"""A run begun, or taken up again where it stopped."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from xray.config import SHOWN, TextConfig, TrainConfig
from xray.data.batches import fill_with_tokens
from xray.data.corpus.held_out import choose_held_out
from xray.data.corpus.stored import Part, StoredCorpus
from xray.data.pairs import MOST_POSTER_PAIRS, Pair
from xray.data.reading.origin import AnySource, Origin, as_origin, fingerprints
from xray.data.rows_on_disk import numbers_without
from xray.data.stages import Stage, Tell, report_nobody
from xray.errors import RunError
from xray.learn.devices import choose_device
from xray.learn.runs.build import build_model, prepare
from xray.learn.runs.checkpoint import Checkpoint
from xray.learn.runs.load import find_checkpoint
from xray.learn.runs.run_facts import RunFacts, check_corpus, check_wishes, read_run, write_run
from xray.learn.runs.run_folder import CORPUS, LAST, TRAIN_AGAIN, RunFolder
from xray.learn.runs.saved_training import Training
from xray.learn.steps.processes import World
from xray.learn.steps.trainer import Trainer
from xray.text import show_controls

SUGGESTIONS = 2000
"""How many questions of the corpus a run keeps to suggest in a chat."""


@contextmanager
def begin_training(
    source: Origin | AnySource,
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    config: TrainConfig | None = None,
    device: str = "auto",
    overwrite: bool = False,
    text: TextConfig | None = None,
    world: World | None = None,
    tell: Tell = report_nobody,
) -> Iterator[Training]:
    """A new run in `folder`, which is this process's alone inside the block; `settings` are fields of `ModelConfig`.

    The first checkpoint is written before the first step, so that a full or closed disk is found at once; a run that is
    overwritten stays until then. A preparation that is killed is gone on with the next time, one that fails leaves
    nothing; `tell` hears how far it is. Of several processes the writer does this while the others wait; then they
    read what it wrote.

    Raises:
        DataError: the corpus cannot be read.
        ConfigError: the settings cannot be.
        RunError: the folder holds a run already, is in use, or cannot be written.
    """
    place, config, world = RunFolder(folder), config or TrainConfig(), world or World()
    chosen = world.device(choose_device(device))
    with ExitStack() as opened:
        notes: tuple[str, ...] = ()
        if world.is_writer:
            with world.others_waiting():
                if not overwrite:
                    check_free(place)
                opened.enter_context(place.claim())
                if not overwrite:
                    check_free(place)
                with place.preparing() as work:
                    facts, notes = plan(as_origin(source), settings or {}, config, text or TextConfig(), work, tell)
                    tell(Stage("writing the run", 0, 0))
                    lay_out(place, facts, work / CORPUS)
                facts = read_run(place)
                training = gather(facts, place, chosen, world, notes)
        else:
            world.wait_for_writer()
            training = gather(read_run(place), place, chosen, world, notes)
        yield training


@contextmanager
def resume_training(
    folder: Path,
    source: Origin | AnySource | None = None,
    wishes: Mapping[str, Any] | None = None,
    device: str = "auto",
    world: World | None = None,
) -> Iterator[Training]:
    """The run in `folder`, to go on bit for bit where it stopped; `wishes` are settings that it should have.

    Its pairs are those it keeps; the files of `source`, or those it was begun with, are only compared.

    Raises:
        DataError: a file of `source` cannot be read.
        RunError: there is no run, it is damaged or in use, its corpus has changed, or it has other settings.
    """
    place, world = RunFolder(folder), world or World()
    chosen = world.device(choose_device(device))
    with ExitStack() as opened:
        if world.is_writer:
            with world.others_waiting():
                read_run(place)
                opened.enter_context(place.claim())
                facts = read_run(place)
                check_wishes(place, facts, wishes or {})
                check_corpus(place, facts, None if source is None else as_origin(source))
                found, notes = find_checkpoint(place, facts)
                training = gather(facts, place, chosen, world, notes, found)
        else:
            world.wait_for_writer()
            facts = read_run(place)
            training = gather(facts, place, chosen, world, (), find_checkpoint(place, facts)[0])
        yield training


def plan(
    origin: Origin, settings: Mapping[str, Any], config: TrainConfig, text: TextConfig, work: Path, tell: Tell
) -> tuple[RunFacts, tuple[str, ...]]:
    """Everything there is to know and to say about a run before its first step; its corpus is stored in `work`."""
    prepared, model_config, text = prepare(origin, settings, text, work / CORPUS, tell)
    corpus, notes = StoredCorpus(work / CORPUS), prepared.notes
    if prepared.lost:
        notes += (
            f"{prepared.lost:,} words of the answers are beyond the vocabulary of {model_config.tgt_vocab:,} and "
            "become <unk>: raise --tgt-vocab to keep them",
        )
    if origin.held_out:
        held_out = tuple(range(prepared.learnt, len(corpus)))
    else:
        held_out = choose_held_out(corpus, config.valid_share, config.seed, tell)
    learnt = Part(corpus, numbers_without(len(corpus), held_out, corpus.folder))
    facts = RunFacts(
        name=origin.stem,
        model=model_config,
        training=config,
        text=text,
        origin=origin,
        files=fingerprints(origin),
        corpus=prepared.digest,
        held_out=held_out,
        tokenisers=prepared.tokenisers,
        poster=choose_poster(learnt, config),
        suggestions=suggest(learnt),
    )
    return facts, notes


def lay_out(place: RunFolder, facts: RunFacts, corpus: Path) -> None:
    """Write a whole run, its first checkpoint included, aside; then let it take the place of the one that is there."""
    prepared = place.prepare_next()
    prepared.take(CORPUS, corpus)
    trainer = Trainer(
        build_model(facts.model, facts.training.seed),
        facts.training,
        *parts(facts, StoredCorpus(prepared.path / CORPUS)),
    )
    prepared.write(LAST, trainer.to_checkpoint({"model": facts.model.to_dict()}).to_bytes())
    write_run(prepared, facts)
    place.adopt()


def gather(
    facts: RunFacts,
    place: RunFolder,
    device: torch.device,
    world: World,
    notes: tuple[str, ...],
    found: Checkpoint | None = None,
) -> Training:
    """A training, from a checkpoint or from the start, with everything there is to say before it goes on."""
    model = build_model(facts.model, facts.training.seed)
    try:
        corpus = StoredCorpus(place.path / CORPUS)
        corpus.check_ids(facts.model.src_vocab, facts.model.tgt_vocab, facts.model.max_len)
        train, valid = parts(facts, corpus)
        trainer = Trainer(model, facts.training, train, valid, world, device)
        if found is not None:
            trainer.restore(found)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        reason = show_controls(" ".join(str(error).split()))[:SHOWN]
        raise RunError(f"{place.name} is damaged: {type(error).__name__} {reason}. {TRAIN_AGAIN}") from error
    if not facts.held_out:
        notes += (f"no validation set: {len(train):,} {'pair is' if len(train) == 1 else 'pairs are'} too few",)
    training = Training(facts, place, trainer, train, valid, notes)
    training.saved_at_s = trainer.elapsed_s
    return training


def parts(facts: RunFacts, corpus: StoredCorpus) -> tuple[Part, Part]:
    """The pairs to learn, and those held out."""
    learnt = numbers_without(len(corpus), facts.held_out, corpus.folder)
    return Part(corpus, learnt), Part(corpus, torch.tensor(facts.held_out, dtype=torch.int))


def choose_poster(learnt: Part, config: TrainConfig) -> tuple[Pair, ...]:
    """The first pairs that are learnt, as many as make a batch, as far as a poster can show them."""
    count = config.batch
    if config.batch_tokens:
        count = fill_with_tokens(learnt.lengths[:MOST_POSTER_PAIRS].amax(dim=1).tolist(), config.batch_tokens)[0]
    return learnt[: min(count, MOST_POSTER_PAIRS)]


def suggest(learnt: Part) -> tuple[str, ...]:
    """Questions that the chatbot will have learnt, from all over the corpus."""
    stride = max(1, len(learnt) // SUGGESTIONS)
    return tuple(pair.question for pair in learnt[::stride][:SUGGESTIONS])


def check_free(place: RunFolder) -> None:
    """Make sure that no run is overwritten unasked.

    Raises:
        RunError: there is one.
    """
    place.settle()
    if place.holds_run:
        raise RunError(
            f"{place.name} holds a run already. Go on with it (--resume), replace it (--overwrite), "
            "or choose another folder (--out)."
        )
