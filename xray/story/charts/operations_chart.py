"""The chart of any steps: those that do more than move numbers, in rows by how far they are from the beginning."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    CURVES,
    FINDINGS,
    LOOKUPS,
    PLACING,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SOFTMAXES,
    SUMS,
)
from xray.ir.flow.projections import is_product
from xray.ir.records import TensorRecord
from xray.story.anatomy.wording import ACTIVATIONS
from xray.story.body.stages import find_any_norm
from xray.story.branches.feed_forward import SPLITTERS, name_activation
from xray.story.branches.others import longest_chain
from xray.story.charts.chart import Chart, Edge, Node, Place, describe_params, steps_at
from xray.story.charts.operation_labels import LABELS, label_step
from xray.story.passages.added_places import learned_source
from xray.story.passages.channels import gates_channels
from xray.story.passages.pools import is_pool
from xray.story.recognition.between import PLAIN, is_linear, list_reading_data
from xray.story.recognition.scored_parts import FILLINGS
from xray.story.recognition.written_bends import list_written_bend

MOST_NODES, MOST_AT_ALL, MOST_IN_ROW = 16, 28, 3
"""So many boxes are drawn of a part; of an entrance more, since what goes into the stream has to be seen to do so."""

MOST_BEHIND = 60
PICKS = frozenset({"argmin", "argmax"})
CHANGES = CLAMPS | frozenset(
    ["acos", "arccos", "asin", "atan", "sin", "cos", "exp", "expm1", "log", "log1p", "pow", "pow_", "sqrt", "abs"]
)
"""What changes each number, and is drawn where there is room."""


def chart_operations(
    flow: Flow,
    nodes: Collection[int],
    end: int,
    labels: Mapping[int, str] | None = None,
    prefix: str = "op",
    *,
    is_entrance: bool = False,
    folded: Mapping[int, tuple[int, ...]] | None = None,
) -> Chart | None:
    """The steps of a part that matter, as many as can be read; None where there is none.

    Each of those `folded` stands for several, by the last of them. In an entrance those that read rows made elsewhere,
    by another tower, read a memory, and stand left.
    """
    loop = read_loop(flow, nodes)
    bends = name_written_bends(flow, set(nodes), loop)
    labels = {**bends, **(labels or {})}
    folded = {node: list_written_bend(flow, node) for node in bends} | dict(folded or {})
    notable = find_notable(flow, nodes, labels, folded, loop, MOST_AT_ALL)
    bent = fold_bends(flow, notable) if len(notable) > MOST_NODES else {}
    if not is_entrance and len(notable) - len(bent) > MOST_NODES:
        notable = find_notable(flow, nodes, labels, folded, loop, MOST_NODES)
        bent = {}
    if not notable:
        return None
    notable = {node: group for node, group in notable.items() if node not in bent.values()}
    owner = find_owners(flow, nodes, notable) | {bend: node for node, bend in bent.items()}
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
    left = set(outer)
    for node in sorted(level, key=level.__getitem__):  # what such a step alone leads to stays on its side
        before = {owner_of for owner_of, after in edges if after == node}
        left |= {node} if before and before <= left else set()
    rows = {number: sorted(held, key=lambda node: node not in left) for number, held in rows.items()}
    for row, held in enumerate(piece for number in sorted(rows) for piece in cut_row(flow, rows[number])):
        for place, node in enumerate(held):
            make = make_state if node in loop else partial(make_node, labels=labels)
            made = make(flow, node, notable[node], row, spread(place, len(held)), keys[node])
            found.append(add_bend(flow, made, bent[node]) if node in bent else made)
    begun = {after for _, after in edges}
    head = max(notable) if end not in notable else end
    return Chart(
        tuple(found),
        tuple(Edge(keys[before], keys[after]) for before, after in sorted(edges)),
        tuple(keys[node] for node in notable if node not in begun),
        keys[head],
        tuple(keys[node] for node in outer),
    )


def fold_bends(flow: Flow, notable: Collection[int]) -> dict[int, int]:
    """The drawn steps whose numbers go on through a bend and nowhere else, each with that: one box is enough."""
    found: dict[int, int] = {}
    for bend in notable:
        before = flow.carried_from(flow.makers[bend][0]) if flow.op(bend) in CURVES and flow.makers[bend] else None
        if before is None or before not in notable or flow.op(before) in CURVES:
            continue
        if sum(flow.is_leaf(reader) for reader in flow.readers.get(before, ())) == 1:
            found[before] = bend
    return found


def add_bend(flow: Flow, node: Node, bend: int) -> Node:
    """A box that stands for a bend too."""
    label = f"{node.label} + {label_step(flow, bend)}"
    return replace(node, label=label, steps=(*node.steps, flow.steps[bend]), record=flow.output(bend))


def name_written_bends(flow: Flow, nodes: Collection[int], loop: Collection[int]) -> dict[int, str]:
    """The steps that end an activation that is written out, each with what that is called, where it is a known one."""
    found: dict[int, str] = {}
    outside = set(nodes).difference(loop)
    for node in nodes:
        own = list_written_bend(flow, node)
        name = name_activation(flow, own, ()) if own and outside.issuperset(own) else None
        found |= {node: ACTIVATIONS[name].upper()} if name in ACTIVATIONS else {}
    return found


def cut_row(flow: Flow, nodes: list[int]) -> list[list[int]]:
    """The steps of a row in as many rows as they need to be read."""
    most = MOST_IN_ROW if all(len(flow.output(node).shape) < 5 for node in nodes) else 2
    most = most if not nodes else ceil(len(nodes) / ceil(len(nodes) / most))
    return [nodes[start : start + most] for start in range(0, len(nodes), most)]


def spread(place: int, count: int) -> Place:
    """Where the how manieth of so many nodes of a row stands."""
    return ((place + 0.5) / count, min(0.86, 0.94 / count))


def find_notable(
    flow: Flow,
    nodes: Collection[int],
    labels: Mapping[int, str],
    folded: Mapping[int, tuple[int, ...]],
    loop: Sequence[int],
    most: int,
) -> dict[int, tuple[int, ...]]:
    """The steps that are drawn, so many at most, each with the steps that it stands for too; of a loop the last one."""
    inside = set(nodes).difference(loop, *folded.values())
    normed: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for node in sorted(inside, reverse=True):
        norm = find_any_norm(flow, node)
        if norm is not None and node not in taken and taken.isdisjoint(norm.nodes):
            normed[node] = norm.nodes
            taken |= set(norm.nodes) | {one for one in inside if norm.nodes[0] < one < node}
    levels: list[Callable[[Flow, int, Collection[int]], bool]]
    levels = [is_substance, is_bend, pools, partial(is_joint, whole=frozenset(nodes)), changes_each]
    found: dict[int, tuple[int, ...]] = {}
    for wanted in levels:
        more = {
            node: (node,)
            for node in sorted(inside)
            if flow.is_leaf(node)
            and node not in taken
            and node not in normed
            and (node in labels or wanted(flow, node, inside | set(folded)))
        }
        if found and len(found) + len(more) + len(normed) > most:
            break
        found |= more
    found |= {node: tuple(sorted(group, reverse=True)) for node, group in normed.items()}
    found |= {node: tuple(sorted(group, reverse=True)) for node, group in folded.items()}
    if loop:
        found[loop[-1]] = tuple(reversed(loop))
    if len(found) > most:
        found = dict(sorted(found.items(), key=lambda one: -weight_of(flow, one[0]))[:most])
    return dict(sorted(found.items()))


def weight_of(flow: Flow, node: int) -> float:
    """How much a step would be missed."""
    return flow.steps[node].params + (1e12 if is_linear(flow, node) or flow.op(node) in FINDINGS else 0) + node * 1e-6


def read_loop(flow: Flow, nodes: Collection[int]) -> list[int]:
    """The steps of a state that is handed on from place to place, if there is one, in order."""
    last = longest_chain(flow, nodes)
    if last is None:
        return []
    chain = [last]
    while True:
        before = next(
            (
                one
                for maker in flow.makers[chain[-1]]
                if maker is not None and maker in nodes and flow.op(maker) in SCALINGS
                for one in flow.makers[maker]
                if one is not None
                and one in nodes
                and flow.op(one) in SUMS
                and flow.output(one).shape == flow.output(last).shape
            ),
            None,
        )
        if before is None:
            break
        chain.append(before)
    first = min(chain)
    return [node for node in sorted(nodes) if first <= node <= last and not is_linear(flow, node)]


def is_substance(flow: Flow, node: int, inside: Collection[int]) -> bool:
    """Whether a step multiplies by learned numbers, or does what no bending or moving does."""
    op = flow.op(node)
    if is_linear(flow, node) or op in FINDINGS or op in SOFTMAXES or op in LOOKUPS or is_product(flow, node):
        return True
    step = flow.steps[node]
    has_weights = any(len(record.shape) >= 2 and record.role == "parameter" for record in step.inputs)
    return (op in LABELS and op not in PLACING | SIDE_BY_SIDE | {"stack", "roll"}) or (
        op not in PLAIN and has_weights and op not in ("transpose", "to", "view", "reshape", "permute", "expand")
    )


def is_bend(flow: Flow, node: int, inside: Collection[int]) -> bool:
    """Whether a step bends more than a single number, such as a gate."""
    return flow.op(node) in CURVES and prod(flow.output(node).shape) > 1


def pools(flow: Flow, node: int, inside: Collection[int]) -> bool:
    """Whether a step makes one number of several neighbours, or one row of several."""
    return is_pool(flow, node)


def changes_each(flow: Flow, node: int, inside: Collection[int]) -> bool:
    """Whether a step works each number of rows out anew by a law that is no known bend: an angle, a power, a clamp."""
    out = flow.output(node)
    is_worked_out = flow.op(node) in CHANGES and out.is_float and out.role == "activation"
    return is_worked_out and len(out.shape) > 1 and prod(out.shape) > 1 and node in list_reading_data(flow)


def is_joint(flow: Flow, node: int, inside: Collection[int], whole: Collection[int]) -> bool:
    """Whether a step brings two tensors of the part together, number by number or side by side.

    Side by side, one of them may be from outside the `whole` part, or be learned.
    """
    step = flow.steps[node]
    makers = {maker for maker in flow.makers[node] if maker is not None and maker in inside}
    if flow.op(node) in PLACING:
        return len(makers) > 1
    if flow.op(node) in SIDE_BY_SIDE | {"stack"}:
        makers = {maker for maker in makers if not is_blank(flow, maker)}
        return len(makers) > 1 or (bool(makers) and lays_others_beside(flow, node, whole))
    are_two = len(makers) == 2 or any(flow.op(one) in SPLITTERS for one in makers)  # two pieces of one tensor (LFM2)
    return (
        flow.op(node) in SUMS | SCALINGS
        and are_two
        and not any(is_blank(flow, maker) for maker in makers)
        and len(step.inputs) == 2
        and bool(step.outputs)
        and (
            all(len(record.shape) > 1 and record.shape[-1] == step.outputs[0].shape[-1] for record in step.inputs)
            or gates_channels(flow, node)
        )
    )


def lays_others_beside(flow: Flow, node: int, whole: Collection[int]) -> bool:
    """Whether a step puts rows beside a part's own that the part did not make: learned ones, or from elsewhere."""
    others = [(record, maker) for record, maker in flow.given(node) if maker not in whole and prod(record.shape) > 0]
    return prod(flow.output(node).shape) > 1 and any(
        maker is None or not is_blank(flow, maker) or learned_source(flow, record, maker) is not None
        for record, maker in others
    )


