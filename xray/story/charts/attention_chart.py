"""The chart of an attention: three ways up, the square of scores, the weighted sum, and back to the stream."""

from dataclasses import dataclass, replace
from math import isclose, prod, sqrt

from xray.ir.kinds import EXCHANGES
from xray.ir.trace import Step
from xray.story.anatomy.tree import Attention
from xray.story.body.stages import Branching, opening_norms, peel_end
from xray.story.branches.operands import Side, read_sides
from xray.story.charts.chart import (
    BROAD,
    CENTRE,
    LEFT,
    RIGHT,
    RIGHT_TWO,
    WHOLE,
    Chart,
    Edge,
    Node,
    Place,
    describe_dropout,
    list_dropouts,
    steps_at,
    steps_with_block,
)
from xray.story.charts.lanes import Part, cut_way, order_rows, take_turn
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.between import Region, find_region, is_linear, width_out
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import SCALINGS
from xray.story.recognition.scored_parts import Scored, read_scored

MOST_ARROWS = 8
SQUARE: Place = (0.46, 0.9)
KEYS_TURNED: Place = (0.46, 0.5)

REMARKS = {
    "linear": "three views of each place: what it looks for, what it offers, what it says",
    "heads": "cut into heads; each head looks on its own",
    "norm": "brought to one length",
    "rotate": "turned by their place, so that scores tell how far apart two are",
    "cache": "with those of the places before",
    "repeat": "each key head is shared by several query heads",
    "scale": "multiplied by a number",
    "bend": "bent place by place",
}


@dataclass(frozen=True)
class Lane:
    """One of the three ways up: its letter, where it stands, its operand, its own parts."""

    letter: str
    place: Place
    side: Side
    parts: tuple[Part, ...]


def chart_attention(flow: Flow, found: Branching) -> Chart:
    """The chart of a branch that is an attention."""
    site, branch = found.site, found.branch
    if site is None or not isinstance(branch, Attention):
        raise ValueError("only an attention has this chart")
    ways = read_attention_lanes(flow, found)
    sides, lanes, shared, turn = ways.sides, ways.own, ways.shared, ways.turn
    nodes: list[Node] = []
    edges: list[Edge] = []
    feet: list[str] = []
    memory: list[str] = []
    row, tops = draw_shared(flow, shared, sides, nodes, edges, feet, memory)
    order = order_rows([lane.parts for lane in lanes])
    for lane in lanes:
        last = tops.get(lane.letter)
        is_waist = any(part.kind == "linear" and part.number for part in lane.parts)
        for part in lane.parts:
            key = f"{part.kind}{part.number}_{lane.letter}"
            nodes.append(lane_node(flow, lane, part, key, row + order.index(part.key), is_waist=is_waist))
            if last is None:
                (feet if lane.side.is_own else memory).append(key)
            else:
                edges.append(Edge(last, key, fan_of(part, branch, lane.letter)))
            last = key
        if last is not None:
            tops[lane.letter] = last
    row += len(order)
    row = draw_square(flow, site, branch, turn, tops, row, nodes, edges)
    head = draw_end(flow, site, branch, found.region, row, nodes, edges)
    memory = list(dict.fromkeys(memory))
    nodes = [name_turn(node, branch) for node in nodes]
    if flow.op(site.scores) != "einsum":
        nodes = name_lengths(nodes, sides)
    nodes = [
        Node(**{**node.__dict__, "surface": "memory", "outline": "ribbon"}) if is_brought(node, lanes) else node
        for node in nodes
    ]
    return Chart(tuple(nodes), tuple(edges), tuple(dict.fromkeys(feet)), head, tuple(memory))


@dataclass(frozen=True)
class Lanes:
    """The ways of queries, keys and values: their operands, the parts that several share, each one's own, the turn."""

    sides: tuple[Side, Side, Side]
    own: tuple[Lane, ...]
    shared: tuple[list[Part], list[Part]]
    turn: Part | None


def read_attention_lanes(flow: Flow, found: Branching) -> Lanes:
    """The ways of an attention's queries, keys and values, the norm that it begins with left out."""
    if found.site is None:
        raise ValueError("only an attention has lanes")
    query, key, value = read_sides(flow, found.site, found.region)
    apart = list_opening(flow, found) | list_weights(flow, query.nodes | key.nodes | value.nodes)
    query, key, value = (replace(side, nodes=side.nodes - apart) for side in (query, key, value))
    return Lanes((query, key, value), *read_lanes(flow, (query, key, value)))


