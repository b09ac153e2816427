"""The chart of any steps: those that do more than move numbers, in rows by how far they are from the beginning."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from math import ceil

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CURVES,
    DIVISIONS,
    SUMS,
    TRANSPOSED,
)
from xray.ir.flow.written_bends import list_written_bend
from xray.story.anatomy.branch_words import ACTIVATIONS, label_activation
from xray.story.branches.convolutions import find_shortened
from xray.story.branches.feed_forward import name_activation
from xray.story.branches.scored.caps import name_cap
from xray.story.branches.states import count_changing, goes_by_pieces, longest_chain
from xray.story.charts.alike import tell_run
from xray.story.charts.chart import Chart, Edge, Node, Place, steps_at, uncross
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.steps.drawn_steps import MOST_AT_ALL, MOST_NODES, pick_steps
from xray.story.charts.steps.loops import part_loop, read_loops
from xray.story.charts.steps.operation_labels import find_laid, find_real, label_step, tell_middle
from xray.story.charts.steps.readers import attends, find_owners, list_read_elsewhere, readers_of, reads, reads_outside
from xray.story.charts.steps.same_weights import tell_again
from xray.story.charts.steps.written_out import list_written_out
from xray.story.passages.held_factors import EACH_CHANNEL, list_brought, list_shift
from xray.story.passages.learned_steps import label_times, list_bias, list_of_one_number, list_times, meets_learned
from xray.story.passages.ordered_rows import takes_in_order
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.chosen_rows import list_shares
from xray.story.sentences.of_parts import MADE_BESIDE
from xray.story.states.cut_parts import tell_parts
from xray.story.states.names import READ, READ_IN_TURNS, STATE_BY_PIECES, part_written
from xray.story.streams.put_back import find_changed_in_place
from xray.story.streams.shortcuts import find_any_norm

MOST_IN_ROW = 3
NORMED = "weights normed"


def chart_operations(
    flow: Flow,
    nodes: Collection[int],
    end: int,
    labels: Mapping[int, str] | None = None,
    prefix: str = "op",
    *,
    is_entrance: bool = False,
    folded: Mapping[int, tuple[int, ...]] | None = None,
    begins: Collection[int] = (),
    most: int = MOST_NODES,
    aside: Collection[int] = (),
) -> Chart | None:
    """The steps of a part that matter, `most` at most, as many as can be read; None where there is none.

    Each of those `folded` stands for several, by the last of them. In an entrance those that read rows made elsewhere,
    by another tower, read a memory, and stand left; so do those that are `aside`.
    """
    parted = [part_loop(flow, nodes, own) for own in read_loops(flow, nodes)]
    loop, looked = [node for own, _ in parted for node in own], tuple(node for _, own in parted for node in own)
    bends = name_written_bends(flow, set(nodes), loop)
    loop, written = part_written(flow, nodes, loop)
    brought = {node: own for node in nodes if node not in loop and (own := list_brought(flow, node, nodes))}
    own_names = dict.fromkeys(looked[-1:], "PRODUCT, AT EACH PLACE") | dict.fromkeys(written[:1], READ_IN_TURNS)
    labels = {**bends, **own_names, **dict.fromkeys(brought, EACH_CHANNEL), **(labels or {})}
    rounded = {node: own for node in nodes if (own := list_written_out(flow, node))}
    folded = {node: list_written_bend(flow, node) for node in bends} | rounded | brought | dict(folded or {})
    folded |= ({looked[-1]: looked} if looked else {}) | ({written[0]: written} if written else {})
    most = MOST_AT_ALL if is_entrance else most
    drawn = pick_steps(flow, nodes, labels, folded, loop, most, begins, end)
    notable, behind = drawn.steps, drawn.behind
    if not notable:
        return None
    owner = find_owners(flow, notable)
    owner |= {inner: node for node, own in behind.items() for group in own.values() for inner in group}
    edges = {(owner_of, node) for node in notable for owner_of in readers_of(flow, nodes, node, notable, owner)}
    level = dict.fromkeys(notable, 0)
    for node in notable:
        level[node] = max((level[before] + 1 for before, after in edges if after == node), default=0)
    rows: dict[int, list[int]] = {}
    for node in notable:
        rows.setdefault(level[node], []).append(node)
    keys = {node: f"{'state' if node in loop else prefix}{node}" for node in notable}
    found: list[Node] = []
    outer = [node for node in notable if is_entrance and reads_outside(flow, nodes, node, notable, owner)]
    left = {*outer, *(node for node in notable if node in aside)}
    for node in sorted(level, key=level.__getitem__):  # what such a step alone leads to stays on its side
        before = {owner_of for owner_of, after in edges if after == node}
        left |= {node} if before and before <= left else set()
    joined = find_joined(
        edges, level, left
    )  # what is taken up last stands left of what is taken up before: no crossing
    rows = {number: sorted(held, key=lambda node: -joined.get(node, -1)) for number, held in rows.items()}
    for row, held in enumerate(piece for number in sorted(rows) for piece in cut_row(flow, rows[number])):
        for place, node in enumerate(held):
            make = (
                partial(make_state, nodes=nodes, states=len(parted))
                if node in loop
                else partial(make_node, labels=labels, owner=owner)
            )
            made = make(flow, node, notable[node], row, spread(place, len(held)), keys[node])
            made = add_behind(flow, made, behind.get(node, {}), owner)
            turn, times, is_kept = drawn.turns.get(node, ({}, 1, False))
            found.append(tell_run(flow, made, turn, times, is_kept=is_kept) if turn else made)
    if drawn.middle is not None:
        names = [labels.get(one) or label_step(flow, one, owner) for one in drawn.held]
        read = list_read_elsewhere(flow, nodes, drawn.middle, owner)
        found = [tell_middle(flow, one, names, read) if one.key == keys[drawn.middle] else one for one in found]
    found = tell_again(flow, found)
    begun = {after for _, after in edges}
    head = max(notable) if end not in notable else end
    head = next((after for before, after in edges if before == head and takes_in_order(flow, after)), head)
    ways = tuple(Edge(keys[before], keys[after]) for before, after in sorted(edges))
    return Chart(
        tuple(uncross(found, ways, {keys[node] for node in left})),
        ways,
        tuple(keys[node] for node in notable if node not in begun or reads(flow, nodes, node, notable, owner, begins)),
        keys[head],
        tuple(keys[node] for node in outer),
    )


def find_joined(edges: Collection[tuple[int, int]], level: Mapping[int, int], left: Collection[int]) -> dict[int, int]:
    """For each step of the left side at which level what it leads to is first taken up by one that is not."""
    found: dict[int, int] = {}
    for node in sorted(left, key=level.__getitem__, reverse=True):
        readers = [after for before, after in edges if before == node]
        found[node] = min((found.get(after, level[after]) for after in readers), default=level[node])
    return found


def add_behind(flow: Flow, node: Node, behind: Mapping[int, tuple[int, ...]], owner: Collection[int]) -> Node:
    """A box that stands for what follows its step too; `owner` are all that are drawn."""
    if not behind:
        return node
    label = node.label
    for told in (label_bent(flow, one, list_times(flow, one), owner) for one in behind):
        label += f"{', ' if told.startswith('×') else ' + '}{told}"
    places = [one for number, group in behind.items() for one in (*group, *list_times(flow, number))]
    steps = (*node.steps, *steps_at(flow, *(one for place in places for one in with_held(flow, place, owner))))
    places = [flow.places[step.id] for step in steps]
    extra = describe_params(flow, *places) if node.extra else node.extra
    return replace(node, label=label, steps=steps, record=flow.output([*behind][-1]), extra=extra)


def label_bent(flow: Flow, node: int, times: tuple[int, ...], owner: Collection[int]) -> str:
    """What a step is called, with the number by which what it gives is multiplied, or which that cannot pass."""
    capped = name_cap(flow, sorted((node, *times))) if times else ""
    comma = "," * (flow.op(node) in SUMS and bool(times))
    return capped or f"{label_step(flow, node, owner)}{comma}{label_times(flow, times)}"


def with_held(flow: Flow, node: int, drawn: Collection[int]) -> tuple[int, ...]:
    """A step with those that work out the learned numbers that rows meet there, as exp(A) is."""
    is_held = meets_learned(flow, node, drawn) or bool(list_of_one_number(flow, node))
    return with_learned(flow, (node,), drawn) if is_held else (node,)


def name_written_bends(flow: Flow, nodes: Collection[int], loop: Collection[int]) -> dict[int, str]:
    """The steps that end an activation that is written out, each with what that is called, where it is a known one."""
    found: dict[int, str] = {}
    outside = set(nodes).difference(loop)
    for node in nodes:
        own = list_written_bend(flow, node)
        name = name_activation(flow, own, ()) if own and outside.issuperset(own) else None
        found |= {node: label_activation(name)} if name in ACTIVATIONS else {}
    return found


def cut_row(flow: Flow, nodes: list[int]) -> list[list[int]]:
    """The steps of a row in as many rows as they need to be read."""
    most = MOST_IN_ROW if all(len(flow.output(node).shape) < 5 for node in nodes) else 2
    most = most if not nodes else ceil(len(nodes) / ceil(len(nodes) / most))
    return [nodes[start : start + most] for start in range(0, len(nodes), most)]


def spread(place: int, count: int) -> Place:
    """Where the how manieth of so many nodes of a row stands."""
    return ((place + 0.5) / count, min(0.86, 0.94 / count))


def with_learned(flow: Flow, group: tuple[int, ...], owner: Collection[int] = ()) -> tuple[int, ...]:
    """Some steps with those that work out what they read of parameters alone, as learned rows are made queries.

    Without those that stand in boxes of their own (Aria).
    """
    apart = {*list_reading_data(flow), *owner}
    made = (maker for one in group for maker in flow.makers[one] if maker is not None and maker not in apart)
    return tuple(dict.fromkeys((*group, *flow.behind(*made, within=lambda here: here not in apart))))


def make_node(
    flow: Flow,
    node: int,
    group: tuple[int, ...],
    row: int,
    place: Place,
    key: str,
    *,
    labels: Mapping[int, str],
    owner: Collection[int],
) -> Node:
    """A step as a node; `owner` are all that are drawn."""
    is_whole = attends(flow, group) or find_any_norm(flow, node) is not None or bool(list_shift(flow, node))
    is_whole |= are_alike(flow, group) or labels.get(node) in (STATE_BY_PIECES, EACH_CHANNEL)
    times = list_times(flow, node) if flow.op(node) in CURVES | SUMS and node not in labels else ()
    apart = {*owner}.difference(group)
    bias = [one for one in list_bias(flow, node) if one not in apart] if describe_params(flow, node) else []
    times = times if apart.isdisjoint(times) else ()
    held = (*with_held(flow, node, apart), *bias, *(one for one in list_shares(flow, node) if one in group))
    counted = with_learned(flow, group, apart) if is_whole else held
    extra = describe_params(flow, *counted)
    counted = counted if list_reading_data(flow) else ()  # what was given is not told of every pass
    steps = steps_at(flow, *dict.fromkeys((node, *group, *held, *counted, *times)))
    label, end = labels.get(node) or label_bent(flow, node, times, owner), find_shortened(flow, node)
    if end != node:
        told = f", CUT TO {flow.output(end).shape[-1]:,}" if flow.op(node) in TRANSPOSED else ""
        label, steps = f"{label}{told}", (*steps, *steps_at(flow, end))
    if (changed := find_changed_in_place(flow, node)) is not None:
        end, label = changed[0], f"{label} {changed[1]}"
        steps = (*steps, *steps_at(flow, end))
    if (real := find_real(flow, node)) != node and node not in labels:
        end, steps = real, (*steps, *steps_at(flow, real))
    if attends(flow, group) and (laid := find_laid(flow, node)) != node:
        end, steps = laid, (*steps, *steps_at(flow, laid))
    is_normed = any(maker is not None and flow.op(maker).endswith("weight_norm") for maker in flow.makers[node])
    beneath = (*(NORMED,) * is_normed, *tell_parts(flow, node))
    if labels.get(node) == EACH_CHANNEL:
        beneath = (*beneath, MADE_BESIDE.format(steps=", ".join(label_step(flow, one) for one in reversed(group[1:]))))
    return Node(key, label, row, place, steps, flow.output(end), extra, told=beneath)


def are_alike(flow: Flow, group: Collection[int]) -> bool:
    """Whether steps are several of one kind, each with as many weights of its own (SAM's heads)."""
    kinds = {(flow.op(one), flow.steps[one].params) for one in group}
    return len(group) > 1 == len(kinds) and any(flow.steps[one].params for one in group)


def make_state(
    flow: Flow,
    node: int,
    group: tuple[int, ...],
    row: int,
    place: Place,
    key: str,
    *,
    nodes: Collection[int],
    states: int,
) -> Node:
    """The loops of steps that change so many states as one node; `nodes` are all of its part."""
    steps = steps_at(flow, *dict.fromkeys((node, *group)))
    changes = count_changes(flow, group, states)
    if changes and changes * states < count_changing(flow, nodes):  # it begins anew between others of other lengths
        changes, states = None, 1
    told = f"{'each ' if states > 1 else ''}changed {changes} times" if changes else ""
    unit = "PIECE" if goes_by_pieces(flow, nodes) else "PLACE"
    label = f"{f'{states} STATES' if states > 1 else 'STATE'}, HANDED FROM {unit} TO {unit}"
    last = longest_chain(flow, group)
    if flow.op(node) in DIVISIONS:  # a state of several parts is read as their quotient (RWKV)
        return Node(key, label, row, place, steps, flow.output(node), told=(READ,))
    return Node(key, label, row, place, steps, flow.output(node if last is None else last), told)


def count_changes(flow: Flow, group: Collection[int], states: int = 1) -> int | None:
    """How often loops change each of so many states: once with each sum, where each but the first is made of the one
    before.

    What is worked out of a state on the way is of another shape (gated delta rule). The last one may be for a cache
    alone, and lead nowhere (Qwen3.5). None where other sums of this shape stand among them, as those of a state in
    several parts (RWKV), or where there is but one.
    """
    last = longest_chain(flow, group)
    state = flow.output(max(group) if last is None else last).shape
    changing = {one for one in group if flow.op(one) in SUMS and flow.output(one).shape == state}
    made = {*flow.ahead(*changing, within=lambda one: flow.output(one).shape == state)} - {*group}
    kept = {one for one in made if flow.op(one) in SUMS}
    group, changing = {*group, *made}, changing | kept
    sums: dict[int, int] = {}
    for node in sorted(group):
        before = max((sums[maker] for maker in flow.makers[node] if maker in sums), default=0)
        sums[node] = before + (node in changing)
    changes = max(sums.values(), default=0)
    return changes if changes > 1 and changes * states == len(changing) else None