def is_blank(flow: Flow, maker: int) -> bool:
    """Whether rows are made of nothing, and all alike: what they stand beside is padded, and no more."""
    return flow.op(flow.carried_from(maker, CARRYING | REPEATS) or maker) in FILLINGS


def find_owners(flow: Flow, nodes: Collection[int], notable: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """For each step the drawn step that stands for it, if one does."""
    return {inner: node for node, group in notable.items() for inner in group}


def readers_of(
    flow: Flow,
    nodes: Collection[int],
    node: int,
    notable: Mapping[int, tuple[int, ...]],
    owner: Mapping[int, int],
) -> set[int]:
    """The drawn steps whose results a drawn step reads, steps that are not drawn between them left out."""
    inside = set(nodes)
    behind = list_undrawn(flow, inside, node, notable, owner)
    return {owner[here] for here in behind if here in owner and owner[here] != node}


def reads_outside(
    flow: Flow,
    nodes: Collection[int],
    node: int,
    notable: Mapping[int, tuple[int, ...]],
    owner: Mapping[int, int],
) -> bool:
    """Whether a drawn step reads rows of numbers that a step outside of the part made, through none that is drawn.

    So does one that looks up the rows of codes that were picked outside of it (Emu3).
    """
    inside = set(nodes)
    if any(looks_up_codes(flow, one) for one in notable[node]):
        return True
    behind = [one for one in list_undrawn(flow, inside, node, notable, owner) if one not in owner]
    return any(
        maker is not None and maker not in inside and is_rows(record)
        for one in (*notable[node], *behind)
        for record, maker in flow.given(one)
    )


def looks_up_codes(flow: Flow, node: int) -> bool:
    """Whether a step looks up rows of ids that were worked out as the highest or lowest of many numbers."""
    made = () if flow.op(node) not in LOOKUPS else (maker for record, maker in flow.given(node) if record.role == "ids")
    behind = flow.behind(*made, most=MOST_BEHIND, within=lambda place: not flow.output(place).is_float)
    return any(flow.op(place) in PICKS for place in behind)


def is_rows(record: TensorRecord) -> bool:
    """Whether a tensor has rows of numbers, as a stream has, and no ids, places or masks."""
    return record.role == "activation" and record.is_float and len(record.shape) > 1


def list_undrawn(
    flow: Flow, inside: Collection[int], node: int, notable: Mapping[int, tuple[int, ...]], owner: Mapping[int, int]
) -> set[int]:
    """The steps inside that lead to a drawn one, as far back as the next ones that are drawn, these included."""
    found: set[int] = set()
    own = set(notable[node])
    todo = [maker for inner in own for maker in flow.makers[inner] if maker is not None]
    while todo:
        here = todo.pop()
        if here in found or here in own or here not in inside:
            continue
        found.add(here)
        todo += [] if here in owner else [maker for maker in flow.makers[here] if maker is not None]
    return found


def attends(flow: Flow, group: Collection[int]) -> bool:
    """Whether a drawn step stands for a whole attention."""
    return len(group) > 1 and any(flow.op(one) in SOFTMAXES for one in group)


def make_node(
    flow: Flow, node: int, group: tuple[int, ...], row: int, place: Place, key: str, *, labels: Mapping[int, str]
) -> Node:
    """A step as a node."""
    is_whole = attends(flow, group) or find_any_norm(flow, node) is not None
    extra = describe_params(flow, *(group if is_whole else (node,)))
    steps = steps_at(flow, *dict.fromkeys((node, *group)))
    return Node(key, labels.get(node) or label_step(flow, node), row, place, steps, flow.output(node), extra)


def make_state(flow: Flow, node: int, group: tuple[int, ...], row: int, place: Place, key: str) -> Node:
    """A loop of steps that change a state as a node."""
    steps = steps_at(flow, *dict.fromkeys((node, *group)))
    changes = sum(flow.op(one) in SUMS for one in group)
    told = f"changed {changes} times"
    return Node(key, "STATE, HANDED FROM PLACE TO PLACE", row, place, steps, flow.output(node), told)
