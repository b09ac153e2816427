"""The three ways up to an attention: queries, keys and values, what they share, and what each part is called."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, JOINS, SIDE_BY_SIDE, WRITES
from xray.ir.flow.remembering import once
from xray.ir.kinds import PADDINGS
from xray.story.anatomy.attentions import ANOTHER_ROW, Attention
from xray.story.attention.factors import UNKNOWN_FACTOR, name_factor
from xray.story.attention.ways.lanes import (
    Part,
    cut_way,
    ends_norm,
    lay_out,
    list_laid_out,
    list_opening,
    list_weights,
    take_turn,
)
from xray.story.attention.ways.part_names import (
    AND_MORE,
    keeps_rows,
    label_part,
    leads_to_linear,
    makes,
    name_part,
    parts_rows,
)
from xray.story.body.stages import Branching
from xray.story.branches.feed_forward import SPLITTERS
from xray.story.branches.operands.sides import Side, read_sides
from xray.story.charts.chart import CENTRE, LEFT, LEFT_TWO, RIGHT, RIGHT_TWO, WHOLE, Edge, Node, Place, steps_at
from xray.story.charts.counted_weights import describe_params, steps_with_block
from xray.story.charts.norms_apart import CUT_ANEW
from xray.story.experts.chosen_heads import count_chosen_in
from xray.story.recognition.between import is_linear, is_scale, is_times_one, puts_around
from xray.story.recognition.chosen_rows import picks_best
from xray.story.recognition.norms import find_norm, name_norm
from xray.story.recognition.turning import is_by_place
from xray.story.sentences.of_parts import CHOSEN
from xray.story.streams.asides import list_carried_readers

MOST_ARROWS = 8


@dataclass(frozen=True)
class Lane:
    """One of the three ways up: its letter, where it stands, its operand, its own parts."""

    letter: str
    place: Place
    side: Side
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Lanes:
    """The ways of queries, keys and values: their operands, the parts that several share, each one's own, the turn."""

    sides: tuple[Side, Side, Side]
    own: tuple[Lane, ...]
    shared: tuple[list[Part], list[Part], list[Part]]
    turn: Part | None


def read_attention_lanes(flow: Flow, found: Branching) -> Lanes:
    """The ways of an attention's queries, keys and values, the norm that it begins with left out."""
    if found.site is None:
        raise ValueError("only an attention has lanes")
    query, key, value = read_sides(flow, found.site, found.region)
    apart = list_opening(flow, found) | list_weights(flow, query.nodes | key.nodes | value.nodes)
    apart |= {node for node in query.nodes | key.nodes | value.nodes if ends_norm(flow, node, found.region)}
    if isinstance(found.branch, Attention) and found.branch.source == ANOTHER_ROW:
        apart |= list_laid_out(flow, (query, key, value))
    apart |= list_of_stream(flow, found, query.nodes & key.nodes & value.nodes)
    apart |= {node for node in query.nodes | key.nodes | value.nodes if is_times_one(flow, node)}  # Falcon-H1's keys
    query, key, value = (replace(side, nodes=side.nodes - apart) for side in (query, key, value))
    query = replace(query, nodes=query.nodes - list_chosen_by(flow, query, key.nodes - value.nodes))
    key, value = (replace(one, nodes=list_later(flow, one)) for one in (key, value))
    return Lanes((query, key, value), *read_lanes(flow, (query, key, value)))


def list_of_stream(flow: Flow, found: Branching, shared: Collection[int]) -> set[int]:
    """The steps that scale what all three begin with and the stream that goes by them too: none of theirs (LXMERT)."""
    inner, scales = found.region.inner, [node for node in shared if is_scale(flow, node)]
    read = {node: [one for one in list_carried_readers(flow, node) if flow.is_leaf(one)] for node in scales}
    return {node for node, readers in read.items() if not inner.issuperset(readers)}


def list_chosen_by(flow: Flow, query: Side, keys: frozenset[int]) -> frozenset[int]:
    """The steps of the keys by which queries are chosen: they are none of the queries' own, which have others."""
    is_chosen = any(picks_best(flow, node) for node in query.nodes)
    has_own = any(is_linear(flow, node) for node in query.nodes - keys)
    return query.nodes & keys if is_chosen and has_own else frozenset()


def list_later(flow: Flow, side: Side) -> frozenset[int]:
    """The steps of a way behind what an earlier layer made."""
    first = min(side.nodes, default=len(flow.steps))
    return side.nodes.difference(flow.behind(side.earlier, within=lambda here: here >= first))


