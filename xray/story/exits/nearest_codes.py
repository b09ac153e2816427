"""Codes: of all rows of a learned table the one that is nearest to each row, known by how far all of them are."""

from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import PRODUCTS
from xray.story.passages.added_places import learned_source
from xray.story.recognition.value_shapes import number

MOST_BEHIND = 14


@dataclass(frozen=True)
class Nearest:
    """The step that picks codes, all steps that work out how far each is, and how many there are."""

    end: int
    nodes: tuple[int, ...]
    codes: int


def find_nearest(flow: Flow, product: int) -> Nearest | None:
    """What picks the code nearest to each row, by a product of rows with all codes; None where it is not proven.

    How far a row is from a code is told by the squares of both and twice their product; the least is picked.
    """
    codes = count_codes(flow, product)
    here: int | None = product
    for _ in range(MOST_BEHIND):
        readers = [reader for reader in flow.readers.get(here or 0, ()) if flow.is_leaf(reader)]
        if codes is None or here is None or len(readers) != 1:
            return None
        here = readers[0]
        if flow.op(here) == "argmin":
            nodes = list_worked_out(flow, here, product)
            return Nearest(here, nodes, codes) if sums_squares(flow, nodes, codes) else None
        if flow.output(here).shape[-1:] != (codes,):
            return None
    return None


def count_codes(flow: Flow, product: int) -> int | None:
    """How many rows of a learned table others are multiplied by, where a step does that; else None."""
    if flow.op(product) not in PRODUCTS or len(flow.steps[product].inputs) != 2:
        return None
    tables = (learned_source(flow, *one) for one in flow.given(product))
    rows = [table.shape[0] for table in tables if table is not None and len(table.shape) == 2]
    return rows[0] if len(rows) == 1 and flow.output(product).shape[-1:] == (rows[0],) else None


def list_worked_out(flow: Flow, end: int, product: int) -> tuple[int, ...]:
    """The steps that work out how far codes are from what a product reads, that one included."""
    rows = {flow.carried_from(maker) for maker in flow.makers[product]}
    return tuple(sorted(flow.behind(end, most=MOST_BEHIND, within=lambda place: place not in rows)))


def sums_squares(flow: Flow, nodes: tuple[int, ...], codes: int) -> bool:
    """Whether squares of every code are among what is added up."""
    return any(
        flow.output(node).shape[:1] == (codes,) and learned_source(flow, *next(flow.given(node))) is not None
        for node in nodes
        if is_square(flow, node)
    )


def is_square(flow: Flow, node: int) -> bool:
    """Whether a step multiplies each number by itself."""
    powers = [number(flow.steps[node], name) for name in ("other", "arg1", "exponent")]
    return flow.op(node) == "square" or (flow.op(node) == "pow" and 2 in powers)
