"""What lies between two steps of a pass: all that is worked out of the one on the way to the other."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    CURVES,
    DIVISIONS,
    DROPOUTS,
    FINDINGS,
    MASKINGS,
    NORMS,
    ONES,
    SCALINGS,
    SIDE_BY_SIDE,
    SPLITS,
    STATISTICS,
    SUMS,
)
from xray.ir.flow.projections import data_input, is_projection
from xray.ir.flow.remembering import once
from xray.ir.flow.weights import gather_weights
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.ir.turns import TURNED, read_turn
from xray.story.recognition.chosen_rows import picks_best
from xray.story.recognition.norms import find_norm

FROM_DATA = frozenset({"tensor", "as_tensor", "asarray", "from_numpy"})
PLAIN = (
    CARRYING
    | CURVES
    | DROPOUTS
    | MASKINGS
    | SCALINGS
    | STATISTICS
    | SUMS
    | NORMS
    | frozenset(
        ["sub", "sub_", "rsub", "neg", "pow", "pow_", "sqrt", "rsqrt", "reciprocal", "exp", "log", "abs", "sign"]
    )
    | frozenset(["clamp", "clamp_", "round", "sum", "maximum", "minimum", "max", "min", "amax", "amin", "nan_to_num"])
    | frozenset(["cat", "stack", "pad", "roll", "repeat", "tile", "expand", "where", "cos", "sin", "copy_", "fill_"])
    | frozenset(["repeat_interleave", "index_select", "gather", "interpolate"])
    | frozenset(["zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "empty", "empty_like", "new_zeros"])
    | frozenset(
        ["new_empty", "zero_pad2d", "constant_pad_nd", "index_put_", "batch_norm", "group_norm", "instance_norm"]
    )
)
"""What bends, moves or sums numbers and multiplies them with no learned matrix: no branch consists of these alone."""
GIVEN_IN_ORDER = {"stride": "arg3", "padding": "arg4", "dilation": "arg5", "groups": "arg6"}
"""What the settings of a convolution are called where they are given without their names."""


@dataclass(frozen=True)
class Region:
    """The steps on the ways from one tensor to another.

    `start` made the first (None: it came from outside), `end` makes the last. `inner` are the steps that work on it,
    `beside` those that the inner ones read and that do not come from it, as far back as they begin after it.
    """

    start: int | None
    end: int
    inner: frozenset[int]
    beside: frozenset[int]


def find_region(
    flow: Flow,
    start: int | None,
    end: int,
    entry: TensorRecord | None = None,
    walls: Collection[int] = (),
) -> Region | None:
    """What lies between two steps; None if the last is not worked out of the first.

    Where `start` is None the way begins at whatever comes from outside with the shape of `entry`. No way leads through
    one of `walls`.
    """
    floor = -1 if start is None else start
    seen = set(flow.behind(end, within=lambda place: place > floor and place not in walls))
    inner: set[int] = set()
    for place in sorted(seen):
        for record, maker in flow.given(place):
            begins = maker == start if start is not None else maker is None and is_same_input(record, entry)
            if begins or maker in inner:
                inner.add(place)
                break
    if end not in inner:
        return None
    return Region(start, end, frozenset(inner), frozenset(seen - inner))


def cut_region(flow: Flow, region: Region, end: int | None) -> Region | None:
    """The part of a region that leads to one of its steps, with what its own steps read beside it."""
    nodes = frozenset(flow.behind(end, within=region.inner.__contains__))
    if end is None or not nodes:
        return None
    read = (maker for node in nodes for maker in flow.makers[node])
    return Region(region.start, end, nodes, frozenset(flow.behind(*read, within=region.beside.__contains__)))


def is_same_input(record: TensorRecord, entry: TensorRecord | None) -> bool:
    """Whether what comes from outside may be the tensor that is looked for."""
    return (
        entry is not None
        and record.role != "parameter"
        and record.shape == entry.shape
        and record.dtype == entry.dtype
        and record.source == entry.source
    )


def does_mix(flow: Flow, nodes: Iterable[int]) -> bool:
    """Whether steps do more than bend numbers place by place: something learned, a product, a transform."""
    return any(flow.is_leaf(node) and flow.op(node) not in PLAIN and not is_small(flow, node) for node in nodes)


def is_small(flow: Flow, node: int) -> bool:
    """Whether a step is a norm or a scale written as a module: a few learned numbers for each place of a row."""
    step = flow.steps[node]
    if is_projection(flow, node) or step.op in FINDINGS or not step.outputs or not step.outputs[0].shape:
        return False
    return 0 < step.params <= 2 * max(step.outputs[0].shape)


def is_scale(flow: Flow, place: int) -> bool:
    """Whether a step multiplies a tensor by one number or by learned ones, a number for each place of a row."""
    step = flow.steps[place]
    if step.op not in SCALINGS or not step.outputs:
        return False
    others = [record for record in step.inputs if record.shape != step.outputs[0].shape]
    return len(others) >= len(step.inputs) - 1 and all(
        record.role == "parameter" or len(record.shape) < 2 or set(record.shape[:-1]) == {1} for record in others
    )


def adds_learned_row(flow: Flow, place: int) -> bool:
    """Whether a step adds one learned row to the rows of all places, as the bias of experts is added (JetMoE).

    It may be a piece of a longer one, as of the bias that torch's attention has for queries, keys and values.
    """
    given = flow.given(place) if flow.op(place) in SUMS else ()
    return any(len(record.shape) == 1 and is_held(flow, record, maker) for record, maker in given)


def is_held(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is a parameter, or a piece of one."""
    pieces = flow.steps[maker].inputs[:1] if maker is not None and flow.op(maker) in SPLITS else (record,)
    return any(one.role == "parameter" for one in pieces)


