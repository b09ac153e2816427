"""What the parts of a way of queries, keys or values are called, by what their steps do."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    DROPOUTS,
    FINDINGS,
    SIDE_BY_SIDE,
    SPLITS,
    SUMS,
    TURNS,
    WRITES,
    ZEROS,
)
from xray.ir.flow.projections import scales_alone
from xray.ir.flow.weights import read_weights
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.story.anatomy.branch_words import label_activation
from xray.story.attention.ways.cut_names import label_cut, label_rows, only_turns
from xray.story.attention.ways.lanes import (
    OF_HEADS,
    Part,
    count_rows_of_heads,
    takes_rows_of_heads,
)
from xray.story.attention.ways.runs import (
    is_one_row,
    joins_given_rows,
    joins_own_norm,
    label_given_rows,
    pads,
    works_on,
)
from xray.story.body.scale import multiplies_by_learned
from xray.story.branches.feed_forward import SPLITTERS
from xray.story.branches.lengths import read_mixing
from xray.story.branches.operands.sides import Side, is_kept
from xray.story.branches.rows import count_of_before, label_of_before, lays_numbers_across, rolls_places
from xray.story.branches.scored.caps import name_bend
from xray.story.charts.norms_apart import AXES_SWAPPED, CUT_ANEW
from xray.story.charts.steps.operation_labels import label_step
from xray.story.experts.chosen_heads import MAKING, find_stack
from xray.story.passages.held_factors import list_shift
from xray.story.passages.learned_steps import LEARNED, WORKED_OUT, list_bias, list_held, name_worked_out
from xray.story.passages.pools import is_pool
from xray.story.recognition.between import is_linear, name_groups, read_sizes, width_in, width_out
from xray.story.recognition.turning import is_rotary

PLACES_MIXED = "PLACES MIXED"
LINEAR_FOR, AND_MORE = ("ONE LINEAR FOR", "LINEAR FOR", "LINEAR LAYERS FOR"), " AND MORE"
MOVED = CARRYING | DROPOUTS
MOST_WORDS = 3


def name_part(flow: Flow, part: Part, letters: str) -> str:
    """The key of a part's node: its kind, which of that kind it is, and whose way it is on."""
    kind: str = part.kind
    if mixes_places(flow, part):
        kind = "places"
    elif kind == "rotate" and any(is_linear(flow, node) for node in part.nodes):
        kind = "apart"
    elif len(letters) > 1 and any(is_kept(flow, node) for node in part.nodes):
        kind = "kept"
    elif kind == "cache" and any(flow.op(node) in WRITES for node in part.nodes):
        kind = "store"  # what stands there at other places is not known: it may be room for later ones (gpt-fast)
    elif kind == "heads" and name_taken_rows(flow, part):
        kind = "taken"
    elif len(letters) == 1 and (keeps_rows(flow, part) or keeps_one_head(flow, part)):
        kind = "cut"
    elif moves_heads(flow, part):
        kind = "first" if puts_heads_first(flow, part) else "cut"
    return f"{kind}{part.number}_{letters}"


def mixes_places(flow: Flow, part: Part) -> bool:
    """Whether a part mixes rows with each other by learned numbers, and leaves the numbers of each apart."""
    return any(mixes_rows(flow, node) for node in part.nodes)


def mixes_rows(flow: Flow, node: int) -> bool:
    """Whether a step mixes rows with each other by learned numbers, and leaves the numbers of each apart."""
    return read_mixing(flow, node) is not None


def keeps_rows(flow: Flow, part: Part) -> bool:
    """Whether a move cuts no heads: rows stay as wide, in no more axes, or each has numbers of several places then."""
    if any(lays_numbers_across(flow, node) for node in part.nodes):
        return part.kind == "heads"
    before, after = next((one.shape for one in flow.steps[part.nodes[0]].inputs), ()), part.record.shape
    is_all = bool(after) and prod(before) == prod(after)
    return part.kind == "heads" and is_all and before[-1:] == after[-1:] and len(after) < len(before)