def is_brought(node: Node, lanes: tuple[Lane, ...]) -> bool:
    """Whether a node holds keys or values that another tower made."""
    foreign = {lane.letter for lane in lanes if not lane.side.is_own}
    letters = node.key.rpartition("_")[2]
    return bool(foreign) and bool(letters) and all(letter in foreign for letter in letters)


def read_lanes(
    flow: Flow, sides: tuple[Side, Side, Side]
) -> tuple[tuple[Lane, ...], tuple[list[Part], list[Part], list[Part]], Part | None]:
    """The three lanes with the parts that are theirs alone; the parts that all share, and those that two of them do.

    These are keys and values, or queries and keys. Last the turn of the keys, if there is one.
    """
    query, key, value = sides
    common = query.nodes & key.nodes & value.nodes
    pair = (key.nodes & value.nodes) - common
    all_three = gather_layers(flow, cut_way(flow, common, None))
    both = cut_way(flow, pair, None) if any(flow.op(node) not in CARRYING | DROPOUTS for node in pair) else []
    if not both:
        pair = frozenset()
    asking = frozenset() if pair else list_asking(flow, query, key, common)
    shared = {"q": common | asking, "k": common | pair | asking, "v": common | pair}
    lanes = []
    turn = None
    for letter, place, side in (("q", LEFT, query), ("k", CENTRE, key), ("v", RIGHT, value)):
        parts = lay_out(cut_way(flow, side.nodes - shared[letter], side.end))
        if letter == "k":
            parts, turn = take_turn(flow, parts)
        if side.earlier is not None:
            parts = [Part("earlier", (side.earlier,), flow.output(side.earlier)), *parts]
        lanes.append(Lane(letter, place, side, tuple(parts)))
    cuts_apart = any(part.kind == "heads" for lane in lanes for part in lane.parts)
    if cuts_apart and any(node in common for node in query.projections):
        all_three = trim(all_three)
    return tuple(lanes), (all_three, gather_layers(flow, trim(both)), cut_way(flow, asking, None)), turn


def list_asking(flow: Flow, query: Side, key: Side, common: Collection[int]) -> frozenset[int]:
    """The steps up to the one linear layer that makes queries and keys, and no values, if no other stands before it.

    Where one makes all three, the steps behind it that work on queries and keys at once, side by side (Raven).
    """
    lasts = {max((node for node in side.nodes if is_linear(flow, node)), default=None) for side in (query, key)}
    (last,) = lasts if len(lasts) == 1 else (None,)
    if last in common:
        both = frozenset(node for node in query.nodes & key.nodes if node not in common)
        return (
            both if any(flow.op(node) in SIDE_BY_SIDE and len(flow.makers[node]) > 1 for node in both) else frozenset()
        )
    if last is None:
        return frozenset()
    found = frozenset(node for node in (query.nodes & key.nodes) - {*common} if node <= last)
    return found if sum(is_linear(flow, node) for node in found) == 1 else frozenset()


def gather_layers(flow: Flow, parts: Sequence[Part]) -> list[Part]:
    """Shared parts, with linear layers of which none reads another in one, where one tensor then holds what they give.

    Each may make keys alone, or values alone (min-dalle's cache). What writes them there is a part by itself.
    """
    found: list[Part] = []
    for part in parts:
        first = next((place for place, one in enumerate(found) if one.kind == "linear"), None)
        end = next((one for one in reversed(part.nodes) if not leaves_all(flow, one)), part.nodes[-1])
        is_joined = part.kind == "rotate" and flow.op(end) in JOINS | WRITES | {"stack"}
        if first is None or not is_joined or not any(is_linear(flow, node) for node in part.nodes):
            found.append(part)
            continue
        nodes = [node for one in (*found[first:], part) for node in one.nodes]
        written = tuple(node for node in nodes if flow.op(node) in WRITES)
        made = tuple(node for node in nodes if node not in written)
        found[first:] = [replace(found[first], nodes=made, record=flow.output(made[-1]))]
        found += [Part("cache", written, part.record)] if written else []
    return found


def leaves_all(flow: Flow, node: int) -> bool:
    """Whether a step puts no numbers around those that it is given, where others of its kind do, or takes all rows."""
    is_whole = flow.op(node) == "index" and prod(flow.steps[node].inputs[0].shape) == prod(flow.output(node).shape)
    return is_whole or (flow.op(node) in PADDINGS and not puts_around(flow, node))


def trim(parts: list[Part]) -> list[Part]:
    """Shared parts without the moves at their end: the cut that follows is each lane's own to show."""
    while parts and parts[-1].kind == "heads":
        parts = parts[:-1]
    return parts


