"""How many parameters the steps of a box have together, each module counted once."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, REPEATS, SHAPING, SIDE_BY_SIDE
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.charts.chart import steps_at
from xray.story.passages.added_places import learned_source
from xray.story.recognition.between import is_linear, works_on_weights
from xray.story.wording import plural


def steps_with_block(flow: Flow, *places: int) -> tuple[Step, ...]:
    """The steps at some places, behind the block that holds these and nothing else."""
    steps = steps_at(flow, *places)
    block = flow.places.get(steps[0].parent or "")
    if block is None or len(places) < 2:
        return steps
    inside = [place for place in range(block + 1, flow.ends[block]) if flow.is_leaf(place)]
    return (flow.steps[block], *steps) if set(inside) == set(places) else steps


def describe_params(flow: Flow, *places: int) -> str:
    """How many parameters some steps have together, in words; nothing where that would be a part of them, or twice."""
    counted = count_params(flow, *places)
    is_part = any(reads_resized(flow, one, places) for one in places) or reads_again(flow, places)
    return plural(counted, "parameter") if counted and not is_part else ""


def count_params(flow: Flow, *places: int) -> int:
    """How many parameters some steps have together, each module counted once; those, too, that no module holds.

    So learned rows that a module among others works on (the row that looks at all others in VideoPrism, CoCa's).
    """
    whole = {place: find_whole(flow, place, set(places)) for place in places}
    outermost = {one for one in whole.values() if not any(other < one < flow.ends[other] for other in whole.values())}
    counted = sum({flow.steps[one].path: flow.steps[one].params for one in outermost}.values())
    apart = {place for place, one in whole.items() if not flow.steps[one].params}
    apart |= {one for one in outermost if len(outermost) > 1 and asks(flow, one, places)}
    return counted + sum(count_read(flow, place, outermost) + count_joined(flow, place, places) for place in apart)


def reads_again(flow: Flow, places: Collection[int]) -> bool:
    """Whether some steps of a module read more learned numbers than it holds itself: some twice (TTT)."""
    read = {one: count_read(flow, one) for one in places if flow.is_leaf(one) and not flow.steps[one].params}
    own = ({one.shape for one in flow.steps[place].inputs if one.role == "parameter"} for place in read)
    shapes = [shape for each in own for shape in each]
    blocks = {find_module(flow, one) for one, count in read.items() if count} if len({*shapes}) < len(shapes) else set()
    block = blocks.pop() if len(blocks) == 1 else None
    return block is not None and 0 < count_own(flow, block) < sum(read.values())


def count_joined(flow: Flow, place: int, places: Collection[int]) -> int:
    """How many numbers of learned rows a step is given end to end, put there by none of some steps.

    So the biases of queries and values are, with zeros between them (Swin Transformer V2).
    """
    joins = [maker for record, maker in flow.given(place) if maker not in places and len(record.shape) == 1]
    parts = [one for node in joins if node is not None and flow.op(node) in SIDE_BY_SIDE for one in flow.given(node)]
    return sum(prod(record.shape) for record, _ in parts if record.role == "parameter")


def asks(flow: Flow, place: int, places: Collection[int]) -> bool:
    """Whether a module works on learned rows as they are, or a linear layer on what one of some steps lays out."""
    given = flow.steps[place].inputs if flow.steps[place].params else ()
    is_given = len(given) == 1 and given[0].role == "parameter"
    return is_given or (is_linear(flow, place) and not set(places).isdisjoint(flow.makers[place]))


def count_read(flow: Flow, place: int, counted: Collection[int] = ()) -> int:
    """How many learned numbers a step is given itself, as a convolution without a module of its own is.

    They may be a part of a parameter, or repeated; of a table in which rows are looked up all count (Whisper's places),
    and of one that a module cuts but once.
    What is resized is not counted: that may happen to one many times. Nor is what comes out of blocks that are
    `counted` as a whole. A copy in which some numbers were set to 0 counts whole (the bias of Swin 2, of keys 0).
    """
    given = list(flow.given(place)) if flow.op(place) not in CARRYING | REPEATS else []
    given = [before_zeroed(flow, record, maker) for record, maker in given]
    given = [(record, maker) for record, maker in given if not is_made_in(flow, maker, counted)]
    sources = [learned_source(flow, record, maker, CARRYING | REPEATS) for record, maker in given]
    return sum(
        prod(source.shape)
        if looks_up(flow, maker) or is_cut_once(flow, maker)
        else min(prod(source.shape), *list_counts(flow, record, maker))
        for (record, maker), source in zip(given, sources, strict=True)
        if source is not None
    )


def is_made_in(flow: Flow, maker: int | None, blocks: Collection[int]) -> bool:
    """Whether what steps only carry from where it was made comes out of one of some blocks that have parameters."""
    while maker is not None:
        if any(one <= maker < flow.ends[one] and flow.steps[one].params for one in blocks):
            return True
        maker = flow.makers[maker][0] if flow.op(maker) in CARRYING | REPEATS and flow.makers[maker] else None
    return False


def reads_resized(flow: Flow, place: int, places: Collection[int]) -> bool:
    """Whether a step that moves no numbers reads a parameter that was resized on its way, which is not counted.

    Where what resized it is among the same steps, it is counted there (the rows that VITS pads).
    """
    if flow.steps[place].params or flow.op(place) in CARRYING | REPEATS:
        return False
    return any(
        learned_source(flow, record, maker) is not None
        and learned_source(flow, record, maker, CARRYING | REPEATS) is None
        and flow.carried_from(maker, CARRYING | REPEATS) not in places
        for record, maker in flow.given(place)
    )


def list_counts(flow: Flow, record: TensorRecord, maker: int | None) -> list[int]:
    """How many numbers there are on each step of a way: a part of a parameter may be repeated (ViLT's first place)."""
    found = [prod(record.shape)]
    while maker is not None and flow.op(maker) in CARRYING | REPEATS and flow.makers[maker]:
        found.append(prod(flow.steps[maker].inputs[0].shape))
        maker = flow.makers[maker][0]
    return found


def count_own(flow: Flow, block: int) -> int:
    """The parameters of a block that are in no module inside it, one inside another counted with that."""
    held = [one for one in range(block + 1, flow.ends[block]) if flow.steps[one].params]
    inside = {flow.steps[one].path: flow.steps[one].params for one in held if find_module(flow, one) == block}
    outer = (path for path in inside if not any(path.startswith(f"{other}.") for other in inside))
    return flow.steps[block].params - sum(inside[path] for path in outer)


def find_module(flow: Flow, place: int) -> int | None:
    """The module that a step stands in, be it inside functions that the module calls."""
    return next((one for one in flow.parents(place) if flow.steps[one].module), None)


def looks_up(flow: Flow, maker: int | None) -> bool:
    """Whether rows of a learned tensor were picked by numbers that were given for it, on the way that they came."""
    while maker is not None and flow.op(maker) in CARRYING | REPEATS and flow.makers[maker]:
        if len(flow.steps[maker].inputs) > 1:
            return True
        maker = flow.makers[maker][0]
    return False


def is_cut_once(flow: Flow, maker: int | None) -> bool:
    """Whether several rows were cut, on their way, from a learned tensor of which a module cuts nothing else."""
    while maker is not None and flow.op(maker) in CARRYING | REPEATS and flow.makers[maker]:
        given = flow.steps[maker].inputs[0]
        if flow.op(maker) == "index" and given.role == "parameter":
            block = find_module(flow, maker)
            inside = () if block is None else range(block, flow.ends[block])
            steps = (flow.steps[one] for one in inside if flow.is_leaf(one))
            learned = [one.shape for step in steps for one in step.inputs if one.role == "parameter"]
            return learned.count(given.shape) == 1 < prod(flow.output(maker).shape[:-1])
        maker = flow.makers[maker][0]
    return False


def find_whole(flow: Flow, place: int, places: Collection[int]) -> int:
    """The step itself, or the largest block of which no step but these does more than move numbers, or weights.

    A block that holds more than its steps were seen to read has parts that did not run (SAM's prompts without a mask).
    """
    found = place
    for parent in () if flow.steps[place].params else flow.parents(place):
        inside = range(parent + 1, flow.ends[parent])
        others = (one for one in inside if one not in places and flow.is_leaf(one) and flow.op(one) not in CARRYING)
        if not all(works_on_weights(flow, one) for one in others):
            return found
        read = sum(count_given(flow.steps[one]) for one in inside if flow.is_leaf(one))
        if 0 < read < flow.steps[parent].params:
            return found
        found = parent
    return found


def count_given(step: Step) -> int:
    """The weights of a step's module, or those that it is given where it is none."""
    return step.params or sum(prod(record.shape) for record in step.inputs if record.role == "parameter")


def before_zeroed(flow: Flow, record: TensorRecord, maker: int | None) -> tuple[TensorRecord, int | None]:
    """A tensor as it was before steps set parts of it to 0, and the step that made it then."""
    while maker is not None and flow.op(maker) == "zero_" and (cut := flow.makers[maker][0]) is not None:
        before, earlier = next(flow.given(cut), (None, None))
        if before is None or before.shape != record.shape or flow.op(cut) not in SHAPING:
            break
        record, maker = before, earlier
    return record, maker