def keeps_one_head(flow: Flow, part: Part) -> bool:
    """Whether a move cuts no heads: all numbers of a row stay side by side, as one head or as channels (SAM 2)."""
    given = flow.steps[part.nodes[0]].inputs if part.kind == "heads" else ()
    before = given[0].shape if given else ()
    named = dict(zip(part.record.axes, part.record.shape, strict=False))
    if before and keeps_whole_rows(flow, part):
        return True
    if not before or names_heads(part.record) or named.get("kv_heads", 1) > 1 or moves_heads(flow, part):
        return False
    joined = prod(before[-2:]) if len(before) == OF_HEADS else 0
    if part.record.shape.count(joined) > before.count(joined):
        return True
    is_one = part.record.shape[1:2] == (1,) and before[-1:] == flow.output(part.nodes[0]).shape[-1:]
    return is_one or part.record.shape.count(before[-1]) >= before.count(before[-1])


def keeps_whole_rows(flow: Flow, part: Part) -> bool:
    """Whether a move cuts what a linear layer gives, and leaves all numbers of each row side by side."""
    record, maker = flow.before_moves(*next(flow.given(part.nodes[0])))
    wide = width_out(flow, maker) if maker is not None and flow.op(maker) == "linear" else 0
    is_whole = prod(record.shape) == prod(part.record.shape) and record.shape[-1:] == (wide,)
    return is_whole and record.shape[-1:] == part.record.shape[-1:] and part.record.shape[1:2] != (1,)


def moves_heads(flow: Flow, part: Part) -> bool:
    """Whether a move cuts no heads, since they were cut before: it only lays them out in another way."""
    given = flow.steps[part.nodes[0]].inputs
    if part.kind != "heads" or not given or (part.number == 0 and not reads_heads(flow, part)):
        return False
    before, after = given[0].shape, part.record.shape
    return (sorted(before) == sorted(after) and only_turns(flow, part)) or before[-1:] == after[-1:]


def reads_heads(flow: Flow, part: Part) -> bool:
    """Whether the first thing that a part reads was worked out head by head, as by a turn before it (Qwen's eye)."""
    record, maker = next(flow.given(part.nodes[0]))
    made = flow.carried_from(maker)
    return names_heads(record) and made is not None and not is_linear(flow, made)


def puts_heads_first(flow: Flow, part: Part) -> bool:
    """Whether a move changes the order of axes so that heads stand before places, be they one axis with the batch.

    Where they stood there, it cuts places into windows (Titans).
    """
    given = next(flow.given(part.nodes[0]))[0].axes[-3:-2]
    before = {"heads", "kv_heads", "batch*heads", "heads*batch"}.intersection(part.record.axes[-3:-2])
    return bool(before.difference(given)) and any(flow.op(node) in TURNS for node in part.nodes)


def count_layers_reading(flow: Flow, part: Part) -> int:
    """How many linear layers read what a part makes: it is of none of them then, if there are several."""
    return sum(is_linear(flow, reader) for reader in flow.readers.get(part.nodes[-1], ()))


def goes_into_linear(flow: Flow, node: int) -> bool:
    """Whether a linear layer reads what a step makes, be it moved before: queries, keys and values come behind it."""
    moved = flow.ahead(node, within=lambda one: one == node or flow.op(one) in CARRYING)
    return any(is_linear(flow, reader) for one in moved for reader in flow.leaf_readers(one))


def leads_to_linear(flow: Flow, node: int) -> bool:
    """Whether a linear layer works on what a step makes, be it padded or cut before: it is no query, key or value."""
    onward = {node, *flow.ahead(*flow.readers.get(node, ()), within=lambda one: not works_on(flow, one))}
    return any(is_linear(flow, reader) for one in onward for reader in flow.readers.get(one, ()))


def becomes_share(flow: Flow, node: int) -> bool:
    """Whether what a step makes, moved or bent at most, says how much of each of two others is taken: it is neither."""
    ways = flow.ahead(node, within=lambda one: one == node or flow.op(one) in CARRYING | CURVES)
    mixes = ((one, reader) for one in ways for reader in flow.leaf_readers(one) if flow.op(reader) == "lerp")
    return any(flow.makers[reader][2:] == (one,) for one, reader in mixes)


def makes(flow: Flow, part: Part, side: Side) -> bool:
    """Whether what a part gives becomes an operand of an attention past no other linear layer and no product."""
    walls = {one for one in side.nodes if works_on(flow, one) and not scales_alone(flow, one)} - {*part.nodes}
    ways = {one for one in side.nodes if one not in walls or mixes_rows(flow, one)}
    end = part.nodes[-1]
    return max(side.nodes, default=-1) in {end, *flow.ahead(*flow.readers.get(end, ()), within=ways.__contains__)}


