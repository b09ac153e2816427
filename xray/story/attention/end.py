"""The end of an attention's chart: heads side by side again, norm and gate, and the way back to the stream."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    FINDINGS,
    PRODUCTS,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
)
from xray.ir.flow.projections import is_product
from xray.ir.kinds import EXCHANGES
from xray.ir.records import TensorRecord
from xray.story.anatomy.attentions import Attention
from xray.story.attention.factors import (
    MULTIPLIED,
    describe_gate,
    find_apart_gate,
    list_tanh,
    name_gate,
)
from xray.story.attention.laid_back import (
    cuts_padding,
    joins_heads,
    list_added_found,
    name_join,
    name_joined_windows,
)
from xray.story.attention.twins import add_weights, find_twin, tell_repeated
from xray.story.attention.ways.cut_names import CUT_SMALLER, label_cut, label_map
from xray.story.attention.ways.lanes import Part, cut_way
from xray.story.attention.ways.ways import MOST_ARROWS
from xray.story.body.scale import is_tanh_of_learned, multiplies_by_learned, name_tanh_gate
from xray.story.body.stages import find_ending
from xray.story.branches.before_last import find_inner_norm, find_uncut, is_sink_share, list_gate
from xray.story.branches.rows import PICKS, cuts_across_heads, cuts_across_places, is_rolled
from xray.story.branches.scored.caps import SCALE, label_scale, list_number, takes_half_off
from xray.story.charts.chart import BROAD, Edge, Node, steps_at
from xray.story.charts.counted_weights import describe_params, steps_with_block
from xray.story.charts.norm_chart import draw_inner_norm
from xray.story.charts.norms_apart import CUT_ANEW
from xray.story.charts.steps.operation_labels import label_step
from xray.story.experts.chosen_heads import find_gathering
from xray.story.passages.added_places import ADDED_UP
from xray.story.passages.learned_steps import list_bias
from xray.story.passages.modulation import find_beside_gate
from xray.story.passages.ordered_rows import takes_all_in_order
from xray.story.recognition.between import Region, adds_learned_row, find_region, is_linear, is_shift, read_sizes
from xray.story.recognition.turning import is_cut, is_rotary
from xray.story.recognition.values.value_shapes import number
from xray.story.wording import plural

PADDING_OFF, ROLLED_BACK = "PADDING CUT OFF", "ROLLED BACK"


def draw_end(
    flow: Flow, site: Site, branch: Attention, region: Region, row: int, nodes: list[Node], edges: list[Edge]
) -> str:
    """Heads joined, gated, projected back, normalised; gives the last node."""
    last = "values"
    if site.output is not None and site.output not in region.inner:  # another stream's: both are looked at together
        site = replace(site, output=None, concat=tuple(node for node in site.concat if node in region.inner))
    closing = find_ending(flow, region)
    end = region.end if closing is None or closing.origin is None else closing.origin
    worked_out = {site.weighted_sum, *site.concat}
    inner = None if site.output is None else find_inner_norm(flow, site.output, worked_out, is_gated=True)
    moves = site.concat if inner is None else tuple(node for node in site.concat if node not in inner.nodes)
    gate = next((node for node in moves if flow.op(node) in SCALINGS and len(flow.steps[node].inputs) == 2), None)
    clamped = [node for node in moves[-1:] if flow.op(node) in CLAMPS]
    moves = moves[: len(moves) - len(clamped)]
    joined = [node for node in moves if gate is None or node < gate] or [node for node in moves if node != gate]
    parted = next((node for node in joined if is_cut(flow, node)), None)  # a part of each row goes a way of its own
    joined = joined if parted is None else joined[: joined.index(parted)]
    back = ROLLED_BACK if is_rolled(flow, site, region) else "ROLL"
    drawn: list[Node] = []
    gathered = find_gathering(flow, site.output)
    joined = joined if gathered is None or not joined or len(flow.steps[joined[-1]].outputs) == 1 else joined[:-1]
    if joined and read_joined(flow, site, joined).shape != flow.output(site.weighted_sum).shape:
        drawn.append(draw_joined(flow, site, joined, row, back, branch))
    if gate is not None:
        factor = "× WHAT THE SINK LEAVES" if is_sink_share(flow, site, gate) else name_gate(flow, site, gate)
        key = "gate" if "GATE" in factor or "SINK" in factor else "scaled"
        place = 0 if joined and joined[0] > gate else len(drawn)  # heads may be scaled before they lie side by side
        extra, steps = describe_gate(flow, site, gate), steps_at(flow, gate, *list_gate(flow, site, gate))
        drawn.insert(place, Node(key, factor, row, BROAD, steps, flow.output(gate), extra))
    if inner is not None:  # before or behind the gate, of each head or of all together
        ends = [joined[-1] if box.key == "concat" else gate for box in drawn]
        before = sum(1 for end in ends if end is not None and end < inner.end)
        drawn.insert(before, draw_inner_norm(flow, inner, row))
    for box in drawn:
        nodes.append(replace(box, row=row))
        heads = min(branch.heads or 1, MOST_ARROWS) if box.key in ("concat", "turned") else 1
        edges.append(Edge(last, box.key, heads))
        last, row = box.key, row + 1
    is_bare = gathered is None and site.output is not None and flow.op(site.output) in PRODUCTS
    bias = list_bias(flow, site.output) if site.output is not None and is_bare else ()
    if site.output is not None:
        made = site.output if gathered is None else gathered
        own = [] if gathered is None else [maker for maker in flow.makers[gathered] if maker is not None]
        name_of_all = "LINEAR O" if gathered is None else "CHOSEN EXPERTS' LINEAR O"
        added = list_added_row(flow, made)
        name_of_all = name_groups_of_heads(flow, site, end) if gathered is None else name_of_all
        name_of_all = f"{'CLAMP + ' * bool(clamped)}{name_of_all}{' + A BIAS' * bool(added)}"
        steps = steps_at(flow, *dict.fromkeys((*bias, *added, made, *own, *clamped)))
        extra = describe_params(flow, *(own or [site.output]), *added, *bias)
        key = "apart" if any(box.label == CUT_ANEW for box in drawn) else "output"  # rows are no places then
        nodes.append(Node(key, name_of_all, row, BROAD, steps, flow.output(*bias or (made,)), extra))
        edges.append(Edge(last, key))
        last, row = key, row + 1
    output = site.output if gathered is None else gathered
    start = bias[0] if bias else output if output is not None else joined[-1] if joined else site.weighted_sum
    tail = find_region(flow, start, end)
    parts = cut_tail(flow, tail.inner) if tail is not None else []
    for count, part in enumerate(parts):
        is_joined = part.kind in ("beside", "join") and tail is not None and takes_in(flow, part, tail)
        if part.kind not in ("linear", "heads", "bend", "scale", "rotate", "norm") and not is_joined:
            continue
        if part.kind == "scale" and all(is_by_one(flow, node) for node in part.nodes):
            continue
        label = back if any(flow.op(node) == "roll" for node in part.nodes) else None
        if any(flow.op(node) in EXCHANGES for node in part.nodes):
            label = "ADDED UP OVER RANKS"
        key = f"tail{count}"
        twin = find_twin(flow, site, part) if is_joined else None
        together = name_join(flow, site, branch, part, region) if is_joined else ""
        added = list_added_found(flow, site, part.nodes[-1], region)
        label = (
            together
            or "+ ANOTHER ATTENTION" * bool(added)
            or name_sum(flow, part, site)
            or name_difference(flow, part)
            or label
        )
        cut = name_joined_windows(flow, part, branch, region) or label_cut(flow, part)
        cut = PADDING_OFF if cut == CUT_SMALLER and cuts_padding(flow, part, region) else cut
        if part.kind == "heads" and all(node.key != "concat" for node in nodes) and joins_heads(flow, part, branch):
            key, cut = "concat", "CONCAT HEADS"
        biases = [node for node in part.nodes if part.kind == "heads" and adds_learned_row(flow, node)]
        cut += " + A BIAS" * bool(biases)
        scaled = name_learned(flow, part) if multiplies_rows(flow, part) else label_scale(flow, *part.nodes)
        label = label or {"heads": cut, "scale": "" if scaled == SCALE else scaled}.get(part.kind)
        is_learned = multiplies_rows(flow, part, alone=True)
        label = label or ("× LEARNED NUMBERS" if is_learned else name_layers(flow, part))
        label = label or ("ROTATE" if is_rotary(flow, part.nodes) else label_step(flow, last_doing(flow, part)))
        keys = {node.key for node in nodes}
        is_apart = {"norm", "bend"} <= {one.kind for one in parts[:count]}  # it is a layer of the block (HaloNet)
        if label == "LINEAR" and "concat" in keys and "output" not in keys and not is_apart:
            key, label = "output", "LINEAR O"  # pieces were put together before (Qwen's eye)
        if find_beside_gate(flow, part.nodes[-1], region.start) in part.nodes and not is_learned:
            key, label = f"gated{count}", "× GATE"
        elif gates := [node for node in part.nodes if any(is_tanh_of_learned(flow, one) for one in flow.makers[node])]:
            others = [node for node in part.nodes if flow.op(node) in SCALINGS and node not in gates]
            label = f"{name_tanh_gate(flow, gates[0])}{', MULTIPLIED' * bool(others)}"
        apart = find_apart_gate(flow, site, part.nodes) if label == MULTIPLIED else None
        if apart is not None:
            key, label = "gate" if "gate" not in keys else key, name_gate(flow, site, apart)
        number_of = list_number(flow, part.nodes[-1]) if name_difference(flow, part) else list_tanh(flow, part.nodes)
        number_of += [] if apart is None else list_gate(flow, site, apart)
        held = [*biases, *(part.nodes if part.kind == "scale" or multiplies_rows(flow, part) else ()), *number_of]
        finding = find_beside(flow, part.nodes[-1]) if name_sum(flow, part, site) else None
        past = find_way_past(flow, part.nodes[-1], finding, nodes)
        label, finding = (label, finding) if past is None else (ADDED_UP, None)
        found = [*part.nodes, *([] if finding is None else [finding]), *added]
        weighing = [node for node in found if is_linear(flow, node) or flow.op(node) in FINDINGS or node in added]
        extra = describe_params(flow, *(weighing or held)) if apart is None else describe_gate(flow, site, apart)
        steps = steps_at(flow, *dict.fromkeys((*reversed(part.nodes), *found[len(part.nodes) :], *number_of)))
        told = () if twin is None else tell_repeated(flow, twin)
        nodes.append(Node(key, label, row, BROAD, steps, part.record, extra, told=told))
        edges.append(Edge(last, key, min(branch.heads or 1, MOST_ARROWS) if key == "concat" else 1))
        read = dict.fromkeys([*([] if past is None else [past]), *list_read(flow, found, nodes[:-1])])
        edges += [Edge(other, key) for other in read if other != last]
        if twin is not None:
            nodes[:] = [add_weights(flow, twin, node) for node in nodes]
            edges += [Edge(one, key) for one in list_given_twin(flow, twin, nodes[:-1])]
        last, row = key, row + 1
    return last


def last_doing(flow: Flow, part: Part) -> int:
    """The last step of a part that does not just take all that there is, as one that cuts off what is over may."""
    return next((node for node in reversed(part.nodes) if not takes_all_in_order(flow, node)), part.nodes[-1])


def list_added_row(flow: Flow, output: int) -> list[int]:
    """The step that alone reads the last linear layer, and adds a learned row that is no part of it (ZAYA)."""
    readers = flow.leaf_readers(output)
    is_other = flow.op(output) == "linear" and len(readers) == 1 and adds_learned_row(flow, readers[0])
    return readers if is_other else []


def list_read(flow: Flow, own: Collection[int], nodes: Sequence[Node]) -> list[str]:
    """The boxes of which steps behind the heads read what they give, be they not the last before them (NeoMME)."""
    owners = {flow.places[step.id]: box for box in nodes for step in box.steps if step.id in flow.places}
    given = [(maker, record.output) for node in own for record, maker in flow.given(node) if maker not in own]
    read = {one: owners[one] for maker, output in given if (one := find_drawn(flow, maker, output, owners)) in owners}
    return list(dict.fromkeys(box.key for one, box in read.items() if gives(flow, box, one)))


def find_drawn(flow: Flow, node: int | None, output: int | None, drawn: Mapping[int, Node]) -> int | None:
    """The last step before some, or that one itself, that has a box; others may only have moved its numbers.

    Of a cut whose box goes on with another part alone, what is cut counts (iFormer's gate).
    """
    while node is not None and flow.op(node) in CARRYING and flow.makers[node]:
        if node in drawn and not leaves_out(flow, drawn[node], node, output):
            break
        record, node = next(flow.given(node))
        output = record.output
    return node


def leaves_out(flow: Flow, box: Node, cut: int, output: int | None) -> bool:
    """Whether a box goes on with other parts of a cut than with one of them."""
    places = (flow.places[step.id] for step in box.steps if step.id in flow.places)
    read = {record.output for place in places for record, maker in flow.given(place) if maker == cut}
    read = read or {None if box.record is None else box.record.output} - {None}
    return output is not None and bool(read) and output not in read


def gives(flow: Flow, box: Node, node: int) -> bool:
    """Whether a step's numbers are those that its box gives, be they moved since."""
    return flow.carried_from(node) == flow.carried_from(flow.places.get(box.steps[0].id))


def list_given_twin(flow: Flow, twin: Site, nodes: Sequence[Node]) -> list[str]:
    """The boxes that such an attention reads: the weights, and its values before they are repeated for each head."""
    value = flow.carried_from(flow.makers[twin.weighted_sum][-1], CARRYING | REPEATS)
    return ["softmax", *[box.key for box in nodes if value is not None and box.steps and gives(flow, box, value)][-1:]]


def multiplies_rows(flow: Flow, part: Part, *, alone: bool = False) -> bool:
    """Whether all that a part does is to multiply rows by learned numbers, one for each channel (DINOv2).

    Where it does so `alone`, nothing else stands among its steps (Gemma 3n).
    """
    scalings = [node for node in part.nodes if flow.op(node) in SCALINGS or (alone and flow.op(node) not in CARRYING)]
    return bool(scalings) and all(multiplies_by_learned(flow, node) for node in scalings)


def name_learned(flow: Flow, part: Part) -> str:
    """What is done to rows by learned numbers: multiplied by them, and shifted by others (MobileBERT)."""
    return "SCALE AND SHIFT" if any(is_shift(flow, node) for node in part.nodes) else "× LEARNED NUMBERS"


def lays_heads(found: Sequence[int], made: Sequence[int], branch: Attention) -> bool:
    """Whether what is laid out has rows as wide as all heads together."""
    heads = branch.heads or 0
    is_one = heads == 1 and made[0] == found[0]
    return is_one or made[-1] > found[-1] or (heads > 1 and heads * (branch.d_v or 0) in made[1:])


def draw_joined(flow: Flow, site: Site, joined: Sequence[int], row: int, back: str, branch: Attention) -> Node:
    """What is done to what the heads found: laid side by side, or moved alone, where pieces are put together first."""
    found, made = flow.output(site.weighted_sum), read_joined(flow, site, joined)
    is_moved, laid = sorted(made.shape) == sorted(found.shape), label_map(found, made)
    is_apart = not {"heads", "batch*heads"}.isdisjoint(made.axes)
    is_across = any(cuts_across_places(flow, node) or cuts_across_heads(flow, node) for node in joined)
    laid = laid or CUT_ANEW * (is_apart or is_across)
    key, label = ("turned", "AXES SWAPPED") if is_moved else ("laid", laid) if laid else ("concat", "CONCAT HEADS")
    if key == "concat" and not lays_heads(found.shape, made.shape, branch):
        key, label = "laid", "LAID OUT IN ONE ROW" if len(made.shape) == len(("batch", "row", "width")) else CUT_ANEW
    label += f", {back}" * any(flow.op(node) == "roll" for node in joined)
    told = next((told for node in joined if (told := tell_first_rows(flow, node))), "")
    return Node(key, label, row, BROAD, steps_with_block(flow, *reversed(joined)), made, told)


def read_joined(flow: Flow, site: Site, joined: Sequence[int]) -> TensorRecord:
    """What the attention's own way goes on with of what the last move of its heads gives: one part of a split."""
    read = {
        record.source: record
        for node in (*site.concat, site.output)
        if node is not None
        for record, maker in flow.given(node)
        if maker == joined[-1]
    }
    return next(iter(read.values()), flow.output(joined[-1]))


def tell_first_rows(flow: Flow, node: int) -> str:
    """How many rows of how many a step leaves, the first ones: those behind were put there (Granite Speech)."""
    before, after = flow.steps[node].inputs[:1], flow.output(node).shape
    if flow.op(node) not in PICKS or not before or len(before[0].shape) != len(after):
        return ""
    less = [(few, many) for few, many in zip(after, before[0].shape, strict=True) if few < many]
    cut = str(flow.steps[node].settings.get("index", "")).split(", ")
    if len(less) != 1 or after[-1] != before[0].shape[-1] or f":{less[0][0]}" not in cut:
        return ""
    return f"the first {less[0][0]:,} of {less[0][1]:,} rows"


def find_beside(flow: Flow, node: int) -> int | None:
    """The convolution whose result a step takes in."""
    made = (flow.carried_from(maker) for maker in flow.makers[node])
    return next((one for one in made if one is not None and flow.op(one) in FINDINGS), None)


def find_way_past(flow: Flow, node: int, finding: int | None, nodes: Sequence[Node]) -> str | None:
    """The box of what a sum adds to what a convolution with a box of its own made of it, if it is that (Inkling)."""
    boxes = {flow.places[step.id]: box.key for box in nodes for step in box.steps if step.id in flow.places}
    if finding is None or finding not in boxes:
        return None
    others = (flow.carried_from(maker) for maker in flow.makers[node])
    return next((boxes[one] for one in others if one is not None and one != finding and one in boxes), None)


def name_sum(flow: Flow, part: Part, site: Site) -> str:
    """What is added to what the heads found: a convolution of the values, say (Nyströmformer); empty if not known."""
    node = part.nodes[-1]
    if flow.op(node) not in SUMS or len(flow.makers[node]) != 2:
        return ""
    finding = find_beside(flow, node)
    if finding is None:
        return ""
    read, value = (find_uncut(flow, *one) for one in (next(flow.given(finding)), [*flow.given(site.weighted_sum)][-1]))
    return f"{name_convolution(flow, finding)}{' OF V' * (read == value)}"


def name_convolution(flow: Flow, finding: int) -> str:
    """What a sum is called that adds what a convolution gives, by how many places that reads."""
    return f"+ CONVOLUTION {'×'.join(map(str, read_sizes(flow, finding, 'kernel_size')))}"


def name_difference(flow: Flow, part: Part) -> str:
    """What is taken from one half of what the heads found: the other, times one number (DiffLlama); empty if not so."""
    return "ONE HALF × ONE NUMBER, SUBTRACTED" if takes_half_off(flow, part.nodes[-1]) else ""


def cut_tail(flow: Flow, nodes: Collection[int]) -> list[Part]:
    """The parts of the way behind the heads; what cuts a part of each row off to turn it goes with the turn."""
    found: list[Part] = []
    for part in cut_way(flow, nodes, None):
        before = found[-1] if found else None
        if before is not None and part.kind == "rotate" and before.kind == "heads" and is_cut(flow, before.nodes[-1]):
            found[-1] = replace(part, nodes=(*before.nodes, *part.nodes))
        else:
            found.append(replace(part, record=find_taken(flow, part, nodes)))
    return found


def find_taken(flow: Flow, part: Part, nodes: Collection[int]) -> TensorRecord:
    """What a part of a way gives on: of a cut that output which the others read, where it is one (Mochi's words)."""
    last = part.nodes[-1]
    readers = (node for node in flow.readers.get(last, ()) if node in nodes)
    taken = [record for node in readers for record, maker in flow.given(node) if maker == last]
    is_cut = len(flow.steps[last].outputs) > 1 and part.record is flow.output(last)
    return taken[0] if is_cut and len({record.output for record in taken}) == 1 else part.record


def name_layers(flow: Flow, part: Part) -> str:
    """What linear layers, convolutions and products behind the heads are called, how many there are of each; or "".

    One layer may be one for each of several groups.
    """
    own = [one for one in part.nodes if is_linear(flow, one) or flow.op(one) in FINDINGS or is_product(flow, one)]
    words = {False: "PRODUCT", True: "CONVOLUTION"}
    found = Counter("LINEAR LAYER" if is_linear(flow, one) else words[flow.op(one) in FINDINGS] for one in own)
    if len(own) == 1:
        (product,) = own
        if not is_linear(flow, product):
            return label_step(flow, product)
        weights = flow.steps[product].inputs[-1].shape if flow.op(product) == "bmm" else ()
        return f"LINEAR IN {weights[0]} GROUPS" if len(weights) == 3 and weights[0] > 1 else "LINEAR"
    return ", ".join(plural(count, name.lower()).upper() for name, count in found.items())


def name_groups_of_heads(flow: Flow, site: Site, end: int) -> str:
    """What the first linear layer behind the heads is called: none of all of them where another one is behind it.

    So values of each head are made of what all look up, by weights of its own (DeepSeek's own code).
    """
    tail = find_region(flow, site.output, end)
    if site.output is None or tail is None or not any(is_linear(flow, node) for node in tail.inner):
        return "LINEAR O"
    weights = flow.steps[site.output].inputs[-1].shape if flow.op(site.output) == "einsum" else ()
    return f"LINEAR IN {weights[0]} GROUPS" if len(weights) > 2 else "LINEAR"


def takes_in(flow: Flow, part: Part, way: Region) -> bool:
    """Whether a part puts beside the rows of a way what was made elsewhere, as a convolution's rows (ConvBERT)."""
    return any(
        maker is not None and maker not in way.inner and maker != way.start
        for node in part.nodes
        if flow.op(node) in SIDE_BY_SIDE
        for maker in flow.makers[node]
    )


def is_by_one(flow: Flow, place: int) -> bool:
    """Whether a step multiplies or divides by 1, or only moves numbers."""
    step = flow.steps[place]
    return step.op in CARRYING or (len(step.inputs) == 1 and number(step) == 1)
