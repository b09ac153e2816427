"""How a tensor is divided among ranks follows from how its makers' tensors are: it spreads along the data.

Torch says it of DTensors alone. Between them a model works on plain tensors that are this rank's parts: a view of a
divided axis, a product of two. Axes that an operation keeps are divided as before; where it adds up along a divided
axis, each rank has a summand. What is not told by that stays unsaid.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xray.capture.axes.groups import Groups
from xray.capture.axes.joins import VIEWS, Tensors, join_step
from xray.capture.axes.structure import Links
from xray.capture.kernels.fused import ATTENTIONS
from xray.ir.kinds import EXCHANGES
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace

ADDING = (
    frozenset(
        {
            "linear",
            "matmul",
            "bmm",
            "mm",
            "addmm",
            "baddbmm",
            "einsum",
            "embedding",
            "sum",
            "mean",
            "_grouped_mm",
            "grouped_mm",
        }
    )
    | ATTENTIONS
)
"""Operations that add up along an axis that they do not keep."""
UNKNOWN = "?"
WORD = re.compile(r"\w+(?:\([^)]*\))?")
Words = tuple[str, ...]
"""How each axis of the mesh divides a tensor: "S(0)", "R", "P(sum)", or UNKNOWN."""


def spread_parts(trace: Trace, links: Sequence[Links] = ()) -> Trace:
    """The same trace, with the whole shape and the placement of every tensor of which they can be told."""
    return replace(
        trace,
        passes=tuple(
            Spreader(one, links[place] if place < len(links) else {}).spread() if has_parts(one) else one
            for place, one in enumerate(trace.passes)
        ),
    )


def has_parts(one_pass: Pass) -> bool:
    """Whether anything in a pass is divided, by one mesh alone."""
    lengths = {len(read_words(record)) for record in list_records(one_pass) if record.placement is not None}
    return len(lengths) == 1


def list_records(one_pass: Pass) -> list[TensorRecord]:
    """Every tensor at every step."""
    return [record for step in one_pass.steps for record in (*step.inputs, *step.outputs)]


def read_words(record: TensorRecord) -> Words:
    """A record's placement as words."""
    return tuple(WORD.findall(record.placement or ""))


def spell_words(words: Words) -> str | None:
    """Words as a placement, if all are known."""
    return None if UNKNOWN in words else f"[{', '.join(words)}]"


