"""How many numbers tell a place by which rows are turned: one, or several, each for its part of a head (Qwen2-VL)."""

from collections import defaultdict
from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, PLACING, REPEATS, SCALINGS, SIDE_BY_SIDE, SPLITS, SUMS, WRITES
from xray.ir.flow.projections import is_product
from xray.story.recognition.turning import list_turned

MOST_NUMBERS, MOST_STEPS = 4, 60
PUT_BESIDE = SIDE_BY_SIDE | WRITES | PLACING | {"stack"}
LAID = CARRYING | SCALINGS | PUT_BESIDE | REPEATS | SPLITS | {"flip"}


def count_place_numbers(flow: Flow, turned: Collection[int]) -> int | None:
    """How many numbers tell each place by which some steps turn rows; None for one, or where that is not known.

    Angles are worked out of each number by itself, and each gives its part of them: those parts are picked and laid
    side by side behind the cosine (Wang et al. 2024, Qwen2-VL, section 2.1), or all laid side by side. Angles that are
    learned are those of a row without a place (MLCD's class).
    """
    found = {read_parts(flow, node) for node in list_cosines(flow, turned) if not is_learned(flow, node)}
    return found.pop() if len(found) == 1 else None


def list_cosines(flow: Flow, turned: Collection[int]) -> list[int]:
    """The cosines by which some steps turn rows, laid out anew on the way at most."""
    behind = flow.behind(
        *(maker for node in turned for maker in flow.makers[node] if maker not in turned),
        most=MOST_STEPS,
        within=lambda one: not flow.steps[one].params and is_laid(flow, one),
        ends=lambda one: flow.op(one) == "cos",
    )
    return [node for node in behind if flow.op(node) == "cos"]


def are_numbers_alike(flow: Flow, turned: Collection[int]) -> bool:
    """Whether the numbers of each place by which some steps turn rows are one: rows counted through, and repeated.

    So they are where words come in alone, and no image with rows and columns (Qwen2-VL).
    """
    cosines = [node for node in list_cosines(flow, turned) if not is_learned(flow, node)]
    return bool(cosines) and all(is_one_repeated(flow, node) for node in cosines)


def is_one_repeated(flow: Flow, node: int) -> bool:
    """Whether all that a step gives is made of one row of places in turn, which is repeated along the first axis."""
    here, is_repeated = node, False
    while flow.op(here) != "arange":
        made = {maker for maker in flow.makers[here] if maker is not None and is_counted(flow, maker)}
        is_plain = flow.op(here) in LAID | SUMS | {"cos"} or is_product(flow, here)
        is_joined = flow.op(here) in PUT_BESIDE and len({*flow.makers[here]}) > 1
        if len(made) != 1 or is_joined or not is_plain:
            return False
        (before,) = made
        if flow.op(here) in SUMS | SCALINGS and meets_others(flow, here, before):
            return False
        is_repeated |= flow.output(before).shape[:1] == (1,) != flow.output(here).shape[:1]
        here = before
    return is_repeated


def meets_others(flow: Flow, node: int, before: int) -> bool:
    """Whether a step works on another tensor too that may tell numbers of a place apart, more than one for all."""
    most = len(flow.output(before).shape)
    others = (record.shape for record, maker in flow.given(node) if maker != before)
    return any(len(shape) >= most and shape[:1] != (1,) for shape in others)


def is_counted(flow: Flow, node: int) -> bool:
    """Whether a step is one that counts places in turn, or leads back to such a one."""
    return any(flow.op(one) == "arange" for one in flow.behind(node, most=MOST_STEPS))


