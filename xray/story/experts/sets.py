"""Sets of experts side by side, each with a router of its own, for some of the places (ERNIE 4.5 VL)."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
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


def leave_common(groups: Sequence[set[int]]) -> list[set[int]]:
    """Each group of steps without those of any other one."""
    return [one - set().union(*(other for other in groups if other is not one)) for one in groups]


def find_sum(flow: Flow, region: Region, own: Collection[int]) -> int:
    """The step that adds up what the chosen experts of a set give."""
    given = [node for node in flow.behind(region.end, within=region.inner.__contains__) if node in own]
    return max((node for node in given if flow.op(node) in ADDED), default=max(given, default=region.end))
