"""The square of an attention: scores, what is done to them, softmax, and the weighted sum."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf

from xray.ir.flow.attention_sites import LAYING, NO_WEIGHT, Site, has_keys_first, lies_in_columns, list_turns
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CLAMPS, CURVES, DIFFERENCES, SCALINGS, SHAPING
from xray.ir.flow.weights import gather_weights
from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.anatomy.attentions import Attention
from xray.story.attention.factors import HIGHEST, SQUARE, factor_node, is_factor, name_factors, read_alpha
from xray.story.attention.made_beside import (
    Beside,
    Origin,
    count_readers,
    find_joined_scores,
    find_origin,
    is_gated,
    is_of_sines,
    list_hiding,
    list_made,
    list_products_beside,
    list_shared,
    meets_query,
    name_table_factor,
)
from xray.story.attention.ways.lanes import Part
from xray.story.attention.ways.shares import draw_mixed, mix_node, name_change
from xray.story.attention.zeroed import ZEROED, find_zeroing, zeroing_node
from xray.story.branches.scored.biases import goes_by_places, name_addend
from xray.story.branches.scored.caps import list_cap
from xray.story.branches.scored.scores import has_sinks_inside
from xray.story.branches.scored.visible import find_choice
from xray.story.branches.weighed import list_other_scores
from xray.story.charts.chart import WHOLE, Edge, Node, Place, Surface, steps_at
from xray.story.charts.counted_weights import MOVES, count_params, describe_params, weights_at
from xray.story.charts.dropouts import describe_dropout, list_dropouts, list_kernels
from xray.story.recognition.addends import is_only_named, takes_one_of_two
from xray.story.recognition.score_operands import Scored
from xray.story.recognition.scored_parts import read_scored
from xray.story.sentences.of_parts import (
    BENT,
    HELD_CAP,
    OF_SINES,
    ONE_TABLE,
    OUTSIDE,
    PIECES,
    ROWS_SCALED,
    SHARED_NUMBERS,
    describe_box,
    tell_origin,
)
from xray.story.wording import plural

KEYS_TURNED: Place = (0.46, 0.5)
CHOOSER: Place = (0.37, 0.72)
ADDED = ("bias", "mask", "changed", "kept", "mix", "mixed_mask")
HIGHEST_KEPT, REPLACED = "EACH ROW'S {many:,} HIGHEST, ELSE HIDDEN", "REPLACED WHERE SCORES SAY SO"
BIASES = {"alibi": "+ SLOPES BY DISTANCE (ALiBi)", "relative": "+ BIAS OF RELATIVE PLACES"}
OTHER_SCORES = {
    None: "+ SCORES OF ANOTHER ATTENTION",
    "before": "+ SCORES OF THE ATTENTION BEFORE",
    "earlier": "+ SCORES OF AN EARLIER ATTENTION",
}


def draw_square(
    flow: Flow,
    site: Site,
    branch: Attention,
    turn: Part | None,
    tops: dict[str, str],
    row: int,
    nodes: list[Node],
    edges: list[Edge],
    feet: list[str],
    beside: Beside,
) -> int:
    """Keys turned, scores, what is done to them, softmax, and the weighted sum; gives the next row."""
    if turn is not None:
        nodes.append(Node("turn_k", "TRANSPOSE K^T", row, KEYS_TURNED, steps_at(flow, *turn.nodes), turn.record))
        if "k" in tops:
            edges.append(Edge(tops["k"], "turn_k"))
        tops["k"] = "turn_k"
        row += 1
    parts = read_scored(flow, site.scored)
    capped = list_cap(flow, site.scored)
    added = next(
        (place for place, part in enumerate(parts) if part.kind in ADDED or max(part.nodes) > max(capped, default=inf)),
        len(parts),
    )
    later = [part for part in parts[added:] if part.kind in ADDED or is_factor(flow, part, site, capped)]
    scales = [part for part in parts[:added] if part.kind == "scale" and set(capped).isdisjoint(part.nodes)]
    scaled = {node for part in scales for node in part.nodes} - {site.scores}
    nodes.append(
        Node(
            "scores",
            label_scores(flow, site, scales),
            row,
            SQUARE,
            steps_at(flow, site.scores, *sorted(scaled)),
            flow.output(site.scores),
            describe_bends(flow, site, capped),
        )
    )
    edges += [Edge(tops[letter], "scores") for letter in ("q", "k") if letter in tops]
    row += 1
    last = "scores"
    joined = find_joined_scores(flow, site, beside.inside)
    if joined is not None and all(min(part.nodes) > joined[0] for part in later):
        nodes.append(joined_node(flow, site, *joined, key="joined", row=row))
        led, is_begun = beside.lead_in(flow, joined[1], "joined")
        edges += [Edge(last, "joined"), *led]
        feet += ["joined"] if is_begun else []
        last, row = "joined", row + 1
    last, row = draw_columns(flow, site, last, row, nodes, edges)
    own = [node for node in parts[-1].nodes[:-1] if node not in capped]  # such as the largest that is taken away
    below = sum(max(part.nodes) < capped[0] for part in later) if capped else None
    seen = set[int]()
    for number, part in enumerate((*later, None)):
        if number == below:
            nodes.append(cap_node(flow, capped, branch, row))
            edges.append(Edge(last, "cap"))
            last, row = "cap", row + 1
        if part is None:
            break
        is_own = part.kind == "bias" or (part.kind == "mask" and (branch.chosen_keys or branch.other_rows))
        hiding = list_hiding(flow, part, later, beside.inside)
        made = list_made(flow, part, site, beside.inside) if is_own else []
        made = [node for node in made if node not in hiding]
        key = f"{name_scored(flow, part, site, branch, made)}{number}"
        source = "chooser" if made and part.kind == "mask" else key
        if source != key:
            nodes.append(chooser_node(flow, site, made, row))
            edges.append(Edge(source, key))
            row += 1
        led, is_begun = beside.lead_in(flow, made, source)
        edges += led
        feet += [source] if is_begun else []
        held = [node for node in own if node < min(part.nodes)]
        own = [node for node in own if node not in held]
        if part.kind == "scale":
            box = factor_node(flow, part, site, key=key, row=row)
        elif part.kind == "mix":
            box = mix_node(flow, part.nodes, "SCORES", key, row)
        elif part.kind == "kept":
            box = own_node(flow, part, site, branch=branch, key=key, row=row)
        else:
            box = score_node(flow, part, site, branch=branch, made=made, hiding=hiding, seen=seen, key=key, row=row)
            seen |= {*part.nodes, *made}
        nodes.append(replace(box, steps=(*box.steps, *steps_at(flow, *held))))
        edges.append(Edge(last, key))
        last, row = key, row + 1
    dropped = list_dropouts(flow, site.softmax)
    inside = has_sinks_inside(flow, site)
    sink = describe_box("sink", branch) if inside else ""
    shares = describe_dropout(flow, dropped or list_kernels(flow, site.softmax))
    written = "written out" if site.softmax in flow.written else ""
    extra = ", ".join(part for part in (written, sink, shares) if part)
    key = "shares" if branch.sinks and not inside else "softmax"
    bent = list_bent(flow, site) if inside else []
    nodes.append(
        Node(
            key,
            label_softmax(flow.steps[site.softmax]),
            row,
            SQUARE,
            (*steps_at(flow, site.softmax, *bent, *own), *dropped),
            flow.output(site.softmax),
            extra,
        )
    )
    edges.append(Edge(last, key))
    row += 1
    key, row = draw_mixed(flow, site, key, row, nodes, edges)
    zeroing = find_zeroing(flow, site)
    if zeroing is not None:
        nodes.append(zeroing_node(flow, zeroing, row))
        edges.append(Edge(key, "zeroed"))
        key, row = "zeroed", row + 1
    laid = [node for node in site.weighed if flow.op(node) in LAYING] if lies_in_columns(flow, site) else []
    if laid:
        steps = steps_at(flow, site.weighed[-1], *(node for node in site.weighed[:-1] if node >= laid[0]))
        nodes.append(Node("diagonals", "COLUMNS AS DIAGONALS", row, SQUARE, steps, flow.output(site.weighed[-1])))
        edges.append(Edge(key, "diagonals"))
        key, row = "diagonals", row + 1
    nodes.append(
        Node(
            "values",
            "WEIGHTS · V",
            row,
            WHOLE,
            steps_at(flow, site.weighted_sum),
            flow.output(site.weighted_sum),
        )
    )
    edges.append(Edge(key, "values"))
    if "v" in tops:
        edges.append(Edge(tops["v"], "values"))
    return row + 1


def describe_bends(flow: Flow, site: Site, capped: Collection[int]) -> str:
    """How scores are bent or held within bounds behind their product, where that is no cap: "" where they are not.

    Bounds as far away as those that hide a score only keep numbers of half the width from running over.
    """
    bends = [node for node in site.scored[1:-1] if flow.op(node) in CURVES and node not in capped]
    held = [node for node in site.scored[1:-1] if flow.op(node) in CLAMPS and is_tight(flow.steps[node])]
    told = ", ".join(flow.op(node).strip("_") for node in sorted((*bends, *held)))
    return f"{BENT}{told}" * bool(told)


def is_tight(step: Step) -> bool:
    """Whether a step holds numbers within a bound that scores may well reach."""
    return any(isinstance(one, int | float) and abs(one) < -NO_WEIGHT for one in step.settings.values())


def draw_columns(flow: Flow, site: Site, last: str, row: int, nodes: list[Node], edges: list[Edge]) -> tuple[str, int]:
    """The diagonals of the scores laid out as columns, one for each distance, before anything hides some of them."""
    laid = lies_in_columns(flow, site)
    shape = flow.output(site.softmax).shape
    moved = [node for node in site.scored[1:-1] if flow.output(node).shape != shape]
    if not laid or not moved:
        return last, row
    whole = [node for node in site.scored if node > moved[-1] and flow.op(node) in SHAPING]
    end = whole[0] if whole else moved[-1]
    steps = steps_at(flow, end, *(node for node in site.scored[1:] if node < end))
    nodes.append(Node("columns", "DIAGONALS AS COLUMNS", row, SQUARE, steps, flow.output(end)))
    edges.append(Edge(last, "columns"))
    return "columns", row + 1


def name_scored(flow: Flow, part: Scored, site: Site, branch: Attention, made: Sequence[int]) -> str:
    """What the box of a part is known by; a bias beside that of places is of none, as of kinds (Funnel, XLNet)."""
    if part.kind == "bias":
        of_kinds = any(takes_one_of_two(flow, node) and flow.output(node).is_float for node in made)
        is_beside = branch.positions in BIASES and not goes_by_places(flow, site, part)
        return "kinds" if of_kinds or is_beside else "bias"
    if part.kind == "mask" and flow.op(part.nodes[0]) in SCALINGS:
        return "zeroed"
    if part.kind == "mask" and part.operand is not None and is_only_named(flow, part.operand):
        return "named_mask"
    return {"scale": "factor", "kept": "highest"}.get(part.kind, part.kind)


def own_node(flow: Flow, part: Scored, site: Site, *, branch: Attention, key: str, row: int) -> Node:
    """What hides scores by what they are themselves, with what works out which of them."""
    own = {*site.scored}
    made = sorted({*flow.behind(*part.nodes, within=lambda node: node not in own or node in part.nodes)} - own)
    steps = steps_at(flow, *part.nodes, *(node for node in reversed(made) if flow.is_leaf(node)))
    label = HIGHEST_KEPT.format(many=branch.kept_scores) if branch.kept_scores else REPLACED
    return Node(key, label, row, SQUARE, steps, flow.output(part.nodes[-1]))


def joined_node(flow: Flow, site: Site, join: int, made: Sequence[int], *, key: str, row: int) -> Node:
    """Other scores of the same queries laid beside the scores."""
    extra = describe_own(flow, site, made)
    return Node(
        key, "BESIDE OTHER SCORES", row, SQUARE, steps_at(flow, join, *reversed(made)), flow.output(join), extra
    )


def describe_own(flow: Flow, site: Site, made: Sequence[int], seen: Collection[int] = ()) -> str:
    """The parameters of what stands beside an attention; not again those by which its queries, keys and values go.

    Rows for relative places may go through the same (DeBERTa-v2, SEW-D), and keys of other rows (PEGASUS-X). Nor those
    of steps `seen` in a box below, as of places that two biases read.
    """
    ways = {flow.steps[node].path for way in (site.query, site.key, site.value) for node in way.nodes}
    again = [node for node in made if node in seen or (flow.steps[node].params and flow.steps[node].path in ways)]
    own = describe_params(flow, *(node for node in made if node not in again))
    return own or "same weights" * bool(count_params(flow, *again))


def chooser_node(flow: Flow, site: Site, made: Sequence[int], row: int) -> Node:
    """The other scores by which keys are chosen, or those of the keys that are none of the places (DeepSeek-V4)."""
    choice = find_choice(flow, site)
    highest = next((one for one in made if flow.op(one) == "topk"), None) if choice is None else choice.highest
    record = flow.output(made[-1]) if highest is None else flow.steps[highest].inputs[0]
    extra = describe_params(flow, *made)
    together = 1 if choice is None else choice.together
    told = (PIECES.format(many=record.shape[-1], places=together),) if together > 1 else ()
    return Node("chooser", "OTHER SCORES", row, CHOOSER, steps_at(flow, *reversed(made)), record, extra, told=told)


def score_node(
    flow: Flow,
    part: Scored,
    site: Site,
    *,
    branch: Attention,
    made: Sequence[int],
    hiding: frozenset[int],
    seen: Collection[int],
    key: str,
    row: int,
) -> Node:
    """What is added to the scores: a mask, or a bias for positions. A bias is named only if it is known to be one.

    Where both are added as one, the steps that are `hiding` keys there are the mask's alone, and the others the bias's.
    """
    record = part.operand.record if part.operand is not None else None
    out = flow.output(part.nodes[-1])
    is_drawn = part.kind == "mask" and bool(made)
    others = list_other_scores(flow, site, part.nodes)
    is_apart = is_drawn or (others and not made)
    beside = () if is_apart else sorted({*list_products_beside(flow, part, site), *made} - hiding)
    beside = sorted(hiding) if part.kind == "mask" and hiding else beside
    steps = steps_at(flow, *reversed(part.nodes), *beside)
    extra = "broadcast" if record is not None and is_broadcast(record.shape, out.shape) else ""
    if part.kind == "changed":
        return Node(key, name_change(flow.op(part.nodes[0])), row, SQUARE, steps, out, extra, beside=record)
    if part.kind in ("mask", "mixed_mask"):
        is_chosen = branch.chosen_keys and not branch.none_chosen
        label = "MASK OF CHOSEN KEYS" if is_chosen else ZEROED if key.startswith("zeroed") else "MASK"
        if part.kind == "mixed_mask":
            return Node(key, label, row, SQUARE, steps, out, extra, beside=record)
        is_across = any(node > part.nodes[0] for node in list_turns(flow, site.scored))
        surface: Surface = "own" if is_across else "mask"  # queries are the columns of such a mask
        return Node(key, label, row, SQUARE, steps, out, extra, surface=surface, beside=record)
    label = "+ A BIAS" if key.startswith("kinds") else BIASES.get(branch.positions or "", "+ A BIAS")
    label = label.replace("BIAS", "GATED BIAS", 1) if is_gated(flow, made) else label
    label = OTHER_SCORES[branch.earlier_scores] if others else label
    if label == "+ A BIAS" and part.operand is not None:
        label = name_addend(flow, site, part.operand.maker) or label
    label = label.replace("+", "−", flow.op(part.nodes[0]) in DIFFERENCES)
    told = describe_own(flow, site, [*part.nodes, *made], seen) if made else ""
    many = count_readers(flow, made)
    shared = [ONE_TABLE.format(many=many)] if many > 1 else []
    origin = Origin() if others else find_origin(flow, site, part)
    is_made_of_sines = branch.positions == "relative" and not origin.asked and is_of_sines(flow, site, part)
    told_origin = tell_origin(origin.asked, origin.names, by_query=meets_query(flow, site, beside))
    factor = "" if others else name_table_factor(flow, site, part)
    made_of = [OF_SINES if is_made_of_sines else told_origin, factor and ROWS_SCALED.format(factor=factor)]
    if origin.names:
        ways = [node for node in origin.ways if node not in made]
        moved = gather_weights(flow, [node for node in ways if flow.op(node) in MOVES])  # before rows are picked
        held = sum((weights_at(flow, ways) | moved).values())  # (LayoutLMv3), or data meet them (Uni-Mol)
        made_of += [f"{plural(held, 'parameter')} {OUTSIDE}"] if held else []
        steps = (*steps, *(step for step in steps_at(flow, *reversed(ways)) if step not in steps))
    serving, attentions = ((), 0) if others or origin.names or many > 1 else list_shared(flow, site, part, made)
    if serving:
        given = sum(gather_weights(flow, serving).values())
        shared = [SHARED_NUMBERS.format(parameters=plural(given, "parameter"), many=attentions)]
        steps = (*steps, *(step for step in steps_at(flow, *serving) if step not in steps))
    meant = record if not told and lies_over(record, out) else None
    beside_it = filter(None, (", ".join(filter(None, made_of)), *shared))
    return Node(key, label, row, SQUARE, steps, out, told or extra, beside=meant, told=tuple(beside_it))


def lies_over(record: TensorRecord | None, scores: TensorRecord) -> bool:
    """Whether a tensor has a number for each query and key, or one for all of these: not if it is cut anew (SAM 3)."""
    if record is None:
        return False
    return all(one in (1, size) for one, size in zip(record.shape[:-3:-1], scores.shape[:-3:-1], strict=False))


def is_broadcast(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a tensor of one shape is repeated along some axes to be as large as another."""
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    return shape != whole and len(shape) <= len(whole) and all(one in (1, size) for one, size in pairs)