def list_opening(flow: Flow, found: Branching) -> frozenset[int]:
    """The steps of a branch up to the end of the norm that it begins with: they are drawn apart."""
    ends = [norm.end for norm in opening_norms(flow, found.region, found.region.start)]
    return frozenset(node for node in found.region.inner if ends and node <= max(ends))


def list_weights(flow: Flow, nodes: frozenset[int]) -> frozenset[int]:
    """The steps that only move parameters: weights cut in three, say."""
    found: set[int] = set()
    for node in sorted(nodes):
        given = list(flow.given(node))
        if given and all(record.role == "parameter" or maker in found for record, maker in given):
            found.add(node)
    return frozenset(found)


def is_brought(node: Node, lanes: tuple[Lane, ...]) -> bool:
    """Whether a node holds keys or values that another tower made."""
    foreign = {lane.letter for lane in lanes if not lane.side.is_own}
    letters = node.key.rpartition("_")[2]
    return bool(foreign) and bool(letters) and all(letter in foreign for letter in letters)


def read_lanes(
    flow: Flow, sides: tuple[Side, Side, Side]
) -> tuple[tuple[Lane, ...], tuple[list[Part], list[Part]], Part | None]:
    """The three lanes with the parts that are theirs alone; the parts that all share, those that keys and values share.

    Last the turn of the keys, if there is one.
    """
    query, key, value = sides
    common = query.nodes & key.nodes & value.nodes
    pair = (key.nodes & value.nodes) - common
    all_three = cut_way(flow, common, None)
    both = cut_way(flow, pair, None) if any(node in pair for node in key.projections) else []
    if not both:
        pair = frozenset()
    lanes = []
    turn = None
    for letter, place, side in (("q", LEFT, query), ("k", CENTRE, key), ("v", RIGHT, value)):
        parts = cut_way(flow, side.nodes - common - (pair if letter != "q" else frozenset()), side.end)
        if letter == "k":
            parts, turn = take_turn(flow, parts)
        lanes.append(Lane(letter, place, side, tuple(parts)))
    if any(node in common for node in query.projections):
        all_three = trim(all_three)
    return tuple(lanes), (all_three, trim(both)), turn


def trim(parts: list[Part]) -> list[Part]:
    """Shared parts without the moves at their end: the cut that follows is each lane's own to show."""
    while parts and parts[-1].kind == "heads":
        parts = parts[:-1]
    return parts


def draw_shared(
    flow: Flow,
    shared: tuple[list[Part], list[Part]],
    sides: tuple[Side, Side, Side],
    nodes: list[Node],
    edges: list[Edge],
    feet: list[str],
    memory: list[str],
) -> tuple[int, dict[str, str]]:
    """What is made for several lanes at once, at the bottom; gives the next row and each lane's topmost node."""
    tops: dict[str, str] = {}
    row = 0
    all_three, both = shared
    for parts, letters, place, is_own in (
        (all_three, "qkv", WHOLE, True),
        (both, "kv", RIGHT_TWO, sides[1].is_own),
    ):
        last: str | None = None
        start = row if letters == "kv" else 0
        for number, part in enumerate(parts):
            key = f"{part.kind}{part.number}_{letters}"
            label = label_part(flow, part, ", ".join(letters.upper()), narrow=False)
            extra = count_params(flow, part)
            nodes.append(
                Node(
                    key,
                    label,
                    start + number,
                    place,
                    steps_at(flow, *reversed(part.nodes)),
                    part.record,
                    extra,
                    "one linear layer makes several of them" if part.kind == "linear" else "",
                )
            )
            if last is None:
                (feet if is_own else memory).append(key)
            else:
                edges.append(Edge(last, key))
            last = key
        if last is not None:
            tops |= dict.fromkeys(letters, last)
            row = start + len(parts)
    return row, tops


