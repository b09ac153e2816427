"""Streams that were cut from one tensor: rows of a text and of a film that stood one behind the other (CogVideoX)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.recognition.between import find_region, strip_plain
from xray.story.streams.joints import Joint


def part_streams(flow: Flow, joints: Iterable[Joint]) -> Iterator[Joint]:
    """The same sums, each that adds to a part of a tensor with its stream begun where that is cut off."""
    listed = list(joints)
    for joint in listed:
        others = [one for one in listed if one.stream == joint.stream and one is not joint]
        is_part = any(are_parts(flow, joint.stream, joint.add, one.add) for one in others)
        yield start_at_part(flow, joint) if is_part else joint


def start_at_part(flow: Flow, joint: Joint) -> Joint:
    """A sum whose stream begins with the step that cuts it off."""
    shape = flow.output(joint.add).shape
    for maker in flow.makers[joint.add]:
        here, cut = maker, None
        while here is not None and here != joint.stream and flow.output(here).shape == shape:
            here, cut = next(iter(flow.makers[here]), None), here
        if cut is not None and strip_plain(flow, cut) == joint.stream:
            region = find_region(flow, cut, joint.region.end)
            return joint if region is None else replace(joint, stream=cut, region=region)
    return joint


def are_parts(flow: Flow, stream: int | None, one: int, other: int) -> bool:
    """Whether two sums are as long as the parts that one tensor was cut in, as rows of text and film (CogVideoX)."""
    whole, first, second = (flow.output(place).shape if place is not None else () for place in (stream, one, other))
    if not len(whole) == len(first) == len(second):
        return False
    axes = [axis for axis, size in enumerate(whole) if (first[axis], second[axis]) != (size, size)]
    return len(axes) == 1 and first[axes[0]] + second[axes[0]] == whole[axes[0]]
