"""The sum at the end of a stage: what the stream goes through past it, what is bent behind it; or it alone, closed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CLAMPS, DROPOUTS, LOOKUPS, PLACING, SCALINGS, SOFTMAXES, SUMS
from xray.ir.trace import Step
from xray.story.anatomy.attentions import Attention, DeformableAttention
from xray.story.anatomy.branch_words import spell_gathered
from xray.story.anatomy.branches import Convolution, Experts, FeedForward, PoolMixing
from xray.story.attention.pairs import describe_turns
from xray.story.body.stages import Staging, find_own_bend
from xray.story.branches.scored.caps import SCALE, label_scale
from xray.story.charts.alike import list_convolutions
from xray.story.charts.between_chart import name_parted
from xray.story.charts.chart import BROAD, Chart, Edge, Node, chart_alone, steps_at
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.dropouts import describe_dropout, list_dropouts
from xray.story.charts.stage_names import name_stage
from xray.story.charts.steps.operation_labels import label_step
from xray.story.entrance.tables import table_rows
from xray.story.passages.added_places import ADDED_UP
from xray.story.passages.held_factors import list_shift
from xray.story.passages.learned_steps import list_of_one_number, meets_learned
from xray.story.passages.ordered_rows import takes_in_order
from xray.story.recognition.between import is_shift
from xray.story.recognition.norms import Norm, name_norm
from xray.story.sentences.of_parts import (
    ADDS_BIAS,
    FIRST_READ,
    FIRST_READ_TIMES,
    IN_A_SEQUENCE,
    LOOKED_UP,
    OF_EARLIER,
    OF_LONGER,
    describe_box,
    tell_beside,
)
from xray.story.sentences.of_ways_past import describe_added, describe_past, describe_taken
from xray.story.streams.joints import Joint
from xray.story.streams.put_back import find_put_back
from xray.story.streams.scaled_streams import (
    find_factor_behind,
    list_factors_past,
    list_learned_past,
    name_learned_behind,
)
from xray.story.streams.shortcuts import before_split, find_any_norm
from xray.story.wording import plural

ONE_FACTOR = "× ONE NUMBER"
STREAM_FACTORS = frozenset({"before", "learned"})
"""The ways in which a stream is multiplied before a sum."""


def add_sum(flow: Flow, staging: Staging, chart: Chart) -> Chart:
    """The chart with the residual sum on top, and with the norm that the stream goes through behind it."""
    last = staging.joints[-1].add
    norms = list_norms_behind(staging)[: staging.stage.norm.times or 1]
    end = norms[-1].end if norms else last
    kind = name_norm(flow, norms[0]) if len({name_norm(flow, norm) for norm in norms}) == 1 else None
    many = f"{len(norms)} {kind.upper()} NORMS" if kind else f"{len(norms)} NORMS"
    one = f"{kind.upper()} NORM" if kind else "NORM"
    clamped = list_clamped(flow, staging)
    label = f"ADD{' + CLAMP' * len(clamped)} + {many if len(norms) > 1 else one}" if norms else "ADD"
    adds = [] if staging.stage.replaces else [joint.add for joint in reversed(staging.joints) if joint.add != end]
    places = [end, *adds]
    places += [node for norm in reversed(norms) for node in norm.nodes if node not in places] + clamped
    mixings = [joint.mixing for joint in staging.joints if joint.mixing is not None]
    mixes = [mixing.mix for mixing in mixings if mixing.mix is not None]
    is_weighed = any(joint.weighing is not None for joint in staging.joints)
    label = label.replace("ADD", "EACH × ITS GATE, ADD") if is_weighed else label
    label = "ADD TO THE STREAMS, MIXED" if mixes else "ADD TO EVERY STREAM" if mixings else label
    label = label.replace("ADD", name_some_streams(flow, last)) if flow.op(last) in PLACING else label
    places += [*mixes, *list_joining(flow, staging)]
    factors = list_factors(flow, staging)
    if staging.stage.stream_scale in STREAM_FACTORS:
        label = f"STREAM {name_stream_factor(flow, staging)}, {label}"
    elif staging.behind:
        label = f"{label}, {name_behind(staging)}"
        end, places = staging.behind[-1], [*reversed(staging.behind), *places]
    elif factors:
        label, end, places = f"{label}, {name_factors(flow, factors)}", factors[0], [*factors, *places]
    back = find_put_back(flow, end)
    if back is not None:
        label, end, places = f"{label}, ROWS PUT BACK", back, [back, *places]
    bend = find_own_bend(flow, staging)
    if bend is not None:
        label, end, places = f"{label} + {label_step(flow, bend)}", bend, [bend, *places]
    dropped = list_dropouts(flow, *(joint.region.end for joint in staging.joints))
    ways, past = list_ways(flow, staging.joints[0]), label_past(flow, staging)
    if staging.stage.replaces:
        label = f"{kind.upper()} NORM" if kind else "GIVEN ON"
    taken = describe_taken(staging.stage)
    told = (describe_past(past), describe_added(staging.added), taken, describe_turns(flow, staging))
    changing = (is_weighed, past, factors, staging.added, staging.stage.replaces, staging.behind, clamped)
    is_changed = any(changing) or bend is not None
    node = Node(
        "add",
        label,
        chart.rows,
        (0.5, 0.5) if staging.stage.parallel else BROAD,
        (*steps_at(flow, *dict.fromkeys([*places, *factors, *ways])), *dropped),
        flow.output(end),
        describe_dropout(flow, dropped),
        "" if is_changed else describe_box("add", None),
        outline="boundary",
        told=tuple(one for one in told if one),
    )
    edges = [Edge(head, "add") for head in chart.heads]
    return Chart((*chart.nodes, node), (*chart.edges, *edges), chart.feet, "add", chart.memory)


def name_stream_factor(flow: Flow, staging: Staging) -> str:
    """By what the stream of a stage is multiplied before its sum, in the words of boxes."""
    if staging.stage.stream_scale == "before":
        return name_factors(flow, list_factors(flow, staging))
    past = [node for joint in staging.joints for node in list_learned_past(flow, joint)]
    return f"{'+ LEARNED NUMBERS, ' * any(is_shift(flow, node) for node in past)}× LEARNED NUMBERS"


def name_factors(flow: Flow, nodes: Sequence[int]) -> str:
    """By what number some steps multiply, where it is recorded."""
    return ONE_FACTOR if (told := label_scale(flow, *nodes)) == SCALE else told


def name_behind(staging: Staging) -> str:
    """What is done to all that goes on from a stage's sum, in the words of boxes."""
    cleared = staging.behind[-1:] if staging.stage.cleared else ()
    learned = staging.behind[: len(staging.behind) - len(cleared)]
    told = [name_learned_behind(learned)] if learned else []
    return ", ".join([*told, *(["ROWS OF A MASK SET TO 0"] if cleared else [])])


