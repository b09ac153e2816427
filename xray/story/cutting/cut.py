"""The layers of a tower: as the model's own blocks hold its sums, else by the pattern of these."""

from collections.abc import Collection, Sequence
from itertools import groupby

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.story.body.stages import Staging
from xray.story.cutting.beside import list_beside, list_worked_in, stand_between
from xray.story.cutting.listed import cut_listed
from xray.story.cutting.patterns import LONGEST_PATTERN, Layer, cut_by_pattern, find_period, name_coarse


def cut_tower(flow: Flow, runs: Sequence[Sequence[Staging]], sites: Sequence[Site]) -> list[Layer]:
    """The layers of a tower of which each chain has a run of stages.

    Sums beside its blocks are left out where what stands between the layers shows them.
    """
    runs = leave_out(runs, list_worked_in(flow, [one for run in runs for one in run]))
    stagings = [one for run in runs for one in run]
    beside = list_beside(flow, stagings)
    if beside:
        layers = cut_runs(flow, leave_out(runs, beside))
        if stand_between(flow, layers, [one for one in stagings if id(one) in beside], sites):
            return layers
    return cut_runs(flow, runs)


def leave_out(runs: Sequence[Sequence[Staging]], left: Collection[int]) -> list[list[Staging]]:
    """Runs of stages without some, by the ids of these; what stands on two sides of one is no run."""
    parts = (groupby(run, lambda one: id(one) in left) for run in runs)
    return [[*part] for run in parts for is_left, part in run if not is_left]


def cut_runs(flow: Flow, runs: Sequence[Sequence[Staging]]) -> list[Layer]:
    """Runs of stages in layers: as blocks hold them, else by pattern."""
    return hold_together(cut_listed(flow, [one for run in runs for one in run]) or cut_by_patterns(runs))


def cut_by_patterns(runs: Sequence[Sequence[Staging]]) -> list[Layer]:
    """Layers by the pattern of each run, unless one pattern goes through all of them with fewer layers."""
    own = [layer for run in runs for layer in cut_by_pattern(run)]
    stagings = [one for run in runs for one in run]
    if len(runs) > 1 and find_period([name_coarse(one.stage) for one in stagings]) is not None:
        return min(own, cut_by_pattern(stagings), key=len)
    return own


def hold_together(layers: Sequence[Layer]) -> list[Layer]:
    """Layers, those made one through which a branch reaches that is added some sums behind where it began.

    They stay as they are where one layer would be led to the next by such branches all the way.
    """
    joined = [*layers]
    for staging in [staging for layer in layers for staging in layer if staging.stage.since]:
        last = next(number for number, layer in enumerate(joined) if any(one is staging for one in layer))
        first, sums = last, sum(one.joints[0].add < staging.joints[0].add for one in joined[last])
        while sums < (staging.stage.since or 0) and first > 0:
            first -= 1
            sums += len(joined[first])
        whole = tuple(one for layer in joined[first : last + 1] for one in layer)
        if any(one.stage.since for layer in joined[first:last] for one in layer):
            return [*layers]
        if first < last and len(whole) <= LONGEST_PATTERN:
            joined[first : last + 1] = [whole]
    return joined
