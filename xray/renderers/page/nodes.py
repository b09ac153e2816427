"""Which node of the map stands for each step of a model that is not X-Ray's own: its own, or that of what holds it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any

from xray.ir.trace import Pass, Trace
from xray.renderers.page.map import pass_key
from xray.story.blocks.items import NOBODY, Plan
from xray.story.blocks.pass_groups import PassGroup

NODE = re.compile(r'data-pass="([^"]*)" data-step="([^"]*)"')

Node = tuple[str, str]
"""A node as the map knows it: its pass and its step."""


def join_nodes(trace: Trace, drawing: str, plans: Sequence[tuple[PassGroup, Plan]]) -> list[Mapping[str, Any]]:
    """For each pass the nodes that stand for its steps: `nodes` each once, `at` a number among them for every step.

    -1 where a step is not on the map. `plans` has the groups of passes with their plans.
    """
    drawn = {(unescape(key), unescape(step)) for key, step in NODE.findall(drawing)}
    joined = {id(each): join_pass(each, group, plan, drawn) for group, plan in plans for each in group.passes}
    nowhere = {"nodes": (), "at": ()}
    return [joined.get(id(each)) or {**nowhere, "at": [-1] * len(each.steps)} for each in trace.passes]


def join_pass(one_pass: Pass, group: PassGroup, plan: Plan, drawn: set[Node]) -> Mapping[str, Any]:
    numbers: dict[Node, int] = {}
    known: dict[str | None, int] = {None: -1}
    keys = tuple(dict.fromkeys(map(pass_key, (one_pass, group.shown, *group.passes))))
    for step in one_pass.steps:
        found = next((node for node in list_nodes(step.id, keys, plan) if node in drawn), None)
        known[step.id] = known.get(step.parent, -1) if found is None else numbers.setdefault(found, len(numbers))
    return {"nodes": [list(node) for node in numbers], "at": [known[step.id] for step in one_pass.steps]}


def list_nodes(step_id: str, keys: tuple[str, ...], plan: Plan) -> Iterator[Node]:
    """The nodes that may stand for a step, the nearest first."""
    yield from ((key, step_id) for key in keys)
    place = plan.tree.places.get(step_id)
    if place is None:
        return
    shown = plan.tree.steps[plan.shown[place]].id
    yield from ((key, shown) for key in keys)
    owner = plan.owners[place]
    if owner != NOBODY:
        head = plan.nodes[owner].heads[0].id
        yield from ((key, head) for key in keys)