def label_part(flow: Flow, part: Part, letters: str, *, narrow: bool, made: str = "", is_waist: bool = False) -> str:
    """What a part of a lane is called; `is_waist` where another linear layer leads wide again what one made narrow.

    What several lanes share before a linear layer is none of their queries, keys or values yet. A linear layer is one
    of those that are `made` of what it gives.
    """
    of = "" if not narrow and leads_to_linear(flow, part.nodes[-1]) else f" {letters}"
    if becomes_share(flow, part.nodes[-1]):
        return spell_steps(flow, part.nodes) or CUT_ANEW
    if mixes_places(flow, part):
        return PLACES_MIXED + of
    if part.kind == "linear":
        return label_linear(flow, part, letters, made, narrow=narrow, is_waist=is_waist)
    if part.kind == "join" and joins_given_rows(flow, part.nodes[-1]):
        return label_given_rows(flow, part.nodes[-1])
    if part.kind == "join" and not of:
        is_learned = any(flow.steps[node].is_learned for node in part.nodes)
        return spell_steps(flow, part.nodes) if is_learned else "END TO END"
    if part.kind == "join" and any(flow.op(node) in WRITES for node in part.nodes):
        return spell_steps(flow, part.nodes) + of
    if not narrow and part.kind in ("heads", "bend"):
        if any(is_kept(flow, node) for node in part.nodes):
            return "KEPT IN THE CACHE"
        if any(rolls_places(flow, node) for node in part.nodes):
            return "PLACES ROLLED"
        ops = [
            "PAD" if pads(flow, node) else "ROLL" for node in part.nodes if flow.op(node) == "roll" or pads(flow, node)
        ]
        if part.kind == "heads" and not ops and is_cut_into_heads(flow, part):
            return f"HEADS OF {letters}"
        bent = [node for node in reversed(part.nodes) if part.kind == "bend" and flow.op(node) not in CARRYING]
        return " AND ".join(ops or [label_step(flow, node) for node in bent]) or label_cut(flow, part)
    if part.kind in ("rotate", "beside") and any(is_linear(flow, node) for node in part.nodes):
        return spell_steps(flow, part.nodes) + of
    if part.kind == "beside" and joins_own_norm(flow, part.nodes[-1]):
        return f"{letters} BESIDE ITS NORM" if narrow else f"{letters} BESIDE THEIR NORM"
    if part.kind == "beside" and not narrow and count_layers_reading(flow, part) > 1:
        return label_of_before(count_of_before(flow, part.nodes[-1]))
    if part.kind == "lay":
        return label_rows(flow, part)
    if part.kind == "heads" and (taken := name_taken_rows(flow, part)):
        return f"{taken} {letters}"
    if parts_rows(flow, part):
        return label_cut(flow, part)
    if keeps_rows(flow, part):
        return CUT_ANEW + of
    if narrow and keeps_one_head(flow, part):
        is_head = part.record.axes[-1:] == ("d_k",) and len(part.record.shape) == OF_HEADS
        return f"{'ONE HEAD' if is_head else AXES_SWAPPED if only_turns(flow, part) else CUT_ANEW} {letters}"
    if narrow and moves_heads(flow, part):
        swapped = AXES_SWAPPED if only_turns(flow, part) else CUT_ANEW
        return f"{'HEADS FIRST' if puts_heads_first(flow, part) else swapped} {letters}"
    if part.kind == "rotate" and not narrow and flow.op(part.nodes[-1]) == "where":
        return label_step(flow, part.nodes[-1])
    if part.kind == "rotate" and not narrow and not is_rotary(flow, part.nodes):
        return spell_steps(flow, part.nodes) + of
    if part.kind == "norm" and not narrow and flow.op(part.nodes[-1]).startswith("batch_norm"):
        return label_step(flow, part.nodes[-1])
    if part.kind == "norm" and narrow and joins_unnormed(flow, part):
        return spell_steps(flow, part.nodes) + of
    if part.kind == "norm":
        where = "" if narrow else "BEFORE " if goes_into_linear(flow, part.nodes[-1]) else "OF "
        return f"NORM {where}{letters}"
    if part.kind == "bend" and pads(flow, part.nodes[-1]):
        return f"PAD {letters}" if len(part.record.shape) >= OF_HEADS else "PAD"  # rows that all read (PEGASUS-X)
    if part.kind == "bend":
        kernel = read_sizes(flow, part.nodes[-1], "kernel_size") if flow.op(part.nodes[-1]) in FINDINGS else ()
        if kernel:
            return f"CONV {'×'.join(map(str, kernel))}{of}"
        if is_pool(flow, part.nodes[-1]):
            return label_step(flow, part.nodes[-1]) + of
        shared = count_layers_reading(flow, part) > 1
        return f"{label_activation(name_bend(flow.steps[part.nodes[-1]]))}{'' if shared else of}"
    words = {
        "heads": "HEADS",
        "rotate": "ROTATE A PART OF" if not narrow and of and writes_some(flow, part) else "ROTATE",
        "choose": "CHOSEN",
        "cache": "CACHE",
        "kept": "CACHE",
        "earlier": "EARLIER",
        "join": "JOIN",
        "beside": "SIDE BY SIDE",
        "repeat": "REPEAT",
        "scale": spell_steps(flow, part.nodes),
    }
    changing = [node for node in part.nodes if flow.op(node) not in CARRYING]
    if part.kind == "scale" and changing and all(multiplies_by_learned(flow, node) for node in changing):
        is_one = all(min(prod(one.shape) for one in flow.steps[node].inputs) == 1 for node in changing)
        held = [one for node in changing for one in list_held(flow, node)]
        worked = name_worked_out(flow, flow.behind(*held), WORKED_OUT) if held else "{}"
        what = worked.format("A LEARNED NUMBER" if is_one else LEARNED)
        return f"{letters} × {what}" if narrow else f"× {what}"
    if part.kind == "heads" and letters == "K" and part.record.axes[-2:-1] == ("d_k",):
        return "HEADS K^T"  # laid on their side at once, as before they are scaled (DeBERTa)
    if part.kind == "repeat":
        parts = count_parts(flow, part)
        times = repeat_times(flow, part) * parts
        what = {1: of, 2: f" HALF OF {letters}"}.get(parts, f" A PART OF {letters}")
        return f"REPEAT{what} ×{times}" if times > 1 else f"REPEAT{what}"
    return words.get(part.kind, part.kind.upper()) + of