def draw_shared(
    flow: Flow,
    ways: Lanes,
    nodes: list[Node],
    edges: list[Edge],
    feet: list[str],
    memory: list[str],
    branch: Attention,
) -> tuple[int, dict[str, str]]:
    """What is made for several lanes at once, at the bottom; gives the next row and each lane's topmost node.

    A norm of what no layer has made them of yet is told by its kind alone.
    """
    tops: dict[str, str] = {}
    row, sides = 0, ways.sides
    all_three, both, asking = ways.shared
    common = frozenset[int].intersection(*(side.nodes for side in sides))
    for parts, letters, place, is_own in (
        (all_three, "qkv", WHOLE, True),
        (both, "kv", RIGHT_TWO, sides[1].is_own),
        (asking, "qk", LEFT_TWO, True),
    ):
        last: str | None = None
        start = row if len(letters) == 2 else 0
        cuts = [part for part in parts if branch.window and cuts_windows(flow, part, branch.window)]
        for number, part in enumerate(parts):
            asked = [(letter, side) for letter, side in zip("qkv", sides, strict=True) if letter in letters]
            made = [letter for letter, side in asked if makes(flow, part, side)]
            lone = made if part.kind == "linear" and len(made) == 1 else letters
            key, told = name_part(flow, part, "".join(lone)), ", ".join(made).upper()
            is_waist, is_early_norm = letters == "kv" and branch.latent is not None, part.kind == "norm" and not made
            label = label_part(flow, part, ", ".join(letters.upper()), narrow=False, made=told, is_waist=is_waist)
            if part in cuts[-1:]:  # before it they may be laid out as a map with as many columns (Swin2SR)
                label = f"CUT INTO WINDOWS OF {branch.window}"
            elif label == CUT_ANEW and cuts_all_heads(flow, part, branch):
                label = f"HEADS OF {', '.join(letters.upper())}"
            elif is_early_norm and (letters == "qkv" or (label.startswith("NORM OF") and not is_waist)):
                label = label_norm_before(flow, part, label)
            elif factor := name_scaling(flow, part):
                label = name_scaled(flow, part, letters, factor)
            extra = describe_params(flow, *part.nodes)
            nodes.append(
                Node(key, label, start + number, place, steps_at(flow, *reversed(part.nodes)), part.record, extra)
            )
            if last is None and len(letters) == 2 and reads_any(flow, part, common):
                last = tops.get("k")
            if last is None:
                (feet if is_own else memory).append(key)
            else:
                edges.append(Edge(last, key))
            last = key
        if last is not None:
            tops |= dict.fromkeys(letters, last)
            row = start + len(parts)
    return row, tops


def name_scaled(flow: Flow, part: Part, letters: str, factor: str) -> str:
    """What a part is called that multiplies by one number what queries, keys or values are made of, or these."""
    if leads_to_linear(flow, part.nodes[-1]):
        return factor.replace("· ", "× ")
    return f"{', '.join(letters.upper())} {factor}"


def label_norm_before(flow: Flow, part: Part, label: str) -> str:
    """What a norm is called where linear layers behind it make queries, keys and values: its kind alone."""
    norm = next((one for node in reversed(part.nodes) if (one := find_norm(flow, node)) is not None), None)
    kind = None if norm is None else name_norm(flow, norm)
    return f"{kind.upper()} NORM" if kind in ("layer", "rms") else label


def reads_any(flow: Flow, part: Part, nodes: Collection[int]) -> bool:
    """Whether a part works on what some steps made."""
    return any(maker in nodes for node in part.nodes for maker in flow.makers[node])


def cuts_windows(flow: Flow, part: Part, window: int) -> bool:
    """Whether a move makes a row of its own of every so many places of a longer one."""
    given = flow.steps[part.nodes[0]].inputs
    before, after = (given[0].shape if given else ()), part.record.shape
    if part.kind != "heads" or len(after) < 3 or prod(before) != prod(after) or before[-1:] != after[-1:]:
        return False
    return after[-2] == window or (after[0] > before[0] and prod(after[1:-1]) == window)


def cuts_all_heads(flow: Flow, part: Part, branch: Attention) -> bool:
    """Whether moves make rows of one head of wide ones, as many as the attention has heads (Hiera)."""
    given, after = flow.steps[part.nodes[0]].inputs, part.record.shape
    if not branch.heads or not branch.d_k or branch.heads == 1 or part.kind != "heads" or keeps_rows(flow, part):
        return False
    if leads_to_linear(flow, part.nodes[-1]):
        return False
    is_whole = given[0].shape[-1] % (branch.heads * branch.d_k) == 0
    return is_whole and after[-1:] == (branch.d_k,) and branch.heads in after[:-1]


