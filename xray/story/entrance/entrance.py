"""What stands between the input and the first layer: tables, places, patches, class tokens, scales, norms."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.cut_rows import find_cut_part
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    CURVES,
    FINDINGS,
    LOOKUPS,
    PLACING,
    SCALINGS,
    SIDE_BY_SIDE,
    SOFTMAXES,
    SUMS,
    TRANSPOSED,
)
from xray.ir.flow.written_bends import list_written_bend
from xray.ir.records import TensorRecord
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.anatomy.tree import Reads
from xray.story.entrance.inputs import find_put_in, name_input, source_of, takes_some_put_in
from xray.story.entrance.place_tables import list_added
from xray.story.entrance.shared_ids import find_id_columns, list_vectors, looks_up_columns, name_table
from xray.story.entrance.tables import (
    are_ids,
    find_lone_rows,
    holds_sines,
    judge_training,
    list_biases,
    list_tables_beside,
    looks_up_counted,
    looks_up_ids,
    looks_up_places,
    mixes_with,
    shares_rows,
    table_rows,
    trains,
)
from xray.story.entrance.turns import find_turns
from xray.story.exits.nearest_codes import find_choice
from xray.story.passages.added_places import count_learned, describe_sum, learned_source, name_beside
from xray.story.passages.channels import find_channels, keeps_channels
from xray.story.passages.joined_rows import find_begun_rows
from xray.story.recognition.added_rows import find_added_rows
from xray.story.recognition.between import is_linear, is_scale, list_reading_data, read_sizes, width_out
from xray.story.recognition.chosen_rows import list_choice
from xray.story.recognition.norms import Norm
from xray.story.recognition.resamplers import Resampler, find_resamplers
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.asides import find_longest_part
from xray.story.streams.shortcuts import find_any_norm

Part = tuple[int, EntrancePart]
ASKING = frozenset({"gt", "ge", "lt", "le"})
OVER_MANY = ("batch_norm", "group_norm", "instance_norm")
FAR = 4_000
"""So many steps are walked back: a stem of convolutions and frozen norms may be hundreds of steps long (HGNet-V2)."""
FARTHEST = 40_000
"""So many steps are walked back through the turns of a loop: a series may be read piece by piece (TimesFM 2.5)."""


@dataclass(frozen=True)
class Entrance:
    """The steps before the first layer, what they read, what they are, and how many words the table has.

    `unread` are those of which it is not known what they are.
    """

    nodes: frozenset[int]
    reads: Reads | None
    parts: tuple[EntrancePart, ...]
    vocab: int | None
    also: Reads | None = None
    resamplers: tuple[Resampler, ...] = ()
    unread: frozenset[int] = frozenset()
    among: Reads | None = None


def read_entrance(flow: Flow, start: int | None, first: int, stops: Collection[int]) -> Entrance:
    """What stands before a tower.

    `start` made the first layer's input, `first` is the first sum, which may read it scaled or moved. The walk back
    ends at steps of other towers.
    """
    if start is None:
        return Entrance(frozenset(), "vectors", (), None)
    nodes = walk_back(flow, start, stops) | steps_between(flow, start, first)
    looked_up = (node for node in sorted(nodes - list_biases(flow)) if flow.op(node) in LOOKUPS)
    tables = [node for node in looked_up if len(flow.output(node).shape) >= 2]
    columns = {node: (one, own) for one in find_id_columns(flow, nodes) for node, own in one.list_read()}
    counted = [node for node in tables if node not in columns or not columns[node][0].is_given]
    places = [node for node in counted if looks_up_counted(flow, node) and flow.output(node).axes[:-1] != ("batch",)]
    given = [node for node in tables if node not in places and not looks_up_columns(flow, node)]
    finders = [node for node in sorted(nodes) if flow.op(node) in FINDINGS]
    picking = frozenset[int]().union(*(one.nodes for node in tables if (one := find_choice(flow, node)) is not None))
    norms = list_norms(flow, nodes - picking)
    sources = {node: source for node in finders if (source := source_of(flow, node, stops)) is not None}
    outer = [node for node, source in sources.items() if not are_ids(flow, source, node)]
    vectors = list_vectors(flow, nodes, given)
    others = bool(outer or vectors) and not puts_in(flow, nodes)
    beside = mixes_with(flow, given, nodes, stops)
    joining = list_tables_beside(flow, given, [*outer, *vectors], nodes)
    looking = joining if others else [] if beside else given
    led = any(maker in stops for node in nodes for maker in flow.makers[node])
    worded = [node for node in looking if looks_up_ids(flow, node) and not is_of_sequence(flow, node, first, tables)]
    word = max(worded, key=lambda node: table_rows(flow, node) or 0, default=None)
    parts: list[Part] = []
    first_of = {(flow.steps[node].path, name_table(flow, node), node in places): node for node in reversed(tables)}
    alone = find_lone_rows(flow, nodes)
    for node in first_of.values():
        rows = table_rows(flow, node)
        is_told = node in places and looks_up_places(flow, node) and any(list_added(flow, node))
        name = "words" if node == word else "positions" if is_told else "table"
        if node == alone:  # nothing is added to them: they are no places
            name, rows = "learned rows", flow.output(node).shape[-2]
        learned = judge_training(flow, trains(flow, node), nodes)
        sines = (name == "positions" and holds_sines(flow, node)) or None
        alike = [own for other, (_, own) in columns.items() if name_table(flow, other) == name_table(flow, node)]
        argument = columns[node][0].name if node in columns else ""
        part = EntrancePart(name, rows, learned=learned, sines=sines, columns=tuple(alike), argument=argument)  # type: ignore[arg-type]  # one of four
        if node in columns:
            part = replace(part, made_whole=columns[node][0].is_made, with_others=columns[node][0].has_more)
        parts.append((node, part))
    parts += [(norm.end, EntrancePart("norm")) for norm in norms]
    inside = {node for norm in norms for node in norm.nodes} | picking
    resamplers = find_resamplers(flow, nodes, stops)
    parts += [(one.end, EntrancePart("resampler", one.rows, learned=one.trained)) for one in resamplers]
    inside = inside.union(*(one.nodes for one in resamplers))
    inside = inside.union(*(list_written_bend(flow, node) for node in nodes))
    own = [node for node in sorted(nodes) if node not in inside and flow.op(node) not in LOOKUPS]
    parts += describe_finders(flow, [node for node in finders if node not in inside], outer)
    joined = word is not None and led
    for node in own:
        if not joined or flow.op(node) not in SIDE_BY_SIDE:  # rows beside those of an image may be marks of its ends
            own_parts = describe_step(flow, node, nodes)
            parts += [(node, name_beside(flow, node, part, word, nodes)) for part in own_parts]
    is_for_one = find_added_rows(flow, start) is not None  # worked out for one layer (X-CLIP)
    if (word is None or others) and attends(flow, nodes) and (is_for_one or not attends_once(flow, nodes)):
        rows = find_longest_part(flow, start)
        if rows is not None and rows < start:
            return read_entrance(flow, rows, first, stops)
        reads = name_input(flow, finders, nodes, stops)
        # more stands there than an entrance: no part of it is known
        return Entrance(frozenset(), reads, (), None, unread=frozenset(nodes))
    reads = "ids" if word is not None and not others else name_input(flow, finders, nodes, stops)
    if takes_some_put_in(flow, start, nodes):
        reads, word, others = None, None, True
    vocab = None if word is None or shares_rows(flow, word) else table_rows(flow, word)
    in_order = [part for _, part in sorted(parts, key=lambda one: one[0])]
    held = find_held_rows(flow, start, nodes) if reads is None and alone is None else None
    if held is not None:
        trained = judge_training(flow, held.trained, nodes)
        in_order.insert(0, EntrancePart("learned rows", count_learned(flow, start), learned=trained))
    also: Reads | None = "ids" if word is not None and reads != "ids" else None
    whole = frozenset(nodes | list_scoring(flow, nodes, stops))
    among = None if word is None or others else find_put_in(flow, nodes)
    return Entrance(whole, reads, tuple(name_rows(in_order)), vocab, also, resamplers, among=among)


def is_of_sequence(flow: Flow, node: int, first: int, tables: Collection[int]) -> bool:
    """Whether a lookup finds one row for each sequence of a stream, as of its class, and none for a place (VAR).

    `first` is the first sum of the stream, of which sequences are the first axis, and which has places behind it. A
    table in which other lookups find more may be one of words, read column by column.
    """
    found, rows = flow.output(node).shape, flow.output(first).shape
    is_one = sum(name_table(flow, one) == name_table(flow, node) for one in tables) == 1
    return is_one and len(found) == len(("batch", "width")) < len(rows) and found[0] == rows[0]


def find_held_rows(flow: Flow, start: int, nodes: Collection[int]) -> TensorRecord | None:
    """The learned rows that a stream begins as, be it that they are only spread over the sequences (Perceiver)."""
    begun = find_begun_rows(flow, nodes)
    if begun is not None:
        return begun[0]
    made = flow.output(start)
    return learned_source(flow, made, start) if len(made.shape) >= len(("rows", "width")) else None


def name_rows(parts: Iterable[EntrancePart]) -> Iterator[EntrancePart]:
    """The parts of an entrance: of learned rows that are put in front one by one, only the first is a class token."""
    is_first = True
    for part in parts:
        yield part if part.part != "class token" or is_first else replace(part, part="learned rows")
        is_first = is_first and part.part != "class token"


def attends(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether weights are shared out among steps, and something is multiplied by them: layers that were not known."""
    shared = [node for node in sorted(nodes) if flow.op(node) in SOFTMAXES]
    return bool(shared) and any(is_linear(flow, node) and node > shared[0] for node in nodes)


