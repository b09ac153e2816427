"""Training: teacher forcing, step by step, so that it can stop after any step and go on as if it never had."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from xray.config import TrainConfig
from xray.data.batches import count_batches, group_by_length
from xray.errors import RunError
from xray.learn.runs.checkpoint import Checkpoint
from xray.learn.steps.learning_rate import rate_at
from xray.learn.steps.optimiser import computing_type, make_optimiser, restore_state, state_tensors
from xray.learn.steps.processes import World
from xray.learn.steps.random_state import Chance
from xray.learn.steps.samples import Samples
from xray.learn.threads import fitting_threads
from xray.model.fast.forward import FastForward
from xray.model.fast.packed_weights import PackedWeights
from xray.model.teaching import AnswerLoss, ShiftAnswer
from xray.model.transformer import Transformer

VALID_TOKENS = 4096
"""How many places of held-out answers are computed at a time."""


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
        self, model: Transformer, config: TrainConfig, train: Samples, valid: Samples, world: World | None = None
    ) -> None:
        self.model = model
        self.config = config
        self.train = train
        self.valid = valid
        self.world = world or World()
        self.device = next(model.parameters()).device
        self.weights = PackedWeights(model)
        swift = FastForward(self.weights)
        self.forward = torch.compile(swift, dynamic=True) if config.compiled else swift
        self.number_type = computing_type(config.precision, self.device)
        self.shift = ShiftAnswer()
        self.loss = AnswerLoss(config.label_smoothing)
        self.plain_loss = AnswerLoss()
        self.optimiser = make_optimiser(self.weights.block, config)
        self.steps_per_epoch = math.ceil(
            count_batches(train.lengths, config.batch, config.batch_tokens) / config.accumulate
        )
        self.epoch = 0  # how many are over
        self.step = 0  # how many of the epoch at hand are over
        self.history: list[Epoch] = []
        self.elapsed_s = 0.0
        self.loss_sum = torch.zeros((), device=self.device)
        self.chance = Chance(config.seed, self.device)

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
        """Whether the last epoch is over, or training no longer helps."""
        return self.epoch >= self.config.epochs or self.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether the held-out loss has not fallen for as many epochs as patience lasts."""
        patience, past = self.config.patience, self.history
        return bool(patience) and len(past) >= patience and not any(epoch.is_best for epoch in past[-patience:])

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
        config = self.config
        batches = group_by_length(self.train.lengths, config.batch, f"{config.seed}/{self.epoch}", config.batch_tokens)
        while self.step < self.steps_per_epoch:
            started = time.perf_counter()
            first = self.step * config.accumulate
            with self.own_surroundings():
                made = self.make_step([one.tolist() for one in batches[first : first + config.accumulate]])
            self.elapsed_s += time.perf_counter() - started
            yield made
        started = time.perf_counter()
        with self.own_surroundings():
            over = self.finish_epoch(self.steps_per_epoch)
        self.elapsed_s += time.perf_counter() - started
        yield over

    def make_step(self, batches: Sequence[Sequence[int]]) -> Step:
        """Forward, loss and backward for every batch, then clip and Adam, once for all of them.

        Every word counts alike, in whichever batch and process it is.
        """
        words = sum(count_words(self.train, numbers) for numbers in batches)
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(self.steps_made, self.steps, self.config)
        if not self.model.training:
            self.model.train()
        self.weights.forget_gradients()
        loss_here = torch.zeros((), device=self.device)
        for numbers in batches:
            if mine := self.world.share(numbers):
                loss = self.loss_of(self.train, mine, self.loss)
                if len(mine) < len(numbers) or len(batches) > 1:
                    loss = loss * (count_words(self.train, mine) / words)
                torch.autograd.backward(loss)
                loss_here = loss_here + loss.detach()
        self.weights.gather_gradients()
        loss_of_all = self.world.add_gradients(self.weights.block, loss_here)
        shown = self.look_at(loss_of_all)
        if self.config.clip:
            nn.utils.clip_grad_norm_(self.weights.block, self.config.clip)
        self.optimiser.step()
        self.loss_sum += loss_of_all
        self.step += 1
        return Step(self.epoch + 1, self.steps_made, shown, words)

    def loss_of(self, samples: Samples, numbers: Sequence[int], judge: AnswerLoss) -> Tensor:
        """The mean loss for each word of these answers."""
        src, tgt = (ids.to(self.device, non_blocking=True) for ids in samples.batch(numbers))
        decoder_input, targets = self.shift(tgt)
        if self.number_type is torch.float32:
            return judge(self.forward(src, decoder_input), targets)  # type: ignore[no-any-return]
        with torch.autocast(self.device.type, self.number_type):
            return judge(self.forward(src, decoder_input), targets)  # type: ignore[no-any-return]

    def look_at(self, loss: Tensor) -> float | None:
        """The loss as a number; on a device that runs ahead of Python only now and then, since looking means waiting.

        Raises:
            RunError: it is no finite number.
        """
        if self.device.type != "cpu" and self.step % 20:
            return None
        value = float(loss)
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
        if not len(self.valid):
            return None
        self.model.eval()
        total, count = 0.0, 0
        batches = group_by_length(self.valid.lengths, 1, "held out", VALID_TOKENS)
        for numbers in (batch.tolist() for batch in self.world.share(batches)):
            words = count_words(self.valid, numbers)
            total += float(self.loss_of(self.valid, numbers, self.plain_loss)) * words
            count += words
        total, words_of_all = self.world.add_numbers(total, count)
        return total / words_of_all

    @contextmanager
    def own_surroundings(self) -> Iterator[None]:
        """Inside the block chance is the trainer's own, and no more cores are busy than the model is worth."""
        with self.chance.drawn_from(), fitting_threads(self.model.config):
            if not self.world.is_writer:  # what the writer drops is in its checkpoint, what others drop follows from it
                torch.manual_seed(hash((self.config.seed, self.world.rank, self.steps_made)))
            yield

    def to_checkpoint(self, facts: Mapping[str, Any]) -> Checkpoint:
        """Everything that `restore` needs to go on bit for bit.

        Raises:
            RunError: a weight is no longer a finite number, and the last good checkpoint should stay.
        """
        tensors: dict[str, Tensor] = {
            **self.chance.to_tensors(),
            **state_tensors(self.optimiser, self.weights),
            "loss_sum": self.loss_sum,
        }
        for name, parameter in self.model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise RunError(
                    f"the weights {name} are no longer finite in epoch {self.epoch + 1}: training stopped, "
                    f"what was saved before is untouched. Lower --lr, now {self.config.learning_rate:g}."
                )
            tensors[f"model.{name}"] = parameter
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
        restore_state(self.optimiser, self.weights, checkpoint.tensors)
        for name, wanted in {**self.chance.to_tensors(), "loss_sum": self.loss_sum}.items():
            check_like(name, checkpoint.tensors.get(name, wanted), wanted)
        self.chance.restore(checkpoint.tensors)
        self.loss_sum = checkpoint.tensors["loss_sum"].to(self.device, copy=True)
        self.epoch, self.step = checkpoint.facts["epoch"], checkpoint.facts["step"]
        self.elapsed_s = checkpoint.facts["elapsed_s"]
        self.history = [Epoch(**epoch) for epoch in checkpoint.facts["history"]]


def check_like(name: str, found: Tensor, wanted: Tensor) -> None:
    """Hold a tensor of a checkpoint to the kind that belongs in its place.

    Raises:
        RunError: it has another shape or type.
    """
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        raise RunError(
            f"the checkpoint's {name} is {tuple(found.shape)} {found.dtype}, and should be {tuple(wanted.shape)} "
            f"{wanted.dtype}. It was changed, or made by another X-Ray; train again."
        )


def count_words(samples: Samples, numbers: Sequence[int]) -> int:
    """How many words the model has to say in these answers, `<eos>` included."""
    return int(samples.lengths[list(numbers), 1].sum()) - len(numbers)


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
