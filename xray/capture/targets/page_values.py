"""What a page asks for beyond shapes: a block of the values of every tensor, and what the whole of it comes to."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from xray.capture.values import MAX_VALUES, is_readable, take_preview
from xray.ir.records import Preview, Statistics

PAGE_SEQUENCES = 4
"""Of how many sequences of a batch a page keeps the values."""
PAGE_VALUES = 8_192
"""The most values of one tensor that a page keeps; attention weights and ids are kept whole."""
PAGE_GRADIENTS = 256
"""The most values of one gradient that a page keeps."""


def preview_for_page(path: str, op: str, tensor: Tensor) -> Preview | None:
    """A block of every tensor of numbers with the statistics of all of it; ids and attention weights in full.

    Masks are left to their cells. A tensor that is too large loses sequences first, then places, then the rest.
    """
    if not is_readable(tensor) or tensor.dtype == torch.bool or tensor.is_complex() or tensor.numel() == 0:
        return None
    whole = tuple(tensor.shape)
    if not tensor.is_floating_point() or (op == "softmax" and tensor.numel() <= MAX_VALUES):
        shape = whole if tensor.numel() <= MAX_VALUES else cut_shape(whole, MAX_VALUES)
    elif op == "backward":
        shape = cut_shape(whole, PAGE_GRADIENTS)
    else:
        shape = cut_shape((min(whole[0], PAGE_SEQUENCES), *whole[1:]) if len(whole) > 1 else whole, PAGE_VALUES)
    preview = take_preview(tensor, shape)
    return replace(preview, statistics=describe_values(tensor)) if tensor.is_floating_point() else preview


def cut_shape(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The shape of a block with at most so many values, cut on the first axes before the last ones."""
    cut = list(shape)
    for axis in range(len(cut)):
        others = math.prod(cut) // cut[axis]
        cut[axis] = max(1, min(cut[axis], most // others))
    return tuple(cut)


def describe_values(tensor: Tensor) -> Statistics:
    """Minimum, maximum and mean of the finite values of a tensor, and how many are not."""
    values = finite = tensor.detach().double().reshape(-1)
    nans = infinities = 0
    if not math.isfinite(values.sum()):
        finite = values[values.isfinite()]
        nans = int(values.isnan().sum())
        infinities = values.numel() - finite.numel() - nans
    if finite.numel() == 0:
        return Statistics(None, None, None, nans, infinities)
    middle = (finite / finite.numel()).sum()  # the sum of large values may be no number any more
    low, high, mean = (float(f"{part.item():.6g}") for part in (finite.min(), finite.max(), middle))
    return Statistics(low, high, mean, nans, infinities)
