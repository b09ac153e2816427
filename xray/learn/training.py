"""A run from its first step to its last: begun, saved, stopped, taken up again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xray.config import TrainConfig
from xray.data.batches import encode_pairs
from xray.data.pairs import POSTER_PAIRS, Corpus, Pair, sift_pairs
from xray.data.reading import read_pairs
from xray.data.source import Source
from xray.data.split import choose_held_out
from xray.data.tokeniser import split_text
from xray.errors import RunError
from xray.learn.chatbot import Chatbot
from xray.learn.checkpoint import Checkpoint
from xray.learn.devices import choose_device
from xray.learn.fit import Epoch, Sample, Step, Trainer
from xray.learn.folder import BEST, LAST, PREVIOUS, RunFolder
from xray.learn.run import build_model, find_checkpoint, prepare
from xray.learn.store import RunFacts, check_wishes, corpus_digest, read_run, write_run

SUGGESTIONS = 2000
"""How many questions of the corpus a run keeps to suggest in a chat."""

SAVE_EVERY_S = 10.0
"""`last` is written at the end of an epoch that is this much later than the one before it, and at the end of all."""


@dataclass
class Training:
    """A chatbot at school: what it learns from, how far it is, and the folder where that is kept."""

    facts: RunFacts
    folder: RunFolder
    trainer: Trainer
    train_pairs: tuple[Pair, ...]
    valid_pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()
    saved_at_s: float = field(default=0.0, init=False)

    def go_on(self) -> Iterator[Step | Epoch]:
        """Train to the end, saving on the way; see `Trainer.go_on`."""
        for made in self.trainer.go_on():
            if isinstance(made, Epoch):
                if made.is_best:
                    self.folder.write(BEST, self.checkpoint(weights_only=True).to_bytes())
                if self.trainer.is_finished or self.trainer.elapsed_s - self.saved_at_s >= SAVE_EVERY_S:
                    self.save()
            yield made

    def save(self) -> None:
        """Write the state of this moment as the last checkpoint; the one before it is kept."""
        self.folder.write(LAST, self.checkpoint().to_bytes(), keep=PREVIOUS)
        self.saved_at_s = self.trainer.elapsed_s

    def checkpoint(self, weights_only: bool = False) -> Checkpoint:
        """The state of this moment, or only what answering needs."""
        whole = self.trainer.to_checkpoint({"model": self.facts.model.to_dict()})
        if not weights_only:
            return whole
        return Checkpoint({name: t for name, t in whole.tensors.items() if name.startswith("model.")}, whole.facts)

    def chatbot(self) -> Chatbot:
        """The chatbot as it is now; it shares its weights with the trainer."""
        return Chatbot(
            name=self.facts.name,
            model=self.trainer.model,
            tokenisers=self.facts.tokenisers,
            poster_pairs=self.facts.poster,
            device=self.trainer.device,
            trained=self.trainer.steps_made > 0,
            label_smoothing=self.facts.training.label_smoothing,
            suggestions=self.facts.suggestions,
            notes=self.notes,
        )


@contextmanager
def begin_training(
    source: Source,
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    config: TrainConfig | None = None,
    device: str = "auto",
    overwrite: bool = False,
) -> Iterator[Training]:
    """A new run in `folder`, which is this process's alone inside the block; `settings` are fields of `ModelConfig`.

    The corpus is read and the model built before anything is created, and the first checkpoint is written before the
    first step, so that a full or closed disk is found at once.

    Raises:
        DataError: the corpus cannot be read.
        ConfigError: the settings cannot be.
        RunError: the folder holds a run already, is in use, or cannot be written.
    """
    place, config = RunFolder(folder), config or TrainConfig()
    if not overwrite:
        check_free(place)
    chosen = choose_device(device)
    corpus, tokenisers, model_config = prepare(source, settings or {})
    held_out = choose_held_out(corpus.pairs, config.valid_share, config.seed)
    facts = RunFacts(
        name=source.path.stem,
        model=model_config,
        training=config,
        source=source,
        corpus=corpus_digest(corpus.pairs),
        held_out=held_out,
        tokenisers=tokenisers,
        poster=corpus.pairs[:POSTER_PAIRS],
        suggestions=suggest(corpus, held_out),
    )
    model = build_model(model_config, config.seed).to(chosen)
    training = gather(facts, place, corpus, Trainer(model, config, *samples(facts, corpus)))
    with place.claim():
        if not overwrite:
            check_free(place)
        place.clear()
        training.save()
        write_run(place, facts)
        yield training


@contextmanager
def resume_training(
    folder: Path, source: Source | None = None, wishes: Mapping[str, Any] | None = None, device: str = "auto"
) -> Iterator[Training]:
    """The run in `folder`, to go on bit for bit where it stopped; `wishes` are settings that it should have.

    Without `source` its corpus is read from where it was.

    Raises:
        DataError: the corpus cannot be read.
        RunError: there is no run, it is damaged or in use, its corpus has changed, or it has other settings.
    """
    place = RunFolder(folder)
    read_run(place)
    chosen = choose_device(device)
    with place.claim():
        facts = read_run(place)
        check_wishes(place, facts, wishes or {})
        found, notes = find_checkpoint(place, facts)
        source = source or facts.source
        corpus = sift_pairs(source.name, read_pairs(source), split_text, facts.model.max_len)
        if corpus_digest(corpus.pairs) != facts.corpus:
            raise RunError(
                f"{source.name} is not the corpus that {place.name} was begun with, or has changed since. "
                "Give it the old one, or begin another run with --out."
            )
        model = build_model(facts.model, facts.training.seed).to(chosen)
        trainer = Trainer(model, facts.training, *samples(facts, corpus))
        trainer.restore(found)
        training = gather(facts, place, corpus, trainer, notes)
        training.saved_at_s = trainer.elapsed_s
        yield training


def samples(facts: RunFacts, corpus: Corpus) -> tuple[list[Sample], list[Sample]]:
    """The pairs to learn and those held out, as ids; made once, so that no step waits for a tokeniser."""
    src, tgt = encode_pairs(corpus.pairs, facts.tokenisers)
    everything, held_out = list(zip(src, tgt, strict=True)), set(facts.held_out)
    train = [sample for number, sample in enumerate(everything) if number not in held_out]
    return train, [everything[number] for number in facts.held_out]


def gather(
    facts: RunFacts, place: RunFolder, corpus: Corpus, trainer: Trainer, notes: tuple[str, ...] = ()
) -> Training:
    """A training, with everything there is to say before it goes on."""
    held_out = set(facts.held_out)
    lost = facts.tokenisers.count_unknown_answer_words(corpus.pairs)
    if lost:
        notes += (
            f"{lost:,} words of the answers are beyond the vocabulary of {facts.model.tgt_vocab:,} and become <unk>: "
            "raise --tgt-vocab to keep them",
        )
    if not facts.held_out:
        notes += (
            f"no validation set: {len(corpus.pairs):,} {'pair is' if len(corpus.pairs) == 1 else 'pairs are'} too few",
        )
    return Training(
        facts,
        place,
        trainer,
        tuple(pair for number, pair in enumerate(corpus.pairs) if number not in held_out),
        tuple(corpus.pairs[number] for number in facts.held_out),
        corpus.notes + notes,
    )


def suggest(corpus: Corpus, held_out: tuple[int, ...]) -> tuple[str, ...]:
    """Questions that the chatbot will have learnt, from all over the corpus."""
    learnt = [pair.question for number, pair in enumerate(corpus.pairs) if number not in set(held_out)]
    return tuple(learnt[:: max(1, len(learnt) // SUGGESTIONS)][:SUGGESTIONS])


def check_free(place: RunFolder) -> None:
    """Make sure that no run is overwritten unasked.

    Raises:
        RunError: there is one.
    """
    if place.holds_run:
        raise RunError(
            f"{place.name} holds a run already. Go on with it (--resume), replace it (--overwrite), "
            "or choose another folder (--out)."
        )
