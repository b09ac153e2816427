"""Rows that one router hands on to the next: what it works out of its rows is added to what that works out (ZAYA)."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SUMS, TIMES
from xray.story.recognition.between import is_linear, is_scale, list_reading_data

NEAR = 60
CHOOSING = frozenset({"topk", "argmax"})


@dataclass(frozen=True)
class HandedOn:
    """The sum that adds what an earlier router worked out to a router's own rows, and the product with learned numbers.

    None where they are added as they are.
    """

    add: int
    scale: int | None

    @property
    def nodes(self) -> tuple[int, ...]:
        """Its steps, the last first."""
        return (self.add,) if self.scale is None else (self.add, self.scale)


def find_handed_on(flow: Flow, nodes: Collection[int], router: int) -> HandedOn | None:
    """What an earlier router hands on to this one, among the steps of a part; None where it hands nothing on."""
    for add in sorted(flow.behind(router, within=nodes.__contains__)):
        if flow.op(add) not in SUMS or len(flow.makers[add]) != 2:
            continue
        others = [maker for maker in flow.makers[add] if maker is not None and maker not in nodes]
        if len(others) != 1 or len({record.shape for record in flow.steps[add].inputs}) != 1:
            continue
        is_scaled = flow.op(others[0]) in TIMES and is_scale(flow, others[0])
        given = [one for one in flow.makers[others[0]] if one is not None] if is_scaled else others
        if given and leads_to_choice(flow, flow.carried_from(given[0]), min(nodes)):
            return HandedOn(add, others[0] if is_scaled else None)
    return None


def leads_to_choice(flow: Flow, start: int | None, before: int) -> bool:
    """Whether rows that a linear layer made lead to a choice before a step, and to no far one: an earlier router's."""
    if start is None or start not in list_reading_data(flow):
        return False
    made = [start, *(flow.carried_from(one) for one in flow.makers[start] if flow.op(start) in SUMS)]
    way = islice(flow.ahead(start, within=before.__gt__), NEAR)
    return any(one is not None and is_linear(flow, one) for one in made) and any(
        flow.op(one) in CHOOSING for one in way
    )
