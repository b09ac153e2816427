"""Sets of experts side by side, each with a router of its own, for some of the places (ERNIE 4.5 VL)."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING
from xray.ir.records import TensorRecord
from xray.story.experts.choice import STACKED, list_routers
from xray.story.recognition.between import Region

FEWEST_PRODUCTS = 2
"""There and back."""
ADDED = frozenset({"sum", "index_add", "index_add_", "scatter_add", "scatter_add_"})


def list_sets(flow: Flow, region: Region) -> list[Region]:
    """The steps of each set, if there are several, of which each place goes through one alone."""
    routers = list_routers(flow, region.inner)
    places = sum(prod(flow.output(router).shape[:-1]) for router in routers)
    if len(routers) < 2 or places != prod(flow.output(region.end).shape[:-1]):
        return []
    within = region.inner.__contains__
    ahead = leave_common([set(flow.ahead(router, within=within)) for router in routers])
    own = leave_common([set(flow.behind(*one, within=within)) for one in ahead])
    are_whole = all(sum(flow.op(node) in STACKED for node in one) >= FEWEST_PRODUCTS for one in own)
    return [replace(region, end=find_sum(flow, region, one), inner=frozenset(one)) for one in own] if are_whole else []


def find_picked(flow: Flow, region: Region, router: int) -> list[int]:
    """The step that takes a router's places out of all, behind those that move what it takes; empty if none does."""
    way: list[int] = []
    here = next(iter(flow.makers[router]), None)
    while here is not None and here in region.inner and flow.op(here) in CARRYING | CASTING:
        way.insert(0, here)
        if flow.op(here) == "index" and len(flow.makers[here]) > 1:
            return way[::-1]
        here = next(iter(flow.makers[here]), None)
    return []


def name_parting(flow: Flow, picked: int) -> str:
    """The argument of the model that says which places such a step takes; "" where that is not known."""
    found: set[str] = set()
    for node in flow.behind(*flow.makers[picked][1:]):
        for record, maker in flow.given(node):
            if maker is None and record.role != "parameter":
                alike = {one.name for one in flow.one_pass.arguments if is_alike(one, record)}
                alike = {record.argument} if record.argument is not None else alike
                around = ({one.name for one in flow.steps[block].inputs} & alike for block in flow.parents(node))
                found |= alike if len(alike) == 1 else next(filter(None, around), alike)
    return found.pop() if len(found) == 1 else ""


def is_alike(one: TensorRecord, other: TensorRecord) -> bool:
    """Whether two tensors have the same shape, and numbers of the same kind."""
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def leave_common(groups: Sequence[set[int]]) -> list[set[int]]:
    """Each group of steps without those of any other one."""
    return [one - set().union(*(other for other in groups if other is not one)) for one in groups]


def find_sum(flow: Flow, region: Region, own: Collection[int]) -> int:
    """The step that adds up what the chosen experts of a set give."""
    given = [node for node in flow.behind(region.end, within=region.inner.__contains__) if node in own]
    return max((node for node in given if flow.op(node) in ADDED), default=max(given, default=region.end))
