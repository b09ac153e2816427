"""Sums beside a stream: what attentions of it read made of what stood at its beginning, as global queries (GC ViT)."""

from collections.abc import Collection, Mapping, Sequence

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.story.recognition.between import strip_plain
from xray.story.streams.joints import Joint, root_of

NEAR = 10


def find_side_ways(
    flow: Flow, joints: Mapping[int, Joint], before: Mapping[int, int | None], sites: Sequence[Site]
) -> set[int]:
    """The sums of ways without an attention that begin where a stream with some does, and that those alone read."""
    attending = {add for add, joint in joints.items() if any(site.softmax in joint.region.inner for site in sites)}
    roots = {add: root_of(flow, joint.stream) for add, joint in joints.items()}
    found: set[int] = set()
    for add in attending:
        beside = [one for one in joints if one < add and roots[one] == roots[add] and before[one] == before[add]]
        for first in beside:
            way = follow_on(first, before)
            is_own = first not in (strip_plain(flow, maker) for maker in flow.makers[add])
            is_read = any(reads_way(flow, joints[one], max(way)) for one in attending if one >= add)
            if is_own and is_read and attending.isdisjoint(way) and max(way) < add:
                found |= way
    return found


def follow_on(first: int, before: Mapping[int, int | None]) -> set[int]:
    """A sum and all that follow it on its stream."""
    found = {first}
    for add in sorted(before):
        if before[add] in found:
            found.add(add)
    return found


def reads_way(flow: Flow, joint: Joint, end: int) -> bool:
    """Whether a branch reads what a sum made, be it pooled and moved, beside its stream."""
    own: Collection[int] = joint.region.inner | joint.region.beside
    outer = {maker for node in own for maker in flow.makers[node] if maker is not None and maker not in own}
    outer -= {joint.stream} if joint.stream is not None else set()
    return any(end in flow.behind(maker, most=NEAR) for maker in outer if maker >= end)