def lane_node(flow: Flow, lane: Lane, part: Part, key: str, row: int, *, is_waist: bool) -> Node:
    """A part of one lane as a node."""
    return Node(
        key,
        f"DOWN {lane.letter.upper()}"
        if is_waist and part.key == ("linear", 0)
        else label_part(flow, part, lane.letter.upper(), narrow=True),
        row,
        lane.place,
        steps_with_block(flow, *reversed(part.nodes)),
        part.record,
        "",
        REMARKS.get(part.kind, ""),
    )


def label_part(flow: Flow, part: Part, letters: str, *, narrow: bool) -> str:
    """What a part of a lane is called."""
    if part.kind == "linear":
        linears = [node for node in part.nodes if is_linear(flow, node)]
        step = flow.steps[linears[0]]
        wide = step.inputs[0].shape[-1] if step.inputs and step.inputs[0].shape else 0
        if len(linears) == 1 and part.number == 0 and width_out(flow, linears[0]) * 2 <= wide and not narrow:
            return f"DOWN TO A WAIST FOR {letters}"
        word = "LINEAR" if part.number == 0 else "UP"
        return (
            f"{word} {letters}" if narrow else f"ONE LINEAR FOR {letters}" if part.number == 0 else f"UP TO {letters}"
        )
    if not narrow and part.kind in ("heads", "bend"):
        ops = [flow.op(node).upper() for node in part.nodes if flow.op(node) in ("pad", "roll")]
        return " AND ".join(ops) if ops else "CUT ANEW"
    if part.kind == "norm":
        return f"NORM {letters}" if narrow else f"NORM OF {letters}"
    if part.kind == "bend":
        return f"{flow.op(part.nodes[-1]).strip('_').replace('_', ' ').upper()} {letters}"
    words = {
        "heads": "HEADS",
        "rotate": "ROTATE",
        "cache": "CACHE",
        "repeat": "REPEAT",
        "scale": "SCALE",
    }
    if part.kind == "repeat":
        times = repeat_times(flow, part)
        return f"REPEAT {letters} ×{times}" if times else f"REPEAT {letters}"
    return f"{words.get(part.kind, part.kind.upper())} {letters}"


def name_lengths(nodes: list[Node], sides: tuple[Side, Side, Side]) -> list[Node]:
    """Axes that the recording has no word for: scores are queries by keys, as long as the stream."""
    query, key, _ = sides
    asked = query.end.axes[-2] if len(query.end.axes) > 1 else ""
    words = [
        node.record.axes[-2] for node in nodes if node.key.endswith("_k") and node.record and len(node.record.axes) > 2
    ]
    seen = next((word for word in words if word not in ("", "1", "d_k")), "")
    length = query.end.shape[-2] if len(query.end.shape) > 1 else 0
    scores = next((node.record for node in nodes if node.key == "scores"), None)
    offered = scores.shape[-1] if scores is not None and scores.shape else 0
    seen = seen or (asked if key.is_own and offered == length else "")
    return [fill_axes(node, asked, length, seen, offered) for node in nodes]


def fill_axes(node: Node, asked: str, queries: int, seen: str, keys: int) -> Node:
    """A node whose record has the words of its lengths."""
    record = node.record
    if record is None or len(record.axes) < 3:
        return node
    wanted: dict[int, tuple[str, int]] = {}
    if node.key.rstrip("0123456789") in ("scores", "mask", "bias", "softmax"):
        wanted = {-2: (asked, queries), -1: (seen, keys)}
    elif node.key == "turn_k":
        wanted = {-1: (seen, keys)}
    elif node.key == "values":
        wanted = {-2: (asked, queries)}
    elif node.key.rpartition("_")[2] in ("k", "v") and len(record.axes) == 4:
        wanted = {-2: (seen, keys)}
    axes = list(record.axes)
    for place, (word, size) in wanted.items():
        if not axes[place] and record.shape[place] == size:
            axes[place] = word
    return replace(node, record=replace(record, axes=tuple(axes)))


def name_turn(node: Node, branch: Attention) -> Node:
    """A rotation is called one only where it is proven to turn by places."""
    if branch.positions == "rotary" or not node.key.startswith("rotate"):
        return node
    return replace(node, label=node.label.replace("ROTATE", "COMBINE"), remark="numbers of a row brought together")


