"""Training: teacher forcing, step by step, so that it can stop after any step and go on as if it never had."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from xray.config import TrainConfig
from xray.data.batches import count_batches, group_by_length
from xray.errors import ConfigError, RunError
from xray.learn.runs.checkpoint import Checkpoint
from xray.learn.steps.learning_rate import rate_at
from xray.learn.steps.made import Epoch, Step
from xray.learn.steps.mean_weights import MeanWeights
from xray.learn.steps.optimiser import computing_type, make_optimiser, restore_state, state_tensors
from xray.learn.steps.processes import World
from xray.learn.steps.random_state import Chance
from xray.learn.steps.restoring import check_like, restore_model
from xray.learn.steps.right_share import count_right
from xray.learn.steps.samples import Samples
from xray.learn.threads import fitting_threads
from xray.model.fast.forward import FastForward
from xray.model.fast.packed_weights import PackedWeights
from xray.model.fast.sharded_weights import ShardedWeights, Weights
from xray.model.teaching import ShiftAnswer
from xray.model.transformer import Transformer

VALID_TOKENS = 4096
"""How many places of held-out answers are computed at a time."""


class Trainer:
    """A model, its optimiser, and how far they have come; the state at any moment is a checkpoint."""

    def __init__(
        self,
        model: Transformer,
        config: TrainConfig,
        train: Samples,
        valid: Samples,
        world: World | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model = model
        self.config = config
        self.train = train
        self.valid = valid
        self.world = world or World()
        self.device = torch.device(device)
        if self.world.shards and config.compiled:
            raise ConfigError("--shard and --compile do not go together yet. Leave one of them out.")
        self.weights: Weights = (
            ShardedWeights(model, self.device, self.world.rank, self.world.size)
            if self.world.shards
            else PackedWeights(model.to(self.device))
        )
        self.fast = FastForward(self.weights)
        self.states = torch.compile(self.fast.states, dynamic=True) if config.compiled else self.fast.states
        self.number_type = computing_type(config.precision, self.device)
        self.shift = ShiftAnswer()
        self.mean = MeanWeights(self.weights) if config.average else None
        self.optimiser = make_optimiser(self.weights, config)
        self.steps_per_epoch = math.ceil(
            count_batches(train.lengths, config.batch, config.batch_tokens, train.folder) / config.accumulate
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
        config, pairs = self.config, self.train
        seed = f"{config.seed}/{self.epoch}"
        batches = group_by_length(pairs.lengths, config.batch, seed, config.batch_tokens, pairs.folder)
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
            mine = self.world.share(numbers)
            if mine or self.world.shards:
                loss = self.loss_of(self.train, mine or numbers[:1], self.config.label_smoothing)
                if len(mine) < len(numbers) or len(batches) > 1:
                    loss = loss * (count_words(self.train, mine) / words)
                self.weights.go_backward(loss)
                loss_here = loss_here + loss.detach()
        self.weights.gather_gradients()
        loss_of_all = self.world.add_gradients(self.weights.parts, loss_here)
        shown = self.look_at(loss_of_all)
        if self.config.clip:
            self.weights.shorten_gradients(self.config.clip)
        self.optimiser.step()
        self.loss_sum += loss_of_all
        self.step += 1
        return Step(self.epoch + 1, self.steps_made, shown, words)

    def loss_of(self, samples: Samples, numbers: Sequence[int], label_smoothing: float) -> Tensor:
        """The mean loss for each word of these answers."""
        src, tgt = (ids.to(self.device, non_blocking=True) for ids in samples.batch(numbers))
        return self.weights.inside("", self.judge, src, tgt, label_smoothing)

    def judge(self, src: Tensor, tgt: Tensor, label_smoothing: float) -> Tensor:
        """The mean loss for each word of the answers in a batch."""
        decoder_input, targets = self.shift(tgt)
        with torch.autocast(self.device.type, self.number_type, enabled=self.number_type is not torch.float32):
            states = self.states(src, decoder_input)
        return self.fast.loss(states, targets, label_smoothing, self.number_type)

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
        self.weights.show()
        over = Epoch(
            number=self.epoch + 1,
            loss=float(self.loss_sum) / steps,
            valid_loss=self.validate(),
            is_best=False,
            elapsed_s=self.elapsed_s,
            right=self.judge_answers() if self.config.best_by == "answers" else None,
            mean_loss=self.take_into_mean(),
        )
        if over.valid_loss is not None and all(over.badness < past.badness for past in self.history):
            over = replace(over, is_best=True)
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
        batches = group_by_length(self.valid.lengths, 1, "held out", VALID_TOKENS, self.valid.folder)
        for batch, counts in self.world.turns(batches):
            numbers = batch.tolist()
            words = counts * count_words(self.valid, numbers)
            total += float(self.loss_of(self.valid, numbers, 0.0)) * words
            count += words
        total, words_of_all = self.world.add_numbers(total, count)
        return total / words_of_all

    def judge_answers(self) -> float | None:
        """The share of held-out answers that are right; None without any."""
        right, count = self.world.add_numbers(*count_right(self.model, self.valid, self.world))
        return right / count if count else None

    def take_into_mean(self) -> float | None:
        """Count the weights into the mean if this is one of the last epochs; after the last, its held-out loss."""
        if self.mean is None or self.epoch < self.config.epochs - self.config.average:
            return None
        self.mean.take()
        if self.epoch + 1 < self.config.epochs:
            return None
        with self.mean.in_model():
            return self.validate()

    @contextmanager
    def own_surroundings(self) -> Iterator[None]:
        """Inside the block chance is the trainer's own, and no more cores are busy than the model is worth."""
        with self.chance.drawn_from(), fitting_threads(self.model.config):
            if not self.world.is_writer:  # what the writer drops is in its checkpoint, what others drop follows from it
                torch.manual_seed(hash((self.config.seed, self.world.rank, self.steps_made)))
            yield

    def to_checkpoint(self, facts: Mapping[str, Any], weights_only: bool = False) -> Checkpoint:
        """Everything that `restore` needs to go on bit for bit, or only what answering needs.

        Raises:
            RunError: a weight is no longer a finite number, and the last good checkpoint should stay.
        """
        tensors: dict[str, Tensor] = {}
        if not weights_only:
            tensors |= self.chance.to_tensors() | state_tensors(self.optimiser, self.weights)
            tensors |= {"loss_sum": self.loss_sum, **({} if self.mean is None else self.mean.to_tensors())}
        for name, parameter in self.weights.list_whole([part.data for part in self.weights.parts]):
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
        whole = {name: checkpoint.tensors[f"model.{name}"] for name in self.weights.shapes}
        self.weights.fill([part.data for part in self.weights.parts], whole)
        restore_state(self.optimiser, self.weights, checkpoint.tensors)
        for name, wanted in {**self.chance.to_tensors(), "loss_sum": self.loss_sum}.items():
            check_like(name, checkpoint.tensors.get(name, wanted), wanted)
        self.chance.restore(checkpoint.tensors)
        self.loss_sum = checkpoint.tensors["loss_sum"].to(self.device, copy=True)
        self.epoch, self.step = checkpoint.facts["epoch"], checkpoint.facts["step"]
        self.elapsed_s = checkpoint.facts["elapsed_s"]
        self.history = [Epoch(**epoch) for epoch in checkpoint.facts["history"]]
        if self.mean is not None:
            self.mean.restore(checkpoint.tensors, max(0, self.epoch - self.config.epochs + self.config.average))


def count_words(samples: Samples, numbers: Sequence[int]) -> int:
    """How many words the model has to say in these answers, `<eos>` included."""
    return int(samples.lengths[list(numbers), 1].sum()) - len(numbers)