def have_unlike_numbers(flow: Flow, turned: Collection[int]) -> bool:
    """Whether the two numbers of every pair, one from each half, go by unlike numbers of a place (HunYuanVL).

    So it is where what cosines give of one number is picked for a column, and of another one for that a half apart.
    """
    widths = {flow.output(node).shape[-1] for node in list_turned(flow, turned)}
    cosines = [node for node in list_cosines(flow, turned) if not is_learned(flow, node)]
    laid = [list_picked(flow, node) for node in flow.ahead(*cosines, within=lambda one: is_laid(flow, one))]
    pairs = [(one[: len(one) // 2], one[len(one) // 2 :]) for one in laid if {len(one)} == widths]
    return bool(pairs) and all(first != other for both in pairs for first, other in zip(*both, strict=False))


def is_laid(flow: Flow, node: int) -> bool:
    """Whether a step is a cosine, or lays out anew what it reads."""
    return flow.op(node) in LAID or flow.op(node) == "cos"


def list_picked(flow: Flow, node: int) -> list[int]:
    """Which number of a place each column is of that a step lays side by side; none where these are not all picked."""
    picks = [(record.shape[-1], read_pick(flow, maker)) for record, maker in flow.given(node)]
    columns = [which for width, which in picks if which is not None for _ in range(width)]
    is_beside = flow.op(node) in SIDE_BY_SIDE and flow.output(node).shape[-1:] == (len(columns),)
    return columns if is_beside and None not in dict(picks).values() else []


def read_pick(flow: Flow, node: int | None) -> int | None:
    """Which row a step picks of the first axis, as angles of one number of a place; None where it picks none."""
    if node is None or flow.op(node) != "index" or not flow.steps[node].inputs:
        return None
    axis, which = find_pick(str(flow.steps[node].settings.get("index", "")), len(flow.steps[node].inputs[0].shape))
    return which if axis == 0 else None


def is_learned(flow: Flow, cosine: int) -> bool:
    """Whether a cosine is of learned numbers alone."""
    ways = [cosine, *flow.behind(*flow.makers[cosine], most=MOST_STEPS)]
    outer = [record.role for node in ways for record, maker in flow.taken(node) if maker is None]
    return {*outer} == {"parameter"} and all(flow.steps[node].inputs for node in ways)


def read_parts(flow: Flow, cosine: int) -> int | None:
    """In how many parts the angles of a cosine are made, each of one number of a place."""
    return count_merged(flow, cosine) or count_picked(flow, cosine)


def count_merged(flow: Flow, cosine: int) -> int | None:
    """How many rows of angles a move lays side by side, made by one product of a place's numbers with frequencies.

    Or lays in turn: the first angle of each number, then the second of each (Kimi K2.5's images).
    """
    before = list(flow.behind(*flow.makers[cosine], most=MOST_STEPS, within=lambda one: flow.op(one) in LAID))
    products = [flow.steps[node] for node in before if flow.op(node) in SCALINGS]
    numbers = {
        record.shape[-2]
        for step in products
        for record in step.inputs
        if len(record.shape) > 1 and record.shape[-1] == 1
    }
    for node in (*before, *flow.ahead(cosine, within=lambda one: one == cosine or flow.op(one) in LAID)):
        given, made = flow.steps[node].inputs[0].shape, flow.output(node).shape
        is_merged = flow.op(node) in CARRYING and made == (*given[:-2], prod(given[-2:])) != given
        if is_merged and 1 < given[-2] <= MOST_NUMBERS and given[-2] in numbers:
            return given[-2]
        in_turn = any(step.outputs[0].shape == (*given[:-2], *given[:-3:-1]) for step in products)
        if is_merged and in_turn and 1 < given[-1] <= MOST_NUMBERS and given[-1] in numbers:
            return given[-1]
    return None


def count_picked(flow: Flow, cosine: int) -> int | None:
    """Along how long an axis parts of what a cosine gives are picked, all of it, and laid or written side by side."""
    picked: defaultdict[int, set[int]] = defaultdict(set)
    shape = flow.output(cosine).shape
    for node in flow.ahead(cosine, within=lambda one: one == cosine or flow.op(one) in LAID):
        given = flow.steps[node].inputs[0].shape
        axis, which = find_pick(str(flow.steps[node].settings.get("index", "")), len(given))
        is_laid = any(flow.op(one) in PUT_BESIDE for one in flow.leaf_readers(node))
        if axis is not None and len(given) == len(shape) and given[:-1] == shape[:-1] and is_laid:
            picked[axis].add(which)
    whole = {axis for axis, found in picked.items() if found == set(range(shape[axis])) and axis < len(shape) - 1}
    counts = {shape[axis] for axis in whole if 1 < shape[axis] <= MOST_NUMBERS}
    return counts.pop() if len(counts) == 1 else None


def find_pick(index: str, rank: int) -> tuple[int | None, int]:
    """Which axis of a tensor an index picks one place of, and which place; None where it picks none."""
    parts = index.split(", ")
    for place, part in enumerate(parts):
        if part.isdecimal():
            is_from_right = "..." in parts[:place]
            return (rank - len(parts) + place if is_from_right else place), int(part)
    return None, 0
