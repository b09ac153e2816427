"""What stands below the first layer and above the last one: entrance and exit as charts."""

from collections.abc import Collection

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.body.entrance import cuts_patches, looks_up_places
from xray.story.body.regions import find_region, is_linear
from xray.story.body.stages import find_any_norm
from xray.story.body.towers import Towering
from xray.story.charts.chart import MIDDLE, Chart, Edge, Node
from xray.story.charts.operations_chart import chart_operations
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import FINDINGS, LOOKUPS, LOSSES, SUMS

INPUTS = {"ids": "TOKEN IDS", "image": "IMAGE", "audio": "SIGNAL", "vectors": "VECTORS"}


def chart_entrance(flow: Flow, towering: Towering) -> Chart | None:
    """The steps before a tower's first layer, what it reads at the bottom."""
    nodes = set(towering.entrance)
    start = towering.chains[0].start
    if not nodes or start is None:
        return None
    labels = {node: label for node in nodes if (label := label_entry(flow, node))}
    chart = chart_operations(flow, nodes, start, labels, "in")
    if chart is None:
        return None
    given = find_input(flow, towering)
    if given is None:
        return chart
    step, record, reader = given
    raised = chart.raised(1)
    foot = next(
        (node.key for node in raised.nodes if any(one is flow.steps[reader] for one in node.steps)), raised.feet[0]
    )
    below = Node("given", INPUTS.get(towering.tower.reads or "", "INPUT"), 0, MIDDLE, (step,), record)
    return Chart((below, *raised.nodes), (Edge("given", foot), *raised.edges), ("given",), raised.head)


def label_entry(flow: Flow, node: int) -> str:
    """What a step of the entrance is called."""
    op = flow.op(node)
    if op in LOOKUPS:
        return "PLACES, LOOKED UP" if looks_up_places(flow, node) else "LOOK UP IN A TABLE"
    if op in FINDINGS:
        return "PATCHES" if cuts_patches(flow, node) else ""
    if op in SUMS and any(record.role == "parameter" for record in flow.steps[node].inputs):
        return "+ LEARNED PLACES"
    if op == "cat" and any(record.shape[1:2] == (1,) for record in flow.steps[node].inputs):
        return "WITH ONE MORE ROW"
    return ""


def find_input(flow: Flow, towering: Towering) -> tuple[Step, TensorRecord, int] | None:
    """What a tower reads from outside, and which step reads it: of several lookups the one in the largest table."""
    reads = towering.tower.reads
    wanted = {"ids": LOOKUPS, "image": FINDINGS, "audio": FINDINGS}.get(reads or "")
    found: list[tuple[Step, TensorRecord, int]] = []
    for node in sorted(towering.entrance):
        if wanted is not None and flow.op(node) not in wanted:
            continue
        for record, maker in flow.given(node):
            if record.role == "parameter" or not record.shape:
                continue
            if reads == "ids" and (record.role != "ids" or looks_up_places(flow, node)):
                continue
            if reads == "vectors" and maker is not None:
                continue
            found.append((flow.steps[node], record, node))
            break
    if reads == "ids":
        return max(found, key=lambda one: one[0].params, default=None)
    return found[0] if found else None


def chart_exit(flow: Flow, towering: Towering, others: Collection[int]) -> Chart | None:
    """The steps behind a tower's last sum: its last norm, its head, a loss; `others` are the steps of other towers."""
    end = towering.chains[-1].end
    last = find_last(flow, end, others)
    if last is None:
        return None
    region = find_region(flow, end, last)
    if region is None:
        return None
    nodes = {node for node in region.inner if not is_of_stage(towering, node) and node not in others}
    labels = {}
    for node in nodes:
        if is_linear(flow, node) and flow.output(node).shape[-1:] == (towering.tower.vocab,):
            labels[node] = "LINEAR TO VOCABULARY"
        elif is_loss(flow, node):
            name = flow.op(node).removesuffix("_loss").replace("_", "-").upper()
            labels[node] = f"{name}: THE LOSS"
        elif is_last_norm(flow, towering, node):
            labels[node] = "LAST NORM"
    return chart_operations(flow, nodes, last, labels, "out")


def is_loss(flow: Flow, node: int) -> bool:
    """Whether a step works out a loss."""
    return flow.op(node) in LOSSES or flow.output(node).role == "loss"


def is_last_norm(flow: Flow, towering: Towering, node: int) -> bool:
    """Whether a step ends the norm of a tower's last sum."""
    norm = find_any_norm(flow, node)
    return norm is not None and towering.final is not None and norm.origin == towering.final.origin


def is_of_stage(towering: Towering, node: int) -> bool:
    """Whether a step belongs to a stage, as the norm behind the last sum of a model that normalises after it does."""
    return any(node in norm.nodes for staging in towering.stagings[-1:] for norm in staging.norms)


def find_last(flow: Flow, end: int, others: Collection[int]) -> int | None:
    """The last step that is worked out of a tower's result: the loss, if there is one, else the last head."""
    reached = {end}
    heads: list[int] = []
    for place in range(end + 1, len(flow.steps)):
        if (
            place in others
            or not flow.is_leaf(place)
            or not any(maker in reached for maker in flow.makers[place] if maker is not None)
        ):
            continue
        reached.add(place)
        if is_linear(flow, place) or is_loss(flow, place) or find_any_norm(flow, place) is not None:
            heads.append(place)
    return heads[-1] if heads else None
