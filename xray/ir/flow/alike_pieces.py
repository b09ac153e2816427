"""Rows that are cut into pieces which go the same way, with the same weights, and are put end to end again."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE, SPLITS
from xray.ir.records import TensorRecord

MOST_BEHIND = 200


@dataclass(frozen=True)
class AlikePieces:
    """The step that cuts, the steps of each piece on its way, in order and alike, and the step that joins them all."""

    cut: int
    ways: tuple[tuple[int, ...], ...]
    join: int

    def list_twins(self, node: int) -> tuple[int, ...]:
        """What is done to the other pieces, where a step does it to the first."""
        place = self.ways[0].index(node)
        return tuple(way[place] for way in self.ways[1:])


def list_pieces(flow: Flow, nodes: Collection[int]) -> Iterator[AlikePieces]:
    """All such pieces that are cut and joined among some steps."""
    for node in sorted(nodes):
        found = find_pieces(flow, node) if flow.op(node) in SPLITS else None
        if found is not None and found.join in nodes:
            yield found


def find_pieces(flow: Flow, cut: int) -> AlikePieces | None:
    """The pieces that a step cuts, where each goes the same way and nothing else joins them; None for any other."""
    step = flow.steps[cut]
    if flow.op(cut) not in SPLITS or len(step.outputs) < 2 or not are_rows(step.inputs[0], step.outputs):
        return None
    ahead = {node for node in flow.ahead(cut) if flow.is_leaf(node)}
    joins = (node for node in sorted(ahead) if flow.op(node) in SIDE_BY_SIDE)
    joins = (node for node in joins if len(ahead.intersection(flow.makers[node])) == len(step.outputs))
    return next((found for join in joins if (found := read_ways(flow, cut, join, ahead)) is not None), None)


def read_ways(flow: Flow, cut: int, join: int, ahead: Collection[int]) -> AlikePieces | None:
    """The pieces that a step cuts and another joins, if all that is made of them goes these ways; else None."""
    if not are_rows(flow.output(join), flow.steps[join].inputs):
        return None
    made = {node for node in ahead if cut < node < join}
    ways = tuple(tuple(sorted(flow.behind(maker, within=made.__contains__))) for maker in flow.makers[join])
    kinds = {tuple((flow.op(node), flow.steps[node].path) for node in way) for way in ways}
    is_apart = sorted(node for way in ways for node in way) == sorted(made)
    is_apart &= all(reader <= join for node in made for reader in flow.readers.get(node, ()))
    return AlikePieces(cut, ways, join) if len(kinds) == 1 and ways[0] and is_apart else None


def are_rows(whole: TensorRecord, parts: Sequence[TensorRecord]) -> bool:
    """Whether parts are some of the rows each of a sequence, or of packed rows, as wide and as many as all of it."""
    rows, shape = sum(part.shape[-2] for part in parts if len(part.shape) > 1), whole.shape
    alike = {(*part.shape[:-2], *part.shape[-1:]) for part in parts} == {(*shape[:-2], *shape[-1:])}
    return whole.is_float and len(shape) in (2, 3) and alike and rows == shape[-2]


def find_pieces_at(flow: Flow, node: int) -> AlikePieces | None:
    """The pieces that a step cuts, or puts end to end again."""
    found = (find_pieces(flow, one) for one in flow.behind(node, most=MOST_BEHIND) if flow.op(one) in SPLITS)
    return next((one for one in found if one is not None and node in (one.cut, one.join)), None)
