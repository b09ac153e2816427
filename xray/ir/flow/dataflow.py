"""Who made what and who reads it, in one pass: the data flow that recognition walks along."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.flow.put_together import list_put_together
from xray.ir.flow.remembering import once
from xray.ir.flow.written_dropouts import list_written_dropouts
from xray.ir.flow.written_linears import list_written_linears
from xray.ir.flow.written_lookups import list_written_lookups
from xray.ir.flow.written_relus import list_written_relus
from xray.ir.flow.written_softmaxes import keep_closed, list_written_softmaxes
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step

ALIASES = {"concat": "cat", "concatenate": "cat"}
"""Operations that torch knows by several names, each with the one by which they are known here."""
AGAIN = "identity"
"""What a step does that makes what an earlier one made."""
NOTHING = TensorRecord("", (), (), "", "", "activation")
"""Stands for what a step made that made nothing."""


@dataclass(frozen=True)
class Flow:
    """The steps of a pass by their place, and the ways between them.

    `makers` has, for each step, the place of the step that made each input, None where that was before this pass.
    `readers` are the innermost steps that read what a step made, `handed` those that hand it on as it is (a dropout
    that drops nothing). `ends` is, for each step, the place behind everything inside it. `put_together` are the steps
    that put parts end to end as what an earlier one made, the place of which is theirs: they are read as that. A
    lookup that is written as an index is told as one. Of what is written out, a softmax or a ReLU, the last step stands
    for all, as the one step of it; `written` are those before it, by the place of that one, and nothing leads through
    them.
    """

    one_pass: Pass
    steps: tuple[Step, ...]
    makers: tuple[tuple[int | None, ...], ...]
    readers: Mapping[int, tuple[int, ...]]
    handed: Mapping[int, tuple[int, ...]]
    ends: tuple[int, ...]
    places: Mapping[str, int]
    put_together: Mapping[int, int]
    written: Mapping[int, tuple[int, ...]]

    @cached_property
    def ops(self) -> tuple[str, ...]:
        """What each step does; by one name, where an operation has several, or is written out by others."""
        named = (ALIASES.get(step.op, step.op) for step in self.steps)
        told = (AGAIN if place in self.put_together else op for place, op in enumerate(named))
        return tuple("dropout" if place in self.dropped else op for place, op in enumerate(told))

    @cached_property
    def dropped(self) -> Mapping[int, float]:
        """The share that each dropout that is written out drops, by the place of its product."""
        return dict(list_written_dropouts(self.steps, self.makers))

    def op(self, place: int) -> str:
        """What the step at a place does."""
        return self.ops[place]

    def output(self, place: int) -> TensorRecord:
        """What the step at a place made first; an empty record if it made nothing."""
        return next(iter(self.steps[place].outputs), NOTHING)

    def given(self, place: int) -> Iterator[tuple[TensorRecord, int | None]]:
        """What the step at a place reads, each with its maker."""
        whole = self.put_together.get(place)
        inputs = self.steps[place].inputs if whole is None else (self.output(whole),)
        return zip(inputs, self.makers[place][: len(inputs)], strict=True)

    def taken(self, place: int) -> Iterator[tuple[TensorRecord, int | None]]:
        """What the step at a place takes numbers of, and not the shape or the type alone, each with its maker."""
        read = list_read(self.steps[place])
        return (given for number, given in enumerate(self.given(place)) if number in read)

    def before_move(self, place: int | None, ops: frozenset[str]) -> tuple[TensorRecord, int | None] | None:
        """What a step moves, and the maker of that; None if the step does more than the given operations."""
        if place is None or self.op(place) not in ops or not self.makers[place]:
            return None
        record, maker = next(self.given(place))
        return (record, maker) if record.shape else None

    def behind(
        self,
        *places: int | None,
        most: int = sys.maxsize,
        within: Callable[[int], bool] = lambda _: True,
        ends: Callable[[int], bool] = lambda _: False,
        reads: Callable[[int], Iterable[int | None]] | None = None,
    ) -> Iterator[int]:
        """The steps that led to some, these first, then the nearest; at most so many.

        `within` says which ones to go to at all, `ends` behind which one nothing is looked for, and `reads` what made
        that of what one reads which is followed, where that is not all of it.
        """
        todo, seen = deque(places), set[int]()
        while todo and len(seen) < most:
            here = todo.popleft()
            if here is None or here in seen or not within(here):
                continue
            seen.add(here)
            yield here
            if not ends(here):
                todo.extend(self.makers[here] if reads is None else reads(here))

    def ahead(self, *places: int, within: Callable[[int], bool] = lambda _: True) -> Iterator[int]:
        """Some steps and all that depend on them, the nearest first; `within` says which ones to go to at all."""
        todo, seen = deque(places), set[int]()
        while todo:
            here = todo.popleft()
            if here in seen or not within(here):
                continue
            seen.add(here)
            yield here
            todo.extend(self.readers.get(here, ()))

    def leaf_readers(self, place: int) -> list[int]:
        """The innermost steps that read what a step gives: none of the blocks that hold them."""
        return [reader for reader in self.readers.get(place, ()) if self.is_leaf(reader)]

    def is_leaf(self, place: int) -> bool:
        """Whether nothing recorded stands inside the step."""
        return self.ends[place] == place + 1

    def parents(self, place: int) -> Iterator[int]:
        """The blocks that hold a step, the innermost first."""
        parent = self.places.get(self.steps[place].parent or "")
        while parent is not None:
            yield parent
            parent = self.places.get(self.steps[parent].parent or "")

    def carried_from(self, place: int | None, ops: frozenset[str] = CARRYING) -> int | None:
        """The step whose numbers a step only moves or renames; itself if it does more."""
        while place is not None and self.op(place) in ops and self.makers[place]:
            place = self.makers[place][0]
        return place

    def before_moves(
        self, record: TensorRecord, maker: int | None, ops: frozenset[str] = CARRYING
    ) -> tuple[TensorRecord, int | None]:
        """What was read before steps that only move it, and its maker; itself where its own maker does more."""
        while maker is not None and self.op(maker) in ops and self.makers[maker]:
            record, maker = next(self.given(maker))
        return record, maker


SHAPED_ALIKE = frozenset(["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"])
"""Operations that take the shape of what they are given, and none of its numbers."""
KIND_ALIKE = frozenset(["new", "new_tensor", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full"])
"""Those that take its type alone; their numbers are what they are given next."""

LAID_LIKE = frozenset(["expand_as", "view_as", "reshape_as", "type_as", "to"])
"""Those whose numbers are what they are given first; of what comes next they take the shape or the type alone."""


@once
def read_flow(one_pass: Pass) -> Flow:
    """The data flow of a pass."""
    flow = lay_flow(one_pass, one_pass.steps, {})
    if plain := dict((*list_written_lookups(flow.steps, flow.makers), *list_written_linears(flow.steps))):
        flow = lay_flow(one_pass, tuple(plain.get(place, step) for place, step in enumerate(flow.steps)), {})
    steps, makers = flow.steps, flow.makers
    written = (*list_written_softmaxes(steps, makers), *list_written_relus(steps, makers))
    found = dict(keep_closed(written, steps, flow.readers, one_pass.results))
    if not found:
        return flow
    told = tuple(found[place].tell(step) if place in found else step for place, step in enumerate(steps))
    return lay_flow(one_pass, told, {place: one.within for place, one in found.items()})


def lay_flow(one_pass: Pass, steps: tuple[Step, ...], written: Mapping[int, tuple[int, ...]]) -> Flow:
    """The data flow of a pass through its steps, where some are within softmaxes that are written out."""
    within = {node for nodes in written.values() for node in nodes}
    places = {step.id: place for place, step in enumerate(steps)}
    ends = find_ends(one_pass, places)
    made = [step.id if any(record.source == step.id for record in step.outputs) else None for step in steps]
    makers: list[tuple[int | None, ...]] = []
    readers: dict[int, list[int]] = {}
    handed: dict[int, list[int]] = {}
    for place, step in enumerate(steps):
        read = list_read(step)
        found = tuple(
            find_maker(record, place, steps, places, made) if number in read else None
            for number, record in enumerate(step.inputs)
        )
        makers.append(found)
    put_together = dict(list_put_together(steps, makers))
    for place, whole in put_together.items():
        makers[place] = tuple(whole for _ in makers[place])
    for place, step in enumerate(steps):
        if made[place] is not None:
            for maker in dict.fromkeys(makers[place]):
                if maker is not None and place not in within:
                    readers.setdefault(maker, []).append(place)
        elif ends[place] == place + 1 and step.outputs and step.inputs:
            origin = places.get(step.outputs[0].source or "")
            if origin is not None and origin < place:
                handed.setdefault(origin, []).append(place)
    return Flow(
        one_pass,
        steps,
        tuple(makers),
        {maker: tuple(found) for maker, found in readers.items()},
        {maker: tuple(found) for maker, found in handed.items()},
        tuple(ends),
        places,
        put_together,
        written,
    )


def list_read(step: Step) -> range:
    """Which of its inputs a step takes numbers of; of the others it takes the shape, or the type."""
    if step.op in LAID_LIKE:
        return range(1)
    first = len(step.inputs) if step.op in SHAPED_ALIKE else int(step.op in KIND_ALIKE)
    return range(first, len(step.inputs))


def find_ends(one_pass: Pass, places: Mapping[str, int]) -> list[int]:
    """For each step the place behind its last descendant."""
    ends = [place + 1 for place in range(len(one_pass.steps))]
    for place in range(len(one_pass.steps) - 1, -1, -1):
        parent = places.get(one_pass.steps[place].parent or "")
        if parent is not None:
            ends[parent] = max(ends[parent], ends[place])
    return ends


def find_maker(
    record: TensorRecord, reader: int, steps: tuple[Step, ...], places: Mapping[str, int], made: list[str | None]
) -> int | None:
    """The step of this pass that made what a step reads; ids of an earlier pass may be the same, shapes tell."""
    place = places.get(record.source or "")
    if place is None or place >= reader or made[place] is None:
        return None
    step = steps[place]
    same = any(one.source == step.id and one.shape == record.shape for one in step.outputs)
    return place if same or step.op.endswith("_") else None