def repeat_times(flow: Flow, part: Part) -> int:
    """By how much a part repeats what it reads."""
    first = flow.steps[part.nodes[0]]
    before = prod(first.inputs[0].shape) if first.inputs else 0
    return prod(part.record.shape) // before if before else 0


def fan_of(part: Part, branch: Attention, letter: str) -> int:
    """How many arrows lead to a part: one for each head behind the cut."""
    if part.kind == "linear" or part.kind == "norm":
        return 1
    heads = branch.heads if letter == "q" or part.kind == "repeat" else branch.kv_heads
    return min(heads or 1, MOST_ARROWS)


def count_params(flow: Flow, part: Part) -> str:
    """The parameters of a part's modules, in words."""
    counted = sum({flow.steps[node].path: flow.steps[node].params for node in part.nodes}.values())
    return f"{counted:,} parameters" if counted else ""


def draw_square(
    flow: Flow,
    site: Site,
    branch: Attention,
    turn: Part | None,
    tops: dict[str, str],
    row: int,
    nodes: list[Node],
    edges: list[Edge],
) -> int:
    """Keys turned, scores, what is done to them, softmax, and the weighted sum; gives the next row."""
    if turn is not None:
        nodes.append(
            Node(
                "turn_k",
                "TRANSPOSE K^T",
                row,
                KEYS_TURNED,
                steps_at(flow, *turn.nodes),
                turn.record,
                "",
                "keys laid on their side to meet every query",
            )
        )
        if "k" in tops:
            edges.append(Edge(tops["k"], "turn_k"))
        tops["k"] = "turn_k"
        row += 1
    parts = read_scored(flow, site.scored)
    scales = [part for part in parts if part.kind == "scale"]
    scaled = {node for part in scales for node in part.nodes} - {site.scores}
    nodes.append(
        Node(
            "scores",
            label_scores(flow, site, scales),
            row,
            SQUARE,
            steps_at(flow, site.scores, *sorted(scaled)),
            flow.output(site.scores),
            "",
            "how well each query meets each key",
        )
    )
    edges += [Edge(tops[letter], "scores") for letter in ("q", "k") if letter in tops]
    row += 1
    last = "scores"
    for number, part in enumerate(part for part in parts if part.kind in ("bias", "mask")):
        key = f"{part.kind}{number}"
        nodes.append(score_node(flow, part, branch, key, row))
        edges.append(Edge(last, key))
        last, row = key, row + 1
    dropped = list_dropouts(flow, site.softmax)
    extra = ", ".join(part for part in (list_extras(flow, site), describe_dropout(flow, dropped)) if part)
    nodes.append(
        Node(
            "softmax",
            label_softmax(flow.steps[site.softmax]),
            row,
            SQUARE,
            (*steps_at(flow, site.softmax), *dropped),
            flow.output(site.softmax),
            extra,
            "each row shares out one whole of attention",
        )
    )
    edges.append(Edge(last, "softmax"))
    row += 1
    nodes.append(
        Node(
            "values",
            "WEIGHTS · V",
            row,
            WHOLE,
            steps_at(flow, site.weighted_sum),
            flow.output(site.weighted_sum),
            "",
            "what the values say, mixed by weight",
        )
    )
    edges.append(Edge("softmax", "values"))
    if "v" in tops:
        edges.append(Edge(tops["v"], "values"))
    return row + 1


def score_node(flow: Flow, part: Scored, branch: Attention, key: str, row: int) -> Node:
    """What is added to the scores: a mask, or a bias for positions. A bias is named only if it is known to be one."""
    record = part.operand.record if part.operand is not None else None
    out = flow.output(part.nodes[-1])
    steps = steps_at(flow, *reversed(part.nodes))
    extra = "broadcast" if record is not None and record.shape != out.shape else ""
    if part.kind == "mask":
        hides = "what may not be seen is pushed far down"
        return Node(key, "MASK", row, SQUARE, steps, out, extra, hides, "mask", beside=record)
    named = {"alibi": "+ SLOPES BY DISTANCE (ALiBi)", "relative": "+ BIAS OF RELATIVE PLACES"}
    label = named.get(branch.positions or "", "+ A BIAS")
    remark = "how far apart two are counts too" if branch.positions in named else "something is added to the scores"
    return Node(key, label, row, SQUARE, steps, out, extra, remark, beside=record)


