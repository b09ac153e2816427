"""Branches of which nothing is learned that mix places: by a Fourier transform, or by a pool of neighbours."""

from collections.abc import Collection, Sequence
from math import prod
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIFFERENCES, DROPOUTS, SCALINGS
from xray.story.anatomy.branches import FourierMixing, PoolMixing
from xray.story.passages.channels import OVER_CHANNELS, find_channels, find_channels_ahead, follow, step_back
from xray.story.passages.pools import name_way, read_kernel, read_setting
from xray.story.recognition.between import Region
from xray.story.recognition.norms import find_norm
from xray.story.recognition.statistics import is_of_weights
from xray.story.recognition.values.value_shapes import numbers

FOURIER = {"fft_fft": 1, "fft_fft2": 2, "fft_fftn": None}
"""Fourier transforms, each with how many of the last axes it goes along where it is not told: None for all."""
REAL = "real"
OVER_NORMS = tuple(one for one in OVER_CHANNELS if one.endswith("_norm"))


def describe_fourier(flow: Flow, region: Region) -> FourierMixing | None:
    """The facts of a Fourier transform along all places whose real part goes on (FNet); None for any other branch."""
    own = [node for node in list_leaves(flow, region) if flow.op(node) in {*FOURIER, REAL}]
    way = list_way(flow, region, own)
    parts = [node for node in way if node in own]
    if [flow.op(node) == REAL for node in parts] != [True, *[False] * (len(own) - 1)] or len(own) < 2:
        return None
    first, last = way.index(parts[0]), way.index(parts[-1])
    shape, maker = flow.output(parts[0]).shape, flow.makers[parts[-1]][0]
    channels = find_row_axis(flow, maker)
    if last - first >= len(own) or channels is None or not keeps_axes(flow, way[last + 1 :], way[:first], channels):
        return None
    along = [axis for node in parts[1:] for axis in read_transformed(flow, node)]
    places = {*range(1, len(shape))} - {channels}
    if not places <= {*along} <= {channels, *places} or len({*along}) < len(along):
        return None
    return FourierMixing(prod(shape[axis] for axis in places), channels in along)


def read_transformed(flow: Flow, node: int) -> list[int]:
    """The axes along which a Fourier transform goes: those that it is told, or else its own."""
    axes, step = len(flow.output(node).shape), flow.steps[node]
    own = range(axes)[-(FOURIER[step.op] or axes) :]
    return [axis % axes for axis in numbers(step, "dim") or numbers(step, "arg2") or own]


def describe_pool(flow: Flow, region: Region) -> PoolMixing | None:
    """The facts of a pool of neighbours, be it that what a place held is taken off (PoolFormer); else None."""
    pools = [node for node in list_leaves(flow, region) if name_way(flow, node)]
    less = [node for node in list_leaves(flow, region) if len(pools) == 1 and takes_off(flow, node, pools[0])]
    way = list_way(flow, region, [*pools, *less])
    if len(pools) != 1 or not way or not is_centred(flow, pools[0]) or len(less) > 1:
        return None
    place = way.index(pools[0])
    if find_row_axis(flow, flow.makers[pools[0]][0]) != 1 or not keeps_axes(flow, way[place + 1 :], way[:place], 1):
        return None
    made: Literal["mean", "maximum"] = "mean" if name_way(flow, pools[0]) == "MEAN" else "maximum"
    return PoolMixing(read_kernel(flow, pools[0]), made, bool(less))


def is_centred(flow: Flow, pool: int) -> bool:
    """Whether a pool gives as many places as it reads, each made of those around it, as many on each side."""
    step, kernel = flow.steps[pool], read_kernel(flow, pool)
    stride, padding = read_setting(flow, pool, "stride"), read_setting(flow, pool, "padding")
    is_close = {*stride} == {1} and {*read_setting(flow, pool, "dilation")} <= {1}
    is_mean = step.settings.get("divisor_override") is None
    sides = padding * len(kernel) if len(padding) == 1 else padding
    is_even = tuple(2 * one + 1 for one in sides) == kernel and max(kernel, default=1) > 1
    is_of_places = len(kernel) + 2 == len(flow.output(pool).shape) and step.inputs[0].shape == flow.output(pool).shape
    return is_close and is_mean and is_even and is_of_places


def takes_off(flow: Flow, node: int, pool: int) -> bool:
    """Whether a step takes off what a pool gave what this read, both as they are, once."""
    is_once = flow.steps[node].settings.get("alpha", 1) == 1
    return is_once and flow.op(node) in DIFFERENCES and flow.makers[node] == (pool, flow.makers[pool][0])


def list_leaves(flow: Flow, region: Region) -> list[int]:
    """The steps of a branch that are no blocks, in order."""
    return [node for node in sorted(region.inner) if flow.is_leaf(node)]


def list_way(flow: Flow, region: Region, own: Collection[int]) -> list[int]:
    """The steps of a branch from its last to its first, if it is one way through some steps that mix; else none.

    Beside these there may be norms, turns, dropouts and learned scales on it, and none of them drops a number.
    """
    leaves, way = list_leaves(flow, region), list[int]()
    norms = {one for node in leaves if (norm := find_norm(flow, node)) is not None for one in norm.nodes}
    plain = {node for node in leaves if flow.op(node).startswith(OVER_NORMS) or is_plain(flow, node)} | norms | {*own}
    here: int | None = region.end
    while here is not None and here in region.inner:
        way.append(here)
        here = step_back(flow, here)
    is_whole = {prod(flow.output(node).shape) for node in way} == {prod(flow.output(region.end).shape)}
    return way if plain.issuperset(leaves) and {*own} <= {*way} and is_whole else []


def is_plain(flow: Flow, node: int) -> bool:
    """Whether a step lays numbers out, drops some by chance, or multiplies them by one number or by learned ones."""
    if flow.op(node) in CARRYING - {"index"} | DROPOUTS:
        return True
    shape, given = flow.output(node).shape, list(flow.given(node))
    others = [one for one in given if one[0].shape != shape]
    is_scale = flow.op(node) in SCALINGS and len(given) - len(others) == 1
    return is_scale and all(is_of_weights(flow, *one) for one in others)


def find_row_axis(flow: Flow, maker: int | None) -> int | None:
    """The axis of what a step made that holds the numbers of one place; None where that is not known."""
    if maker is None:
        return None
    axis = find_channels(flow, maker)
    return find_channels_ahead(flow, maker) if axis is None else axis


def keeps_axes(flow: Flow, before: Sequence[int], behind: Sequence[int], axis: int) -> bool:
    """Whether an axis that stands here where something is mixed is where it was when the way, told backwards, ends."""
    end = behind[0] if behind else before[0] if before else None
    axes = () if end is None else range(len(flow.output(end).shape))
    begun = [one for one in axes if follow(flow, [*before], one) == axis]
    return end is None or begun == [follow(flow, [*behind], axis)]
