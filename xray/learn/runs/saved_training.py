"""A chatbot at school: what it learns from, how far it is, and the folder where that is kept."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from xray.data.corpus.stored import Part
from xray.learn.answers.chatbot import Chatbot
from xray.learn.runs.checkpoint import Checkpoint
from xray.learn.runs.run_facts import RunFacts
from xray.learn.runs.run_folder import AVERAGE, BEST, LAST, PREVIOUS, RunFolder
from xray.learn.steps.made import Epoch, Step
from xray.learn.steps.processes import World
from xray.learn.steps.trainer import Trainer

SAVE_EVERY_S = 10.0
"""`last` is written at the end of an epoch that is this much later than the one before it, and at the end of all."""

SAVE_WITHIN_S = 120.0
"""In an epoch that takes longer it is also written this often on the way."""


@dataclass
class Training:
    """A trainer with all that belongs to its run; `train_pairs` are learnt, `valid_pairs` only measured on."""

    facts: RunFacts
    folder: RunFolder
    trainer: Trainer
    train_pairs: Part
    valid_pairs: Part
    notes: tuple[str, ...] = ()
    saved_at_s: float = field(default=0.0, init=False)

    @property
    def world(self) -> World:
        """The processes that train together."""
        return self.trainer.world

    def go_on(self) -> Iterator[Step | Epoch]:
        """Train to the end, saving on the way; see `Trainer.go_on`."""
        for made in self.trainer.go_on():
            if self.world.is_writer or self.world.shards:
                self.save_if_due(made)
            yield made

    def save_if_due(self, made: Step | Epoch) -> None:
        """Write what should not get lost any more."""
        unsaved_s = self.trainer.elapsed_s - self.saved_at_s
        if isinstance(made, Step):
            if self.world.heed_writer(unsaved_s >= SAVE_WITHIN_S):
                self.save()
            return
        if made.is_best:
            self.write(BEST, weights_only=True)
        if self.trainer.is_finished and self.trainer.mean is not None:
            with self.trainer.mean.in_model():
                self.write(AVERAGE, weights_only=True)
        if self.trainer.is_finished or self.world.heed_writer(unsaved_s >= SAVE_EVERY_S):
            self.save()

    def save(self) -> None:
        """Write the state of this moment as the last checkpoint; the one before it is kept.

        Where weights are divided all processes call it together, and the writer writes.
        """
        self.write(LAST, keep=PREVIOUS)
        self.saved_at_s = self.trainer.elapsed_s

    def write(self, name: str, weights_only: bool = False, keep: str | None = None) -> None:
        """Write a checkpoint."""
        made = self.checkpoint(weights_only)
        if self.world.is_writer:
            self.folder.write(name, made.to_bytes(), keep=keep)

    def checkpoint(self, weights_only: bool = False) -> Checkpoint:
        """The state of this moment, or only what answering needs."""
        return self.trainer.to_checkpoint({"model": self.facts.model.to_dict()}, weights_only)

    def chatbot(self) -> Chatbot:
        """The chatbot as it is now; it shares its weights with the trainer."""
        return Chatbot(
            name=self.facts.name,
            model=self.trainer.model,
            tokenisers=self.facts.tokenisers,
            poster_pairs=self.facts.poster,
            device=next(self.trainer.model.parameters()).device,
            trained=self.trainer.steps_made > 0,
            label_smoothing=self.facts.training.label_smoothing,
            batch=self.facts.training.batch,
            batch_tokens=self.facts.training.batch_tokens,
            suggestions=self.facts.suggestions,
            notes=self.notes,
        )