def list_factors(flow: Flow, staging: Staging) -> list[int]:
    """The steps by which the stream of a stage is multiplied by one number, or by learned ones, also shifted."""
    if staging.stage.stream_scale in STREAM_FACTORS:
        ways = ((*list_factors_past(flow, joint), *list_learned_past(flow, joint)) for joint in staging.joints)
        return list(dict.fromkeys(node for way in ways for node in way))
    behind = find_factor_behind(flow, staging.joints[-1].add) if staging.stage.stream_scale else None
    return [] if behind is None else [behind]


def list_norms_behind(staging: Staging) -> list[Norm]:
    """The norms that the stream of a stage goes through behind its sum."""
    last = staging.joints[-1].add
    return [norm for norm in staging.norms if norm.end > last] if staging.stage.norm.is_behind_sum else []


def list_clamped(flow: Flow, staging: Staging) -> list[int]:
    """The clamp between the sum of a stage and the norm that the stream goes through behind it, if there is one."""
    norms = list_norms_behind(staging)[:1]
    return [norm.origin for norm in norms if norm.origin is not None and flow.op(norm.origin) in CLAMPS]


def list_behind(flow: Flow, staging: Staging) -> list[int]:
    """What the box of a stage's sum holds beside it of the stream's own: its bend or clamp, and what multiplies it."""
    bend = find_own_bend(flow, staging)
    own = [*staging.behind, *list_factors(flow, staging), *list_clamped(flow, staging)]
    return own if bend is None else [*own, bend]


def name_some_streams(flow: Flow, place: int) -> str:
    """To how many of its streams a sum adds, where it puts these back among the others (Gemma 3n)."""
    added, streams = (flow.output(one).shape[0] for one in (flow.makers[place][-1] or place, place))
    return f"ADD TO {added} OF {streams} STREAMS"


def chart_picked(flow: Flow, staging: Staging) -> Chart | None:
    """The stream of several that a branch begins with, where it adds to some of them; None for one that reads all."""
    joint = staging.joints[0]
    if flow.op(joint.add) not in PLACING:
        return None
    inner = sorted(joint.region.inner)
    picked = [node for node in inner if flow.op(node) == "index" and flow.makers[node][0] == joint.stream]
    if len(picked) != 1:
        return None
    times = [
        one for one in inner if meets_learned(flow, one) and flow.carried_from(flow.makers[one][0]) == joint.stream
    ]
    label = f"1 OF {flow.output(joint.add).shape[0]} STREAMS{', × LEARNED NUMBERS' * bool(times)}"
    steps = steps_at(flow, *reversed((*picked, *times)))
    node = Node("picked", label, 0, BROAD, steps, flow.output(picked[0]), describe_params(flow, *times))
    return chart_alone(node)


