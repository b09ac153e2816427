"""Steps under canonical paths, made from the steps of a recording that were recognised."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from xray.ir.records import Role, TensorRecord
from xray.ir.trace import SAME_WEIGHTS, SAME_WEIGHTS_AS, Setting, Step
from xray.story.recognition.covering import find_common, find_covering
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import CARRYING, DROPOUTS, REPEATS, SCALINGS, SUMS
from xray.story.recognition.scored_parts import condition_of

Named = tuple[str, TensorRecord, int | None]
"""A tensor that a step reads, under its canonical name, with the place of the step that made it."""


MOST_UNKNOWN = 12


PASSED = CARRYING | DROPOUTS | SCALINGS | SUMS | REPEATS | frozenset({"index_select", "gather"})


@dataclass(frozen=True)
class Block:
    """A canonical block that is being filled."""

    id: str
    depth: int


class Retold:
    """One pass as it is retold: the steps so far, where each comes from, and whose output stands for what.

    `earlier` are the canonical steps of earlier passes, each with its pass, by the original ids.
    """

    def __init__(self, flow: Flow, earlier: Mapping[str, str]) -> None:
        self.flow = flow
        self.earlier = earlier
        self.steps: list[Step] = []
        self.origins: dict[str, Step] = {}
        self.owners: dict[int, str] = {}
        self.nodes: dict[str, tuple[int, ...]] = {}
        self.masks: dict[str, TensorRecord] = {}
        self._covered: dict[tuple[int, ...], int | None] = {}

    def add(
        self,
        path: str,
        op: str,
        nodes: Sequence[int],
        inputs: Iterable[Named],
        outputs: Iterable[TensorRecord],
        *,
        inside: Block | None = None,
        settings: Mapping[str, Setting] | None = None,
        params: int | None = None,
        owns: bool = True,
        role: Role | None = None,
        core: Sequence[int] = (),
    ) -> Step:
        """One more leaf, made of the given original steps, of which it hands on what the last one gave.

        `core` are those of them that do what it is about; all, if not given.
        """
        origin = self.origin_of(core or nodes)
        identity = f"{path}#0"
        settings = origin.settings if settings is None else settings
        settings = {name: value for name, value in settings.items() if name not in (SAME_WEIGHTS_AS, SAME_WEIGHTS)}
        params = self.count_params(nodes) if params is None else params
        settings |= self.shared_params(core or nodes, params)
        if nodes and self.flow.steps[nodes[-1]].settings.get("derived"):
            settings = {**settings, "derived": True}
        step = Step(
            id=identity,
            path=path,
            call=0,
            op=op,
            module=origin.module,
            parent=None if inside is None else inside.id,
            depth=0 if inside is None else inside.depth + 1,
            layer=number_in(path),
            params=params,
            location=origin.location,
            inputs=tuple(self.read(name, record, maker) for name, record, maker in inputs),
            outputs=tuple(replace(record, name="out", source=identity, role=role or record.role) for record in outputs),
            settings=settings,
            error=origin.error,
        )
        self.steps.append(step)
        self.origins[identity] = origin
        self.nodes[identity] = tuple(nodes)
        if owns:
            self.owners.update(dict.fromkeys(nodes, identity))
        return step

    def open(
        self,
        path: str,
        op: str,
        nodes: Sequence[int],
        inside: Block | None,
        *,
        apart: Sequence[int] = (),
        exact: bool = False,
    ) -> Block:
        """A block, to be closed when it is full; `apart` are steps that its block in the original may not hold.

        With `exact` that block may hold nothing but the given steps.
        """
        block = Block(f"{path}#0", 0 if inside is None else inside.depth + 1)
        common = self.covering(nodes) if exact else find_common(self.flow, nodes, apart)
        origin = self.flow.steps[common] if common is not None else self.origin_of(nodes)
        self.steps.append(
            Step(
                id=block.id,
                path=path,
                call=0,
                op=op,
                module=origin.module if common is not None else "",
                parent=None if inside is None else inside.id,
                depth=block.depth,
                layer=number_in(path),
                params=origin.params if common is not None and origin.module else -1,
                location=origin.location,
                inputs=(),
                outputs=(),
                settings=origin.settings if common is not None else {},
                error=origin.error,
            )
        )
        self.origins[block.id] = origin
        return block

    def close(
        self,
        block: Block,
        inputs: Iterable[Named],
        settings: Mapping[str, Setting] | None = None,
        known: str | None = None,
    ) -> None:
        """The block is full: it gives what the last step in it gave, and reads the given tensors.

        `known` is the canonical source of a tensor whose maker is not given.
        """
        place = next(place for place in range(len(self.steps) - 1, -1, -1) if self.steps[place].id == block.id)
        held = list(takewhile(lambda step: step.depth > block.depth, self.steps[place + 1 :]))
        outputs = held[-1].outputs if held else ()
        params = self.steps[place].params
        if params < 0:
            params = sum(step.params for step in held if step.parent == block.id)
        self.steps[place] = replace(
            self.steps[place],
            params=params,
            inputs=tuple(self.read(name, record, maker, known) for name, record, maker in inputs),
            outputs=outputs,
            settings={**self.steps[place].settings, **(settings or {})},
        )

    def replace_sources(self, name: str, source: str | None) -> None:
        """Say which canonical step the last one reads under a name: one original step may stand for several."""
        step = self.steps[-1]
        inputs = tuple(replace(one, source=source) if one.name == name else one for one in step.inputs)
        self.steps[-1] = replace(step, inputs=inputs)

    def settle_earlier(self) -> None:
        """Leave the pass out of the sources from earlier passes where this one has no step of that id."""
        own = {step.id for step in self.steps}
        known = {source: source.partition(":")[2] for source in set(self.earlier.values())}

        def settled(records: tuple[TensorRecord, ...]) -> tuple[TensorRecord, ...]:
            return tuple(
                replace(one, source=known[one.source]) if one.source in known and known[one.source] not in own else one
                for one in records
            )

        for place, step in enumerate(self.steps):
            inputs, outputs = settled(step.inputs), settled(step.outputs)
            if inputs != step.inputs or outputs != step.outputs:
                self.steps[place] = replace(step, inputs=inputs, outputs=outputs)

    def mask_of(self, path: str, record: TensorRecord) -> str | None:
        """The canonical step that stands for a mask which no recorded step made, or another one of equal facts."""
        name = "tgt_mask.combine" if path.startswith("decoder") and "self_attention" in path else "src_mask"
        known = self.masks.get(name)
        if known is None:
            return None
        same = record.source is not None and record.source == known.source
        return f"{name}#0" if same or record.mask == known.mask else None

    def link_mask(self, block: Block, source: str | None) -> None:
        """Say where a block's mask comes from, if nothing else does."""
        place = next(place for place in range(len(self.steps) - 1, -1, -1) if self.steps[place].id == block.id)
        self.steps[place] = with_sources(self.steps[place], {"mask": source})

    def link_masks(self, side: str, masks: Mapping[str, str | None]) -> None:
        """The same for a side and all its layers."""
        for place, step in enumerate(self.steps):
            if step.path == side or (step.path.startswith(f"{side}.layers.") and step.path.count(".") == 2):
                self.steps[place] = with_sources(step, masks)

    def rename_outputs(self, names: Sequence[str]) -> None:
        """Give the last step's outputs names of their own."""
        step = self.steps[-1]
        outputs = tuple(replace(one, name=name) for one, name in zip(step.outputs, names, strict=False))
        self.steps[-1] = replace(step, outputs=outputs)

    def common_block(self, nodes: Sequence[int]) -> int | None:
        """The innermost original block that holds all of some steps."""
        return find_common(self.flow, nodes, ())

    def hand_on(self) -> None:
        """The last step only hands on what it was given: its output has the same maker as its input."""
        step = self.steps[-1]
        source = step.inputs[0].source
        self.steps[-1] = replace(step, outputs=tuple(replace(record, source=source) for record in step.outputs))

    def read(self, name: str, record: TensorRecord, maker: int | None, known: str | None = None) -> TensorRecord:
        """The record under its canonical name and source."""
        return replace(record, name=name, source=known or self.source_of(record, maker))

    def source_of(self, record: TensorRecord, maker: int | None) -> str | None:
        """The canonical id of what made a tensor; steps that were not recognised are passed on the way back."""
        if maker is None:
            return self.earlier.get(record.source or "")
        here: int | None = maker
        for _ in range(MOST_UNKNOWN):
            if here is None or here in self.owners:
                break
            condition = condition_of(self.flow, here)
            if condition is not None:
                here = condition.maker
                continue
            if self.flow.op(here) not in PASSED or not self.flow.makers[here]:
                return None
            here = self.flow.makers[here][0]
        return self.owners.get(here) if here is not None else None

    def origin_of(self, nodes: Sequence[int]) -> Step:
        """The original block that holds just these steps, or the one that does the most."""
        covering = self.covering(nodes)
        if covering is not None:
            return self.flow.steps[covering]
        main = max(nodes, key=lambda node: (self.flow.steps[node].params > 0, self.flow.op(node) not in CARRYING, node))
        return self.flow.steps[main]

    def covering(self, nodes: Sequence[int]) -> int | None:
        """The outermost original block of which nothing but these steps is data flow; None where there is none."""
        key = tuple(nodes)
        if key not in self._covered:
            self._covered[key] = find_covering(self.flow, set(nodes))
        return self._covered[key]

    def count_params(self, nodes: Sequence[int]) -> int:
        """The parameters of the steps, or of the block that holds just them."""
        covering = self.covering(nodes)
        if covering is not None:
            return self.flow.steps[covering].params
        counted: dict[str, int] = {}
        moves = all(self.flow.op(node) in CARRYING for node in nodes)
        for node in nodes:
            step = self.flow.steps[node]
            if step.params and self.flow.is_leaf(node):
                counted[step.path] = step.params
            for record, maker in self.flow.given(node):
                weight = record if moves else self.flow.moved_from(record, maker)
                if weight.role == "parameter" and (moves or step.op not in CARRYING):
                    counted[f"{step.path} {record.name}"] = min(size_of(record.shape), size_of(weight.shape))
        return sum(counted.values())

    def shared_params(self, nodes: Sequence[int], most: int) -> dict[str, Setting]:
        """How many of the steps' parameters a step elsewhere used before, and which step, as settings; else none."""
        covering = self.covering(nodes) if nodes else None
        places = nodes if covering is None else range(covering, self.flow.ends[covering])
        moves = (move for place in places for _, maker in self.flow.given(place) for move in self.flow.moves_to(maker))
        found = {
            step.id: (step.settings[SAME_WEIGHTS_AS], step.settings[SAME_WEIGHTS])
            for step in (self.flow.steps[place] for place in (*places, *moves))
            if SAME_WEIGHTS in step.settings and SAME_WEIGHTS_AS in step.settings
        }
        count = min(most, sum(size for _, size in found.values() if isinstance(size, int)))
        return {SAME_WEIGHTS_AS: next(iter(found.values()))[0], SAME_WEIGHTS: count} if count else {}


def with_sources(step: Step, sources: Mapping[str, str | None]) -> Step:
    """The step with sources for those of its named inputs that have none."""
    if not any(one.source is None and sources.get(one.name) for one in step.inputs):
        return step
    return replace(
        step,
        inputs=tuple(
            one if one.source is not None else replace(one, source=sources.get(one.name)) for one in step.inputs
        ),
    )


def size_of(shape: tuple[int, ...]) -> int:
    """How many numbers a tensor has."""
    product = 1
    for size in shape:
        product *= size
    return product


def number_in(path: str) -> int | None:
    """The layer's number in a canonical path."""
    parts = path.split(".")
    return int(parts[2]) if len(parts) > 2 and parts[1] == "layers" else None
