"""Training: teacher forcing, step by step, so that it can stop after any step and go on as if it never had."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from xray.config import TrainConfig
from xray.data.batches import group_by_length, pad
from xray.errors import RunError
from xray.learn.chance import Chance
from xray.learn.checkpoint import Checkpoint
from xray.learn.schedule import learning_rate
from xray.learn.threads import fitting_threads
from xray.model.teaching import AnswerLoss, ShiftAnswer
from xray.model.transformer import Transformer

Sample = tuple[Tensor, Tensor]
"""The ids of a question and of its answer."""


@dataclass(frozen=True)
class Step:
    """One step was made. `loss` is None where fetching it would have made the device wait."""

    epoch: int
    number: int
    loss: float | None
    tokens: int


@dataclass(frozen=True)
class Epoch:
    """One epoch is over. `valid_loss` is None without held-out pairs; `is_best` says that it was never lower."""

    number: int
    loss: float
    valid_loss: float | None
    is_best: bool
    elapsed_s: float


class Trainer:
    """A model, its optimiser, and how far they have come; the state at any moment is a checkpoint."""

    def __init__(
        self, model: Transformer, config: TrainConfig, train: Sequence[Sample], valid: Sequence[Sample]
    ) -> None:
        self.model = model
        self.config = config
        self.train = train
        self.valid = valid
        self.device = next(model.parameters()).device
        self.shift = ShiftAnswer()
        self.loss = AnswerLoss(config.label_smoothing)
        self.plain_loss = AnswerLoss()
        self.optimiser = torch.optim.Adam(
            model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self.epoch = 0  # how many are over
        self.step = 0  # how many of the epoch at hand are over
        self.history: list[Epoch] = []
        self.elapsed_s = 0.0
        self.loss_sum = torch.zeros((), device=self.device)
        self.chance = Chance(config.seed, self.device)

    @property
    def steps_per_epoch(self) -> int:
        """How many batches the training pairs make."""
        return math.ceil(len(self.train) / self.config.batch)

    @property
    def steps(self) -> int:
        """How many steps there are in all epochs together."""
        return self.steps_per_epoch * self.config.epochs

    @property
    def steps_made(self) -> int:
        """How many steps have been made."""
        return self.epoch * self.steps_per_epoch + self.step

    @property
    def is_finished(self) -> bool:
        """Whether the last epoch is over."""
        return self.epoch >= self.config.epochs

    def go_on(self) -> Iterator[Step | Epoch]:
        """Train from here to the end, telling each step and each epoch when it is over.

        Between two tellings the trainer rests: it may be saved, or left for good.

        Raises:
            RunError: the loss is no longer a finite number.
        """
        while not self.is_finished:
            yield from self.go_through_epoch()

    def go_through_epoch(self) -> Iterator[Step | Epoch]:
        """The steps that are left of the epoch at hand, then the epoch."""
        lengths = [(len(src), len(tgt)) for src, tgt in self.train]
        batches = list(group_by_length(lengths, self.config.batch, f"{self.config.seed}/{self.epoch}"))
        for numbers in batches[self.step :]:
            started = time.perf_counter()
            with self.own_surroundings():
                made = self.make_step([self.train[number] for number in numbers])
            self.elapsed_s += time.perf_counter() - started
            yield made
        started = time.perf_counter()
        with self.own_surroundings():
            over = self.finish_epoch(len(batches))
        self.elapsed_s += time.perf_counter() - started
        yield over

    def make_step(self, samples: Sequence[Sample]) -> Step:
        """Forward, loss, backward, clip, Adam."""
        src = pad([src for src, _ in samples]).to(self.device)
        tgt = pad([tgt for _, tgt in samples]).to(self.device)
        decoder_input, targets = self.shift(tgt)
        rate = learning_rate(self.steps_made, self.steps, self.config.learning_rate, self.config.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.model.train()
        loss = self.loss(self.model(src, decoder_input), targets)
        shown = self.look_at(loss)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimiser.step()
        self.loss_sum += loss.detach()
        self.step += 1
        return Step(self.epoch + 1, self.steps_made, shown, sum(len(tgt) - 1 for _, tgt in samples))

    def look_at(self, loss: Tensor) -> float | None:
        """The loss as a number; on a device that runs ahead of Python only now and then, since looking means waiting.

        Raises:
            RunError: it is no finite number.
        """
        if self.device.type != "cpu" and self.step % 20:
            return None
        value = float(loss.detach())
        if not math.isfinite(value):
            raise RunError(
                f"the loss became {value} in epoch {self.epoch + 1}, step {self.step + 1}: training stopped, "
                f"what was saved before is untouched. Lower --lr, now {self.config.learning_rate:g}."
            )
        return value

    def finish_epoch(self, steps: int) -> Epoch:
        """Measure, and turn to the next epoch."""
        valid_loss = self.validate()
        lowest = min((past.valid_loss for past in self.history if past.valid_loss is not None), default=math.inf)
        over = Epoch(
            number=self.epoch + 1,
            loss=float(self.loss_sum) / steps,
            valid_loss=valid_loss,
            is_best=valid_loss is not None and valid_loss < lowest,
            elapsed_s=self.elapsed_s,
        )
        self.history.append(over)
        self.loss_sum.zero_()
        self.epoch, self.step = self.epoch + 1, 0
        return over

    @torch.no_grad()
    def validate(self) -> float | None:
        """The mean loss for each word of the held-out answers, without label smoothing; None if none are held out."""
        if not self.valid:
            return None
        self.model.eval()
        total, count = 0.0, 0
        for start in range(0, len(self.valid), 256):
            samples = self.valid[start : start + 256]
            decoder_input, targets = self.shift(pad([tgt for _, tgt in samples]).to(self.device))
            logits = self.model(pad([src for src, _ in samples]).to(self.device), decoder_input)
            words = sum(len(tgt) - 1 for _, tgt in samples)
            total += float(self.plain_loss(logits, targets)) * words
            count += words
        return total / count

    @contextmanager
    def own_surroundings(self) -> Iterator[None]:
        """Inside the block chance is the trainer's own, and no more cores are busy than the model is worth."""
        with self.chance.drawn_from(), fitting_threads(self.model.config):
            yield

    def to_checkpoint(self, facts: Mapping[str, Any]) -> Checkpoint:
        """Everything that `restore` needs to go on bit for bit.

        Raises:
            RunError: a weight is no longer a finite number, and the last good checkpoint should stay.
        """
        tensors: dict[str, Tensor] = {**self.chance.to_tensors(), "loss_sum": self.loss_sum}
        for name, parameter in self.model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise RunError(
                    f"the weights {name} are no longer finite in epoch {self.epoch + 1}: training stopped, "
                    f"what was saved before is untouched. Lower --lr, now {self.config.learning_rate:g}."
                )
            tensors[f"model.{name}"] = parameter
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"adam.{key}.{name}"] = value
        progress = {
            "epoch": self.epoch,
            "step": self.step,
            "elapsed_s": self.elapsed_s,
            "history": [vars(epoch) for epoch in self.history],
        }
        return Checkpoint(tensors, {**facts, "training": self.config.to_dict(), **progress})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Become what was saved."""
        restore_model(self.model, checkpoint)
        for name, parameter in self.model.named_parameters():
            state = {
                key: checkpoint.tensors[f"adam.{key}.{name}"].to(self.device, copy=True)
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"adam.{key}.{name}" in checkpoint.tensors
            }
            if state:
                self.optimiser.state[parameter] = state
        self.chance.restore(checkpoint.tensors)
        self.loss_sum = checkpoint.tensors["loss_sum"].to(self.device, copy=True)
        self.epoch, self.step = checkpoint.facts["epoch"], checkpoint.facts["step"]
        self.elapsed_s = checkpoint.facts["elapsed_s"]
        self.history = [Epoch(**epoch) for epoch in checkpoint.facts["history"]]


def restore_model(model: Transformer, checkpoint: Checkpoint) -> None:
    """Give a model the weights of a checkpoint, every one of them and no others.

    Raises:
        RunError: the checkpoint holds other weights than the model.
    """
    wanted = dict(model.named_parameters())
    found = {name.removeprefix("model."): t for name, t in checkpoint.tensors.items() if name.startswith("model.")}
    odd = sorted(wanted.keys() ^ found.keys())
    if odd:
        raise RunError(f"the checkpoint and the model do not both have {odd[0]}. They belong to different runs.")
    with torch.no_grad():
        for name, parameter in wanted.items():
            if parameter.shape != found[name].shape:
                raise RunError(
                    f"the checkpoint's {name} is {tuple(found[name].shape)}, the model's {tuple(parameter.shape)}. "
                    "They belong to different runs."
                )
            parameter.copy_(found[name])