class Spreader:
    """Spreads the placements of one pass."""

    def __init__(self, one_pass: Pass, links: Links) -> None:
        self.one_pass = one_pass
        self.links = links
        self.groups = Groups()
        self.parts = {step.id: as_part(step) for step in one_pass.steps}
        self.at = {name: Tensors(step, self.groups) for name, step in self.parts.items()}
        self.mesh = next(len(read_words(one)) for one in list_records(one_pass) if one.placement is not None)
        self.whole: dict[int, int] = {}
        self.divided: dict[int, set[int]] = {}
        self.made: dict[str, list[Words]] = {}
        self.taken = {
            (record.source or "", record.local): read_words(record)
            for record in reversed(list_records(one_pass))
            if record.placement is not None
        }

    def spread(self) -> Pass:
        """The pass with all that is known."""
        self.join()
        self.mark()
        steps = [self.write(step) for step in self.one_pass.steps]
        return replace(self.one_pass, steps=tuple(map(self.close, steps)))

    def join(self) -> None:
        """The axes that are one and the same, by their lengths on this rank."""
        for name, step in self.parts.items():
            for firsts, records in ((self.at[name].ins, step.inputs), (self.at[name].outs, step.outputs)):
                for first, record in zip(firsts, records, strict=True):
                    self.join_source(name, first, record)
            if step.op not in EXCHANGES and not is_doubtful(step):
                join_step(step, self.at[name], self.groups, step.op)
        for places in self.links.values():
            alike = [(self.find(place), self.shape(place)) for place in places if place[0] in self.at]
            for number, shape in alike[1:]:
                if shape == alike[0][1]:
                    self.join_axes(alike[0][0], number, len(shape))

    def join_source(self, name: str, first: int, record: TensorRecord) -> None:
        maker = self.parts.get(record.source or "")
        if maker is None or maker.id == name:
            return
        alike = [n for n, one in enumerate(maker.outputs) if one.shape == record.shape]
        if len(alike) == 1:
            self.join_axes(self.at[maker.id].outs[alike[0]], first, len(record.shape))

    def join_axes(self, one: int, other: int, count: int) -> None:
        for axis in range(count):
            self.groups.join(one + axis, other + axis)

    def find(self, place: tuple[str, str, int]) -> int:
        at = self.at[place[0]]
        return (at.ins if place[1] == "in" else at.outs)[place[2]]

    def shape(self, place: tuple[str, str, int]) -> tuple[int, ...]:
        step = self.parts[place[0]]
        return (step.inputs if place[1] == "in" else step.outputs)[place[2]].shape

    def mark(self) -> None:
        """Which axes are divided, and how long the whole is: what torch tells, and what reshapes make of it."""
        for step in self.one_pass.steps:
            at = self.at[step.id]
            for firsts, records in ((at.ins, step.inputs), (at.outs, step.outputs)):
                for first, record in zip(firsts, records, strict=True):
                    for place, word in enumerate(read_words(record)):
                        if word.startswith("S("):
                            axis = int(word[2:-1])
                            self.divide(first + axis, record.shape[axis], {place})
        before = -1
        while before != len(self.divided):
            before = len(self.divided)
            for axis, parts in self.groups.list_products():
                self.mark_product(axis, [part for part in parts if self.groups.size(part) != 1])

    def divide(self, axis: int, whole: int, places: set[int]) -> None:
        root = self.groups.find(axis)
        self.whole.setdefault(root, whole)
        self.divided.setdefault(root, set()).update(places)

    def mark_product(self, axis: int, parts: Sequence[int]) -> None:
        """Of an axis that holds others, the outermost is divided with it."""
        if not parts:
            return
        root, first = self.groups.find(axis), self.groups.find(parts[0])
        rest = prod(self.groups.size(part) for part in parts[1:])
        if root in self.divided and first not in self.divided and self.whole[root] % rest == 0:
            self.divide(first, self.whole[root] // rest, self.divided[root])
        elif first in self.divided and root not in self.divided:
            self.divide(root, self.whole[first] * rest, self.divided[first])

    def write(self, step: Step) -> Step:
        """The step, with what is known of its tensors."""
        at = self.at[step.id]
        inputs = [self.settle(first, one, self.look_up(one)) for first, one in zip(at.ins, step.inputs, strict=True)]
        given = [read_or_unknown(one, self.mesh) for one in inputs if one.local is not None]
        outputs = []
        for first, record in zip(at.outs, step.outputs, strict=True):
            is_own = record.source in (None, step.id)
            words = self.derive(step, first, record, given) if is_own else self.look_up(record)
            outputs.append(self.settle(first, record, words))
        self.made[step.id] = [read_or_unknown(one, self.mesh) if one.local is not None else () for one in outputs]
        return replace(step, inputs=tuple(inputs), outputs=tuple(outputs))

    def close(self, step: Step) -> Step:
        """The step, with what a block hands on, which is made inside it."""
        if step.id not in self.one_pass.blocks:
            return step
        firsts = self.at[step.id].outs
        made = (self.settle(first, one, self.look_up(one)) for first, one in zip(firsts, step.outputs, strict=True))
        return replace(step, outputs=tuple(made))

    def look_up(self, record: TensorRecord) -> Words:
        """How a tensor was divided when it was made."""
        made = [words for words in self.made.get(record.source or "", ()) if words]
        return made[0] if made and all(words == made[0] for words in made) else ()

    def derive(self, step: Step, first: int, record: TensorRecord, given: Sequence[Words]) -> Words:
        """How what an operation makes is divided, by what it was given."""
        if step.op in EXCHANGES:
            return self.taken.get((step.id, record.local or record.shape), (UNKNOWN,) * self.mesh)
        if not given or step.id in self.one_pass.blocks:
            return ()
        kept = self.divided_axes(first, len(record.shape))
        return tuple(self.derive_word(step, place, place in kept, given) for place in range(self.mesh))

    def derive_word(self, step: Step, place: int, is_kept: bool, given: Sequence[Words]) -> str:
        words = [one[place] for one in given]
        if UNKNOWN in words:
            return UNKNOWN
        sums = [word for word in words if word.startswith("P")]
        if sums:
            return sums[0]
        if is_kept or all(word == "R" for word in words):
            return "R"  # or divided, which its axes tell
        return "P(sum)" if step.op in ADDING else UNKNOWN

    def divided_axes(self, first: int, rank: int) -> set[int]:
        """The axes of the mesh that divide a tensor's axes."""
        return {place for axis in range(first, first + rank) for place in self.divided.get(self.groups.find(axis), ())}

    def settle(self, first: int, record: TensorRecord, words: Words) -> TensorRecord:
        """The record with its whole shape and its placement, if torch has not told them."""
        if record.placement is not None or not words:
            return record
        local, found = record.local or record.shape, list(words)
        roots = [self.groups.find(first + axis) for axis in range(len(local))]
        for axis, root in enumerate(roots):
            for place in self.divided.get(root, ()):
                found[place] = f"S({axis})"
        placement = spell_words(tuple(found))
        if placement is None:
            return replace(record, local=local, shape=local)
        shape = tuple(self.whole.get(root, size) for root, size in zip(roots, local, strict=True))
        return replace(record, shape=shape, local=local, placement=placement)


def is_doubtful(step: Step) -> bool:
    """Whether a reshape makes or takes an axis of length 1 here: which of two axes is divided, nobody can tell.

    Eight features seen as one head of eight may be a part of the heads, or of the features of each.
    """
    if step.op not in VIEWS or not step.inputs or not step.outputs:
        return False
    return step.inputs[0].shape.count(1) != step.outputs[0].shape.count(1)


def read_or_unknown(record: TensorRecord, mesh: int) -> Words:
    return read_words(record) or (UNKNOWN,) * mesh


def as_part(step: Step) -> Step:
    """The step with all shapes as they are on this rank."""

    def cut(records: Sequence[TensorRecord]) -> tuple[TensorRecord, ...]:
        return tuple(replace(one, shape=one.local or one.shape) for one in records)

    return replace(step, inputs=cut(step.inputs), outputs=cut(step.outputs))