def is_times_one(flow: Flow, place: int) -> bool:
    """Whether a step multiplies by 1, or by numbers that are all 1, or divides by such; 1 divided by them is not it."""
    makers = [flow.carried_from(maker) for maker in flow.makers[place]] if flow.op(place) in SCALINGS else []
    is_one = flow.steps[place].settings.get("other") in (1, 1.0) if makers else False
    makers = makers[1:] if flow.op(place) in DIVISIONS else makers
    return is_one or any(maker is not None and flow.op(maker) in ONES for maker in makers)


def follow_turned(flow: Flow, node: int, axis: int, among: Collection[str]) -> tuple[int, int]:
    """The last of the steps behind another one that exchange axes alone, and where one of its axes lies then.

    They are `among` some operations. Where such a step does not say what it exchanges, the axis is -1.
    """
    readers = flow.leaf_readers(node)
    while len(readers) == 1 and flow.op(readers[0]) in among:
        (node,) = readers
        turn = read_turn(flow.steps[node]) if flow.op(node) in TURNED else tuple(range(len(flow.output(node).shape)))
        axis = turn.index(axis) if turn is not None and axis in turn else -1
        readers = flow.leaf_readers(node)
    return node, axis


def puts_around(flow: Flow, node: int) -> bool:
    """Whether a step puts numbers around those that it is given, so that there are more of them."""
    given = flow.steps[node].inputs
    return flow.op(node) in PADDINGS and len(given) == 1 and prod(flow.output(node).shape) > prod(given[0].shape)


def is_shift(flow: Flow, place: int) -> bool:
    """Whether a step adds learned numbers to a tensor, one for each number of a row, as a stream may be (ZAYA)."""
    step = flow.steps[place]
    if step.op not in SUMS or len(step.inputs) != 2 or not step.outputs:
        return False
    shifts = [record.shape for record in step.inputs if record.role == "parameter"]
    return shifts == [step.outputs[0].shape[-1:]]


