"""How a tower looks: in what it is painted, and of which passes it tells."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.charts.chart import Node
from xray.story.shapes import ShapeText, read_shape
from xray.story.sheet.canvas.tooltip import describe

CONDITION = "op_normalisation"
"""The colour of what scales, shifts and gates from beside a stream."""


MOST_TOLD = 200
"""A tooltip tells of no more steps one by one."""


@dataclass(frozen=True)
class Look:
    """In what a tower is painted, and of which passes it tells: the steps of the first that has them, sizes as in all.

    A narrow look is that of a second phase beside the first: it is painted in the colour of its phase.
    """

    own: str
    memory: str
    passes: tuple[Pass, ...]
    role: str = "forward"
    is_narrow: bool = False

    def surface(self, node: Node) -> str:
        """The surface of the theme that a node stands on."""
        own = self.role if self.is_narrow else self.own
        surfaces = {"own": own, "mask": "mask", "memory": self.memory, "phase": self.phase, "ghost": "card"}
        return surfaces.get(node.surface, CONDITION)

    @property
    def phase(self) -> str:
        """The colour of what is of the phase and of no tower: its path on the page, a loss, a chosen word."""
        return self.role if self.role in ("training", "inference") else self.own

    @property
    def outside(self) -> str:
        """The role of a line on the page: that of its phase where that has a colour for lines there."""
        return self.phase if self.phase != self.own else "leader"

    @property
    def line(self) -> str:
        """The role of a line inside the frames."""
        return f"{self.role}_on_panel" if self.is_narrow else self.own

    @property
    def is_dashed(self) -> bool:
        """Whether its path is dashed: that of inference is, so that phases can be told apart without colour."""
        return self.role == "inference"

    def shape(self, step: Step, record: TensorRecord) -> ShapeText:
        """A shape as it is in all passes: a size that differs from pass to pass is told as a range."""
        home = next((one for one in self.passes if one.by_id.get(step.id) is step), self.passes[0])
        found = [(home.number, record)]
        sides = ((side, place, one) for side in ("outputs", "inputs") for place, one in enumerate(getattr(step, side)))
        side, place = next(((side, place) for side, place, one in sides if one.shape == record.shape), ("", 0))
        for one in self.passes if side else ():
            other = one.by_id.get(step.id) if one is not home else None
            records = getattr(other, side) if other is not None else ()
            if len(records) > place and len(records[place].shape) == len(record.shape):
                found.append((one.number, records[place]))
        return read_shape(found)

    def alike(self, one: Node, other: Node) -> bool:
        """Whether two nodes print the same shape."""
        shapes = [None if node.record is None else self.shape(node.steps[0], node.record) for node in (one, other)]
        return shapes[0] is not None and shapes[1] is not None and shapes[0].sizes == shapes[1].sizes

    def tell(self, steps: Sequence[Step]) -> str:
        """A tooltip for some steps, each with its turns; of very many the first ones, and how many more there are."""
        told = [
            describe([(one, one.by_id[step.id]) for one in self.passes if step.id in one.by_id])
            for step in steps[:MOST_TOLD]
        ]
        return "\n".join([*told, *[f"and {len(steps) - MOST_TOLD:,} more steps"] * (len(steps) > MOST_TOLD)])

    def identity(self, step: Step) -> str:
        """The id that a step has on the sheet: that of the first pass which takes it."""
        return f"{next((one for one in self.passes if step.id in one.by_id), self.passes[0]).key}/{step.id}"