def list_joining(flow: Flow, staging: Staging) -> list[int]:
    """The sums of branches that stand beside each other, before the stream is added."""
    last = max(one.region.end for one in staging.branches)
    inner = {node for joint in staging.joints for node in joint.region.inner if node > last}
    return [node for node in sorted(inner) if flow.op(node) in SUMS] if staging.stage.parallel else []


def label_past(flow: Flow, staging: Staging) -> list[str]:
    """What the stream of a stage goes through on its way past the branches, in the words of boxes."""
    return list(dict.fromkeys(label_step(flow, node).lower() for node in list_ways(flow, staging.joints[0])))


def list_ways(flow: Flow, joint: Joint) -> list[int]:
    """The steps that the stream goes through on its way past a branch; so those that only put its rows in an order."""
    ordered, known = list[int](), {joint.stream, joint.region.start, *joint.region.inner, None}
    here = next((maker for maker in flow.makers[joint.add] if maker not in known), None)
    while here is not None and here != joint.stream and flow.op(here) in CARRYING and flow.makers[here]:
        ordered += [here] if takes_in_order(flow, here) else []
        here = flow.makers[here][0]
    return list_past(flow, joint.past) or (ordered[::-1] if here == joint.stream else [])


def list_past(flow: Flow, past: Collection[int]) -> list[int]:
    """The steps that the stream goes through on its way past a branch, and that do more than move it."""
    return [node for node in sorted(past) if flow.is_leaf(node) and not moves(flow, node)]


def moves(flow: Flow, node: int) -> bool:
    """Whether a step only moves numbers, or is one of several that are told together at their end."""
    readers = flow.readers.get(node, ())
    together = [
        norm.nodes for reader in readers if (norm := find_any_norm(flow, reader)) is not None and norm.end != node
    ]
    together += [list_shift(flow, reader) for reader in readers]
    is_move = flow.op(node) in CARRYING | DROPOUTS or before_split(flow, node) is not None
    return is_move or any(node in steps for steps in together)


def chart_closed(flow: Flow, staging: Staging, whole: Chart, like: str = "") -> Chart:
    """A stage that is opened in another frame: its name, its own sizes, and what leaves it, of its `whole` chart.

    It says at which station one stands with the same boxes that is open, where there is such a one: in words, `like`.
    It has no shape where what ends with a norm gives it another one than its sum has (SAINT).
    """
    add, label = staging.joints[-1].add, name_parted(flow, staging, name_stage(staging))
    end = add if staging.rejoined is None else staging.rejoined.join
    many = len(list_convolutions(flow, staging))
    words_of = [describe_sizes(branch, is_alone=many == 1) for branch in staging.stage.branches]
    words_of += [like]
    biases, last = list_biases(flow, whole), whole.node(whole.heads[-1]).record
    made = flow.output(end)
    node = Node(
        "closed",
        label,
        0,
        BROAD,
        steps_at(flow, *dict.fromkeys((end, add, *(place for _, places in biases for place in places)))),
        made if last is None or last.shape == made.shape else None,
        "; ".join(one for one in words_of if one),
        outline="boundary",
        told=tuple(said for said in [describe_past(label_past(flow, staging)), *(told for told, _ in biases)] if said),
    )
    return chart_alone(node)


def list_biases(flow: Flow, whole: Chart) -> list[tuple[str, list[int]]]:
    """What an attention adds to its scores that is made with weights of its own (SAM), with the modules of these.

    With what stands beside it as other attentions, which add their own (CAT's other half of the heads).
    """
    found = list[tuple[str, list[int]]]()
    for node in whole.nodes:
        places = [flow.places[step.id] for step in node.steps]
        many = sum(flow.op(place) in SOFTMAXES for place in places) if node.key.startswith("tail") else 0
        if (node.key.startswith(("bias", "kinds")) or (found and many)) and (counted := describe_params(flow, *places)):
            spelled = node.label.removeprefix("+ ").lower().replace(" of q", " of Q")
            bias = ADDS_BIAS.format(bias=spelled, counted=counted)
            told = tell_beside(many, counted) if many else bias
            found.append((told, [place for place in places if flow.steps[place].params]))
    return found


