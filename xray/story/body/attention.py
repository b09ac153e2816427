"""What an attention is: its heads, what it looks at, and what is special to it, each proven by its steps."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from xray.ir.records import MaskFacts, TensorRecord
from xray.story.body.regions import Region, is_linear, projections_in, width_out
from xray.story.body.tree import Attention, Latent, Positions
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.norms import Norm, find_norm
from xray.story.recognition.operation_kinds import CARRYING, CURVES, REPEATS, SCALINGS, SUMS
from xray.story.recognition.projections import data_input, is_product
from xray.story.recognition.scored_parts import list_behind, read_scored

CAUSAL = ("causal", "padding+causal")
TURNED = CARRYING | frozenset({"neg", "cat", "stack", "mul", "sub", "roll", "flip"})


@dataclass(frozen=True)
class Side:
    """One operand of an attention followed back: the steps it is worked out by, and the linear layers among them."""

    end: TensorRecord
    nodes: frozenset[int]
    projections: tuple[int, ...]
    is_own: bool

    @property
    def last(self) -> int | None:
        """The linear layer that comes last."""
        return self.projections[-1] if self.projections else None


def describe_attention(flow: Flow, site: Site, region: Region, makers_of_towers: Mapping[int, str]) -> Attention:
    """The facts of an attention that stands in a branch."""
    query, key, value = read_sides(flow, site, region)
    d_k = query.end.shape[-1] if site_contracts_last(flow, site) else None
    d_v = flow.output(site.weighted_sum).shape[-1]
    heads = count_heads(flow, site, d_v)
    bias, causal, window = read_scores(flow, site)
    turned = is_rotary(flow, query, region) and is_rotary(flow, key, region)
    positions: Positions | None = "rotary" if turned else bias
    if positions is None and bias is None and is_plain(flow, site, (query, key)):
        positions = "none"
    return Attention(
        source=name_source(flow, site, key, makers_of_towers),
        heads=heads,
        kv_heads=count_key_heads(flow, site, query, key, value, heads, d_k, d_v),
        d_k=d_k,
        d_v=d_v,
        window=window or count_cut_window(flow, site, query, key, region),
        positions=positions,
        qk_norm=has_norm(flow, query) and has_norm(flow, key),
        latent=read_latent(flow, query, key, value),
        sinks=has_sinks(flow, site),
        gate=is_gated(flow, site, region),
        fused=name_fusion(query, key, value),
        kernel=name_kernel(flow, site),
        causal=causal,
    )


def read_sides(flow: Flow, site: Site, region: Region) -> tuple[Side, Side, Side]:
    """Queries, keys and values, each followed back to where the branch begins, or to another tower's memory."""
    step, summed = flow.steps[site.scores], flow.steps[site.weighted_sum]
    numbers = (len(step.inputs) - 2, len(step.inputs) - 1)
    key_number = numbers[1] if step.inputs[numbers[1]] is site.key.end else numbers[0]
    query_number = numbers[0] + numbers[1] - key_number
    value_numbers = range(len(summed.inputs) - 2, len(summed.inputs))
    value_number = next((n for n in value_numbers if summed.inputs[n] is site.value.end), value_numbers[-1])
    return (
        follow_side(flow, site.scores, query_number, region),
        follow_side(flow, site.scores, key_number, region),
        follow_side(flow, site.weighted_sum, value_number, region),
    )


def follow_side(flow: Flow, reader: int, number: int, region: Region) -> Side:
    """An operand followed back through the branch; keys and values of another tower as far as their linear layer."""
    end, start = flow.steps[reader].inputs[number], flow.makers[reader][number]
    if start is None:
        return Side(end, frozenset(), (), is_own=False)
    is_own = start in region.inner
    allowed = region.inner if is_own else None
    nodes: set[int] = set()
    todo = [start]
    while todo:
        here = todo.pop()
        if here in nodes or (allowed is not None and here not in allowed):
            continue
        nodes.add(here)
        if allowed is None and (is_linear(flow, here) or len(nodes) > 40):
            continue
        todo += [maker for maker in flow.makers[here] if maker is not None]
    return Side(end, frozenset(nodes), tuple(projections_in(flow, nodes)), is_own)


