"""Ids of which several tables look up a part each, or what is worked out of each: codes of a sound, hashes (CANINE)."""

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LOOKUPS, SCALINGS, SUMS
from xray.ir.records import TensorRecord
from xray.story.charts.chart import Chart
from xray.story.entrance.tables import LEFT_OVER, looks_up_places

CUTS = CARRYING | {"index", "select", "slice", "narrow", "unbind", "chunk", "split"}
WORKING = SUMS | SCALINGS | LEFT_OVER


def find_shared_ids(flow: Flow, chart: Chart, reader: int) -> tuple[TensorRecord, list[str]] | None:
    """The ids of which a lookup and others read a part each, and the boxes of all of them; None where none does."""
    ways = [
        (node.key, list_way(flow, place))
        for node in chart.nodes
        for place in (flow.places[step.id] for step in node.steps)
        if flow.op(place) in LOOKUPS and not looks_up_places(flow, place)
    ]
    for origin, record in list_way(flow, reader).items():
        sharing = [key for key, way in ways if origin in way]
        if len(sharing) > 1:
            return record, list(dict.fromkeys(sharing))
    return None


def list_way(flow: Flow, lookup: int) -> dict[object, TensorRecord]:
    """What the ids of a lookup were cut or worked out of, the nearest first: by its step, or name if from outside.

    Each by itself, with plain numbers (CANINE's hashes). Not one of the parts that a step cut it into: each lookup has
    another one of these (X-Codec).
    """
    found: dict[object, TensorRecord] = {}
    here: int | None = lookup
    while here is not None and (here == lookup or flow.op(here) in CUTS or is_worked_out_alone(flow, here)):
        given = next(((record, maker) for record, maker in flow.given(here) if not record.is_float), None)
        if given is None:
            break
        record, here = given
        if here is None or len(flow.steps[here].outputs) == 1:
            found[(record.name, record.shape) if here is None else here] = record
    return found


def is_worked_out_alone(flow: Flow, node: int) -> bool:
    """Whether a step makes ids of the ids of one tensor, each by itself."""
    inputs, output = flow.steps[node].inputs, flow.output(node)
    return flow.op(node) in WORKING and len(inputs) == 1 and inputs[0].role == output.role == "ids"