def label_scores(flow: Flow, site: Site, scales: Sequence[Scored]) -> str:
    """Queries times keys, and the factor where it is known."""
    told = name_factors(flow, site, scales, own=read_alpha(flow, site))
    return f"SCORES {'K·Q' if has_keys_first(flow, site) else 'Q·K'}^T{told and f' {told}'}"


def list_bent(flow: Flow, site: Site) -> list[int]:
    """The steps that bring a learned score beside the scores before the softmax."""
    own = [node for node in site.scored[1:-1] if flow.op(node) in HIGHEST | {"cat", "sub"}]
    taken = [maker for node in own if flow.op(node) == "sub" for maker in flow.makers[node] if maker is not None]
    return own + [maker for maker in taken if flow.op(maker) in HIGHEST]


def cap_node(flow: Flow, capped: Sequence[int], branch: Attention, row: int) -> Node:
    """What keeps scores below a number: one that is known, or one that is held and not known."""
    extra = HELD_CAP if branch.cap is None else f"at {branch.cap:g}"
    return Node("cap", "CAP BY TANH", row, SQUARE, steps_at(flow, *reversed(capped)), flow.output(capped[-1]), extra)


def label_softmax(step: Step) -> str:
    dim = step.settings.get("dim")
    axes = len(step.inputs[0].shape) if step.inputs else 0
    last = dim - axes if isinstance(dim, int) and 0 <= dim < axes else dim  # counted from behind, as it is mostly given
    return f"SOFTMAX dim {last}".replace("-", "−") if isinstance(last, int) else "SOFTMAX"
