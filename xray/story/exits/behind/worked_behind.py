"""What works on all rows behind the last layer, and what its steps are called."""

from collections.abc import Collection, Sequence
from math import isclose, prod

from xray.ir.flow.alike_pieces import find_pieces, find_pieces_at
from xray.ir.flow.attention_sites import NO_WEIGHT
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    DROPOUTS,
    LOOKUPS,
    PLACING,
    SUMS,
)
from xray.ir.flow.projections import is_product
from xray.ir.flow.regrouping import find_map
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.body.towers import Towering
from xray.story.branches.scored.caps import name_times, read_factor
from xray.story.charts.steps.operation_labels import label_step
from xray.story.entrance.cut_rows import LET_THROUGH, label_cut_into, lets_through
from xray.story.entrance.entry_labels import RESIZING, label_entry
from xray.story.entrance.tables import judge_training, looks_up_places, trains
from xray.story.exits.handed_rows import find_mean_of_laid, label_pieces, name_mean, name_rows, takes_every, takes_rows
from xray.story.passages.added_places import name_places
from xray.story.passages.joined_rows import name_merging
from xray.story.passages.ordered_rows import label_regrouped, read_regrouping, takes_in_order
from xray.story.recognition.addends import FILLS
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.chosen_rows import name_scores

PUSHED_DOWN = "SOME PUSHED FAR DOWN"


def list_worked_behind(flow: Flow, top: int, others: Collection[int], began: Collection[int]) -> list[tuple[int, ...]]:
    """The steps behind the last layer that bend all it gives, add what no data makes, or take a mean of its rows.

    Each but a mean of some rows is alone; nothing else reads what they read. A pooler's tanh is such a one, and a bias
    of words that stands apart from the layer (BART), and a mean of the first rows (Pixio). So are a number that all is
    multiplied by, a sum with what the stream `began` as (Nemotron 3.5 Transcribe), the choice of some rows, another
    order of all of them (Qwen2.5-VL's vision), several laid side by side (Muse Spark's), sums of them by weights that
    the stream did not make (Gemma 4's), one number that some others are set to (Chameleon's scores of image codes), and
    the one row with which all ends (DPR), rows that are cut into several each (Nemotron's diarization), those that a
    mask lets through (Gemma 4's eye), one of every few (Gemma 3n's ear), rows put into other sequences (VideoPrism),
    the mean of the first few with which all ends (AST), and a map of all rows (GLPN). So are places that are added,
    with the lookup that gives them (Moonshine Streaming's memory).
    """
    found: list[tuple[int, ...]] = []
    here, taken = top, tuple[int, ...]()
    while True:
        readers = flow.leaf_readers(here)
        if not taken and (mean := find_mean_of_taken(flow, readers)):
            return [*found, mean]
        if len(readers) != 1 or readers[0] in others:
            return found
        here = readers[0]
        if not taken and (boxes := list_piece_boxes(flow, here)):
            found += boxes
            (here,) = boxes[-1]
            continue
        if not taken and (mean_of_laid := find_mean_of_laid(flow, here)) is not None:
            found += [(here,), (mean_of_laid,)]
            here = mean_of_laid
            continue
        given = [record.shape for record, maker in flow.given(here) if flow.carried_from(maker) is None]
        if name_mean(flow, here):
            found.append((here, *taken))
        elif not taken and (
            flow.op(here) in CURVES
            or (flow.op(here) in SUMS and any(given))
            or changes_all(flow, here)
            or adds_earlier(flow, here, began)
            or adds_worked_out(flow, here)
            or chooses_rows(flow, here)
            or takes_in_order(flow, here)
            or read_written(flow, here) is not None
            or name_merging(flow, here)
            or weighs_rows_beside(flow, here, top)
            or ends_with_row(flow, here)
            or label_cut_into(flow, here)
            or lets_through(flow, here)
            or takes_every(flow, here)
            or read_regrouping(flow, here) is not None
            or ends_as_map(flow, here)
        ):
            found.append((here,))
        elif not taken and (looked_up := list_places_looked_up(flow, here)):
            found.append((here, *looked_up))
        elif not taken and takes_rows(flow, here):
            taken = (here,)
        elif flow.op(here) not in CARRYING | DROPOUTS:
            return found


