"""One rank's recording told against that of the whole: global shapes, what this rank has of them, how the mesh divides.

The same step is found in both by its path and the line that ran it. An axis is divided by that axis of the mesh which,
alone, makes it shorter on one rank. Where ranks hold the same and where each holds a summand follows along the data.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xray.capture.axes.spreading import ADDING, UNKNOWN, read_words, spell_words
from xray.capture.collectives import spell_ranks
from xray.ir.kinds import EXCHANGES
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.ranks.mesh import Mesh

Words = tuple[str, ...]
SAME, SUMMAND = "R", "P(sum)"
SUMMED = frozenset({"all_reduce", "reduce_scatter"})
ALL_HAVE = frozenset({"all_reduce", "all_gather"})
"""After these all ranks have the same."""
BACKWARD = "backward"
LAID = ("dp", "fsdp", "tp", "ep")
"""In this order torch's meshes have their axes."""
HANDING_ON = frozenset({"view_as", "detach", "alias"})
"""What gives back the same tensor in another object."""


def merge_whole(part: Trace, whole: Trace, alone: Mapping[str, Trace], mesh: Mesh, rank: int) -> Trace:
    """The trace of one rank, with what the whole has and how the mesh divides it.

    `alone` has for each axis of the mesh a trace of the same rank under that axis alone.
    """
    names = {spell_ranks(mesh.ranks_along(axis, rank)): axis for axis in mesh.axes}
    merged = []
    for place, (one, other) in enumerate(zip(part.passes, whole.passes, strict=True)):
        apart = {axis: trace.passes[place] for axis, trace in alone.items()}
        merged.append(Merger(name_groups(one, names), other, apart, mesh.axes).merge())
    return replace(whole, passes=tuple(merged))


def name_groups(one_pass: Pass, names: Mapping[str, str]) -> Pass:
    """The pass with the groups of its exchanges called as the mesh's axes on whose ranks they lie."""

    def name(step: Step) -> Step:
        axis = names.get(str(step.settings.get("group_ranks")))
        if axis is None or axis in str(step.settings["group"]).split("+"):
            return step
        return replace(step, settings={**step.settings, "group": axis})

    return replace(one_pass, steps=tuple(map(name, one_pass.steps)))


def match_steps(part: Pass, whole: Pass) -> Mapping[str, Step]:
    """For the steps of one rank, by id, those of the whole that are the same: of one path, operation and line."""
    waiting: dict[tuple[str, str, str | None], list[Step]] = defaultdict(list)
    for step in reversed(whole.steps):
        waiting[step.path, step.op, step.location].append(step)
    found = {}
    for step in part.steps:
        others = waiting.get((step.path, step.op, step.location))
        if others and is_alike(step, others[-1]):
            found[step.id] = others.pop()
    return found


def is_alike(step: Step, other: Step) -> bool:
    """Whether two steps have as many tensors with as many axes."""
    return [[len(record.shape) for record in side] for side in (step.inputs, step.outputs)] == [
        [len(record.shape) for record in side] for side in (other.inputs, other.outputs)
    ]


