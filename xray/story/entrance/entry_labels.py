"""What steps of an entrance are called."""

from collections.abc import Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    DIVISIONS,
    FINDINGS,
    GRIDS,
    LOOKUPS,
    PLACING,
    PRODUCTS,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
)
from xray.ir.flow.remembering import once_each
from xray.ir.records import TensorRecord
from xray.story.entrance.columns import label_channel, label_column, label_cut_map
from xray.story.entrance.cut_rows import (
    clears_rows,
    cuts_rows,
    label_chosen,
    label_cut_rows,
    label_first,
    label_padded,
    label_pieces_apart,
)
from xray.story.entrance.entrance import cuts_patches
from xray.story.entrance.place_tables import list_added, list_fitting
from xray.story.entrance.tables import MOVING, looks_up_places
from xray.story.passages.added_places import (
    describe_sum,
    is_gated,
    learned_source,
    name_places,
    reads_sines,
)
from xray.story.passages.channels import MASKED, find_channels, find_channels_ahead, is_comparison
from xray.story.passages.held_factors import list_shift
from xray.story.passages.learned_steps import (
    is_one_number,
    label_of_one_number,
    list_of_one_number,
    name_learned_addend,
)
from xray.story.passages.pools import label_neighbours, lays_neighbours
from xray.story.recognition.addends import is_given
from xray.story.recognition.between import is_linear, list_reading_data, read_sizes
from xray.story.recognition.chosen_rows import ask_id, list_mixed, list_one_of_two, list_shares, name_row_of_id
from xray.story.recognition.statistics import is_of_weights
from xray.story.streams.shortcuts import find_any_norm
from xray.story.wording import plural

CLEARED = "ROWS OF A MASK SET TO 0"
RESIZING = {"interpolate": "RESIZED", **dict.fromkeys(GRIDS, "SAMPLED")}
WAYS = {"bicubic": "BICUBICALLY", "bilinear": "BILINEARLY"}
FITTING = {**RESIZING, "tile": "REPEATED", "repeat": "REPEATED"}
LOOKUP = "TABLE LOOKUP"
OF_ROWS = len(("batch", "rows", "width"))
FEW_ROWS = 8
"""A table of so many rows at most holds no words: its size is told, so that it is not taken for theirs."""


@once_each
def label_entry(flow: Flow, node: int) -> str:
    """What a step of the entrance is called."""
    op = flow.op(node)
    if op in LOOKUPS:
        added = list_added(flow, node)  # one row for each sequence, say, is of no place
        is_of_places = looks_up_places(flow, node) and (any(added) or not added)
        told = "PLACE LOOKUP" if is_of_places else label_lookup(flow, node)
        return f"{told}: {count_weighed(flow, node)} ROWS WEIGHED" if count_weighed(flow, node) else told
    if multiplies_ones(flow, node):
        return LOOKUP
    if op in FINDINGS:
        found = any(flow.op(one) in FINDINGS for one in flow.behind(flow.makers[node][0]))
        is_cut = cuts_patches(flow, node) and not found
        return f"PATCHES {'×'.join(map(str, read_sizes(flow, node, 'kernel_size')))}" if is_cut else ""
    before = flow.makers[node][0] if is_linear(flow, node) and flow.makers[node] else None
    if before is not None and (row := name_row_of_id(flow, before)):
        return f"LINEAR OF {row}"
    part = next(describe_sum(flow, node, ()), None) if op in SUMS else None
    if part is not None:
        return f"+ {'GATED ' * is_gated(flow, node)}{name_places(part)}{tell_fitting(flow, node)}"
    if op in SUMS and find_any_norm(flow, node) is not None:
        return ""
    held = {is_learned_row(flow, *one) for one in flow.given(node)} if op in SUMS else set()
    if held == {True, False} and not list_shift(flow, node):
        return f"+ {name_learned_addend(flow, node)}"
    if adds_looked_up(flow, node):
        return f"{flow.steps[node].inputs[0].shape[-2]:,} ROWS ADDED UP"
    if op == "interpolate" and learned_source(flow, *next(flow.given(node))) is None:
        return "RESIZED" if flow.output(node).shape != flow.steps[node].inputs[0].shape else "RESIZED × 1"
    if (op in PLACING or op == "where" or list_shares(flow, node)) and puts_learned_row(flow, node):
        return label_put_in(flow, node)
    if clears_rows(flow, node):
        return label_cleared(flow, node)
    if lays_neighbours(flow, node):
        return label_neighbours(flow, node)
    if op == "unfold" and flow.output(node).is_float:
        return label_pieces(flow, node)
    if op in SCALINGS and is_one_number(flow, node):
        return "× A LEARNED NUMBER"
    if list_of_one_number(flow, node):
        return label_of_one_number(flow, node)
    if op in SCALINGS and op not in DIVISIONS and counts_places(flow, node):
        return label_cleared(flow, node) if is_shown_or_not(flow, node) else MASKED
    if told := label_chosen(flow, node) or label_pieces_apart(flow, node):
        return told
    if told := label_padded(flow, node):
        return told
    if repeats_rows(flow, node):
        before, after = flow.steps[node].inputs[0].shape[1], flow.output(node).shape[1]
        return f"{'ONE ROW' if before == 1 else f'{before:,} ROWS'}, {after // before:,} TIMES"
    if op == "index" and (told := label_channel(flow, node) or label_cut_map(flow, node)):
        return told
    if op == "index" and cuts_rows(flow, node):
        return label_cut_rows(flow, node)
    if op in SIDE_BY_SIDE and (told := label_column(flow, node) or label_series(flow, node) or label_first(flow, node)):
        return told
    if copies := count_copies(flow, node):
        return f"{copies} COPIES, SIDE BY SIDE"
    rows = list_joined(flow, node) if op == "cat" else []
    return label_rows(flow, node, rows) if rows else ""