def describe_sizes(branch: object, *, is_alone: bool = False) -> str:
    """The sizes of a branch in a few words; of a convolution that `is_alone` not as those of the widest of several."""
    if isinstance(branch, Attention):
        heads = plural(branch.heads, "head") if branch.heads else ""
        heads = f"{heads} of {branch.d_k}" if heads and branch.d_k else heads
        gathered = spell_gathered(branch.gathered) if branch.gathered else ""
        others = (OF_EARLIER * bool(branch.earlier_keys), OF_LONGER * bool(branch.longer_keys))
        sequence = IN_A_SEQUENCE.format(count=branch.together) if branch.together else ""
        return ", ".join(filter(None, (heads, gathered, *others, sequence)))
    if isinstance(branch, DeformableAttention):
        return f"{plural(branch.heads, 'head')} of {branch.d_v}" if branch.heads and branch.d_v else ""
    if isinstance(branch, FeedForward):
        is_bent = branch.activation is not None and not branch.gates_beside
        above = ", above a threshold" * bool(branch.threshold)
        return f"{'d_ff ' * is_bent}{branch.d_ff:,}{above}" if branch.d_ff else ""
    if isinstance(branch, Convolution):
        return f"{'kernel' if is_alone else 'widest'} {spell_kernel(branch)}" if branch.kernel else ""
    if isinstance(branch, Experts):
        count, or_none = branch.chosen or branch.chosen_or_none, " or none" * bool(branch.chosen_or_none)
        return f"{count} of {branch.experts}{or_none}" if count and branch.experts else ""
    if isinstance(branch, PoolMixing):
        return f"{branch.of} of {spell_kernel(branch)}{', less itself' if branch.less_itself else ''}"
    return ""


def spell_kernel(branch: Convolution | PoolMixing) -> str:
    """The size of the widest convolution of a part, or of its pool."""
    return "×".join(map(str, branch.kernel or ()))


def tell_recalled(flow: Flow, chart: Chart, start: int | None, every: Sequence[Staging]) -> Chart:
    """The chart of a sublayer whose sums say what they add that was made before all layers; `every` layer has it."""
    begun = flow.carried_from(start)
    told = tuple(set.intersection(*(set(list_told(flow, one.nodes, begun)) for one in every))) if every else ()
    if not told:
        return chart
    taken = [step for node in chart.nodes for step in node.steps]
    return replace(chart, nodes=tuple(tell_node(flow, node, begun, told, every, taken) for node in chart.nodes))


def tell_node(
    flow: Flow, node: Node, begun: int | None, told: Sequence[str], every: Sequence[Staging], taken: Sequence[Step]
) -> Node:
    """A box of a sum with what is told of it in all layers; in the first one alone all begins with its input.

    What is multiplied before, and not `taken` into a box, stands in it too.
    """
    if not node.label.startswith(ADDED_UP):
        return node
    places = dict.fromkeys(flow.places[step.id] for step in node.steps)
    own = [text for text in list_told(flow, places, begun) if text in told]
    is_later = any(flow.carried_from(one.joints[0].region.start) != begun for one in every)
    own = [text for text in own if is_later or text not in (FIRST_READ, FIRST_READ_TIMES)]
    if not own:
        return node
    if FIRST_READ_TIMES in own:
        times = (one for place in [*places] for one in list_times_first(flow, place, begun))
        places |= dict.fromkeys(one for one in times if flow.steps[one] not in taken)
    steps, extra = steps_at(flow, *places), describe_params(flow, *places)
    return replace(node, steps=steps, told=(*node.told, *own, *([extra] if extra else [])), extra="")


def list_told(flow: Flow, nodes: Collection[int], begun: int | None) -> list[str]:
    """What some sums add that was made before all layers."""
    found = dict.fromkeys(text for node in nodes if flow.op(node) in SUMS for text in spell_added(flow, node, begun))
    return list(found)


def spell_added(flow: Flow, node: int, begun: int | None) -> Iterator[str]:
    """What a sum adds, be it moved or multiplied by one number, that the first layer reads or a table holds."""
    for maker in flow.makers[node]:
        origin = walk_back(flow, maker)
        if origin is None or begun is None:
            continue
        if origin == begun:
            yield FIRST_READ_TIMES if list_times_first(flow, node, begun) else FIRST_READ
        elif flow.op(origin) in LOOKUPS and (rows := table_rows(flow, origin)) is not None:
            yield LOOKED_UP.format(rows=rows)


def list_times_first(flow: Flow, node: int, begun: int | None) -> list[int]:
    """The steps that multiply what the first layer reads by a learned number each, before a sum adds it."""
    makers = [maker for maker in flow.makers[node] if walk_back(flow, maker) == begun is not None]
    times = [next((one for one in flow.behind(maker) if flow.op(one) not in CARRYING), None) for maker in makers]
    return [one for one in times if one is not None and list_of_one_number(flow, one)]


def walk_back(flow: Flow, place: int | None) -> int | None:
    """The step whose numbers others only move, or multiply by one number."""
    while place is not None:
        if flow.op(place) in SCALINGS:
            rows = [maker for record, maker in flow.given(place) if record.shape]
            if len(rows) != 1:
                return place
            place = rows[0]
        elif flow.op(place) in CARRYING and flow.makers[place]:
            place = flow.makers[place][0]
        else:
            return place
    return None