def site_contracts_last(flow: Flow, site: Site) -> bool:
    """Whether a head's width stands at the end of the queries, as in every product but an einsum's."""
    return flow.op(site.scores) != "einsum" or site.query.end.shape[-1] == site.key.end.shape[-1]


def count_heads(flow: Flow, site: Site, d_v: int) -> int | None:
    """How many heads there are: as many as their outputs, laid side by side, are wide; else as the scores have."""
    scores = flow.output(site.scores).shape
    if site.output is not None and d_v:
        number = data_input(flow, site.output)
        width = 0 if number is None else flow.steps[site.output].inputs[number].shape[-1]
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
    if len(scores) == 4:
        return scores[1]
    return (
        1 if len(scores) == 3 and len(flow.output(site.weighted_sum).shape) == 3 and site.output is not None else None
    )


def count_key_heads(
    flow: Flow, site: Site, query: Side, key: Side, value: Side, heads: int | None, d_k: int | None, d_v: int
) -> int | None:
    """How many heads of keys and values there are: as many as their own linear layer is wide enough for."""
    if heads is None or d_k is None:
        return None
    if len(key.projections) > 1 and is_narrowed(flow, key):
        return heads
    repeated = count_repeats(flow, key)
    if repeated is not None and repeated > 1:
        return heads // repeated if heads % repeated == 0 else None
    if key.last is None:
        return key.end.shape[1] if len(key.end.shape) == 4 and heads % max(key.end.shape[1], 1) == 0 else None
    width = width_out(flow, key.last)
    if query.last == key.last == value.last:
        rest = width - heads * d_k
        return rest // (d_k + d_v) if rest % (d_k + d_v) == 0 and rest > 0 else None
    if key.last == value.last:
        return width // (d_k + d_v) if width % (d_k + d_v) == 0 else None
    return width // d_k if width % d_k == 0 and width >= d_k else None


def count_repeats(flow: Flow, side: Side) -> int | None:
    """By how much keys are repeated for the queries that share them; None if they are not."""
    for node in side.nodes:
        step = flow.steps[node]
        if step.op in REPEATS and step.inputs and step.outputs and node not in side.projections:
            before, after = prod(step.inputs[0].shape), prod(step.outputs[0].shape)
            if before and after > before and len(step.inputs[0].shape) >= 4:
                return after // before
    return None


def is_narrowed(flow: Flow, side: Side) -> bool:
    """Whether one linear layer of a side reads what another one made: a waist."""
    return any(waist_before(flow, side, node) is not None for node in side.projections)


def waist_before(flow: Flow, side: Side, projection: int) -> int | None:
    """How wide the waist before a linear layer is, if another one of the same side made it."""
    number = data_input(flow, projection)
    if number is None:
        return None
    here = flow.makers[projection][number]
    for _ in range(24):
        if here is None or here not in side.nodes:
            return None
        if here in side.projections:
            record = flow.steps[projection].inputs[number]
            return record.shape[-1] if record.shape[-1] < width_out(flow, projection) else None
        norm = find_norm(flow, here)
        if norm is not None and norm.origin is not None:
            here = norm.origin
        elif flow.op(here) in CARRYING | {"cat", "copy_"} and flow.makers[here]:
            here = next((maker for maker in reversed(flow.makers[here]) if maker is not None), None)
        else:
            return None
    return None


def read_latent(flow: Flow, query: Side, key: Side, value: Side) -> Latent | None:
    """The waists that queries, and keys and values, are made through; None if there are none."""
    q = next((w for node in reversed(query.projections) if (w := waist_before(flow, query, node))), None)
    kv = next((w for node in reversed(value.projections) if (w := waist_before(flow, value, node))), None)
    keys = next((w for node in reversed(key.projections) if (w := waist_before(flow, key, node))), None)
    if kv is None or kv != keys:
        return None
    return Latent(q, kv)


