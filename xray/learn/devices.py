"""The device that a model lives on."""

from collections.abc import Callable

import torch

from xray.errors import ConfigError


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name; "auto" is CUDA where there is one and the CPU elsewhere.

    Models as small as the chatbot run faster on a Mac's CPU than on its GPU, so that "mps" has to be asked for.

    Raises:
        ConfigError: there is no such device here.
    """
    if name not in ("auto", "cpu", "cuda", "mps"):
        raise ConfigError(f"device={name!r} is unknown. Choose auto, cpu, cuda or mps.")
    there: dict[str, Callable[[], bool]] = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if name in there and not there[name]():
        raise ConfigError(f"device={name} is not available on this machine. Choose auto or cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