def list_piece_boxes(flow: Flow, cut: int) -> list[tuple[int, ...]]:
    """The steps that cut rows into pieces, work on each without weights, and put them end to end; empty for others.

    What is done to a piece stands before what is done to the others in its place (VideoLLaMA 3's maps).
    """
    pieces = find_pieces(flow, cut)
    if pieces is None or any(flow.steps[node].params for way in pieces.ways for node in way):
        return []
    worked = [node for node in pieces.ways[0] if flow.op(node) not in CARRYING | DROPOUTS]
    between = [(node, *pieces.list_twins(node)) for node in worked]
    return [(cut,), *between, (pieces.join,)] if between else []


def list_places_looked_up(flow: Flow, node: int) -> tuple[int, ...]:
    """The lookup in a table of places whose rows a step adds, moved at most; empty for any other step."""
    made = map(flow.carried_from, flow.makers[node] if flow.op(node) in SUMS else ())
    return tuple(one for one in made if one is not None and flow.op(one) in LOOKUPS and looks_up_places(flow, one))


def find_mean_of_taken(flow: Flow, taken: Sequence[int]) -> tuple[int, ...]:
    """The steps that take the first rows of each sequence, one each, add them up, and divide by how many they are.

    The last of them comes first; none where steps do something else, or add up others.
    """
    rows = [str(flow.steps[one].settings.get("index", "")) for one in taken if name_rows(flow, one)]
    readers = {reader for one in taken for reader in flow.leaf_readers(one)}
    if len(taken) < 2 or rows != [f":, {place}" for place in range(len(taken))] or len(readers) != 1:
        return ()
    (added,) = readers
    ends = flow.leaf_readers(added)
    if flow.op(added) not in SUMS or len(ends) != 1:
        return ()
    factor = read_factor(flow, ends[0])
    return (ends[0], added, *taken) if factor is not None and isclose(factor * len(taken), 1, rel_tol=1e-6) else ()


def list_begun(flow: Flow, towering: Towering) -> set[int]:
    """The steps that a tower's stream began as: those of its entrance, and what it starts with."""
    given = map(flow.carried_from, (*towering.entrance, towering.start))
    return {one for one in given if one is not None}


def changes_all(flow: Flow, node: int) -> bool:
    """Whether a step multiplies all by a number that is known, and is not one."""
    factor = read_factor(flow, node)
    return factor is not None and not isclose(factor, 1, rel_tol=1e-6)


def adds_earlier(flow: Flow, node: int, began: Collection[int]) -> bool:
    """Whether a step adds rows that were there before the first layer, moved at most."""
    shape = flow.output(node).shape
    given = [flow.carried_from(maker) for record, maker in flow.given(node) if record.shape == shape]
    return flow.op(node) in SUMS and len(given) == 2 and any(one in began for one in given)


def adds_worked_out(flow: Flow, node: int) -> bool:
    """Whether a step adds as many numbers that no data made: boxes around the places of a map (Grounding DINO)."""
    shapes = [record.shape for record in flow.steps[node].inputs]
    makers = [maker for maker in flow.makers[node] if maker is not None]
    data = list_reading_data(flow)
    is_sum = flow.op(node) in SUMS and len(makers) == 2 and len(set(shapes)) == 1
    return is_sum and sum(maker in data for maker in makers) == 1