def label_linear(flow: Flow, part: Part, letters: str, made: str, *, narrow: bool, is_waist: bool) -> str:
    """What linear layers of a part are called: those of what is `made` of them, with nothing done in between."""
    linears = [node for node in part.nodes if is_linear(flow, node)]
    if sum(find_stack(flow, node) is not None for node in linears) > 1:
        return f"{MAKING} {letters}"
    if not all(gives_on(flow, node, linears) for node in part.nodes):
        return spell_steps(flow, part.nodes) + f" {made}" * bool(made)
    wide = next((record.shape[-1] for record in flow.steps[linears[0]].inputs if record.shape), 0)
    is_first = is_waist and part.number == 0 and len(linears) == 1 and narrows(flow, part)
    if is_first and (narrow or width_out(flow, linears[0]) * 2 <= wide):
        return f"DOWN {letters}" if narrow else f"DOWN TO A WAIST FOR {letters}"
    layers = {tuple(read_weights(flow, node)) or flow.steps[node].path for node in linears}
    if not made:
        return "LINEAR LAYERS" if len(layers) > 1 else "LINEAR"
    is_up = is_waist and part.number == 1 and widens(flow, linears[-1])
    if len(made) == 1 and (narrow or len(linears) == 1):
        return f"{'UP' if is_up else 'LINEAR'} {made}{name_groups(flow, linears[-1])}"
    several = LINEAR_FOR[(len(linears) > 1) + (len(layers) > 1)]  # one of each place, end to end (Moshi's depth)
    return f"UP TO {made}" if is_up else f"{several} {made}"


def writes_some(flow: Flow, part: Part) -> bool:
    """Whether a part writes what it has worked out over less than all of what it ends with: the rest goes on as it was.

    So queries and keys are turned where they stand beside their values (Pyramid Flow).
    """
    given = [flow.steps[node].inputs for node in part.nodes if flow.op(node) in WRITES]
    written = sum(prod(records[-1].shape) for records in given)
    return 0 < written < prod(part.record.shape)


def gives_on(flow: Flow, node: int, linears: Collection[int]) -> bool:
    """Whether a step is one of some linear layers, adds the bias of one, or only moves or joins what they give."""
    is_bias = any(node in list_bias(flow, one) for one in linears)
    given = flow.steps[node].inputs
    is_sum = flow.op(node) in SUMS and (len(given) == 1 or any(map(is_one_row, given)))
    is_moved = flow.op(node) in CARRYING | DROPOUTS | SIDE_BY_SIDE | WRITES | ZEROS | PADDINGS | {"stack"}
    return (node in linears and not scales_alone(flow, node)) or is_bias or is_sum or is_moved