class Merger:
    """Merges one pass."""

    def __init__(self, part: Pass, whole: Pass, alone: Mapping[str, Pass], axes: Sequence[str]) -> None:
        self.part = part
        self.axes = axes
        self.whole = match_steps(part, whole)
        self.alone = {axis: find_same(one, whole) for axis, one in alone.items()}
        self.words: dict[str, Words] = {}
        self.told: dict[str, TensorRecord] = {}
        self.summands = {
            (record.source or "", self.find_axis(step))
            for step in part.steps
            if step.op in SUMMED and "during" not in step.settings
            for record in step.inputs
        }

    def find_axis(self, step: Step) -> str:
        """The axis of the mesh along which an exchange goes."""
        names = str(step.settings.get("group", "")).split("+")
        return next((name for name in names if name in self.axes), "")

    def merge(self) -> Pass:
        """The pass of one rank, told against the whole."""
        steps = [self.merge_step(step) for step in self.part.steps]
        read = {
            (record.source, record.local): record
            for step in reversed(steps)
            for record in step.inputs
            if record.placement is not None
        }
        return replace(self.part, steps=tuple(self.close(step, read) for step in steps))

    def merge_step(self, step: Step) -> Step:
        other = self.whole.get(step.id)
        if other is None:
            return self.merge_other(step)
        inputs, given = [], []
        for place, record in enumerate(step.inputs):
            words = self.find_words(other, "inputs", place, self.look_up(record))
            inputs.append(merge_record(record, other.inputs[place], words))
            given.append(words)
        outputs, made = [], []
        if step.op == BACKWARD:
            return replace(step, inputs=tuple(inputs), outputs=self.merge_gradients(step, other))
        for place, record in enumerate(step.outputs):
            is_own = record.source in (None, step.id)
            base = self.derive(step, other, place, given) if is_own else self.look_up(record)
            words = self.find_words(other, "outputs", place, base)
            outputs.append(merge_record(record, other.outputs[place], words))
            if is_own:
                made.append((words, outputs[-1]))
        self.keep(step, made)
        settings = {**step.settings, **{key: one for key, one in other.settings.items() if key in step.settings}}
        return replace(step, inputs=tuple(inputs), outputs=tuple(outputs), settings=settings)

    def merge_gradients(self, step: Step, other: Step) -> tuple[TensorRecord, ...]:
        """The gradients, which are divided as torch says; where it says nothing, this rank's alone are known."""
        whole = {record.name: record for record in other.outputs}
        told = []
        for record in step.outputs:
            like, words = whole.get(record.name), read_words(record)
            is_cut = any("S(" in word for word in words)
            is_told = len(words) == len(self.axes) and is_cut == (record.local != record.shape)
            if is_told and like is not None and like.shape == record.shape:
                order = [sorted(self.axes, key=LAID.index).index(axis) for axis in self.axes]
                placement = spell_words(tuple(words[place] for place in order))
                told.append(replace(like, source=record.source, local=record.local, placement=placement))
            else:
                told.append(carry(record, None))
        return tuple(told)

    def find_words(self, other: Step, side: str, place: int, base: Words) -> Words:
        """How the mesh divides a tensor: the axes that are cut tell themselves, for the others `base` does."""
        found = list(base)
        for number, axis in enumerate(self.axes):
            shorter = self.find_shorter(axis, other, side, place)
            if shorter is None or len(shorter) > 1 or (not shorter and found[number].startswith("S")):
                found[number] = UNKNOWN
            elif shorter:
                found[number] = f"S({shorter[0]})"
        return tuple(found)

    def find_shorter(self, axis: str, other: Step, side: str, place: int) -> list[int] | None:
        """The axes of a tensor that are shorter under this axis of the mesh alone; None where it is not there."""
        step = self.alone[axis].get(other.id)
        if step is None:
            return None
        record, like = getattr(step, side)[place], getattr(other, side)[place]
        sizes = zip(record.local or record.shape, like.shape, strict=True)
        return [number for number, (size, whole) in enumerate(sizes) if size != whole]

    def derive(self, step: Step, other: Step, place: int, given: Sequence[Words]) -> Words:
        """How ranks hold what a step makes: the same, a summand each, or a part, which its axes tell."""
        return tuple(
            SUMMAND
            if (step.id, axis) in self.summands
            else derive_word(step.op, bool(self.find_shorter(axis, other, "outputs", place)), [one[n] for one in given])
            for n, axis in enumerate(self.axes)
        )

    def look_up(self, record: TensorRecord) -> Words:
        """How a tensor was held where it was made; what comes from outside is the same for all, unless it is cut."""
        if record.source is None:
            return (SAME,) * len(self.axes)
        return self.words.get(record.source, (UNKNOWN,) * len(self.axes))

    def merge_other(self, step: Step) -> Step:
        """A step that the whole does not have: an exchange, or what this rank does to find its part."""
        inputs = [carry(record, self.told.get(record.source or "")) for record in step.inputs]
        outputs = [carry(record, None) for record in step.outputs]
        words = [UNKNOWN] * len(self.axes)
        axis = "" if "during" in step.settings else self.find_axis(step)  # of gradients nobody tells
        if step.op in ALL_HAVE and axis and len(inputs) == len(outputs) == 1:
            words = list(self.look_up(step.inputs[0]))
            words[self.axes.index(axis)] = SAME
            if step.op == "all_gather":
                pass  # along the first axis, to be cut and joined afterwards
            elif inputs[0].placement is not None:
                outputs = [replace(inputs[0], name="out", source=step.id, placement=spell_words(tuple(words)))]
            elif all(word == SAME for word in words):
                outputs = [replace(outputs[0], placement=spell_words(tuple(words)))]
        elif step.op in HANDING_ON and inputs[0].local == outputs[0].local:
            words = list(self.look_up(step.inputs[0]))
            outputs = [replace(inputs[0], name="out", source=step.id)]
        self.keep(step, [(tuple(words), record) for record in outputs])
        return replace(step, inputs=tuple(inputs), outputs=tuple(outputs))

    def keep(self, step: Step, made: Sequence[tuple[Words, TensorRecord]]) -> None:
        """Remember what a step made, for those who read it."""
        if made:
            told = {words for words, _ in made}
            self.words[step.id] = made[0][0] if len(told) == 1 else (UNKNOWN,) * len(self.axes)
            self.told[step.id] = made[0][1]

    def close(self, step: Step, read: Mapping[tuple[str | None, tuple[int, ...] | None], TensorRecord]) -> Step:
        """The step, with what is known only behind it: what a block hands on, what an exchange leaves."""
        other, outputs = self.whole.get(step.id), list(step.outputs)
        for place, record in enumerate(outputs):
            reader = read.get((record.source, record.local))
            if record.placement is not None:
                continue
            if other is not None and step.id in self.part.blocks:
                words = self.find_words(other, "outputs", place, self.look_up(record))
                outputs[place] = merge_record(record, other.outputs[place], words)
            elif step.op in EXCHANGES and reader is not None:
                outputs[place] = replace(reader, name=record.name, source=record.source)
        return replace(step, outputs=tuple(outputs))


