"""Rows that are chosen: by their scores, as queries are (RT-DETR), by chance (ViT MAE), or by their ids (CLIP)."""

from collections.abc import Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, CHANCE, COPIES, LOOKUPS, REPEATS, SUMS, TIMES
from xray.ir.records import TensorRecord
from xray.story.recognition.addends import NEGATIONS
from xray.story.recognition.values.value_shapes import number

NEAR_BEHIND, FAR_BEHIND = 8, 32
DRAWS = CHANCE | {"multinomial"}
ORDERS = frozenset({"argsort", "sort", "topk"})
WHOLE_NUMBERS = frozenset({"int", "long"})
"""What makes whole numbers of others, and of what is compared 1 where it holds, else 0."""
STANDING = CASTING | COPIES | WHOLE_NUMBERS | {"alias", "detach"}
"""What leaves each number at its place."""


def picks_best(flow: Flow, here: int) -> bool:
    """Whether a step picks the rows that scored best: they begin another stream (RT-DETR)."""
    return bool(list_choice(flow, here))


def list_choice(flow: Flow, here: int) -> tuple[int, ...]:
    """The steps that say which rows a step picks: from the choice of the highest scores on; none where it is no such.

    The choice itself stands last.
    """
    if flow.op(here) not in ("gather", "index", "index_select"):
        return ()
    for maker in (maker for record, maker in flow.given(here) if not record.is_float):
        found: list[int] = []
        for one in flow.behind(maker, most=NEAR_BEHIND):
            found.append(one)
            if flow.op(one) == "topk":
                return tuple(found)
    return ()


def list_by_highest(flow: Flow, choice: int) -> tuple[int, ...]:
    """A choice with the step before it that finds the highest score of each row; none where rows have one score."""
    best = flow.makers[choice][0] if flow.op(choice) == "topk" else None
    if best is None or flow.op(best) not in ("max", "amax"):
        return ()
    before, after = flow.steps[best].inputs[0].shape, flow.output(best).shape
    return (best, choice) if before[:-1] == after else ()


def name_scores(flow: Flow, here: int) -> str:
    """By what the rows that a step picks are chosen, if that is their scores; "" for all else."""
    choice = list_choice(flow, here)
    if not choice or flow.steps[choice[-1]].settings.get("largest") is False:
        return ""
    return ", BY EACH ONE'S HIGHEST SCORE" if list_by_highest(flow, choice[-1]) else ", BY THEIR SCORES"


def list_one_of_two(flow: Flow, add: int) -> tuple[int, ...]:
    """A sum of two products of which one is 0 at each place, as a bool and its opposite say; none for any other sum.

    So each place is taken from one of two tensors (Phi-4 multimodal's words with images, and with sounds).
    """
    return list_shares(flow, add, are_bools=True)


def list_shares(flow: Flow, add: int, *, are_bools: bool = False) -> tuple[int, ...]:
    """A sum of two products, one by some numbers, the other by what these lack of 1; none for any other sum."""
    made = [flow.carried_from(maker) for maker in flow.makers[add]] if flow.op(add) in SUMS else []
    products = [one for one in made if one is not None and flow.op(one) in TIMES]
    if len(products) != 2 or len(flow.steps[add].inputs) != 2:
        return ()
    shares = [
        [said for given in flow.given(one) if (said := read_share(flow, *given, is_bool=are_bools))] for one in products
    ]
    if are_bools and any(len(one) != 1 for one in shares):
        return ()
    first, second = map(dict, shares)
    is_split = any(second.get(source, is_opposite) != is_opposite for source, is_opposite in first.items())
    return (*sorted(products), add) if is_split else ()


def list_mixed(flow: Flow, add: int) -> tuple[int, ...]:
    """Such a sum whose numbers may be others than 0 and 1, as shares of two are (SimMIM); none for any other."""
    return () if list_one_of_two(flow, add) else list_shares(flow, add)


def mixes(flow: Flow, places: Sequence[int]) -> bool:
    """Whether the first of some steps mixes two by their shares, and all that multiplies them is among these steps."""
    mixed = list_mixed(flow, places[0])
    return bool(mixed) and {*mixed} <= {*places}


def read_share(flow: Flow, record: TensorRecord, maker: int | None, *, is_bool: bool) -> tuple[str, bool] | None:
    """Which numbers, be it a bool, a tensor is, moved or made numbers since, and whether it is what they lack of 1.

    They are known by the step that made them, or by the first that moved what came in.
    """
    is_opposite, first = False, record.argument
    while maker is not None and flow.op(maker) in CARRYING | NEGATIONS | {"rsub"} and flow.makers[maker]:
        step = flow.steps[maker]
        record, before = next(flow.given(maker))
        is_plain = record.dtype == "bool" if flow.op(maker) in NEGATIONS else number(step) == 1
        if flow.op(maker) not in CARRYING and not is_plain:
            return None
        is_opposite ^= flow.op(maker) not in CARRYING
        maker, first = before, record.argument or step.id
    source = record.source or first
    return None if source is None or (is_bool and record.dtype != "bool") else (source, is_opposite)


