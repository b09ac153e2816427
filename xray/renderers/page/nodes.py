"""Which node of the map stands for each step of a model that is not X-Ray's own: its own, or that of what holds it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from html import unescape
from itertools import zip_longest
from typing import Any

from xray.ir.trace import Pass, Step, Trace
from xray.renderers.page.map import pass_key
from xray.story.blocks.items import NOBODY, Plan
from xray.story.blocks.pass_groups import PassGroup
from xray.story.body.reading import read_pass

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
    shown = {step for key, step in drawn if key in keys}
    alike, following = find_alike(one_pass, shown), find_following(one_pass, shown)
    for step in one_pass.steps:
        nodes = (*list_nodes(step.id, keys, plan), *((key, alike[step.id]) for key in keys if step.id in alike))
        if known.get(step.parent, -1) < 0 and step.id in following:
            nodes = (*nodes, *((key, following[step.id]) for key in keys))
        found = next((node for node in nodes if node in drawn), None)
        known[step.id] = known.get(step.parent, -1) if found is None else numbers.setdefault(found, len(numbers))
    return {"nodes": [list(node) for node in numbers], "at": [known[step.id] for step in one_pass.steps]}


def find_alike(one_pass: Pass, drawn: set[str]) -> dict[str, str]:
    """For steps of layers that are not drawn the step that is: at the same point of the same stage of another layer.

    A stage that is drawn as one node stands by it for all of its steps.
    """
    reading, found = read_pass(one_pass), dict[str, str]()
    for towering in reading.towers:
        for stages in zip_longest(*towering.layers):
            nodes = [[reading.flow.steps[place] for place in sorted(one.nodes)] for one in stages if one is not None]
            shown = [steps for steps in nodes if any(step.id in drawn for step in steps)]
            for steps in nodes:
                own = next((step.id for step in reversed(steps) if step.id in drawn), None)
                if steps in shown and sum(step.id in drawn for step in steps) == 1 and own is not None:
                    found |= {step.id: own for step in steps if step.id != own}
                elif steps not in shown and shown:
                    found |= align(steps, max(shown, key=len), drawn)
    return found


def find_following(one_pass: Pass, drawn: set[str]) -> dict[str, str]:
    """For steps of a stage that have no node the next of it that has one: what a skip goes through leads to a sum."""
    reading, found = read_pass(one_pass), dict[str, str]()
    for staging in (one for towering in reading.towers for one in towering.stagings):
        bent = reading.flow.readers.get(staging.joints[-1].add, ())[:1]  # a sum may stand with the bend behind it
        behind: str | None = None
        for place in sorted(staging.nodes | set(bent), reverse=True):
            step = reading.flow.steps[place]
            behind = step.id if step.id in drawn else behind
            found |= {step.id: behind} if behind is not None and behind != step.id else {}
    return found


def align(steps: Sequence[Step], others: Sequence[Step], drawn: set[str]) -> dict[str, str]:
    """For steps those of another layer that do the same at the same point, as far as these are drawn."""
    looks = [[(one.op, one.path.rpartition(".")[2]) for one in each] for each in (steps, others)]
    blocks = SequenceMatcher(a=looks[0], b=looks[1], autojunk=False).get_matching_blocks()
    pairs = [(steps[at + far], others[to + far]) for at, to, length in blocks for far in range(length)]
    return {one.id: other.id for one, other in pairs if other.id in drawn}


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