def spell_steps(flow: Flow, nodes: Collection[int]) -> str:
    """What some steps do, in order, each operation told once; that they are operations, where these are many."""
    told_by_others = {one for node in nodes for one in list_shift(flow, node) if one != node}
    own = sorted({*nodes} - told_by_others)
    told = [label_step(flow, node) for node in own if flow.is_leaf(node) and flow.op(node) not in MOVED]
    words = list(dict.fromkeys(told))
    return ", ".join(words) if len(words) <= MOST_WORDS else "OPERATIONS"


def name_taken_rows(flow: Flow, part: Part) -> str:
    """How many rows of each head a part takes of how many, if it does nothing else: they are no heads (EVA's first)."""
    if not takes_rows_of_heads(flow, part.nodes):
        return ""
    return "{:,} OF {:,} ROWS".format(*count_rows_of_heads(flow, part.nodes))


def is_cut_into_heads(flow: Flow, part: Part) -> bool:
    """Whether a part cuts rows into heads, be it of all three ways at once (GPT-NeoX)."""
    before = flow.steps[part.nodes[0]].inputs[0]
    is_cut = names_heads(part.record) and not names_heads(before)
    is_last = not leads_to_linear(flow, part.nodes[-1])
    return is_cut and is_last and prod(before.shape) >= prod(part.record.shape) and not keeps_rows(flow, part)


def names_heads(record: TensorRecord) -> bool:
    """Whether an axis is of heads, be it of those of all sequences at once (ViTDet)."""
    return any(axis in ("heads", "batch*heads", "heads*batch") for axis in record.axes)


def widens(flow: Flow, linear: int) -> bool:
    """Whether a linear layer makes more numbers of each row than it is given."""
    return width_out(flow, linear) > (width_in(flow, linear) or 0)


def narrows(flow: Flow, part: Part) -> bool:
    """Whether the linear layers of a part make fewer numbers of each row than they are given."""
    linears = [node for node in part.nodes if is_linear(flow, node)]
    return bool(linears) and width_out(flow, linears[-1]) < (width_in(flow, linears[0]) or 0)


def parts_rows(flow: Flow, part: Part) -> bool:
    """Whether a part does no more than cut rows into several, and none of these into heads."""
    outputs = flow.steps[part.nodes[0]].outputs if part.kind == "heads" and len(part.nodes) == 1 else ()
    is_plain = len(outputs) > 1 and flow.op(part.nodes[0]) in SPLITS and not names_heads(part.record)
    return is_plain or len({one.shape for one in outputs}) > 1


def joins_unnormed(flow: Flow, part: Part) -> bool:
    """Whether a norm works on one piece of rows alone, and puts the other one beside it again (TransNeXt's values)."""
    cuts = {node for node in part.nodes if flow.op(node) in SPLITTERS}
    joined = [maker for node in part.nodes if flow.op(node) in SIDE_BY_SIDE for maker in flow.makers[node]]
    return any(flow.carried_from(maker, CARRYING - SPLITTERS) in cuts for maker in joined)


def count_parts(flow: Flow, part: Part) -> int:
    """Of how many parts of the values a repeat takes one (DiffLlama); 1 where keys are cut off too, or nothing is.

    Nor is anything where the parts are put together again (Mistral's own code, one sequence after the other).
    """
    cuts = [node for node in part.nodes if flow.op(node) in SPLITTERS and not are_rejoined(flow, node, part.nodes)]
    is_fused = any(set(cuts) & set(site.key.nodes) & set(site.value.nodes) for site in list_sites(flow))
    return 1 if is_fused or not cuts else len(flow.steps[cuts[0]].outputs)


def are_rejoined(flow: Flow, cut: int, nodes: Collection[int]) -> bool:
    """Whether one of some steps puts all the parts that another one cuts end to end, or side by side, again."""
    parts, whole = len(flow.steps[cut].outputs), prod(flow.steps[cut].inputs[0].shape)
    joins = (one for one in nodes if flow.op(one) in SIDE_BY_SIDE and prod(flow.output(one).shape) == whole)
    return any(flow.makers[one].count(cut) == parts for one in joins)


def repeat_times(flow: Flow, part: Part) -> int:
    """By how much a part repeats what it reads."""
    first = flow.steps[part.nodes[0]]
    before = prod(first.inputs[0].shape) if first.inputs else 0
    return prod(part.record.shape) // before if before else 0