def label_scores(flow: Flow, site: Site, scales: list[Scored]) -> str:
    """Queries times keys, and the factor where it is known."""
    step = flow.steps[site.scores]
    width = step.inputs[-2].shape[-1] if len(step.inputs) > 1 and step.inputs[-2].shape else 0
    told = [name_factor(flow.steps[node], width) for part in scales for node in part.nodes if flow.op(node) in SCALINGS]
    told = [one for one in told if one]
    return "SCORES Q·K^T" + (f" {told[0]}" if len(told) == 1 else " · scaled" if told else "")


def name_factor(step: Step, width: int) -> str:
    """A scaling as it is written: by the root of the head's width where it is that, else the number."""
    value = step.settings.get("factor", step.settings.get("other"))
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return "· scaled"
    factor = 1 / value if step.op.startswith(("div", "true_div")) else float(value)
    if factor == 1:
        return ""
    return "÷ √d_k" if width and isclose(factor, 1 / sqrt(width), rel_tol=1e-3) else f"· {factor:.4g}"


def label_softmax(step: Step) -> str:
    dim = step.settings.get("dim")
    return f"SOFTMAX dim {dim}".replace("-", "−") if isinstance(dim, int) else "SOFTMAX"


def list_extras(flow: Flow, site: Site) -> str:
    """What else happens around the softmax: a cap, sinks."""
    found = []
    if any(flow.op(node) == "tanh" for node in site.scored):
        found.append("scores capped by tanh")
    if any(flow.op(node) == "cat" for node in site.scored):
        found.append("with a sink")
    return ", ".join(found)


def draw_end(
    flow: Flow, site: Site, branch: Attention, region: Region, row: int, nodes: list[Node], edges: list[Edge]
) -> str:
    """Heads joined, gated, projected back, normalised; gives the last node."""
    last = "values"
    closing, _ = peel_end(flow, region)
    end = region.end if closing is None or closing.origin is None else closing.origin
    moves = site.concat
    gate = next((node for node in moves if flow.op(node) in SCALINGS and len(flow.steps[node].inputs) == 2), None)
    joined = [node for node in moves if gate is None or node < gate] or moves
    if joined and flow.output(joined[-1]).shape != flow.output(site.weighted_sum).shape:
        nodes.append(
            Node(
                "concat",
                "CONCAT HEADS",
                row,
                BROAD,
                steps_with_block(flow, *reversed(joined)),
                flow.output(joined[-1]),
                "",
                "the heads side by side again",
            )
        )
        edges.append(Edge(last, "concat", min(branch.heads or 1, MOST_ARROWS)))
        last, row = "concat", row + 1
    if gate is not None:
        nodes.append(
            Node(
                "gate",
                "× GATE",
                row,
                BROAD,
                steps_at(flow, gate),
                flow.output(gate),
                "",
                "opened or closed by the stream itself" if branch.gate else "multiplied in",
            )
        )
        edges.append(Edge(last, "gate"))
        last, row = "gate", row + 1
    if site.output is not None:
        step = flow.steps[site.output]
        extra = f"{step.params:,} parameters" if step.params else ""
        nodes.append(
            Node("output", "LINEAR O", row, BROAD, (step,), flow.output(site.output), extra, "lets the heads mix")
        )
        edges.append(Edge(last, "output"))
        last, row = "output", row + 1
    start = site.output if site.output is not None else joined[-1] if joined else site.weighted_sum
    tail = find_region(flow, start, end)
    for number, part in enumerate(cut_way(flow, tail.inner, None) if tail is not None else []):
        if part.kind not in ("heads", "bend", "scale", "rotate"):
            continue
        label = "ROLLED BACK" if any(flow.op(node) == "roll" for node in part.nodes) else None
        if any(flow.op(node) in EXCHANGES for node in part.nodes):
            label = "ADDED UP OVER RANKS"
        label = label or {"heads": "CUT ANEW", "scale": "SCALE"}.get(part.kind, "MULTIPLIED")
        nodes.append(Node(f"tail{number}", label, row, BROAD, steps_at(flow, *reversed(part.nodes)), part.record))
        edges.append(Edge(last, f"tail{number}"))
        last, row = f"tail{number}", row + 1
    return last