def is_rotary(flow: Flow, side: Side, region: Region) -> bool:
    """Whether an operand is turned: one product with a table, and a product of its own numbers moved with another.

    Both tables come from beside the branch. The sum of both products is the turn (Su et al. 2021, section 3.4).
    """
    own = side.nodes
    for node in own:
        if flow.op(node) not in SUMS | {"sub", "sub_"}:
            if flow.op(node) == "view_as_complex" and any(
                flow.op(reader) in SCALINGS for reader in flow.readers.get(node, ())
            ):
                return True
            continue
        factors = [maker for maker in flow.makers[node] if maker in own and is_table_product(flow, maker, own)]
        if len(factors) == 2:
            moved = [moves_itself(flow, factor, own) for factor in factors]
            if any(moved):
                return True
    return False


def is_table_product(flow: Flow, place: int, own: Collection[int]) -> bool:
    """Whether a step multiplies a side's numbers by a table that is not worked out of them, and not learned."""
    step = flow.steps[place]
    if step.op not in SCALINGS or len(step.inputs) != 2:
        return False
    tables = [
        record
        for record, maker in flow.given(place)
        if maker not in own and record.role != "parameter" and record.shape
    ]
    return len(tables) == 1 and tables[0].shape[-1] > 1


def moves_itself(flow: Flow, factor: int, own: Collection[int]) -> bool:
    """Whether what a product multiplies was cut or turned round first: a half of a row, or every other number."""
    for _, maker in flow.given(factor):
        here = maker
        for _ in range(8):
            if here is None or here not in own:
                break
            if flow.op(here) in {"neg", "cat", "stack", "roll", "flip", "chunk", "split", "unbind"} or is_cut(
                flow, here
            ):
                return True
            if flow.op(here) not in CARRYING or not flow.makers[here]:
                break
            here = flow.makers[here][0]
    return False


def is_cut(flow: Flow, place: int) -> bool:
    """Whether a step takes a part of each row."""
    step = flow.steps[place]
    return (
        step.op in ("index", "slice", "narrow", "select")
        and bool(step.inputs)
        and bool(step.outputs)
        and bool(step.outputs[0].shape)
        and step.outputs[0].shape[-1] < step.inputs[0].shape[-1]
    )


def has_norm(flow: Flow, side: Side) -> bool:
    """Whether an operand is normalised behind its last linear layer."""
    return side.last is not None and any(
        (norm := norm_at(flow, node)) is not None and node > side.last and is_behind(flow, norm, side)
        for node in side.nodes
    )


def norm_at(flow: Flow, node: int) -> Norm | None:
    return find_norm(flow, node)


def is_behind(flow: Flow, norm: Norm, side: Side) -> bool:
    """Whether what a norm reads comes from the side's last linear layer."""
    here = norm.origin
    for _ in range(12):
        if here is None:
            return False
        if here == side.last:
            return True
        if flow.op(here) not in CARRYING | SUMS | SCALINGS or not flow.makers[here]:
            return False
        here = flow.makers[here][0]
    return False


def has_sinks(flow: Flow, site: Site) -> bool:
    """Whether a learned score stands beside the keys when softmax shares out the weights."""
    return any(
        flow.op(node) == "cat" and any(is_learned(flow, record, maker) for record, maker in flow.given(node))
        for node in site.scored
    )


