"""The maps of a page, one seen at a time: the drawing itself, and the model by blocks, opened ever deeper."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xray.ir.trace import Trace
from xray.renderers.blocks.plans import MOST_GROUPS, Roles, room_for
from xray.renderers.page.map import draw_block_map, draw_map
from xray.renderers.page.nodes import join_nodes
from xray.renderers.themes import Theme
from xray.story.blocks.block_plan import plan_blocks
from xray.story.blocks.items import Plan
from xray.story.blocks.opening import Choice
from xray.story.blocks.pass_groups import PassGroup, group_passes
from xray.story.walk.scene import is_whole_journey

MOST_MAPS = 4
"""So many depths are offered beside the drawing itself."""
MOST_NODES = 240
"""A deeper map than this is not offered."""


Plans = Sequence[tuple[PassGroup, Plan]]


@dataclass(frozen=True)
class Map:
    """One map: what it is called, its SVG, and for each pass which of its nodes stand for the steps.

    `joined` is None where the ids of nodes and steps say so themselves, as on the poster of X-Ray's own model.
    """

    name: str
    drawing: str
    joined: Sequence[Mapping[str, Any]] | None


def draw_maps(trace: Trace, theme: Theme, choice: Choice | None, roles: Roles) -> tuple[Map, ...]:
    """The map that is seen first, and the others in the order of their depth.

    Raises:
        DrawError: Graphviz cannot draw the trace.
    """
    drawing = draw_map(trace, theme, choice, roles)
    if is_whole_journey(trace) and choice is None:
        return (Map("poster", drawing, None),)
    plans = plan_groups(trace, choice or Choice())
    is_poster = 'data-station="' in drawing
    depth = max((plan.depth for _, plan in plans), default=0)
    first = Map("poster" if is_poster else str(depth), drawing, join_nodes(trace, drawing, plans))
    others = list_depths(trace, choice or Choice(), plans, is_seen=not is_poster)
    return (first, *(draw_depth(trace, theme, one, deeper, roles) for one, deeper in others))


def draw_depth(trace: Trace, theme: Theme, choice: Choice, plans: Plans, roles: Roles) -> Map:
    drawing = draw_block_map(trace, theme, choice, roles)
    return Map(str(choice.depth), drawing, join_nodes(trace, drawing, plans))


def list_depths(trace: Trace, choice: Choice, plans: Plans, *, is_seen: bool) -> Iterator[tuple[Choice, Plans]]:
    """The depths at which a drawing shows something that none before it does, as far as one can still be read.

    `plans` are those of the drawing by blocks itself; `is_seen` says that it is on the page.
    """
    seen = {shown_nodes(plans)} if is_seen else set()
    levels = max((plan.levels for _, plan in plans), default=0)
    found = 0
    for depth in range(1, levels + 1) if levels > 1 or not is_seen else ():
        deeper = plan_groups(trace, replace(choice, depth=depth))
        nodes = shown_nodes(deeper)
        if len(nodes) > MOST_NODES or found == MOST_MAPS:
            break
        if nodes not in seen:
            seen.add(nodes)
            found += 1
            yield replace(choice, depth=depth), deeper


def plan_groups(trace: Trace, choice: Choice) -> Plans:
    groups = group_passes(trace)
    room = room_for(len(groups[:MOST_GROUPS]))
    return [(group, plan_blocks(group.shown, choice, room=room)) for group in groups[:MOST_GROUPS]]


def shown_nodes(plans: Plans) -> frozenset[tuple[int, str]]:
    """What the nodes of a drawing stand for."""
    return frozenset((place, node.heads[0].id) for place, (_, plan) in enumerate(plans) for node in plan.nodes)
