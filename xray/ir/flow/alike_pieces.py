"""Rows that are cut into pieces which go the same way, with the same weights, and are put end to end again."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE

SPLITS = frozenset({"split", "split_with_sizes", "tensor_split", "chunk"})
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
    if flow.op(cut) not in SPLITS or len(step.outputs) < 2 or not step.outputs[0].is_float:
        return None
    join = find_join(flow, cut, len(step.outputs))
    if join is None:
        return None
    made = {node for node in flow.ahead(cut, within=lambda node: node < join) if flow.is_leaf(node)} - {cut}
    ways = tuple(tuple(sorted(flow.behind(maker, within=made.__contains__))) for maker in flow.makers[join])
    kinds = {tuple((flow.op(node), flow.steps[node].path) for node in way) for way in ways}
    is_apart = sorted(node for way in ways for node in way) == sorted(made)
    return AlikePieces(cut, ways, join) if len(kinds) == 1 and ways[0] and is_apart else None


def find_join(flow: Flow, cut: int, count: int) -> int | None:
    """The first step that puts as many pieces end to end as a step cuts, each made of what that cuts."""
    ahead = set(flow.ahead(cut))
    joins = (node for node in sorted(ahead) if flow.op(node) in SIDE_BY_SIDE and flow.is_leaf(node))
    return next((one for one in joins if len(ahead.intersection(flow.makers[one])) == count), None)


def find_pieces_at(flow: Flow, node: int) -> AlikePieces | None:
    """The pieces that a step cuts, or puts end to end again."""
    found = (find_pieces(flow, one) for one in flow.behind(node, most=MOST_BEHIND) if flow.op(one) in SPLITS)
    return next((one for one in found if one is not None and node in (one.cut, one.join)), None)
