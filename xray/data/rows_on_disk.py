"""Tensors with a row for each pair. Those of a large corpus lie in files without a name, and take up no memory."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FEW = 1 << 18
"""Up to so many rows are kept in memory."""

AT_A_TIME = 1 << 18
"""How many rows of a larger tensor are worked on at a time."""

CHUNK = 1 << 20


def make_rows(shape: tuple[int, ...], kind: torch.dtype, folder: Path | None) -> Tensor:
    """A tensor to be filled; one with many rows lies in a file in `folder`, if there is room for it."""
    if folder is None or shape[0] <= FEW:
        return torch.empty(shape, dtype=kind)
    like = torch.empty(0, dtype=kind).numpy()
    size = int(np.prod(shape)) * like.itemsize
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for start in range(0, size, CHUNK):  # written, since a full disk would end the process later
                file.write(bytes(min(CHUNK, size - start)))
            file.flush()
            return torch.from_numpy(np.asarray(np.memmap(file, like.dtype, "r+", shape=shape)))
    except OSError:
        return torch.empty(shape, dtype=kind)


def shuffle_rows(count: int, chance: torch.Generator, folder: Path | None, kind: torch.dtype = torch.int32) -> Tensor:
    """The numbers below `count` in an order by chance."""
    rows = make_rows((count,), kind, folder)
    return torch.randperm(count, generator=chance, dtype=kind, out=rows)


def take_lengths(lengths: Tensor, numbers: Tensor, folder: Path | None) -> Tensor:
    """The rows of these numbers."""
    taken = make_rows((len(numbers), lengths.shape[1]), lengths.dtype, folder)
    for into, some in zip(torch.split(taken, AT_A_TIME), torch.split(numbers, AT_A_TIME), strict=True):
        into.copy_(lengths[some])
    return taken


def numbers_without(count: int, left_out: tuple[int, ...], folder: Path | None) -> Tensor:
    """All numbers below `count` but some, in order."""
    numbers = make_rows((count - len(left_out),), torch.int32, folder)
    gone, done = torch.tensor(sorted(left_out), dtype=torch.int32), 0
    for first in range(0, count, AT_A_TIME):
        last = min(count, first + AT_A_TIME)
        kept = torch.ones(last - first, dtype=torch.bool)
        kept[gone[(gone >= first) & (gone < last)].long() - first] = False
        some = torch.arange(first, last, dtype=torch.int32)[kept]
        numbers[done : done + len(some)] = some
        done += len(some)
    return numbers
