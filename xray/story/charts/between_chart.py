"""What stands between branches that follow one another within one sublayer, and before the first of them (Zamba 2)."""

from collections.abc import Collection, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS, SIDE_BY_SIDE, SUMS
from xray.story.body.stages import Branching, Staging, find_any_norm
from xray.story.charts.chart import Chart, stack_charts
from xray.story.charts.operations_chart import chart_operations


def fill_between(flow: Flow, staging: Staging, charts: Sequence[Chart], taken: Collection[int]) -> list[Chart]:
    """The charts of branches in a row, each above what is worked out before it and is part of none.

    `taken` are steps that are drawn elsewhere. Nothing is filled in where branches stand beside each other.
    """
    if len(charts) < 2 or staging.stage.parallel or staging.stage.beside or len(staging.joints) > 1:
        return list(charts)
    inner = staging.joints[0].region.inner
    drawn = {step.id for chart in charts for node in chart.nodes for step in node.steps}
    held = frozenset[int]().union(*(one.region.inner for one in staging.branches))
    free = {
        node
        for node in inner
        if node not in held and node not in taken and flow.is_leaf(node) and flow.steps[node].id not in drawn
    }
    found: list[Chart] = []
    behind: set[int] = set()
    for number, (one, chart) in enumerate(zip(staging.branches, charts, strict=True)):
        own = set(flow.behind(*one.region.inner, within=inner.__contains__))
        gap = (own & free) - behind
        gap |= list_rejoining(flow, one, behind | gap, drawn)
        gap |= list_begun_norm(flow, one, drawn, gap) - set(taken) if number else set()
        behind |= own
        labels = {node: label for node in gap if (label := label_plumbing(flow, one, node))}
        below = chart_operations(flow, gap, max(gap), labels, f"gap{number}_") if gap else None
        found.append(chart if below is None else stack_charts(below, chart))
    return found


def list_rejoining(flow: Flow, one: Branching, before: Collection[int], drawn: Collection[str]) -> set[int]:
    """The sums with which a branch begins and in which what came before it is added to the stream, if undrawn."""
    return {
        node
        for node in one.region.inner
        if flow.op(node) in SUMS
        and flow.steps[node].id not in drawn
        and one.region.start in flow.makers[node]
        and any(maker in before for maker in flow.makers[node])
    }


def list_begun_norm(flow: Flow, one: Branching, drawn: Collection[str], before: Collection[int]) -> set[int]:
    """The norm with which a branch begins behind what stands before it, if none of its steps is drawn."""
    norms = (find_any_norm(flow, node) for node in one.region.inner)
    return {
        node
        for norm in norms
        if norm is not None and (norm.origin in before or norm.origin not in one.region.inner)
        if not any(flow.steps[part].id in drawn for part in norm.nodes)
        for node in norm.nodes
    }


def label_plumbing(flow: Flow, one: Branching, node: int) -> str:
    """What a step is called that brings the stream together with something else; "" for any other."""
    if one.region.start not in flow.makers[node]:
        return ""
    if flow.op(node) in SUMS:
        return "ADDED TO THE STREAM"
    origins = [flow.carried_from(maker) for maker in flow.makers[node] if maker != one.region.start]
    is_words = any(maker is not None and flow.op(maker) in LOOKUPS for maker in origins)
    widths = " + ".join(f"{record.shape[-1]:,}" for record in flow.steps[node].inputs if record.shape)
    return f"BESIDE WORDS AS LOOKED UP: {widths}" if flow.op(node) in SIDE_BY_SIDE and is_words else ""