def attends_once(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether all weights among steps are those of one known attention: that stands before the layers (Fun-ASR)."""
    shared = [node for node in nodes if flow.op(node) in SOFTMAXES]
    return len(shared) == 1 and [site.softmax for site in list_sites(flow) if site.softmax in nodes] == shared


def walk_back(flow: Flow, start: int, stops: Collection[int]) -> set[int]:
    """The steps that work on what becomes the stream, back to what is looked up or comes from outside."""
    seen: set[int] = set()
    todo, cut = {start} - set(stops), is_cut_off(flow, start)
    most = FAR
    while todo:
        if len(seen) >= most:
            if most == FARTHEST or find_turns(flow, seen) is None:
                break
            most = FARTHEST
        here = max(todo)  # where there are too many, those next to the first layer are kept
        todo.remove(here)
        seen.add(here)
        choice = find_choice(flow, here)
        if choice is not None:
            todo |= choice.rows - seen - {*stops}
            seen |= choice.nodes
        elif flow.op(here) not in LOOKUPS:
            own = find_rows(flow, here, flow.output(start).shape) if cut else None
            part = find_cut_part(flow, here)
            given = flow.given(here) if part is None else [part]
            makers = {one for record, one in given if one is not None and (record.is_float or holds_yes(flow, one))}
            todo |= {maker for maker in (makers if own is None else {own}) - seen if maker not in stops}
    return seen


def walk_on(flow: Flow, end: int, start: int | None, stops: Collection[int]) -> set[int]:
    """The steps behind the one that ends an entrance's sums, up to the stream that the first layer reads.

    Rows may be put beside those that the sums gave (Chronos-Bolt).
    """
    return set() if start is None or start <= end else walk_back(flow, start, {*stops, end})


def holds_yes(flow: Flow, node: int) -> bool:
    """Whether a step makes yes and no of numbers worked out of data, by one that they are compared with."""
    given = flow.steps[node].inputs
    is_of_numbers = flow.op(node) in ASKING and len(given) == 1 and given[0].is_float
    return is_of_numbers and node in list_reading_data(flow)


def list_scoring(flow: Flow, nodes: Collection[int], stops: Collection[int]) -> set[int]:
    """The steps that work out which rows some steps pick, by scores that were made of the same rows (RT-DETR)."""
    apart, first = {*nodes, *stops}, min(nodes, default=0)
    ways = [way for node in nodes if (way := list_choice(flow, node))]
    found = (flow.behind(*way, within=lambda here: here > first and here not in apart) for way in ways)
    return {one for own in found for one in own}


def is_cut_off(flow: Flow, start: int) -> bool:
    """Whether a stream begins as some of the rows of a tensor: those of a text, say, before those of a film."""
    before, after = next((one.shape for one in flow.steps[start].inputs), ()), flow.output(start).shape
    are_rows = len(before) == len(after) == len(("batch", "row", "width"))
    return are_rows and before[1] > after[1] and before[2] == after[2]


def find_rows(flow: Flow, join: int, shape: tuple[int, ...]) -> int | None:
    """Of rows that a step puts one behind the other, those that are as many as are cut off behind it; None if not one.

    Only where no other ones are as many.
    """
    if flow.op(join) not in SIDE_BY_SIDE or flow.output(join).shape == shape:
        return None
    alike = [maker for record, maker in flow.given(join) if record.shape == shape and maker is not None]
    return alike[0] if len(alike) == 1 else None


def steps_between(flow: Flow, start: int, first: int) -> set[int]:
    """What is done to the stream before the first sum reads it: it is scaled, moved or padded.

    What the stream alone goes through, past the first branch, belongs to the sum (LASR).
    """
    for maker in flow.makers[first]:
        found: list[int] = []
        here = maker
        while (
            here is not None
            and here > start
            and (is_number_scale(flow, here) or flow.op(here) in CARRYING or pads_rows(flow, here))
        ):
            found.append(here)
            here = next((one for one in flow.makers[here] if one is not None and one >= start), None)
        if here == start:
            past = {first}
            for one in found:
                past |= {one} if past.issuperset(flow.readers.get(one, ())) else set()
            return {*found} - past
    return set()


def pads_rows(flow: Flow, place: int) -> bool:
    """Whether a step makes sequences longer by rows of one number (Pegasus-X), those of each tile too (Mllama)."""
    if flow.op(place) != "pad":
        return False
    before, after = flow.steps[place].inputs[0].shape, flow.output(place).shape
    axes, rows = len(after), len(("batch", "row", "width"))
    if len(before) != axes or before[:-2] != after[:-2] or before[-1:] != after[-1:] or axes < rows:
        return False
    maker = flow.makers[place][0]
    are_rows = axes == rows or (maker is not None and find_channels(flow, maker) == axes - 1)
    return are_rows and before[-2] < after[-2]


def is_number_scale(flow: Flow, place: int) -> bool:
    """Whether a step multiplies a tensor by one number."""
    others = [record for record in flow.steps[place].inputs if record.shape != flow.output(place).shape]
    return is_scale(flow, place) and all(record.role != "parameter" for record in others)


def list_norms(flow: Flow, nodes: Collection[int]) -> list[Norm]:
    """The norms among steps, each once, the longest."""
    found: list[Norm] = []
    taken: set[int] = set()
    for node in sorted(nodes, reverse=True):
        norm = None if node in taken else find_any_norm(flow, node)
        if norm is not None and taken.isdisjoint(norm.nodes) and not flow.op(node).startswith(OVER_MANY):
            found.append(norm)
            taken |= set(norm.nodes)
    return found


def describe_finders(flow: Flow, finders: Collection[int], outer: Collection[int]) -> Iterator[Part]:
    """The convolutions that an input goes through: what the last of them makes; `outer` ones read what is given."""
    if finders:
        last = max(finders)
        shape = flow.output(last).shape
        is_cut = bool(outer) and all(cuts_patches(flow, node) for node in finders) and keeps_channels(flow, last)
        kernel = read_sizes(flow, last, "kernel_size") if is_cut and len(finders) == 1 else ()
        width = shape[1] if len(shape) > 1 else None
        yield last, EntrancePart("patches" if is_cut else "convolution", width, kernel=kernel)


def cuts_patches(flow: Flow, node: int) -> bool:
    """Whether a convolution reads each place once: its step is as long as its kernel, and longer than 1."""
    kernel, stride, apart = (read_sizes(flow, node, name) for name in ("kernel_size", "stride", "dilation"))
    is_whole = kernel == stride and max(kernel, default=1) > 1 == max(apart, default=1)
    return is_whole and flow.op(node) not in TRANSPOSED


def describe_step(flow: Flow, node: int, nodes: Collection[int]) -> Iterator[EntrancePart]:
    """What one of an entrance's steps adds, joins or multiplies."""
    if is_linear(flow, node):
        if flow.op(node) not in FINDINGS:
            yield EntrancePart(
                "projection", width_out(flow, node), learned=judge_training(flow, trains(flow, node), nodes)
            )
    elif flow.op(node) in SUMS:
        yield from describe_sum(flow, node, nodes)
    elif flow.op(node) in ("cat", "concat"):
        yield from describe_join(flow, node, nodes)
    elif is_scale(flow, node) and number(flow.steps[node]) != 1 and scales_rows(flow, node, nodes):
        yield EntrancePart("scale")


def scales_rows(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether a step scales rows on their way to the stream, and is no part of a bend, nor of a picture's colours.

    Rows are as wide as where they end, or were looked up.
    """
    shape, end = flow.output(node).shape, flow.output(max(nodes)).shape
    if len(shape) != len(("batch", "row", "width")):
        return False
    if shape[-1:] != end[-1:] and not any(
        flow.op(one) in LOOKUPS for one in flow.behind(node, within=nodes.__contains__)
    ):
        return False
    rows = flow.ahead(node, within=lambda one: one in nodes and flow.op(one) in SUMS | SCALINGS)
    for reader in {reader for here in rows for reader in flow.readers.get(here, ())}:
        is_product = flow.op(reader) in SCALINGS and all(one.shape == shape for one in flow.steps[reader].inputs)
        if flow.op(reader) in CURVES or (is_product and len(flow.steps[reader].inputs) > 1):
            return False
    return True


def describe_join(flow: Flow, node: int, nodes: Collection[int]) -> Iterator[EntrancePart]:
    """The learned rows that are put before or behind the others."""
    given = list(flow.given(node))
    sources = [learned_source(flow, *one) if len(one[0].shape) == 3 else None for one in given]
    for (record, _), source in zip(given, sources, strict=True):
        if source is not None and source.shape[-2:-1] in ((), record.shape[1:2]):  # not a part of a table that is cut
            count = record.shape[1]
            if not count:
                continue
            is_class = count == 1 and None in sources  # before learned rows alone it is one more of them (SAM 3)
            name = "class token" if is_class else "learned rows"
            yield EntrancePart(name, count, learned=judge_training(flow, source.trained, nodes))  # type: ignore[arg-type]  # one of two


def puts_in(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether rows are put among words that are looked up, so that these are what the stream is of (Fuyu)."""
    placing = [node for node in nodes if flow.op(node) in PLACING]
    origins = (flow.carried_from(flow.makers[node][0]) for node in placing)
    return any(one is not None and looks_up_ids(flow, one) for one in origins if one is None or flow.op(one) in LOOKUPS)