def merge_record(record: TensorRecord, like: TensorRecord, words: Words) -> TensorRecord:
    """A tensor of this rank as the whole has it, where all that differs is told by how the mesh divides it."""
    local, placement = record.local or record.shape, spell_words(words)
    cut = {int(word[2:-1]) for word in words if word.startswith("S(")}
    changed = {axis for axis, (size, part) in enumerate(zip(like.shape, local, strict=True)) if size != part}
    if placement is None or not changed <= cut:
        return replace(record, shape=local, local=local, placement=None, mask=None, preview=None)
    return replace(like, source=record.source, local=local, placement=placement)


def carry(record: TensorRecord, like: TensorRecord | None) -> TensorRecord:
    """A tensor as it was told where it was made, if it has the same shape still; else this rank's part alone."""
    local = record.local or record.shape
    if like is not None and like.local == local and like.placement is not None:
        return replace(like, name=record.name, source=record.source)
    return replace(record, shape=local, local=local, placement=None)


def find_same(part: Pass, whole: Pass) -> Mapping[str, Step]:
    """For the steps of the whole, by id, those of one rank that are the same."""
    by_id = part.by_id
    return {step.id: by_id[name] for name, step in match_steps(part, whole).items()}


def derive_word(op: str, is_cut: bool, given: Sequence[str]) -> str:
    """How ranks hold what an operation makes along one axis of the mesh."""
    if UNKNOWN in given:
        return UNKNOWN
    if any(word.startswith("P") for word in given):
        return SUMMAND
    if is_cut or all(word == SAME for word in given):
        return SAME  # or cut, which is told by its axes
    return SUMMAND if op in ADDING else UNKNOWN
