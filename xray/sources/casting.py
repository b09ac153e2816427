"""Letting a model without storage ask for automatic casts on the device that its tensors are on."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch

NONE = "meta"


@contextmanager
def casts_without_storage() -> Iterator[None]:
    """A block in which torch takes a device without storage for that of the processor where casts are asked for."""
    plain = torch.autocast.__init__

    @wraps(plain)
    def ask(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        plain(self, "cpu" if device_type == NONE else device_type, *args, **kwargs)

    with patch.object(torch.autocast, "__init__", ask):
        yield