def is_learned(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is a parameter, moved at most."""
    while record.role != "parameter" and maker is not None and flow.op(maker) in CARRYING and flow.makers[maker]:
        record, maker = next(flow.given(maker))
    return record.role == "parameter"


def is_gated(flow: Flow, site: Site, region: Region) -> bool:
    """Whether what the heads found is multiplied by a bent projection of the branch's own input."""
    for node in site.concat:
        if flow.op(node) not in SCALINGS or len(flow.steps[node].inputs) != 2:
            continue
        for record, maker in flow.given(node):
            if maker is None or maker in site.concat or maker == site.weighted_sum or len(record.shape) < 2:
                continue
            behind = list_behind(flow, maker)
            bent = any(flow.op(one) in CURVES for one in behind if one in region.inner)
            if bent and any(is_linear(flow, one) for one in behind if one in region.inner):
                return True
    return False


def name_fusion(query: Side, key: Side, value: Side) -> Literal["qkv", "kv"] | None:
    """Which of the three come out of one linear layer."""
    if query.last is not None and query.last == key.last == value.last:
        return "qkv"
    if key.last is not None and key.last == value.last and key.end.shape and query.last != key.last:
        return "kv"
    return None


def name_kernel(flow: Flow, site: Site) -> str | None:
    """The fused operation that an attention was opened from, or "plain"."""
    step = flow.steps[site.scores]
    if not step.settings.get("derived"):
        return "plain"
    parent = flow.places.get(step.parent or "")
    return None if parent is None else flow.op(parent)


def name_source(flow: Flow, site: Site, key: Side, towers: Mapping[int, str]) -> str | None:
    """Whether keys come from the stream itself, or from which tower's end."""
    if key.is_own:
        return "self"
    here = [maker for maker in (site.key.origin, *key.nodes) if maker is not None]
    seen: set[int] = set()
    while here and len(seen) < 200:
        place = here.pop(0)
        if place in seen:
            continue
        seen.add(place)
        if place in towers:
            return towers[place]
        here += [maker for maker in flow.makers[place] if maker is not None]
    return "self" if site.kind == "self" else None


def read_scores(flow: Flow, site: Site) -> tuple[Positions | None, bool | None, int | None]:
    """What is added to the scores for positions, whether the future is hidden, and how far each query sees.

    Hidden or not is told by the masks' cells, by how a mask is made, or by there being no mask at all; else None.
    """
    bias: Positions | None = None
    masks = []
    for part in read_scored(flow, site.scored):
        if part.kind == "bias" and part.operand is not None:
            bias = name_bias(flow, part.operand.record, part.operand.maker) or bias
        elif part.kind == "mask" and part.operand is not None:
            masks.append(part.operand)
    if has_score_sum(flow, site):
        bias = bias or "relative"
    verdicts = [tell_future(flow, operand.record, operand.maker) for operand in masks]
    window = next((w for operand in masks if (w := read_window(operand.record.mask)) is not None), None)
    if any(verdict is True for verdict in verdicts):
        return bias, True, window
    queries = flow.output(site.softmax).shape[-2:-1]
    if queries == (1,) or any(verdict is None for verdict in verdicts):
        return bias, None, window
    return bias, False, window


def name_bias(flow: Flow, record: TensorRecord, maker: int | None) -> Positions | None:
    """What kind of positions a bias tells of: learned ones by distance, or a slope for each head."""
    if record.role == "parameter":
        return "relative"
    behind = list_behind(flow, maker)
    learned = any(
        (
            flow.op(node) in ("embedding", "index", "gather", "index_select")
            and any(one.role == "parameter" for one in flow.steps[node].inputs)
        )
        or flow.op(node) == "embedding"
        or is_linear(flow, node)
        or is_product(flow, node)
        for node in behind
    )
    if learned:
        return "relative"
    counted = any(flow.op(node) in ("arange", "cumsum") for node in behind)
    sloped = any(flow.op(node) in SCALINGS for node in behind)
    return "alibi" if counted and sloped else None


def has_score_sum(flow: Flow, site: Site) -> bool:
    """Whether another product of the queries is added to the scores, as positions relative to one another are."""
    return any(
        flow.op(node) in SUMS
        and any(
            maker is not None
            and maker not in site.scored
            and any(is_product(flow, one) for one in [maker, *list_behind(flow, maker)[:12]])
            for _, maker in flow.given(node)
        )
        for node in site.scored[1:]
    )


def tell_future(flow: Flow, record: TensorRecord, maker: int | None) -> bool | None:
    """Whether a mask hides what comes later: True or False where that is proven, else None."""
    facts = record.mask
    if facts is not None:
        if facts.kind in CAUSAL:
            return True
        if facts.cells is not None:
            return hides_future(facts)
        if facts.kind in ("none", "padding"):
            return False
    behind = list_behind(flow, maker)
    if any(cuts_triangle(flow, node) for node in behind):
        return True
    if record.shape[-2:-1] == (1,) or (maker is None and len(record.shape) == 2 and record.dtype == "bool"):
        return False
    return None


def hides_future(facts: MaskFacts) -> bool | None:
    """Whether every cell behind the diagonal is hidden in every square of the mask."""
    squares = [square for square in facts.cells or () if len(square) == len(square[0]) and len(square) > 1]
    if not squares:
        return None
    return all(cell != "." for square in squares for row, cells in enumerate(square) for cell in cells[row + 1 :])


def cuts_triangle(flow: Flow, node: int) -> bool:
    """Whether a step cuts a triangle, or asks which of two rows of places comes first."""
    step = flow.steps[node]
    if step.op.rstrip("_") in ("tril", "triu"):
        return True
    if step.op not in ("le", "lt", "ge", "gt") or len(step.inputs) != 2 or not step.outputs:
        return False
    out = step.outputs[0].shape
    if len(out) < 2 or min(out[-2:]) < 2 or any(record.shape == out for record in step.inputs):
        return False
    return all(is_counted(flow, maker) for maker in flow.makers[node])


def is_counted(flow: Flow, maker: int | None) -> bool:
    """Whether a row of places was counted out and only moved since: not shifted by a window's width."""
    while maker is not None and flow.op(maker) in CARRYING | {"add"} and flow.makers[maker]:
        if flow.op(maker) == "add" and flow.steps[maker].settings.get("other") not in (0, None):
            return False
        maker = flow.makers[maker][0]
    return maker is None or flow.op(maker) in ("arange", "cumsum")


def read_window(facts: MaskFacts | None) -> int | None:
    """How many places each query sees at most, if the mask is a band; None if it is not, or too short to tell."""
    if facts is None or not facts.cells:
        return None
    widths = set()
    for square in facts.cells:
        if len(square) != len(square[0]) or len(square) < 3:
            return None
        for row, cells in enumerate(square):
            seen = [place for place, cell in enumerate(cells) if cell == "."]
            if not seen or seen != list(range(seen[0], seen[-1] + 1)) or seen[-1] != row:
                return None
            if seen[0] > 0:
                widths.add(len(seen))
    return widths.pop() if len(widths) == 1 else None


def count_cut_window(flow: Flow, site: Site, query: Side, key: Side, region: Region) -> int | None:
    """How many places a query sees where the places were cut into windows before they attend; None if they were not.

    Both sides of the square are then as long as a window, and shorter than the stream; nothing was pooled.
    """
    square = flow.output(site.scores).shape[-2:]
    stream = flow.output(region.end).shape
    if not key.is_own or len(square) != 2 or square[0] != square[1] or len(stream) < 3:
        return None
    places = prod(stream[1:-1])
    if square[0] >= places or prod(flow.output(site.scores).shape[:-1]) < prod(stream[:-1]):
        return None
    return square[0] if prod(query.end.shape[:-1]) % square[0] == 0 and places // square[0] > 1 else None


def is_plain(flow: Flow, site: Site, sides: tuple[Side, ...]) -> bool:
    """Whether nothing is done to queries and keys but to project, move, scale and normalise them."""
    for side in sides:
        for node in side.nodes:
            if node in side.projections or (side.last is not None and node < side.projections[0]):
                continue
            if flow.op(node) in ("cos", "sin", "view_as_complex", "polar"):
                return False
            if flow.op(node) in SUMS and not any(
                record.role == "parameter" or len(record.shape) < 2 for record in flow.steps[node].inputs
            ):
                if any(node in norm.nodes for other in side.nodes if (norm := find_norm(flow, other)) is not None):
                    continue
                return False
    parts = read_scored(flow, site.scored)
    return all(part.kind in ("scale", "softmax", "mask") for part in parts) and not any(
        part.kind == "mask" and part.operand is not None and part.operand.record.mask is None for part in parts
    )
