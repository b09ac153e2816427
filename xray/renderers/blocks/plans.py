"""What of a trace is drawn by blocks: the plan of each kind of pass, and the lines on its nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xray.ir.trace import Trace
from xray.renderers.blocks.nodes import Drawn, describe_item
from xray.story.alarms.kinds import Alarm
from xray.story.alarms.whole import find_alarms
from xray.story.blocks.block_lines import list_flows, thin_flows
from xray.story.blocks.block_plan import READABLE, plan_blocks
from xray.story.blocks.opening import Choice
from xray.story.blocks.pass_groups import PassGroup, group_passes
from xray.story.layout import Line
from xray.story.roles.listing import list_roles

Roles = Mapping[str, Mapping[str, str]]
"""What each step is for in words, by its pass and its id."""

MOST_GROUPS = 8
"""More kinds of passes than this are counted, not drawn."""
FEWEST_NODES = 24
"""However many kinds of passes there are, each has room for so many nodes."""


def list_lines(trace: Trace, choice: Choice, roles: Roles | None = None) -> dict[str, list[Line]]:
    """What stands on each node of the drawing, by the node's id."""
    drawn = draw_trace(trace, group_passes(trace), find_alarms(trace), choice, roles)
    return {
        f"{each.group.shown.key}/{item.heads[0].id}": describe_item(each, item)
        for each in drawn
        for item in each.plan.nodes
    }


def draw_trace(
    trace: Trace,
    groups: Sequence[PassGroup],
    alarms: Sequence[Alarm],
    choice: Choice,
    roles: Roles | None,
    *,
    all_layers: bool = False,
) -> tuple[Drawn, ...]:
    """The plan of each kind of pass, as many as are drawn."""
    shown = groups[:MOST_GROUPS]
    if roles is None:  # of the passes that are drawn, the others are like them
        roles = list_roles(replace(trace, passes=tuple(group.shown for group in shown)))
    return draw_plans(shown, alarms, roles, choice, all_layers=all_layers)


def draw_plans(
    groups: Sequence[PassGroup], alarms: Sequence[Alarm], roles: Roles, choice: Choice, *, all_layers: bool
) -> tuple[Drawn, ...]:
    """The plan of each group of passes, with the roles and alarms of its steps."""
    found = []
    for place, group in enumerate(groups):
        plan = plan_blocks(group.shown, choice, all_layers=all_layers, room=room_for(len(groups)))
        ours = {(one.kind, one.number) for one in group.passes}
        own_alarms = {
            plan.holder(alarm.step): alarm for alarm in reversed(alarms) if (alarm.pass_kind, alarm.number) in ours
        }
        key = group.shown.key
        flows, unseen = thin_flows(plan, list_flows(plan))
        found.append(Drawn(group, place, plan, roles.get(key, {}), own_alarms, flows, unseen))
    return tuple(found)


def room_for(groups: int) -> int:
    """How many nodes each of so many kinds of passes may have."""
    return max(FEWEST_NODES, READABLE // max(1, groups))