def tell_fitting(flow: Flow, node: int) -> str:
    """How learned tables that a sum adds are made as large as the picture, behind a colon; "" where they are.

    So may the pieces of a table be: its places but for that of the class, or those of each picture by itself.
    """
    told: list[str] = []
    for record, maker in flow.given(node):
        held = learned_source(flow, record, maker)
        while held is not None and maker is not None and flow.makers[maker]:
            told += spell_fitting(flow, maker, FITTING.get(flow.op(maker), ""))
            _, maker = next(flow.given(maker))
    fitted = [] if told else list_fitting(flow, node, RESIZING)
    pieces = [text for place, how in fitted for text in spell_fitting(flow, place, how)]
    told += dict.fromkeys(pieces)
    return ": " + ", ".join(told) if told else ""


def spell_fitting(flow: Flow, node: int, how: str) -> list[str]:
    """From which size a step makes a table as large as the picture, and how, be it as large here (Cosmos 3).

    So may each place be sampled where it stands in its own picture, between rows of the table (GLM-4V).
    """
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    sizes = [small for small, large in zip(before, after, strict=False) if 1 < small != large]
    if how and flow.op(node) in GRIDS:
        sizes, how = list(before[2:]), f"{how} {WAYS.get(str(flow.steps[node].settings.get('mode')), '')}".rstrip()
    elif how and not sizes and flow.op(node) in RESIZING:
        sizes, how = list(before[2:]), f"{how} × 1"
    return [f"{'×'.join(map(str, sizes))} {how}"] if how and sizes else []


def count_copies(flow: Flow, node: int) -> int:
    """How many streams begin with the same rows, as with words that were looked up (Qwen 4); 0 where none is copied."""
    step = flow.steps[node]
    begin = flow.carried_from(flow.makers[node][0]) if flow.op(node) in REPEATS and flow.makers[node] else None
    is_row = begin is not None and (flow.op(begin) in LOOKUPS | SCALINGS | PLACING or is_linear(flow, begin))
    if not is_row or node not in list_reading_data(flow):
        return 0
    times, rest = divmod(prod(step.outputs[0].shape), prod(step.inputs[0].shape))
    is_whole = not rest and step.outputs[0].is_float and step.outputs[0].shape[:2] == step.inputs[0].shape[:2]
    return times if is_whole and times > 1 and len(step.inputs[0].shape) > 2 else 0


def is_learned_row(flow: Flow, record: TensorRecord, maker: int | None) -> bool:
    """Whether a tensor is a parameter, or one row of one (ProphetNet's streams)."""
    return record.role == "parameter" or (len(record.shape) == 1 and learned_source(flow, record, maker) is not None)


def list_joined(flow: Flow, node: int) -> list[int]:
    """How many rows each of some tensors has that a step puts end to end, be there no batch (SAM) or two (SAM 2)."""
    made, given = flow.output(node).shape, flow.steps[node].inputs
    own = {find_channels(flow, node), find_channels_ahead(flow, node)}
    is_flat = len(made) == len(("rows", "width"))
    is_known = all(record.role == "parameter" for record in given) if is_flat else len(made) - 1 in own
    axes = [axis for axis in ((1, len(made) - 2) if is_known else (1,)) if is_known or axis not in own]
    for axis in (one for one in axes if 0 <= one < len(made) - 1):
        rows = [record.shape[axis] for record in given if len(record.shape) == len(made)]
        if len(rows) == len(given) and made[axis] == sum(rows):
            return rows
    return []