def lane_node(flow: Flow, lane: Lane, part: Part, key: str, row: int, *, is_waist: bool, width: int = 0) -> Node:
    """A part of one lane as a node; `width` is that of a head, by the root of which rows may be divided."""
    letter = lane.letter.upper()
    made = letter * makes(flow, part, lane.side)
    by_place = part.kind == "scale" and any(is_by_place(flow, node) for node in part.nodes)
    factor = name_scaling(flow, part, width)
    is_more = makes_more(flow, lane, lane.parts.index(part))
    label = label_part(flow, part, letter, narrow=True, made=made, is_waist=is_waist)
    chosen = count_chosen_in(flow, part.nodes) if part.kind == "linear" else None
    return Node(
        key,
        f"{letter} · f(place)"
        if by_place
        else f"{letter} {factor}"
        if factor
        else label + AND_MORE * (is_more and label.endswith(letter)),
        row,
        lane.place,
        steps_with_block(flow, *reversed(part.nodes)),
        part.record,
        "" if chosen is None else describe_params(flow, *part.nodes),
        told=() if chosen is None else (CHOSEN.format(chosen=chosen[0], experts=chosen[1]),),
    )


def makes_more(flow: Flow, lane: Lane, place: int) -> bool:
    """Whether a part of a way makes more than that takes; not known where something else is put beside it later."""
    own, later = lane.side.nodes | list_ways(flow), lane.parts[place + 1 :]
    if not any(leaves_more(flow, one, own) for one in later):
        return False
    joins = (node for one in later for node in one.nodes if flow.op(node) in SIDE_BY_SIDE)
    joined = {maker for node in joins for maker in flow.makers[node] if maker is not None}
    end = lane.parts[place].nodes[-1]
    return all(end in flow.behind(maker, within=own.__contains__) for maker in joined)


def leaves_more(flow: Flow, part: Part, way: Collection[int]) -> bool:
    """Whether a part leaves some numbers of each row alone, or one piece of several, and others go elsewhere."""
    given = flow.steps[part.nodes[0]].inputs
    is_narrowed = parts_rows(flow, part) and given[0].shape[-1] > part.record.shape[-1]
    return is_narrowed or any(hands_elsewhere(flow, node, way) for node in part.nodes)


def hands_elsewhere(flow: Flow, cut: int, way: Collection[int]) -> bool:
    """Whether a step cuts what it is given into pieces alike, of which a way takes some, and steps beside it others."""
    if flow.op(cut) not in SPLITTERS or len({piece.shape for piece in flow.steps[cut].outputs}) > 1:
        return False
    readers = [(one, record) for one in flow.leaf_readers(cut) for record, maker in flow.given(one) if maker == cut]
    taken = {record.output for one, record in readers if one in way}
    return bool(taken) and any(record.output not in taken for _, record in readers)


@once
def list_ways(flow: Flow) -> frozenset[int]:
    """The steps on the ways of all queries, keys and values, with those that read these at last."""
    ways = ((*site.query.nodes, *site.key.nodes, *site.value.nodes) for site in list_sites(flow))
    ends = {end for site in list_sites(flow) for end in (site.scores, site.weighted_sum)}
    return frozenset(ends.union(*ways))


def name_scaling(flow: Flow, part: Part, width: int = 0) -> str:
    """By what a part multiplies, where that is one number and is known; what joins to nothing changes nothing."""
    changing = [node for node in part.nodes if flow.op(node) not in CARRYING and not joins_nothing(flow, node)]
    factors = {name_factor(flow, node, width) for node in changing} if part.kind == "scale" else set()
    factor = factors.pop() if len(factors) == 1 else ""
    return "" if factor == UNKNOWN_FACTOR else factor


def joins_nothing(flow: Flow, node: int) -> bool:
    """Whether a step lays rows behind none, as those of the first words behind an empty cache."""
    given = [record for record in flow.steps[node].inputs if 0 not in record.shape]
    return flow.op(node) in JOINS and len(given) == 1 < len(flow.steps[node].inputs)


def fan_of(part: Part, branch: Attention, letter: str) -> int:
    """How many arrows lead to a part: one for each head behind the cut."""
    is_one = part.kind != "repeat" and len(part.record.shape) > 3 and part.record.shape[1:2] == (1,)
    if part.kind in ("lay", "linear", "norm") or part.record.axes[1:2] == ("1",) or is_one:
        return 1
    heads = branch.heads if letter == "q" or part.kind == "repeat" else branch.kv_heads
    return min(heads or 1, MOST_ARROWS)
