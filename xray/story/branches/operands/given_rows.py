"""Which towers keys and values are made of, where all that they are made of is known."""

from collections.abc import Mapping, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LOOKUPS, SIDE_BY_SIDE, SOFTMAXES
from xray.ir.flow.projections import is_product
from xray.story.branches.operands.sides import Side
from xray.story.recognition.between import is_linear, list_reading_data

MOST_BEHIND = 200
RECURRENT = frozenset({"lstm", "gru", "rnn"})


def read_given(
    flow: Flow, sides: Sequence[Side], source: str | None, towers: Mapping[int, str]
) -> frozenset[str] | None:
    """The towers of whose ends keys and values are made, each of all of these, and of no other rows; None otherwise."""
    ways = {read_towers(flow, max(side.nodes, default=None), towers) for side in sides}
    found = ways.pop() if len(ways) == 1 else None
    return found if found and source in found and "self" not in found else None


def read_towers(flow: Flow, place: int | None, towers: Mapping[int, str]) -> frozenset[str] | None:
    """The towers of whose ends rows are made; None where rows of others are among them, or other steps between.

    Those look rows up, or mix them by what others hold. What masks and learned numbers add is none.
    """
    reading, arguments = list_reading_data(flow), {(one.shape, one.dtype) for one in flow.one_pass.arguments}
    data = reading if place in reading else range(len(flow.steps))  # what was given is not told of every pass
    names = set[str]()
    for here in flow.behind(place, most=MOST_BEHIND, within=data.__contains__, ends=towers.__contains__):
        if here in towers:
            names.add(towers[here])
            continue
        outside = [record for record, maker in flow.taken(here) if maker is None and record.role != "parameter"]
        given = [(record, maker) for record, maker in flow.given(here) if 0 not in record.shape]  # no cache yet
        is_mixed = flow.op(here) in SIDE_BY_SIDE and any(maker not in data for _, maker in given)
        if (
            is_between(flow, here)
            or is_mixed
            or any(one.is_float and (one.shape, one.dtype) in arguments for one in outside)
        ):
            return None
    return frozenset(names)


def is_between(flow: Flow, node: int) -> bool:
    """Whether a step looks rows up, or makes others of them by what other rows hold."""
    is_mixing = is_product(flow, node) and not is_linear(flow, node)
    return is_mixing or flow.op(node) in LOOKUPS | SOFTMAXES | RECURRENT