def counts_places(flow: Flow, node: int) -> bool:
    """Whether rows are multiplied by one number for each place that was not worked out of them: a mask (DeBERTa).

    A norm works its numbers out of the rows, be these of ids drawn by chance. Learned numbers alone are no rows, nor
    are those that numbers which come in meet (FT-Transformer), unless these say whether something is so (SAM's points).
    Nor is one row whose numbers all of another one meet: pairs come of that (ProteinMPNN's mask).
    """
    given, shape, reading = [*flow.given(node)], flow.output(node).shape, list_reading_data(flow)
    numbers = [maker for record, maker in given if record.shape == (*shape[:-1], 1)]
    rows = [(one, maker) for one, maker in given if one.shape[-1:] != (1,) or is_comparison(flow, maker)]
    is_of_data = any(maker in reading if maker is not None else one.role != "parameter" for one, maker in rows)
    if len(given) != 2 or len(numbers) != 1 or len(shape) < OF_ROWS or shape[-1] == 1 or find_any_norm(flow, node):
        return False
    if any(
        one.shape == (*shape[:-2], 1, shape[-1]) != shape and not learned_source(flow, one, by) for one, by in given
    ):
        return False
    return is_of_data and (numbers[0] not in reading or is_given(flow, numbers[0]) or is_comparison(flow, numbers[0]))


def multiplies_ones(flow: Flow, node: int) -> bool:
    """Whether a step looks rows up in a learned table by a product, with rows that are 1 at one place (Gemma 4)."""
    if flow.op(node) not in PRODUCTS or not is_linear(flow, node):
        return False
    record, maker = next(flow.given(node))
    ones = flow.carried_from(maker)
    return ones is not None and flow.op(ones) == "one_hot" and record.shape[-1:] == flow.output(ones).shape[-1:]


def label_lookup(flow: Flow, node: int) -> str:
    """What looking rows up in a table is called: one of few rows, such as the kinds of words, by its size (BERT)."""
    weights = (record for record in flow.steps[node].inputs if record.role == "parameter" and len(record.shape) == 2)
    held = next((record.shape[0] for record in weights), flow.steps[node].settings.get("num_embeddings"))
    return f"LOOKUP IN {plural(held, 'row').upper()}" if isinstance(held, int) and held <= FEW_ROWS else LOOKUP


def count_weighed(flow: Flow, node: int) -> int:
    """How many rows a step looks up for each that it makes, and adds up, each times a number (Kimi K2.5); else 0."""
    given = flow.steps[node].inputs
    is_weighed = flow.op(node) == "embedding_bag" and len(given) == len(("ids", "table", "weights"))
    return given[0].shape[-1] if is_weighed and given[0].shape == given[2].shape else 0


def label_rows(flow: Flow, node: int, rows: Sequence[int]) -> str:
    """What a step is called that puts learned rows before others, or one more beside them; "" for any other."""
    learned = [learned_source(flow, *one) is not None for one in flow.given(node)]
    first = sum(rows[: learned.index(False)]) if False in learned else 0
    is_between = True in learned[1:-1] and not first  # rows of registers behind the row of the class (DINOv2)
    if len(rows) > 1 and (all(learned) or (first and learned.count(False) > 1) or is_between):
        ours = [
            is_own and not reads_sines(flow, node, one) for is_own, one in zip(learned, flow.makers[node], strict=True)
        ]
        kept = (learned_source(flow, *one, MOVING - SIDE_BY_SIDE - {*RESIZING}) is not None for one in flow.given(node))
        words = (f" {'LEARNED' if is_kept else 'RESIZED'}" * is_own for is_own, is_kept in zip(ours, kept, strict=True))
        told = (f"{one:,}{word}" for one, word in zip(rows, words, strict=True))
        return f"END TO END: {' + '.join(told)}"
    if first and True in learned[learned.index(False) :]:
        beside = sum(one for one, is_own in zip(rows, learned, strict=True) if is_own)
        return f"LEARNED ROWS BESIDE: {sum(rows) - beside:,} + {beside:,}"
    if first:
        return "A LEARNED ROW IN FRONT" if first == 1 else f"{first:,} LEARNED ROWS IN FRONT"
    shape = flow.output(node).shape
    if len(rows) != 2 or list(rows).count(1) != 1 or len(shape) != OF_ROWS:  # of a picture it is a channel (Cosmos)
        return ""
    if learned[1 - list(rows).index(1)]:  # what the one row is joined to is itself put there (MTM)
        return ""
    return f"WITH ONE MORE ROW {'IN FRONT' if rows[0] == 1 else 'BEHIND'}"


