"""Which steps of a part are drawn: those that do more than move numbers, and which of them stand in one box."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CLAMPS,
    CURVES,
    DIFFERENCES,
    DROPOUTS,
    FINDINGS,
    LOOKUPS,
    PLACING,
    SCALINGS,
    SIDE_BY_SIDE,
    SOFTMAXES,
    SUMS,
)
from xray.ir.flow.projections import is_product
from xray.story.charts.alike import Turn, find_kept, find_runs
from xray.story.charts.steps.joining import brings_to_scale, is_joint, meets_elsewhere, meets_fixed, takes_given_off
from xray.story.charts.steps.operation_labels import LABELS, RECURRENT
from xray.story.charts.steps.readers import is_of_nothing
from xray.story.passages.added_places import learned_source
from xray.story.passages.channels import masks_places
from xray.story.passages.held_factors import list_fed, list_shift
from xray.story.passages.learned_steps import meets_learned
from xray.story.passages.norm_factors import find_brought
from xray.story.passages.ordered_rows import find_shifted, takes_in_order
from xray.story.passages.pools import adds_up_rows, is_pool, lays_neighbours, measures_channels, takes_last_mean
from xray.story.recognition.between import PLAIN, is_linear, is_scale, list_reading_data
from xray.story.streams.shortcuts import find_any_norm

MOST_NODES, MOST_AT_ALL = 18, 28
"""So many boxes are drawn of a part; of an entrance or an exit more: what goes into the stream or out of it is seen."""
CHANGES = CLAMPS | {"acos", "arccos", "asin", "asinh", "arcsinh", "atan", "sin", "cos", "exp", "expm1", "log", "log1p"}
CHANGES |= {"pow", "pow_", "sqrt", "abs"}
"""What changes each number, and is drawn where there is room."""
Group = tuple[int, ...]
"""A step that is drawn with others that it stands for."""


@dataclass(frozen=True)
class Drawn:
    """The steps that are drawn, each with those that it stands for, and what follows it in the same box.

    `middle` is the one that stands for all those between the first and the last that had no room, which are `held`. The
    last one of several `turns` alike may stand for them all: the first of these, how many they are, and whether what
    each gives is read behind them all.
    """

    steps: dict[int, Group]
    behind: dict[int, dict[int, Group]]
    middle: int | None = None
    held: Group = ()
    turns: dict[int, tuple[Turn, int, bool]] = field(default_factory=dict)


def pick_steps(
    flow: Flow,
    nodes: Collection[int],
    labels: Mapping[int, str],
    folded: Mapping[int, Group],
    loop: Sequence[int],
    most: int,
    begins: Collection[int] = (),
    end: int | None = None,
) -> Drawn:
    """The steps of a part that are drawn, so many at most; `begins` are those outside that give what it begins with.

    Where not all have room, what brings tensors together or bends them is left out, if that is enough, but for what
    brings together all that the part gives at its `end` (CSATv2's map); else those in the middle stand in one box.
    """
    picked, levels = [], list_notable(flow, nodes, labels, folded, loop, begins)
    last = flow.carried_from(end, CARRYING | DROPOUTS)
    ended = {node: group for node, group in levels[-1].items() if node == last}
    for level in reversed(levels):
        notable = dict(sorted({**level, **ended}.items()))
        behind = fold_behind(flow, notable) if len(notable) > MOST_NODES else {}
        inner = {one for own in behind.values() for one in own}
        shown = {node: group for node, group in notable.items() if node not in inner}
        picked.append(Drawn(shown, {node: {one: notable[one] for one in own} for node, own in behind.items()}))
        if len(shown.keys() - (notable.keys() - level.keys())) <= most:
            return picked[-1]
    whole = fold_turns(flow, picked[0])
    return whole if len(whole.steps) <= most else fold_middle(picked[0], most)


def fold_turns(flow: Flow, whole: Drawn) -> Drawn:
    """The same with one box for several turns of the same steps, one behind the other (HGNet).

    Turns of which some are read elsewhere too, and others are not, have their own boxes.
    """
    steps, behind, turns = dict(whole.steps), dict(whole.behind), dict[int, tuple[Turn, int, bool]]()
    for run, long in find_runs(flow, list(whole.steps), whole.behind):
        every = {*run, *(one for node in run for group in list_groups(whole, node) for one in group)}
        kept = find_kept(flow, run, long, every)
        if len(kept) > 1:
            continue
        turns[run[-1]] = {node: whole.behind.get(node, {}) for node in run[:long]}, len(run) // long, kept == {True}
        held = [steps.pop(node) for node in run]
        held += [own for node in run[:-1] for own in behind.pop(node, {}).values()]
        steps[run[-1]] = tuple(sorted({one for own in held for one in own}, reverse=True))
    return Drawn(dict(sorted(steps.items())), behind, turns=turns)


def list_groups(drawn: Drawn, node: int) -> list[Group]:
    """The steps that the box of one stands for, and those of all that stand in it behind."""
    return [drawn.steps[node], *drawn.behind.get(node, {}).values()]


def fold_middle(whole: Drawn, most: int) -> Drawn:
    """The same with the first and the last steps alone, and one that stands for all between them."""
    ordered = list(whole.steps)
    begin, end = most // 4, len(ordered) - (most - most // 4 - 1)
    middle = ordered[begin:end]
    held = {node: whole.steps[node] for node in middle}
    held |= {one: group for node in middle for one, group in whole.behind.get(node, {}).items()}
    steps = {node: whole.steps[node] for node in (*ordered[:begin], *ordered[end:])}
    steps[middle[-1]] = tuple(sorted((one for group in held.values() for one in group), reverse=True))
    behind = {node: own for node, own in whole.behind.items() if node in steps and node != middle[-1]}
    return Drawn(dict(sorted(steps.items())), behind, middle[-1], tuple(held))


def fold_behind(flow: Flow, notable: Mapping[int, Group]) -> dict[int, tuple[int, ...]]:
    """The drawn steps whose numbers go on through a norm of maps, learned numbers, a bend, and nowhere else.

    One box is enough: each with these. What the model hands out as it is ends a box.
    """
    found: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for node in sorted(notable):
        own: list[int] = []
        while node not in taken and flow.op(node) not in CURVES:
            if flow.steps[own[-1] if own else node].id in flow.one_pass.results:
                break
            here = read_alone(flow, own[-1] if own else node, notable)
            is_norm = (
                here is not None and not own and bool(flow.op(here).startswith("batch_norm") or list_shift(flow, here))
            )
            is_learned = here is not None and meets_learned(flow, here, notable)
            if here is None or here not in notable or not (is_norm or is_learned or flow.op(here) in CURVES):
                break
            own.append(here)
            if not is_norm and not is_learned:
                break
        taken |= set(own)
        found |= {node: tuple(own)} if own else {}
    return found


def read_alone(flow: Flow, node: int, notable: Mapping[int, Group]) -> int | None:
    """The one drawn step that reads what another gives, behind what works on nothing else; None where several do.

    Nor where it is multiplied by a number first, as a sum that is made a mean of three (HiFi-GAN), or brought together
    with other numbers in no box, be they no data (NeuCodec's codes): one box would not tell so.
    """
    data, here = list_fed(flow), node
    untold: set[int] = set()
    while True:
        readers = flow.leaf_readers(here)
        if len(readers) != 1 or readers[0] in notable:
            is_told = len(readers) == 1 and untold <= set(notable[readers[0]])
            return readers[0] if is_told else None
        others = {maker for maker in flow.makers[readers[0]] if maker != here and maker in data}
        if others or is_scale(flow, readers[0]):
            return None
        here = readers[0]
        untold |= {here} if is_changed(flow, here) else set()


def is_changed(flow: Flow, node: int) -> bool:
    """Whether a step brings what it reads together with other numbers than a learned shift."""
    learned = any(learned_source(flow, *one) is not None for one in flow.given(node))
    return flow.op(node) in SCALINGS | DIFFERENCES or (flow.op(node) in SUMS and not learned)


def list_notable(
    flow: Flow,
    nodes: Collection[int],
    labels: Mapping[int, str],
    folded: Mapping[int, tuple[int, ...]],
    loop: Sequence[int],
    begins: Collection[int] = (),
) -> list[dict[int, tuple[int, ...]]]:
    """The steps that may be drawn, each with those that it stands for too, of a loop the last: first those that matter
    most, then ever more."""
    inside = set(nodes).difference(loop, *folded.values())
    normed: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for node in sorted(inside, reverse=True):
        norm = find_any_norm(flow, node)
        if norm is not None and node not in taken and taken.isdisjoint(norm.nodes):
            normed[node] = norm.nodes if (times := find_brought(flow, norm)) is None else (*norm.nodes, times)
            taken |= set(norm.nodes) | {one for one in inside if norm.nodes[0] < one < node}
        elif node not in taken and len(shift := list_shift(flow, node)) > 1:
            normed[node] = shift
            taken |= set(shift)
    levels: list[Callable[[Flow, int, Collection[int]], bool]]
    joint = partial(is_joint, whole=frozenset(nodes), begins=begins)
    turns = {flow.steps[one].location for one in (*loop, *(one for own in folded.values() for one in own))}
    levels = [is_substance, is_bend, pools, partial(meets_alone, turns=turns)]
    levels.append(lambda flow, node, inside: flow.op(node) in SIDE_BY_SIDE and joint(flow, node, inside))
    levels += [joint, partial(meets_elsewhere, whole=frozenset(nodes)), changes_each]
    levels.append(lambda flow, node, _: adds_up_rows(flow, node))
    levels.append(lambda flow, node, _: masks_places(flow, node))
    known = {node: tuple(sorted(group, reverse=True)) for node, group in (normed | dict(folded)).items()}
    known |= {loop[-1]: tuple(reversed(loop))} if loop else {}
    found: list[dict[int, tuple[int, ...]]] = []
    for wanted in levels:
        more = {
            node: (node,)
            for node in sorted(inside)
            if flow.is_leaf(node)
            and node not in taken
            and node not in normed
            and not is_of_nothing(flow, node)
            and (node in labels or wanted(flow, node, inside | set(folded)))
        }
        found.append(dict(sorted({**(found[-1] if found else {}), **more, **known}.items())))
    return found


def meets_alone(flow: Flow, node: int, inside: Collection[int], turns: Collection[str | None]) -> bool:
    """Whether rows meet learned numbers at a step, and not at each turn of a loop that has a box (RWKV)."""
    return bool(meets_learned(flow, node) or list_shift(flow, node)) and flow.steps[node].location not in turns


def is_substance(flow: Flow, node: int, inside: Collection[int]) -> bool:
    """Whether a step multiplies by learned numbers, or does what no bending or moving does.

    What weights go through before rows meet them belongs to the step that they meet there (wav2vec 2.0).
    """
    op = flow.op(node)
    if op.endswith("weight_norm"):
        return False
    if is_linear(flow, node) or op in FINDINGS | SOFTMAXES | LOOKUPS | RECURRENT or is_product(flow, node):
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
    """Whether a step makes one number of several neighbours, one row of several, or lays, takes or flips them."""
    return (
        (flow.op(node) == "flip" and flow.output(node).is_float and node in list_reading_data(flow))
        or is_pool(flow, node)
        or lays_neighbours(flow, node)
        or measures_channels(flow, node)
        or takes_in_order(flow, node)
        or find_shifted(flow, node) is not None
    )


def changes_each(flow: Flow, node: int, inside: Collection[int]) -> bool:
    """Whether a step works each number of rows out anew by a law that is no known bend: an angle, a power, a clamp."""
    out = flow.output(node)
    is_worked_out = flow.op(node) in CHANGES and out.is_float and out.role == "activation"
    is_worked_out |= brings_to_scale(flow, node) or takes_last_mean(flow, node) or meets_fixed(flow, node)
    is_worked_out |= takes_given_off(flow, node)
    return is_worked_out and len(out.shape) > 1 and prod(out.shape) > 1 and node in list_reading_data(flow)