def chooses_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes the rows of each sequence that ids name, fewer than there are."""
    before, after = flow.steps[node].inputs[0].shape if flow.steps[node].inputs else (), flow.output(node).shape
    are_rows = len(before) == len(after) == len(("batch", "row", "width"))
    return flow.op(node) == "gather" and are_rows and before[::2] == after[::2] and after[1] < before[1]


def weighs_rows_beside(flow: Flow, node: int, top: int) -> bool:
    """Whether a step adds up the rows of each sequence to fewer ones, by weights not worked out of what `top` gives."""
    if not is_product(flow, node) or len(flow.makers[node]) != len(("weights", "rows")):
        return False
    before, after, weights = flow.steps[node].inputs[1].shape, flow.output(node).shape, flow.makers[node][0]
    are_rows = len(before) == len(after) == len(("batch", "row", "width")) and before[::2] == after[::2]
    is_as_wide = flow.output(top).shape[-1] == after[-1]  # not laid on their side, to meet other rows
    is_beside = top not in flow.behind(weights, within=lambda one: one >= top)
    return are_rows and is_as_wide and after[1] < before[1] and is_beside


def ends_with_row(flow: Flow, node: int) -> bool:
    """Whether a step takes one row of each sequence that has more, and nothing reads it."""
    is_last = not any(flow.is_leaf(one) for one in flow.readers.get(node, ()))
    return is_last and 1 not in flow.steps[node].inputs[0].shape[1:-1] and bool(name_rows(flow, node))


def ends_as_map(flow: Flow, node: int) -> bool:
    """Whether a step ends moves that lay rows out as a map again, and nothing reads it (GLPN)."""
    return not flow.leaf_readers(node) and find_map(flow, node) is not None


def read_written(flow: Flow, node: int) -> float | None:
    """The one number that a step writes at some places; None for any other step."""
    step = flow.steps[node]
    written = step.settings.get("values") if step.op in PLACING else step.settings.get("value")
    return float(written) if step.op in PLACING | FILLS and isinstance(written, int | float) else None


def label_behind(flow: Flow, nodes: Sequence[int], began: Collection[int]) -> str:
    """What a step behind the last layer is called, with those rows that it works on, if they are some alone."""
    end, *taken = nodes
    if looked_up := list_places_looked_up(flow, end):
        learned = judge_training(flow, trains(flow, looked_up[0]), looked_up)
        sines = flow.steps[looked_up[0]].settings.get("sines") is True or None
        return f"+ {name_places(EntrancePart('positions', learned=learned, sines=sines))}"
    if (pieces := find_pieces_at(flow, end)) is not None:
        return label_pieces([pieces])[end]
    if find_mean_of_laid(flow, end) is not None:
        return "ROWS IN A GIVEN ORDER"
    if flow.op(end) in RESIZING:
        return f"{label_entry(flow, end)} ({flow.steps[end].settings.get('mode', 'nearest')})"
    if len(taken) > 1:
        return f"A MEAN OF THE FIRST {len(taken) - 1:,} ROWS"
    if changes_all(flow, end):
        return name_times(read_factor(flow, end) or 1)
    if adds_earlier(flow, end, began):
        return f"+ WHAT {name_begun(flow, end, began) or 'CAME BEFORE THE LAYERS'}"
    if chooses_rows(flow, end):
        return f"{flow.output(end).shape[1]:,} OF {flow.steps[end].inputs[0].shape[1]:,} ROWS{name_scores(flow, end)}"
    if name_merging(flow, end):
        return name_merging(flow, end)
    if lets_through(flow, end):
        return LET_THROUGH
    if is_product(flow, end):
        return "ROWS WEIGHED, ADDED UP"
    written = read_written(flow, end)
    if written is not None:
        none = flow.steps[end].settings.get("listed") == 0
        told = PUSHED_DOWN if written <= NO_WEIGHT else f"SOME SET TO {written:g}"
        return told.replace("SOME", "NONE") if none else told
    every = takes_every(flow, end)
    if every:
        return f"1 OF EVERY {every:,} ROWS"
    told = name_mean(flow, end) or name_rows(flow, end)
    told = told or label_cut_into(flow, end)
    regrouped = None if told else read_regrouping(flow, end)
    if regrouped is not None:
        return label_regrouped(regrouped)
    if (sides := None if told else find_map(flow, end)) is not None:
        return f"ROWS LAID OUT AS A MAP OF {sides[0]:,}×{sides[1]:,}"
    told = told or ("+ A BIAS" if adds_bias(flow, end) else label_step(flow, end))
    if not taken:
        return told
    count = flow.output(taken[0]).shape[1]
    first = "FIRST " if str(flow.steps[taken[0]].settings.get("index", "")).split(", ")[1:2] == [f":{count}"] else ""
    return f"A MEAN OF {'THE ' * bool(first)}{first}{count:,} ROWS"


def name_begun(flow: Flow, node: int, began: Collection[int]) -> str:
    """Which step before the first layer made what is added, where others change it before that reads it; else "".

    None is told where several are called the same; it is the entrance's where it meets what one like it made (Swin2SR).
    """
    made = next(one for one in map(flow.carried_from, flow.makers[node]) if one is not None and one in began)
    onward = {one for one in began if made in map(flow.carried_from, flow.makers[one]) if flow.op(one) not in CARRYING}
    label = label_step(flow, made)
    is_alone = [label_step(flow, one) for one in began if flow.is_leaf(one)].count(label) == 1
    met = [
        label_step(flow, one) for one in map(flow.carried_from, flow.makers[node]) if one is not None and one != made
    ]
    named = f"THE ENTRANCE'S {label}" if label in met else label
    return f"{named} GAVE" if onward and is_alone and flow.steps[made].params else ""


def adds_bias(flow: Flow, node: int) -> bool:
    """Whether a step adds one row, which no data made, to every row."""
    given = [record.shape for record, maker in flow.given(node) if flow.carried_from(maker) is None]
    return flow.op(node) in SUMS and len(given) == 1 and prod(given[0]) == flow.output(node).shape[-1] > 1
