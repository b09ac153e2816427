"""What the steps of a chart are called, by what they do."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    DIFFERENCES,
    DIVISIONS,
    FINDINGS,
    GRIDS,
    LENGTHS,
    PLACING,
    PRODUCTS,
    SCALINGS,
    SIDE_BY_SIDE,
    SOFTMAXES,
    STATISTICS,
    SUMS,
)
from xray.ir.flow.projections import is_product, scales_alone
from xray.ir.records import TensorRecord
from xray.story.anatomy.branch_words import label_activation
from xray.story.branches.scored.caps import name_bend, name_times, read_factor
from xray.story.charts.chart import Node
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.steps.noise import label_noise
from xray.story.charts.steps.written_out import (
    label_flags,
    label_forced,
    label_more,
    list_flags,
    list_own_sum,
    list_rounding,
)
from xray.story.passages.added_places import ADDED_UP
from xray.story.passages.bridges import label_convolution
from xray.story.passages.channels import (
    AT_ONCE,
    MASKED,
    find_channels,
    find_channels_ahead,
    gates_channels,
    multiplies_places,
)
from xray.story.passages.held_factors import list_shift
from xray.story.passages.joined_rows import label_learned_rows
from xray.story.passages.learned_steps import label_learned, meets_learned
from xray.story.passages.modulation import is_one_along
from xray.story.passages.norm_factors import find_brought
from xray.story.passages.ordered_rows import (
    find_shifted,
    name_order,
    shifts_lines,
    shifts_places,
    takes_in_order,
)
from xray.story.passages.pools import (
    adds_up_rows,
    is_pool,
    label_neighbours,
    label_pool,
    lays_neighbours,
    list_root_mean,
    measures_channels,
    read_power,
    takes_last_mean,
    weighs_rows,
)
from xray.story.recognition.addends import FILLS
from xray.story.recognition.between import is_linear
from xray.story.recognition.chosen_rows import list_one_of_two
from xray.story.recognition.lengths import BY_SIZES, ITS_LENGTH, divides_by_length, takes_highest
from xray.story.recognition.norms import REGROUPING, Norm, is_weighed_twice, list_factors, name_norm
from xray.story.recognition.statistics import RUNNING
from xray.story.recognition.values.value_shapes import number
from xray.story.sentences.of_models import describe_ops
from xray.story.states.operands import SOLVES
from xray.story.streams.shortcuts import find_any_norm
from xray.story.wording import plural

LABELS = {
    "topk": "CHOOSE THE HIGHEST",
    "argmax": "ARGMAX",
    "cumsum": "RUNNING SUM",
    **dict.fromkeys(SIDE_BY_SIDE, "SIDE BY SIDE"),
    "stack": "STACKED",
    **dict.fromkeys(PLACING, "ROWS PUT IN"),
    **dict.fromkeys(GRIDS, "PICKED BETWEEN PLACES"),
    "cross_entropy": "CROSS-ENTROPY",
    "_grouped_mm": "EACH EXPERT'S OWN PRODUCT",
    "grouped_mm": "EACH EXPERT'S OWN PRODUCT",
    "fft_fft": "FOURIER TRANSFORM",
    "fft_fft2": "FOURIER TRANSFORM",
    "fft_fftn": "FOURIER TRANSFORM",
    "embedding": "LOOK UP",
    "roll": "ROLL",
    **dict.fromkeys(SOLVES, "TRIANGULAR SOLVE"),
    "glu": "HALF × SIGMOID OF HALF",
}
RECURRENT = frozenset({"lstm", "gru", "rnn"})
ALIKE = {"amax": "max", "amin": "min"}
"""What has two names in torch, and one on the sheet (timm's Hiera)."""


def name_factors(flow: Flow, norm: Norm) -> str:
    """By what one number a norm's rows are multiplied, where that stands in its box; empty if by none."""
    factors = [read_factor(flow, node) for node in list_factors(flow, norm)]
    return "".join(", × ONE NUMBER" if one is None else f", {name_times(one)}" for one in factors if one != 1)


BY_ROW = ", EACH ROW × A NUMBER"
"""What stands behind the name of a norm that brings each row to another size than 1, by a number from beside."""
WEIGHED_FIRST = "× LEARNED NUMBERS + "
"""What stands before the name of a norm that multiplies by its learned numbers before it divides."""


def label_step(flow: Flow, node: int, drawn: Collection[int] = ()) -> str:
    """What one step is called, where others are `drawn`."""
    norm = find_any_norm(flow, node)
    if norm is not None:
        if any(flow.op(one) in RUNNING for one in norm.nodes):
            return "NORM OVER ALL PLACES SO FAR"
        kind = name_norm(flow, norm)
        twice = " × LEARNED NUMBERS" * is_weighed_twice(flow, norm)
        if not kind:
            return label_division(flow, norm)
        first = WEIGHED_FIRST * norm.weighs_first
        brought = BY_ROW if find_brought(flow, norm) is not None else ""
        return f"{first}{kind.upper()} NORM{tell_groups(flow, norm)}{twice}{name_factors(flow, norm)}{brought}"
    op = flow.op(node)
    if op in SIDE_BY_SIDE and (label_learned_rows(flow, node) or lies_end_to_end(flow, node)):
        return label_learned_rows(flow, node) or "END TO END"
    if op in PLACING and label_cells(flow, node):
        return label_cells(flow, node)
    if op in PLACING and writes_across(flow, node):
        return "NUMBERS PUT IN"
    if op == "topk" and not takes_highest(flow, node):
        return "CHOOSE THE LOWEST"
    if op in LABELS:
        return f"{LABELS[op]}, ITS REAL PART" if find_real(flow, node) != node else LABELS[op]
    if op in CURVES:
        return label_activation(name_bend(flow.steps[node]))
    if op in FINDINGS:
        return label_convolution(flow, node)
    if adds_up_rows(flow, node):
        many = prod(flow.steps[node].inputs[0].shape) // prod(flow.output(node).shape)
        return "ROWS WEIGHED, ADDED UP" if weighs_rows(flow, flow.makers[node][0]) else f"SUM OF {many:,}"
    if takes_last_mean(flow, node):
        return "MEAN dim −1"
    if lays_neighbours(flow, node):
        return label_neighbours(flow, node)
    if is_pool(flow, node):
        return label_pool(flow, node)
    if takes_in_order(flow, node):
        return name_order(flow, node)
    if shifts_places(flow, node):
        return "ROWS OF THE PLACE BEFORE"
    if find_shifted(flow, node) is not None:
        return "ROWS OF THE PLACE ABOVE" if shifts_lines(flow, node) else "SHIFTED BY 1"
    if measures_channels(flow, node):
        return "LENGTH OF EACH CHANNEL"
    if gates_channels(flow, node):
        return "EACH CHANNEL × ITS GATE"
    if is_linear(flow, node):
        return label_table(flow, node) or ("× LEARNED NUMBERS" if scales_alone(flow, node) else "LINEAR")
    if is_product(flow, node):
        return "PRODUCT"
    if list_flags(flow, node):
        return label_flags(flow, node)
    if list_root_mean(flow, node):
        return "ROOT MEAN SQUARE dim −1"
    if op in ("pow", "pow_"):
        power = read_power(flow, node)
        return "POWER" if power is None else f"POWER {power:g}"
    if fills_rows(flow, node):
        return f"ROWS OF A MASK SET TO {flow.steps[node].settings['value']:g}"
    if op == "where" or list_one_of_two(flow, node):
        return "ONE OR THE OTHER"
    if list_shift(flow, node):
        return "SCALE AND SHIFT"
    if op in AT_ONCE:
        held = [record.role for record in flow.steps[node].inputs].count("parameter")
        return "SCALE AND SHIFT" if held == len(("factors", "shifts")) else "A PRODUCT ADDED"
    if op.startswith("index_add"):
        return "ADDED AT THEIR PLACES"
    if meets_learned(flow, node, drawn):
        return label_learned(flow, node)
    if op in SUMS:
        forced = list_rounding(flow, node)
        return label_forced(flow, forced) if forced else label_noise(flow, node) or ADDED_UP
    if op in DIFFERENCES | {"rsub"}:
        return "SUBTRACTED"
    if op in SCALINGS:
        if list_own_sum(flow, node):
            return "÷ ITS OWN SUM" + label_more(flow, node)
        if op in DIVISIONS:
            return "DIVIDED"
        return MASKED if multiplies_places(flow, node) else "MULTIPLIED"
    if op in SOFTMAXES:
        return label_softmax(flow, node)
    if op in RECURRENT:
        return label_recurrence(flow, node)
    return ALIKE.get(op, op.strip("_").replace("_", " ")).upper()


def fills_rows(flow: Flow, node: int) -> bool:
    """Whether a step sets all numbers of the rows that a mask names to one number (Idefics)."""
    given, made = flow.steps[node].inputs, flow.output(node).shape
    is_of_rows = (
        len(given) == len(("rows", "mask")) and len(made) > 1 and given[1].shape[-2:] == (*made[-2:-1], 1) != made[-2:]
    )
    return flow.op(node) in FILLS and is_of_rows and isinstance(flow.steps[node].settings.get("value"), int | float)


def label_cells(flow: Flow, node: int) -> str:
    """What a step is called that sets the numbers to one that a mask of the same shape names; "" for any other."""
    step, value = flow.steps[node], number(flow.steps[node], "values")
    if (
        value is None
        or [one.dtype for one in step.inputs[1:]] != ["bool"]
        or step.inputs[1].shape != step.inputs[0].shape
    ):
        return ""
    return f"NUMBERS OF A MASK SET TO {value:g}".replace("inf", "∞").replace("-", "−")


def label_recurrence(flow: Flow, node: int) -> str:
    """What a recurrent network is called, with its layers where these are several, and where it reads both ways."""
    settings = flow.steps[node].settings
    layers = settings.get("num_layers")
    several = f", {layers:,} LAYERS" if isinstance(layers, int) and layers > 1 else ""
    return f"{flow.op(node).upper()}{several}{', BOTH WAYS' * (settings.get('bidirectional') is True)}"


def find_real(flow: Flow, node: int) -> int:
    """The step that takes the real part of what a step gave, where nothing else reads it; else that step."""
    readers = flow.leaf_readers(node)
    return readers[0] if [flow.op(one) for one in readers] == ["real"] else node


def find_laid(flow: Flow, node: int) -> int:
    """The last of the steps that do nothing but move what a step gave, in the blocks that hold it; else that step."""
    here, blocks = node, {flow.steps[block].id for block in flow.parents(node)}
    while len(readers := flow.leaf_readers(here)) == 1:
        if flow.op(readers[0]) not in CARRYING or flow.steps[readers[0]].parent not in blocks:
            break
        here = readers[0]
    return here


def tell_middle(flow: Flow, node: Node, names: Sequence[str], read: Collection[int]) -> Node:
    """A box that stands for many steps that had no room, and says which ones these are most often.

    It has a shape where all that others `read` of it has the same.
    """
    shapes = {flow.output(one).shape: flow.output(one) for one in read}
    record = next(iter(shapes.values())) if len(shapes) == 1 else None
    places = [flow.places[step.id] for step in node.steps]
    kinds = Counter("CONVOLUTION" if one.startswith("CONVOLUTION") else one for one in names)
    label, extra = f"{len(names):,} MORE STEPS", describe_params(flow, *places)
    return replace(node, label=label, extra=extra, record=record, told=(describe_ops(kinds),))


def tell_groups(flow: Flow, norm: Norm) -> str:
    """In how many groups of channels rows are normalised, and then scaled as a whole (Mamba 2), or maps (HuBERT)."""
    settings = flow.steps[norm.end].settings
    count, channels = settings.get("num_groups"), settings.get("num_channels")
    if isinstance(count, int) and isinstance(channels, int):
        return ", EACH CHANNEL BY ITSELF" if 1 < count == channels else f" IN {plural(count, 'group').upper()}"
    rows, measured = flow.output(norm.end).shape, {flow.output(node).shape for node in norm.nodes}
    groups = [flow.steps[node].inputs[0].shape for node in norm.nodes if flow.op(node) in REGROUPING]
    widths = [one[-1] for one in groups if prod(one) == prod(rows) and (*one[:-1], 1) in measured]
    count = rows[-1] // widths[0] if widths else 1
    return f" IN {count:,} GROUPS" if count > 1 else ""


def label_division(flow: Flow, norm: Norm) -> str:
    """What a norm is called that is none of the known ones, by what it divides by."""
    if divides_by_length(flow, norm.end):
        return ITS_LENGTH
    if any(divides_by_length(flow, one) for one in norm.nodes):
        return f"{ITS_LENGTH}, SCALED"  # by one learned number, say (X-CLIP)
    if any(flow.op(one) in LENGTHS for one in norm.nodes):
        return "DIVIDED BY A NORM"
    if flow.op(norm.end) == "normalize":
        return f"EACH ROW {BY_SIZES}" if number(flow.steps[norm.end], "p") == 1 else "NORMALIZED"
    measures = {flow.op(one) for one in norm.nodes} & STATISTICS
    return "NORM" if norm.centred or measures != {"mean"} else "DIVIDED BY A MEAN"


def label_table(flow: Flow, node: int) -> str:
    """What a product is called with a table that is no parameter, no argument, and made of none; "" for any other step.

    (Nemotron 3.5 Transcribe's speakers.)
    """
    step = flow.steps[node]
    if flow.op(node) not in PRODUCTS or step.params or len(step.inputs) != 2 or not flow.one_pass.arguments:
        return ""
    record, maker = flow.before_moves(*[*flow.given(node)][1])
    is_given = any(record.shape == one.shape for one in flow.one_pass.arguments)
    is_held = maker is None and record.role != "parameter" and not is_given
    return "PRODUCT WITH A FIXED TABLE" if is_held else ""


def label_softmax(flow: Flow, node: int) -> str:
    """A softmax, with its axis where that is not the last one; of one number alone it is always 1 (SwiftFormer)."""
    dim, shape = flow.steps[node].settings.get("dim"), flow.output(node).shape
    if isinstance(dim, int) and shape and shape[dim] == 1:
        return "SOFTMAX OF 1 NUMBER"
    is_last = not isinstance(dim, int) or not shape or dim % len(shape) == len(shape) - 1
    return "SOFTMAX" if is_last else f"SOFTMAX dim {dim}".replace("-", "−")


def lies_end_to_end(flow: Flow, node: int) -> bool:
    """Whether a step puts rows behind others, and does not make them wider: copies of one row have not become wide.

    Nor has a map that grew along another axis than the one that is called channels (the learned frame of TVP).
    """
    made, shapes = flow.output(node).shape, [record.shape for record in flow.steps[node].inputs]
    grown = [axis for axis, size in enumerate(made) if any(shape[axis : axis + 1] != (size,) for shape in shapes)]
    if len(grown) != 1 or len(made) < 2 or any(len(shape) != len(made) for shape in shapes):
        return False
    if all(is_repeated_along(flow, record, maker, grown[0]) for record, maker in flow.given(node)):
        return True
    known = {find_channels(flow, maker) for maker in flow.makers[node] if maker is not None} - {None}
    known = known or {find_channels_ahead(flow, node)}
    named = {axis for axis, word in enumerate(flow.output(node).axes) if word == "channels"}
    if named and grown[0] not in named:
        return True
    return grown[0] == 0 or known.isdisjoint({None, grown[0]})


def is_repeated_along(flow: Flow, record: TensorRecord, maker: int | None, axis: int) -> bool:
    """Whether all that lies along an axis is one and the same, several times."""
    many = record.shape[axis]
    return many > 1 and maker is not None and is_one_along(flow, record, maker, axis - len(record.shape))


def writes_across(flow: Flow, node: int) -> bool:
    """Whether a step puts numbers at some places of rows, or of maps, and no whole rows: `x[..., 0] = y`."""
    step, axes = flow.steps[node], len(flow.output(node).shape)
    parts = str(step.settings.get("index", "")).split(", ") if "index" in step.settings else []
    parts = [part for part in parts if part != "None"]
    reaches = len(parts) == axes or "..." in parts[:-1] or (axes > len(parts) > 2 and parts[:2] == [":", ":"])
    return reaches and parts[-1] not in (":", "...")