def joins_linears(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether a step puts end to end, or side by side, what several linear layers of a way make (Moshi's depth)."""
    joins = [{flow.carried_from(one) for one in flow.makers[node]} for node in nodes if flow.op(node) in SIDE_BY_SIDE]
    return any(sum(one is not None and one in nodes and is_linear(flow, one) for one in made) > 1 for made in joins)


def strip_plain(flow: Flow, place: int | None) -> int | None:
    """The step whose numbers are only moved, renamed, dropped or scaled until here, shifted before that at most."""
    is_scaled = False
    while place is not None and flow.makers[place]:
        is_alone = flow.op(place) in SIDE_BY_SIDE and len(flow.steps[place].inputs) == 1
        if is_alone or (flow.op(place) in CARRYING | DROPOUTS | CLAMPS and not picks_best(flow, place)):
            place = flow.makers[place][0]
        elif ends_norm(flow, place):
            return place
        elif is_scale(flow, place) or (is_scaled and is_shift(flow, place)):
            is_scaled = flow.steps[place].is_given_weights
            wanted = flow.output(place).shape
            number = next((n for n, record in enumerate(flow.steps[place].inputs) if record.shape == wanted), 0)
            place = flow.makers[place][number]
        else:
            return place
    return place


def ends_norm(flow: Flow, place: int) -> bool:
    """Whether a step multiplies what a norm divided by learned numbers: the last step of one that is written out."""
    step = flow.steps[place]
    is_learned = step.op in SCALINGS and step.is_given_weights
    return is_learned and find_norm(flow, place) is not None


@once
def list_reading_data(flow: Flow) -> frozenset[int]:
    """The steps that work on anything but parameters and what is made of nothing else; a shape alone is no numbers.

    Nor is a single number that a model holds itself, as where none came in (xIELU's slope). Where no tensor came in,
    data are what tensors are made of that is none: words that a model cuts itself, say, or a table of numbers.
    """
    arguments = flow.one_pass.arguments
    held = [()] if all(one.shape for one in arguments) else []
    found: set[int] = set()
    for place, step in enumerate(flow.steps):
        if (step.op in FROM_DATA and not arguments and not step.inputs and flow.output(place).shape) or any(
            record.role != "parameter" and record.shape not in held if maker is None else maker in found
            for record, maker in flow.taken(place)
        ):
            found.add(place)
    return frozenset(found)


def with_weights(flow: Flow, nodes: Iterable[int], apart: Collection[int] = ()) -> set[int]:
    """Some steps, and those behind them that no data reaches: two matrices are put end to end, say (MobileBERT).

    What is `apart` belongs elsewhere, be it that no data has come so far (DETR's first attention).
    """
    own = {*nodes}
    outside = list_reading_data(flow) | {*apart}
    made = {maker for node in own for maker in flow.makers[node] if maker is not None and maker not in outside}
    return own.union(flow.behind(*made, within=lambda place: place not in outside))


def weights_of(flow: Flow, nodes: Iterable[int], apart: Collection[int] = ()) -> dict[str, int]:
    """The parameters that some steps work with, and those behind them that no data reaches, with their sizes."""
    return gather_weights(flow, with_weights(flow, nodes, apart))


@once
def list_leading_on(flow: Flow) -> frozenset[int] | None:
    """The steps that lead to what is handed out, or to one number, which the program may read; None where none is.

    So may those lead there that no step reads, where one behind them in their block reads what none made: what is in
    between was not seen, as a function that is compiled (Glow-TTS).
    """
    handed = flow.one_pass.results
    given = {(one.shape, one.dtype) for one in flow.one_pass.arguments}
    unseen = {step.parent: node for node, step in enumerate(flow.steps) if reads_unseen(flow, node, given)}
    ends = [
        node
        for node, step in enumerate(flow.steps)
        if step.id in handed
        or is_read_apart(flow, node)
        or (flow.is_leaf(node) and not flow.readers.get(node) and node < unseen.get(step.parent, 0))
    ]
    return frozenset(flow.behind(*ends)) if handed else None


def reads_unseen(flow: Flow, node: int, given: Collection[tuple[tuple[int, ...], str]]) -> bool:
    """Whether a linear layer or a convolution works on numbers that no step made, and that are not as what came in."""
    number = data_input(flow, node) if flow.is_leaf(node) and flow.steps[node].params else None
    record = None if number is None else flow.steps[node].inputs[number]
    is_made = record is None or record.source is not None or record.role != "activation"
    return record is not None and not is_made and (record.shape, record.dtype) not in given


def is_read_apart(flow: Flow, node: int) -> bool:
    """Whether no step reads what one gives, and the program may: one number, or none that is a tensor."""
    return not flow.leaf_readers(node) and flow.is_leaf(node) and prod(flow.output(node).shape) <= 1


@once
def list_working_on_weights(flow: Flow) -> frozenset[int]:
    """The steps that work on parameters alone, and on what such steps made of them (BiT's filters, of mean 0)."""
    reading, found = list_reading_data(flow), set[int]()
    for node in range(len(flow.steps)):
        given = [] if node in reading else list(flow.given(node))
        if given and all(
            record.role == "parameter" or not record.shape if maker is None else maker in found
            for record, maker in given
        ):
            found.add(node)
    return frozenset(found)


def works_on_weights(flow: Flow, node: int) -> bool:
    """Whether a step works on parameters alone, or on what is made of nothing else."""
    return node in list_working_on_weights(flow)


def projections_in(flow: Flow, nodes: Collection[int]) -> list[int]:
    """The linear layers among steps, pointwise convolutions included, in order."""
    return [node for node in sorted(nodes) if is_linear(flow, node)]


def is_linear(flow: Flow, node: int) -> bool:
    """Whether a step is a linear layer, however it is written, and gave something: one that failed is none."""
    if not flow.steps[node].outputs:
        return False
    if flow.op(node) in FINDINGS:
        kernel = read_sizes(flow, node, "kernel_size")
        return bool(kernel) and set(kernel) == {1}
    return flow.is_leaf(node) and is_projection(flow, node)


def makes_rows(flow: Flow, node: int | None) -> bool:
    """Whether a step gives rows of which the numbers lie last, by a linear layer over these or a norm of each row."""
    if node is None or flow.op(node) in FINDINGS:
        return False
    is_norm = flow.op(node) in NORMS and str(flow.steps[node].settings.get("normalized_shape", "")).isdecimal()
    return is_norm or is_linear(flow, node)


def name_groups(flow: Flow, node: int) -> str:
    """In how many groups of channels a linear layer is that is written as a convolution; "" for all in one."""
    groups = next(iter(read_sizes(flow, node, "groups")), 1) if flow.op(node) in FINDINGS else 1
    return f" IN {groups:,} GROUPS" if groups > 1 else ""


def read_sizes(flow: Flow, node: int, name: str) -> tuple[int, ...]:
    """A setting such as "4x4" or 3 as numbers; of a convolution without settings the size of its weights."""
    settings = flow.steps[node].settings
    value = settings.get(name, settings.get(GIVEN_IN_ORDER.get(name, "")) if flow.op(node) in FINDINGS else None)
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, str) and value.replace("x", "").isdecimal():
        return tuple(int(one) for one in value.split("x") if one)
    if name == "kernel_size" and flow.op(node) in FINDINGS and len(flow.steps[node].inputs) > 1:
        return flow.steps[node].inputs[1].shape[2:]
    return ()


def width_out(flow: Flow, node: int) -> int:
    """How wide the rows are that a linear layer makes."""
    shape = flow.output(node).shape
    if flow.op(node) in FINDINGS:
        return shape[1]
    made = read_equation(flow, node, made=True)
    return shape[-1] if made is None else made


def width_in(flow: Flow, node: int) -> int | None:
    """How wide the rows are that a linear layer reads."""
    number = data_input(flow, node)
    if number is None:
        return None
    read = read_equation(flow, node, made=False)
    return flow.steps[node].inputs[number].shape[-1] if read is None else read


def read_equation(flow: Flow, node: int, *, made: bool) -> int | None:
    """How many numbers a projection written as an einsum makes of each row, or reads of it; None if it is another."""
    step = flow.steps[node]
    equation = step.settings.get("arg0", step.settings.get("equation"))
    number = data_input(flow, node)
    if step.op != "einsum" or not isinstance(equation, str) or "->" not in equation or number is None:
        return None
    terms, after = equation.replace(" ", "").split("->")
    before = terms.split(",")[number]
    letters = [one for one in (after if made else before) if one.isalpha() and one not in (before if made else after)]
    shape = step.outputs[0].shape if made else step.inputs[number].shape
    term = after if made else before
    sizes = dict(zip(reversed(term.replace("...", ".")), reversed(shape), strict=False))
    return prod(sizes[letter] for letter in letters)
