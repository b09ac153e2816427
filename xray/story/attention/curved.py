"""What the boxes of an attention are called that has a curve in place of softmax, and in which lanes they stand."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operand_ways import Way
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, SCALINGS
from xray.story.anatomy.branch_words import spell_curve
from xray.story.branches.distinctions import list_curve
from xray.story.charts.chart import CENTRE, LEFT, RIGHT, Chart, Place
from xray.story.recognition.curved_sites import find_curved
from xray.story.recognition.lengths import BY_LENGTH
from xray.story.states.names import Named

MASK, TIMES_MASK = "MASK", "× MASK"
GREEK = str.maketrans("ΠΒ", "πβ")
"""Greek letters that stay small in a formula in capitals."""
MORE_BOXES = 9
"""So many boxes tell only how rows are cut, moved and multiplied: other charts have none of them."""


def name_curved_steps(flow: Flow, nodes: Collection[int]) -> Named:
    """The boxes of such an attention: queries, keys, values, scores, what the curve makes of them, and the way back."""
    site = find_curved(flow, nodes)
    if site is None:
        return Named({}, {})
    labels: dict[int, str] = {}
    lanes: dict[int, Place] = {}
    for letter, place, way in (("Q", LEFT, site.query), ("K", CENTRE, site.key), ("V", RIGHT, site.value)):
        own = name_way(flow, way, letter)
        labels |= own
        lanes |= dict.fromkeys(own, place)
    labels |= {site.scores: "SCORES Q·K^T", site.weighted_sum: "WEIGHTS · V", site.output: "LINEAR O"}
    labels |= {site.concat[-1]: "CONCAT HEADS"} if site.concat else {}
    folded: dict[int, tuple[int, ...]] = {}
    steps = [node for node in site.curve if flow.op(node) not in CARRYING | DROPOUTS]
    for hides, group in groupby(steps, site.masks.__contains__):
        run = tuple(group)
        labels[run[-1]] = name_mask(flow, run) if hides else name_curve(flow, run)
        folded[run[-1]] = run[::-1]
    return Named(labels, folded, lanes, len(labels) + MORE_BOXES)


def name_curve(flow: Flow, steps: Sequence[int]) -> str:
    """What some steps make of a score, as a formula in capitals."""
    return spell_curve(list_curve(flow, steps)).upper().translate(GREEK)


def name_mask(flow: Flow, steps: Sequence[int]) -> str:
    """What hides some scores, or makes some weights 0."""
    return TIMES_MASK if flow.op(steps[-1]) in SCALINGS else MASK


def name_way(flow: Flow, way: Way, letter: str) -> dict[int, str]:
    """The boxes of queries, keys or values: their layer, the cut into heads, and the division by their length."""
    others = [node for node in way.nodes[1:] if flow.op(node) not in CARRYING]
    moved = [node for node in way.nodes[1:] if flow.op(node) in CARRYING and node < min(others, default=node + 1)]
    found = {way.nodes[0]: f"LINEAR {letter}"} | ({moved[-1]: f"HEADS {letter}"} if moved else {})
    return found | {node: f"{letter} {BY_LENGTH}" for node in others if flow.op(node) == "normalize"}


def tell_mask(flow: Flow, chart: Chart) -> Chart:
    """The chart in which the box of a mask is drawn as one, with the shape of what the weights are multiplied by."""
    nodes = []
    for node in chart.nodes:
        if node.label in (MASK, TIMES_MASK):
            last = flow.places[node.steps[0].id]
            nodes.append(replace(node, surface="mask", beside=flow.steps[last].inputs[-1]))
        else:
            nodes.append(node)
    return replace(chart, nodes=tuple(nodes))
