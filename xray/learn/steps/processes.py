"""One process, or several that train one model together: each on its share of every batch, all with the same weights.

`torchrun` starts the processes; here they find each other, add up their gradients, and agree when to stop.
"""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from math import ceil
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from xray.config import SHOWN
from xray.errors import ConfigError, RunError, UsageError
from xray.text import show_controls

Thing = TypeVar("Thing")

PATIENCE = timedelta(days=1)
"""How long processes wait for each other, as while one prepares a large corpus; that one has ended is heard at once."""


@dataclass
class World:
    """The processes of a training, and which of them this is; alone it is number 0 of 1.

    Only the writer, number 0, writes files and talks. `stop_wanted` is what somebody asked of this process,
    `stop_agreed` what all of them do after the step at hand. Where `shards` is true each keeps only a part of the
    weights, and all of them take part in whatever needs them.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    shards: bool = False
    stop_wanted: bool = False
    stop_heard: bool = False

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the run folder."""
        return self.rank == 0

    @property
    def stop_agreed(self) -> bool:
        """Whether all processes stop now."""
        return self.stop_wanted if self.size == 1 else self.stop_heard

    def device(self, chosen: torch.device) -> torch.device:
        """The device of this process: of several GPUs, each has its own."""
        if chosen.type == "cuda" and self.size > 1:
            return torch.device("cuda", self.local_rank)
        return chosen

    def share(self, things: Sequence[Thing]) -> Sequence[Thing]:
        """Those pairs of a batch, or those batches, that this process computes."""
        return things[self.rank :: self.size]

    def turns(self, things: Sequence[Thing]) -> Iterator[tuple[Thing, bool]]:
        """Those things that this process computes, and whether they count.

        With divided weights all take the same number of turns, so that some compute what another one counts.
        """
        rounds = ceil(len(things) / self.size) * self.size if self.shards else len(things)
        for number in range(self.rank, rounds, self.size):
            yield things[min(number, len(things) - 1)], number < len(things)

    def add_gradients(self, parts: Sequence[nn.Parameter], loss: Tensor) -> Tensor:
        """Make the gradients of the weights the sum over all processes, in one exchange; the sum of their losses.

        Those of divided weights are sums already. The wish to stop goes along, so that nobody waits for one that has
        left.
        """
        if self.size == 1:
            return loss
        gradients = [] if self.shards else [part.grad for part in parts if part.grad is not None]
        everything = torch.cat([*gradients, torch.stack([loss, loss.new_tensor(self.stop_wanted)])])
        distributed.all_reduce(everything)
        for part, gradient in zip(parts, torch.split(everything[:-2], list(map(len, gradients))), strict=False):
            part.grad = gradient
        self.stop_heard = bool(everything[-1] > 0)
        return everything[-2]

    def heed_writer(self, wish: bool) -> bool:
        """Whether the writer wishes something that all have to do together with divided weights."""
        return self.add_numbers(float(wish and self.is_writer))[0] > 0 if self.shards else wish

    def add_numbers(self, *numbers: float) -> tuple[float, ...]:
        """Each number summed over all processes."""
        if self.size == 1:
            return numbers
        kind = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        sums = torch.tensor(numbers, dtype=torch.float64, device=kind)
        distributed.all_reduce(sums)
        return tuple(sums.tolist())

    @contextmanager
    def others_waiting(self) -> Iterator[None]:
        """What the writer does while all others wait in `wait_for_writer`; they are told whether it went well."""
        try:
            yield
        except BaseException:
            self.add_numbers(0.0)
            raise
        self.add_numbers(1.0)

    def wait_for_writer(self) -> None:
        """Wait until the writer has prepared everything.

        Raises:
            RunError: it failed; it has said why.
        """
        if not self.add_numbers(0.0)[0]:
            raise RunError("the process that prepares the training gave up.")


def started_by_torchrun() -> bool:
    """Whether this process is one of several that train together."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def join_world(device: str, shard: bool = False) -> Iterator[World]:
    """Inside the block this process belongs to those that `torchrun` started with it; without it, it is alone.

    Raises:
        UsageError: weights shall be divided, and there is nobody to divide them with.
    """
    if not started_by_torchrun():
        if shard:
            raise UsageError(
                "--shard divides the weights among several processes, and this one is alone. "
                "Start them with torchrun --nproc-per-node 2 -m xray train, or leave --shard out."
            )
        yield World()
        return
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda:
        torch.cuda.set_device(local)
    # Its functions have the group of their import as a default. Imported later, as Adam does, they keep the group and
    # its threads beyond the end of the interpreter, where a thread that lets go of a tensor aborts the process.
    import_module("torch.distributed.nn.functional")
    distributed.init_process_group("nccl" if cuda else "gloo", timeout=PATIENCE)
    try:
        yield World(distributed.get_rank(), distributed.get_world_size(), local, shard)
    finally:
        if shard:
            forget_divided_layers()
        distributed.destroy_process_group()


def forget_divided_layers() -> None:
    """Let go of layers that are no longer used, and of what torch remembers of them: they too keep the group."""
    gc.collect()  # they hold each other in circles
    remembered = import_module("torch.distributed.tensor.debug")
    for name in ("_clear_sharding_prop_cache", "_clear_fast_path_sharding_prop_cache"):
        getattr(remembered, name, lambda: None)()


def check_sharding(world: World, device: str) -> None:
    """Make sure, before any work is done, that weights can be divided if they shall be.

    Raises:
        ConfigError: this torch or device cannot.
    """
    if not world.shards:
        return
    if device == "mps":
        raise ConfigError("--shard divides weights on CUDA or the CPU, not on mps. Choose another --device.")
    kind = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    try:
        distributed.reduce_scatter(torch.empty(1, device=kind), list(torch.ones(world.size, 1, device=kind)))
    except RuntimeError as error:
        reason = show_controls(" ".join(str(error).split()))[:SHOWN]
        raise ConfigError(
            f"torch {torch.__version__} cannot divide weights on {kind}: {reason}. "
            "Leave --shard out, or install a newer torch."
        ) from error
