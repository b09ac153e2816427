"""Numbers in the labels of a layer that is drawn for several: said where all of them have it."""

import re
from collections.abc import Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.story.body.stages import Staging
from xray.story.branches.caps import read_factor
from xray.story.charts.chart import Chart

TIMES = re.compile(r"[×÷·] ?[\d.,]+(e-?\d+)?")


def blur_numbers(flow: Flow, chart: Chart, drawn: Staging, others: Sequence[Staging]) -> Chart:
    """The chart of a stage without the numbers by which other layers multiply by another (DiffLlama)."""
    own = list_factors(flow, drawn)
    alike = [[factor for _, factor in list_factors(flow, other)] for other in others]
    differing = {
        flow.steps[node].id
        for place, (node, factor) in enumerate(own)
        if any(factor not in (other[place : place + 1] if len(other) == len(own) else other) for other in alike)
    }
    return replace(
        chart,
        nodes=tuple(
            replace(node, label=TIMES.sub("× A NUMBER OF EACH LAYER", node.label))
            if any(step.id in differing for step in node.steps)
            else node
            for node in chart.nodes
        ),
    )


def list_factors(flow: Flow, staging: Staging) -> list[tuple[int, float]]:
    """The steps of a stage that multiply by one number, each with it, in order."""
    found = ((node, read_factor(flow, node)) for node in sorted(staging.nodes) if flow.is_leaf(node))
    return [(node, factor) for node, factor in found if factor is not None]
