"""Keeping libraries from talking about what is meant to be so: no weights, no kernels, no network."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LOGGERS = ("transformers", "huggingface_hub", "diffusers", "timm", "torch", "httpx", "filelock")


@contextmanager
def quietly() -> Iterator[None]:
    """A block in which the libraries neither log nor warn; afterwards they do as before."""
    loggers = [logging.getLogger(name) for name in LOGGERS if name in sys.modules]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
