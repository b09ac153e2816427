"""Random numbers of one's own: the caller's are neither used nor moved."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


class Chance:
    """The random state that dropout draws from, on the CPU and on the device of the model."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.device = device
        self.states = {"cpu": torch.Generator().manual_seed(seed).get_state()}
        if device.type != "cpu":
            self.states[device.type] = torch.Generator(device).manual_seed(seed).get_state()

    @contextmanager
    def drawn_from(self) -> Iterator[None]:
        """Inside the block PyTorch's global random numbers are these; afterwards they are what they were before."""
        outside = {kind: get_state(kind, self.device) for kind in self.states}
        for kind, state in self.states.items():
            set_state(kind, self.device, state)
        try:
            yield
        finally:
            self.states = {kind: get_state(kind, self.device) for kind in self.states}
            for kind, state in outside.items():
                set_state(kind, self.device, state)

    def to_tensors(self) -> dict[str, Tensor]:
        """The states by name, for a checkpoint."""
        return {f"random.{kind}": state for kind, state in self.states.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up the states of a checkpoint, as far as they are of this kind of device."""
        self.states = {kind: tensors.get(f"random.{kind}", state) for kind, state in self.states.items()}


def get_state(kind: str, device: torch.device) -> Tensor:
    """The global random state of the CPU or of a device."""
    if kind == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.mps.get_rng_state() if kind == "mps" else torch.get_rng_state()


def set_state(kind: str, device: torch.device, state: Tensor) -> None:
    """Make `state` the global random state of the CPU or of a device."""
    if kind == "cuda":
        torch.cuda.set_rng_state(state, device)
    elif kind == "mps":
        torch.mps.set_rng_state(state)
    else:
        torch.set_rng_state(state)
