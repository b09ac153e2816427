"""Heads of an attention: how many there are, of queries and of keys, and how wide they are."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Literal

from xray.ir.flow.attention_sites import Site, has_keys_first
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.mixed_heads import list_shared_axes
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, REPEATS, SHAPING
from xray.ir.flow.softmax_axis import read_equation
from xray.ir.turns import SWAPS
from xray.story.anatomy.attentions import Attention
from xray.story.branches.operands.sides import Side, is_narrowed
from xray.story.recognition.between import follow_turned, width_in, width_out
from xray.story.recognition.values.value_shapes import number

QUERY_HEADS = ("num_heads", "n_heads", "n_head", "nhead", "num_attention_heads", "heads", "head_num")
KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_heads")
"""What a module calls the number of its heads, of queries and of keys."""


def is_weighed_last(flow: Flow, site: Site) -> bool:
    """Whether values stand before the weights in the product, so that their width is not the last axis of it."""
    makers = flow.makers[site.weighted_sum]
    weights = {site.softmax, *site.weighed}
    if flow.op(site.weighted_sum) == "einsum" or len(makers) < 2:
        return False
    return flow.carried_from(makers[1], CARRYING | DROPOUTS) in weights


def count_d_k(flow: Flow, site: Site) -> int | None:
    """How many numbers of a query meet as many of a key: those of the axis that the product sums over.

    None where all heads meet one key of more or fewer numbers than a head has (DeepSeek's own latent ones).
    """
    query, key = site.query.end.shape, site.key.end.shape
    cut = find_cut_over_one_key(flow, site)
    if cut is not None and cut[1] != query[-1]:
        return None
    if flow.op(site.scores) != "einsum":
        return query[-2 if has_keys_first(flow, site) else -1]
    summed = find_summed(flow, site)
    if summed is not None:
        return flow.steps[site.scores].inputs[-2].shape[summed]
    return query[-1] if query[-1] == key[-1] else None


def find_summed(flow: Flow, site: Site) -> int | None:
    """The axis of the first operand of the scores that letters say is summed over; None where they name no such one."""
    left, right, made = read_equation(flow.steps[site.scores]) or ("", "", "")
    summed = [place for place, letter in enumerate(left) if letter in right and letter not in made]
    return summed[0] if len(summed) == 1 and len(left) == len(flow.steps[site.scores].inputs[-2].shape) else None


def has_numbers_first(flow: Flow, site: Site) -> bool:
    """Whether the numbers of each query stand before its place, as letters of the scores say ("bct,bcs->bts")."""
    return find_summed(flow, site) == len(flow.steps[site.scores].inputs[-2].shape) - 2


def count_d_v(flow: Flow, site: Site) -> int:
    """How many numbers a value of one head is wide: the last axis of the weighted sum, unless letters tell otherwise.

    That axis of the values is the width which is also one of the sum, and none of the weights ("bts,bcs->bct").
    """
    found, own = flow.output(site.weighted_sum).shape, list_own_axes(flow, site)
    return found[own[0] if len(own) == 1 else -2 if is_weighed_last(flow, site) else -1]


def list_own_axes(flow: Flow, site: Site) -> list[int]:
    """The axes of a weighted sum that the values alone have, where letters tell of them."""
    left, right, made = read_equation(flow.steps[site.weighted_sum]) or ("", "", "")
    weights = left if flow.makers[site.weighted_sum][-2] in {site.softmax, *site.weighed} else right
    is_told = len(made) == len(flow.output(site.weighted_sum).shape)
    return [place for place, letter in enumerate(made) if letter not in weights] if is_told else []


def shares_weights(flow: Flow, site: Site) -> bool:
    """Whether one set of weights mixes the values of several rows, each row its own (an alignment's sequences).

    So each of these places looks at those of its row alone.
    """
    made, weights = (flow.output(one).shape for one in (site.weighted_sum, site.softmax))
    wide = [place for place in list_own_axes(flow, site) if made[place] > 1]
    return len(wide) > 1 or (flow.op(site.weighted_sum) == "matmul" and prod(made[:-2]) > prod(weights[:-2]))


def count_heads(flow: Flow, site: Site, d_v: int) -> int | None:
    """How many heads there are: as many as their outputs, laid side by side, are wide; else as the scores have."""
    scores = flow.output(site.scores).shape
    over_one_key = find_cut_over_one_key(flow, site)
    if over_one_key is not None:
        return over_one_key[0]
    if site.output is not None and d_v:
        width = width_in(flow, site.output) or 0
        if (
            width % d_v == 0
            and width // d_v
            and any(
                prod(scores[first:last]) == width // d_v or width == d_v
                for first in range(len(scores) - 2)
                for last in range(first + 1, len(scores) - 1)
            )
        ):
            return width // d_v
        if width % d_v == 0 and len(scores) == 3 and scores[0] % (width // d_v) == 0:
            return width // d_v
        if width % d_v == 0 and any(scores[axis] == width // d_v for axis in list_shared_axes(flow, site.scores)):
            return width // d_v
        if width % d_v == 0 and is_cut_into(flow, site, width // d_v, d_v):
            return width // d_v
    if len(scores) == 4:
        words = flow.output(site.scores).axes
        is_folded = words[:1] == ("batch*heads",)  # pieces of rows are the second axis then
        axis = 0 if words[:1] == ("heads",) else 1
        return scores[axis] if axis in list_shared_axes(flow, site.scores) and not is_folded else None
    if len(scores) != 3 or len(flow.output(site.weighted_sum).shape) != 3:
        return None
    return 1 if site.output is not None else count_cut_queries(flow, site)


def agrees(flow: Flow, site: Site, heads: int | None, names: Sequence[str]) -> bool:
    """Whether the innermost block around the scores that says how many heads it has says so many, if one does.

    Where the two differ, axes were taken for heads that are none: pieces of a sequence, say (ActionFormer).
    """
    told = (number(flow.steps[block], *names) for block in flow.parents(site.scores))
    said = next((one for one in told if one is not None), None)
    return heads is None or said is None or said == heads


def leave_own_heads(flow: Flow, site: Site, branch: Attention) -> Attention:
    """A branch with the heads of its first attention alone, where others stand beside that one (CSWin)."""
    own, heads, keys = count_heads(flow, site, count_d_v(flow, site)), branch.heads, branch.kv_heads
    if not own or not heads or heads <= own or heads % own:
        return branch
    return replace(branch, heads=own, kv_heads=keys and keys * own // heads)


def find_cut_over_one_key(flow: Flow, site: Site) -> tuple[int, int] | None:
    """How many heads queries alone have, and of how many numbers, where all heads meet one key (DeepSeek's own code).

    An einsum's letters tell it. The axis of heads is that of two which queries bring that their numbers were cut into.
    """
    left, right, made = read_equation(flow.steps[site.scores]) or ("", "", "")
    brought = {flow.output(site.scores).shape[axis] for axis, one in enumerate(made) if (one in left) > (one in right)}
    if len(left) != len(right) + 1 or len(made) != len(left) or not brought:
        return None
    query = flow.makers[site.scores][-2]
    for node in flow.behind(query, ends=lambda one: one == site.query.origin):
        before, after = flow.steps[node].inputs[:1], flow.output(node).shape
        is_cut = bool(before) and before[0].shape[:-1] == after[:-2] and before[0].shape[-1:] == (prod(after[-2:]),)
        if is_cut and after[-2] in brought:
            return after[-2], after[-1]
    return None


def count_cut_queries(flow: Flow, site: Site) -> int | None:
    """How many heads queries were cut into before those of all sequences became one axis (VITS); None of no such.

    One step may do both where their numbers stand before their places, as letters of the scores say.
    """
    rows, end = flow.steps[site.query.nodes[0]].inputs[0].shape if site.query.nodes else (), site.query.end.shape
    are_rows = len(rows) == len(("batch", "rows", "width"))
    heads, rest = divmod(end[0], rows[0] if are_rows else end[0])
    laid = {flow.output(node).shape for node in site.query.nodes}
    is_cut = (end[0] // heads, heads, *end[1:]) in laid if heads else False
    are_before = are_rows and has_numbers_first(flow, site) and rows == (rows[0], heads * end[1], end[2])
    return heads if heads > 1 and not rest and (is_cut or are_before) else None


def is_cut_into(flow: Flow, site: Site, heads: int, d_v: int) -> bool:
    """Whether what the heads found lay in so many rows of that width beside each other, before it was one (Longformer).

    So it does where heads of all sequences are one axis of the scores, and pieces of their rows another one.
    """
    laid = (flow.output(node).shape for node in site.concat if flow.op(node) in CARRYING)
    first = flow.output(site.scores).shape[0]
    return first > heads > 1 and first % heads == 0 and any(one[-1:] == (d_v,) and heads in one[:-1] for one in laid)


def count_key_heads(
    flow: Flow, query: Side, key: Side, value: Side, heads: int | None, d_k: int | None, d_v: int
) -> int | None:
    """How many heads of keys there are: as many as their axis is long, or as their layer is wide enough for.

    Fewer than queries have are not told by a layer of which less came than there is of keys (DN-DETR joins two).
    """
    if heads is None or d_k is None:
        return None
    if len(key.projections) > 1 and is_narrowed(flow, key):
        return heads
    repeated = count_repeats(flow, key)
    if repeated is not None:
        return heads // repeated if repeated and heads % repeated == 0 else None
    own = dict(zip(key.end.axes, key.end.shape, strict=False))
    if "kv_heads" in own or "heads" in own:
        return own.get("kv_heads", own.get("heads"))
    if key.last is None:
        return None
    is_shared = key.last == value.last
    each, width = d_k + d_v * is_shared, width_out(flow, key.last) - heads * d_k * (key.last == query.last)
    if is_shared and width == heads * d_k:
        return None  # keys may be values too, or have half as many heads
    is_more = prod(key.end.shape) > prod(flow.output(key.last).shape) and width < each * heads
    return width // each if width % each == 0 and width >= each and not is_more else None


def count_repeats(flow: Flow, side: Side) -> int | None:
    """By how much keys are repeated for the queries that share them; None if they are not.

    What is repeated before the linear layer that makes keys are rows, as for several streams; so are sequences, along
    the first axis, and places.
    """
    for node in side.nodes if side.last is None else [one for one in side.nodes if one > side.last]:
        step = flow.steps[node]
        if step.op in REPEATS and step.inputs and step.outputs and node not in side.projections:
            before, after = step.inputs[0].shape, step.outputs[0].shape
            wide = (1,) * (len(after) - len(before)) + before
            words = dict(enumerate(step.outputs[0].axes))
            grown = [axis for axis, size in enumerate(after) if size != wide[axis]]
            near = {words.get(axis + by) for axis in grown for by in ((0,) if len(after) == 4 else (-1, 0, 1))}
            if len(before) >= 4 and len(grown) == 1 and near & {"heads", "kv_heads"}:
                return prod(after) // max(prod(before), 1)
    return None


def name_fused_order(flow: Flow, query: Side, heads: int | None) -> Literal["head", "group"] | None:
    """Of what the width of a fused layer is made, where queries, keys and values are not one behind the other in it.

    Then each is cut out behind the first of the axes into which the width is laid: that of the heads (Persimmon), or of
    groups of them (Falcon, CodeGen).
    """
    if query.last is None:
        return None
    *before, width = flow.output(query.last).shape
    axis, readers = len(before), flow.leaf_readers(query.last)
    shape = flow.output(readers[0]).shape if len(readers) == 1 and flow.op(readers[0]) in SHAPING else ()
    if len(shape) <= axis or [*shape[:axis]] != before or {1, width} & {*shape[axis:]}:
        return None
    laid, axis = follow_turned(flow, readers[0], axis, SWAPS)
    shape, readers = flow.output(laid).shape, flow.leaf_readers(laid)
    if heads is None or axis < 0 or shape[axis] > heads or heads % shape[axis]:
        return None  # no axis of heads, nor of groups of them
    kept, cuts = shape[: axis + 1], [flow.output(one).shape for one in readers]
    if not cuts or any(one[: axis + 1] != kept or prod(one) == prod(shape) for one in cuts):
        return None
    if heads in shape[axis + 1 :] and all(follow_turned(flow, one, axis, SWAPS)[1] != 1 for one in readers):
        return None  # another axis may be that of heads
    return "head" if shape[axis] == heads else "group"