def label_pieces(flow: Flow, node: int) -> str:
    """What cutting a series into pieces is called, one beside the other or overlapping (PatchTST); "" if not told."""
    settings, before, after = flow.steps[node].settings, flow.steps[node].inputs[0].shape, flow.output(node).shape
    axis, size, step = (settings.get(name) for name in ("dimension", "size", "step"))
    if not (isinstance(axis, int) and isinstance(size, int) and isinstance(step, int)) or after[-1] != size:
        return ""
    told = f"CUT INTO {plural(after[axis % len(before)], 'piece').upper()} OF {size:,}"
    return told if step == size else f"{told}, STEP {step:,}"


def label_series(flow: Flow, node: int) -> str:
    """What a step is called that puts series of numbers that came in end to end; "" for any other (Informer)."""
    given = [record for record, maker in flow.given(node) if maker is None and record.role == "activation"]
    are_series = len(given) > 1 and all(len(one.shape) == 2 and prod(one.shape) and one.is_float for one in given)
    if not are_series or len(given) != len(flow.steps[node].inputs):
        return ""
    return f"END TO END: {' + '.join(f'{one.shape[1]:,}' for one in given)}, ALL GIVEN"


def adds_looked_up(flow: Flow, node: int) -> bool:
    """Whether a step adds up all rows that a place looked up: a word and the codes of a sound (Kyutai's, CSM's)."""
    maker = flow.carried_from(next(iter(flow.makers[node]), None))
    before = flow.steps[node].inputs[0].shape if flow.steps[node].inputs else ()
    is_sum = flow.op(node) == "sum" and len(before) == 4 and flow.output(node).shape == (*before[:2], before[-1])
    return is_sum and maker is not None and flow.op(maker) in LOOKUPS


def list_merged(flow: Flow, node: int) -> tuple[int, ...]:
    """A sum with the two products that it adds up, where it takes one of two or mixes a learned row in; else none."""
    return list_one_of_two(flow, node) or (list_shares(flow, node) if puts_learned_row(flow, node) else ())


def puts_learned_row(flow: Flow, node: int) -> bool:
    """Whether a step writes one row that is learned at some places of rows (T5Gemma 2 at the ends of images).

    So it may choose it, for each place, instead of the row that data made there (SAM 2's points that are none), or add
    the two up, one of them times 0 (SegGPT), or one times what the other's factor lacks of 1 (SimMIM).
    """
    wide, reading = flow.output(node).shape[-1:], list_reading_data(flow)
    given = [one for place in list_shares(flow, node)[:-1] or (node,) for one in flow.given(place)]
    if not {maker for record, maker in given if record.shape[-1:] == wide}.intersection(reading):
        return False
    sources = (learned_source(flow, *one) for one in given)
    rows = [one for one in sources if one is not None and one.shape[-1:] == wide and prod(one.shape) == prod(wide)]
    return any(one.trained is not False for one in rows)


def label_put_in(flow: Flow, node: int) -> str:
    """What a step is called that writes a learned row at some places, of one id, if it asks for that, or all others."""
    first, second = (learned_source(flow, *given) is not None for given in [*flow.given(node)][:2])
    if flow.op(node) in PLACING and first:
        return "ROWS PUT IN, A LEARNED ROW ELSEWHERE"
    if list_mixed(flow, node):
        return "A LEARNED ROW MIXED IN"
    is_put = flow.op(node) in PLACING or second
    wanted = ask_id(flow, node) if is_put else None
    return "A LEARNED ROW PUT IN" if wanted is None else f"A LEARNED ROW WHERE THE ID IS {wanted:,}"


def label_cleared(flow: Flow, node: int) -> str:
    """What a step is called that sets rows to 0: those of one id, where it asks for that, or of a mask."""
    wanted = ask_id(flow, node) if flow.op(node) in PLACING else None
    return CLEARED if wanted is None else f"ROWS SET TO 0 WHERE THE ID IS {wanted:,}"


def is_shown_or_not(flow: Flow, node: int) -> bool:
    """Whether the numbers by which a step multiplies rows are all 1 or 0, since each says whether something is so."""
    width = flow.output(node).shape[-1]
    return any(is_comparison(flow, maker) for record, maker in flow.given(node) if record.shape[-1] != width)


def repeats_rows(flow: Flow, node: int) -> bool:
    """Whether a step repeats rows of data one behind the other (MusicGen Melody: what stands for no melody)."""
    if flow.op(node) != "repeat":
        return False
    record, maker = next(flow.given(node))
    before, made = record.shape, flow.output(node)
    is_rows = len(before) == len(made.shape) == OF_ROWS and before[::2] == made.shape[::2] and before[1] < made.shape[1]
    return is_rows and made.axes[0] == "batch" and record.is_float and not is_of_weights(flow, record, maker)
