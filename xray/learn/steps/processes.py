"""One process, or several that train one model together: each on its share of every batch, all with the same weights.

`torchrun` starts the processes; here they find each other, add up their gradients, and agree when to stop.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

from xray.errors import RunError

Thing = TypeVar("Thing")


@dataclass
class World:
    """The processes of a training, and which of them this is; alone it is number 0 of 1.

    Only the writer, number 0, writes files and talks. `stop_wanted` is what somebody asked of this process,
    `stop_agreed` what all of them do after the step at hand.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
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

    def add_gradients(self, weights: nn.Parameter, loss: Tensor) -> Tensor:
        """Make the gradient of the weights the sum over all processes, in one exchange; the sum of their losses.

        The wish to stop goes along, so that nobody waits for one that has left.
        """
        if self.size == 1 or weights.grad is None:
            return loss
        wish = torch.tensor([float(self.stop_wanted)], device=loss.device)
        everything = torch.cat([weights.grad, loss.reshape(1), wish])
        distributed.all_reduce(everything)
        weights.grad = everything[:-2]
        self.stop_heard = bool(everything[-1] > 0)
        return everything[-2]

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
def join_world(device: str) -> Iterator[World]:
    """Inside the block this process belongs to those that `torchrun` started with it; without it, it is alone."""
    if not started_by_torchrun():
        yield World()
        return
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda:
        torch.cuda.set_device(local)
    # Its functions have the group of their import as a default. Imported later, as Adam does, they keep the group and
    # its threads beyond the end of the interpreter, where a thread that lets go of a tensor aborts the process.
    import_module("torch.distributed.nn.functional")
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield World(distributed.get_rank(), distributed.get_world_size(), local)
    finally:
        distributed.destroy_process_group()