def picks_by_chance(flow: Flow, here: int) -> bool:
    """Whether the rows that a step takes are drawn by chance: places in the order of numbers that are (ViT MAE)."""
    found = [maker for record, maker in flow.given(here) if not record.is_float]
    return len(found) == 1 and is_drawn(flow, found[0])


def is_drawn(flow: Flow, here: int | None) -> bool:
    """Whether numbers are drawn by chance, and then no more than moved, cut, repeated or put in order."""
    while here is not None and flow.op(here) not in CHANCE:
        before = flow.makers[here] if flow.op(here) in CARRYING | REPEATS | ORDERS | {"index"} else ()
        here = before[0] if len(before) == 1 else None
    return here is not None


def find_drawn_table(flow: Flow, here: int) -> int | None:
    """The step that makes a table of sequences and rows, drawn by chance, by whose columns rows are picked (ViLT).

    None for any other step, and where no table is known to be that.
    """
    given = list(flow.given(here)) if flow.op(here) == "index" else []
    columns = [maker for record, maker in given[1:] if not record.is_float and maker is not None]
    if len(given) != len(("rows", "sequence", "row")) or len(columns) != 2 or len(given[0][0].shape) != 3:
        return None
    tables = {flow.makers[one][0] for one in columns if flow.op(one) == "index" and len(flow.makers[one]) == 1}
    table = tables.pop() if len(tables) == 1 else None
    made = flow.behind(table, most=FAR_BEHIND, ends=lambda one: flow.op(one) in DRAWS)
    return table if table is not None and any(flow.op(one) in DRAWS for one in made) else None


def name_row_of_id(flow: Flow, node: int) -> str:
    """Which row of each sequence its own ids pick: the first that has one id, or that of the highest (CLIP); or ""."""
    picked = [maker for _, maker in flow.given(node)][2:] if flow.op(node) == "index" else []
    highest = flow.carried_from(picked[0]) if len(picked) == 1 else None
    if highest is None or flow.op(highest) != "argmax" or number(flow.steps[highest], "dim") not in (-1, 1):
        return ""
    compared = flow.carried_from(flow.makers[highest][0], CARRYING | WHOLE_NUMBERS)
    if compared is None or flow.op(compared) != "eq":
        return "THE HIGHEST ID'S ROW" if is_of_ids(flow, highest) else ""
    one = number(flow.steps[compared])
    return f"THE FIRST ROW OF ID {one:.0f}" if one is not None and is_of_ids(flow, compared) else ""


def ask_id(flow: Flow, node: int) -> int | None:
    """The id at whose places alone a step writes, as a bool says that it reads; None where it is none that is known."""
    masks = [(record.shape, maker) for record, maker in flow.given(node) if record.dtype == "bool"]
    shape, maker = masks[0] if len(masks) == 1 else ((), None)
    here = flow.carried_from(maker, STANDING | {"unsqueeze"})
    if here is None or flow.op(here) != "eq" or flow.output(here).shape != flow.output(node).shape[:-1]:
        return None
    is_for_each = shape == flow.output(here).shape + (1,) * (not flow.op(node).startswith("index_put"))
    is_asked = is_for_each and (is_of_ids(flow, here) or is_of_looked_up(flow, here))
    wanted = number(flow.steps[here]) if is_asked else None
    return int(wanted) if wanted is not None and wanted == int(wanted) else None


def is_of_looked_up(flow: Flow, node: int) -> bool:
    """Whether a step reads the only ids that its module was handed, which looks them up (T5Gemma 2's words)."""
    step = flow.steps[node]
    holder = flow.one_pass.by_id.get(step.parent or "")
    handed = [] if holder is None else [one for one in holder.inputs if one.role == "ids"]
    lookups = [one for one in flow.steps if one.parent == step.parent and one.op in LOOKUPS]
    read = [*step.inputs, *(record for one in lookups for record in one.inputs if record.role == "ids")]
    return len(handed) == len(lookups) == 1 and {(one.shape, one.source) for one in read} == {(handed[0].shape, None)}


def is_of_ids(flow: Flow, node: int) -> bool:
    """Whether a step reads the only ids of their shape that a pass was given, each at its place; no mask or places."""
    record, maker = next(flow.given(node))
    while maker is not None and flow.makers[maker] and (flow.op(maker) in STANDING or is_laid_as_before(flow, maker)):
        record, maker = next(flow.given(maker))
    alike = [one for one in flow.one_pass.arguments if one.shape == record.shape and one.role == "ids"]
    return maker is None and record.role == "ids" and record.given is None and len(alike) == 1


def is_laid_as_before(flow: Flow, node: int) -> bool:
    """Whether a step lays numbers out in the shape that they had."""
    return flow.op(node) in ("reshape", "view") and flow.output(node).shape == flow.steps[node].inputs[0].shape
