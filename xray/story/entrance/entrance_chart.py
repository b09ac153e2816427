"""What stands below the first layer: what comes in, and how it becomes the stream."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import isclose, prod, sqrt

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIVISIONS, DROPOUTS, LOOKUPS, PLACING, REPEATS, SCALINGS, SUMS, ZEROS
from xray.ir.flow.regrouping import LAYING, MAP, find_patches, find_stacked
from xray.story.body.towers import Towering
from xray.story.branches.scored.caps import name_times, read_scaling
from xray.story.charts.chart import (
    MIDDLE,
    Chart,
    Edge,
    Node,
    add_above,
    chart_alone,
    chart_learned,
    chart_rows,
    steps_at,
)
from xray.story.charts.counted_weights import describe_params
from xray.story.charts.dropouts import describe_dropout, list_dropouts, tell_dropped
from xray.story.charts.steps.drawn_steps import is_substance
from xray.story.charts.steps.noise import label_noise
from xray.story.charts.steps.operation_labels import label_step
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.entrance.cut_rows import label_drawn, list_drawn
from xray.story.entrance.entry_labels import (
    CLEARED,
    LOOKUP,
    count_copies,
    label_entry,
    list_joined,
    list_merged,
    tell_fitting,
)
from xray.story.entrance.given import add_given, list_asked
from xray.story.entrance.inputs import adds_given
from xray.story.entrance.led_in import end_in_moves
from xray.story.entrance.place_tables import count_tables, list_put_together, tell_counting
from xray.story.entrance.shared_ids import IdColumns, find_id_columns, label_columns
from xray.story.entrance.tables import find_lone_rows, looks_up_places, table_rows
from xray.story.entrance.turned_rows import find_turned, label_turned
from xray.story.entrance.turns import find_turns
from xray.story.exits.nearest_codes import Residual, find_residual_codes, label_codes, list_nearest
from xray.story.passages.added_places import ADDED_UP, adds_held, describe_sum, list_laid, list_weighed
from xray.story.passages.bridges import label_heads
from xray.story.passages.channels import MASKED, find_channels_ahead
from xray.story.passages.joined_rows import find_begun_rows, label_joined_rows
from xray.story.passages.learned_steps import label_of_one_number, list_of_one_number
from xray.story.passages.ordered_rows import (
    label_regrouped,
    label_stacked,
    list_in_turn,
    list_put_in_turn,
    read_regrouping,
)
from xray.story.recognition.between import is_scale, list_reading_data
from xray.story.recognition.chosen_rows import list_by_highest
from xray.story.recognition.resamplers import Resampler
from xray.story.recognition.values.value_shapes import number
from xray.story.streams.asides import list_carried_readers
from xray.story.streams.shortcuts import find_any_norm

FAR_LARGER = 8
FIXED, FIXED_IDS = "of fixed numbers", "of fixed ids"
LEFT_OVER = ("each of what those before leave over", "what all look up is added up")


def chart_entrance(flow: Flow, towering: Towering, *, has_words: bool = False) -> Chart | None:
    """The steps before a tower's first layer, what it reads at the bottom; words stand there as they are."""
    nodes = set(towering.entrance)
    start = towering.start
    if not nodes or start is None:
        return None
    alone = find_lone_rows(flow, nodes)
    if alone is not None:
        return chart_rows(flow, start, alone)
    nodes |= list_copied(flow, start, towering.tower.streams)
    labels = label_joined_rows(flow, nodes)
    labels |= {node: label for node in nodes if (label := label_entry(flow, node))}
    labels |= label_begun_with(flow, start, nodes)
    labels |= {node: "1 WHERE A NUMBER STANDS, ELSE 0" for node in nodes if list_asked(flow, node)}
    labels |= {node: label_scale(flow, node) for node in list_scaled_words(flow, nodes)}
    summed = [node for node in nodes if flow.op(node) in SUMS and len(flow.makers[node]) > 1]
    labels |= {one: made for one in summed if (made := label_noise(flow, one) or ADDED_UP * adds_given(flow, one))}
    labels |= {one: ADDED_UP for one in summed if one not in labels and adds_held(flow, one)}
    labels |= tell_smaller(flow, [node for node in sorted(nodes) if labels.get(node) == LOOKUP])
    chart = chart_places(flow, towering, start)
    if chart is None:
        labels |= {one.end: label_resampler(one) for one in towering.resamplers}
        labels |= {node: f"LINEAR {letters}" for one in towering.resamplers for node, letters in one.linear}
        folded = {one.end: one.nodes for one in towering.resamplers}
        sums = [node for node in nodes if flow.op(node) in SUMS]
        laid = {node: list_laid(flow, node, nodes) or list_put_together(flow, node) for node in sums}
        folded |= {node: own for node, own in laid.items() if own}
        folded |= {node: own for node in sums if (own := list_merged(flow, node)) and nodes.issuperset(own)}
        weighed = {node: own for node in nodes if (own := list_weighed(flow, node, nodes))}
        labels |= {node: f"{flow.steps[node].inputs[0].shape[-2]:,} ROWS WEIGHED, ADDED UP" for node in weighed}
        folded |= weighed
        in_turn = {own[0]: own for node in nodes if (own := list_in_turn(flow, node)) and nodes.issuperset(own)}
        labels |= {end: f"ROWS OF {len(flow.steps[own[-1]].inputs)} IN TURN" for end, own in in_turn.items()}
        put = {node: own for node in nodes if (own := list_put_in_turn(flow, node)) and nodes.issuperset(own)}
        labels |= {end: f"ROWS OF {len(own) - 1} IN TURN" for end, own in put.items()}
        folded |= in_turn | put
        folded |= {node: (node, *own) for node in nodes if (own := list_of_one_number(flow, node))}
        columns = find_id_columns(flow, nodes)
        for one in columns:
            labels |= label_columns(flow, one)
            folded |= one.list_folded()
        chosen = {node: own for node in nodes if (own := list_by_highest(flow, node))}
        labels |= dict.fromkeys(chosen, "CHOOSE BY EACH ROW'S HIGHEST")
        drawn = {node: own for node in nodes if (own := list_drawn(flow, node))}
        labels |= {node: label_drawn(flow, node) for node in drawn}
        folded |= chosen | drawn
        residual = find_residual_codes(flow, nodes)
        labels |= {one.end: label_residual(flow, one) for one in residual}
        folded |= {one.end: tuple(sorted(one.nodes & nodes)) for one in residual}
        picked = list_nearest(flow, nodes.difference(*(one.nodes for one in residual)))
        labels |= {one.end: label_codes(one) for one in picked}
        folded |= {one.end: one.nodes for one in picked}
        turned = find_turned(flow, nodes)
        labels |= {node: label_turned(flow, node) for node in turned}
        inner = {one for own in turned.values() for one in own}
        regrouped = {node: way for node in nodes if node not in labels and (way := read_regrouping(flow, node))}
        labels |= {node: label_regrouped(way) for node, way in regrouped.items()}
        folded |= {node: way.moves for node, way in regrouped.items() if nodes.issuperset(way.moves)}
        moved = (node for node in nodes if flow.op(node) in LAYING and find_channels_ahead(flow, node) == 1)
        stacked = {node: pile for node in moved if (pile := find_stacked(flow, node))}
        labels |= {node: label_stacked(pile) for node, pile in stacked.items()}
        folded |= {node: pile.moves for node, pile in stacked.items() if nodes.issuperset(pile.moves)}
        laid_out = (node for node in nodes if flow.op(node) in LAYING)
        patches = {node: cut for node in laid_out if (cut := find_patches(flow, node))}
        labels |= {node: f"CUT INTO PATCHES {'×'.join(map(str, cut.sizes))}" for node, cut in patches.items()}
        folded |= {node: cut.moves for node, cut in patches.items() if nodes.issuperset(cut.moves)}
        folded = {node: own for node, own in folded.items() if node not in inner} | turned
        turns = find_turns(flow, nodes)
        if turns is not None:
            labels |= {turns.end: f"{turns.count:,} TURNS OF A LOOP"}
            folded |= {turns.end: (*turns.steps, turns.end)}
        copies = [node for node in nodes if count_copies(flow, node)]
        end = next((node for node in copies if flow.carried_from(flow.makers[node][0]) == start), start)
        chart = chart_operations(flow, nodes, end, labels, "in", is_entrance=True, folded=folded)
        chart = None if chart is None else add_scale(flow, count_tables(flow, chart), nodes)
        chart = None if chart is None else tell_residual(flow, name_columns(flow, chart, columns), residual)
        chart = None if chart is None else end_in_moves(flow, chart, end, nodes)
    if chart is None:
        begun = find_begun_rows(flow, nodes)
        rows = chart_learned(flow, start) if begun is None else chart_rows(flow, start, begun[1])
        return rows or chart_zeros(flow, start)
    chart = tell_counting(flow, tell_dropped_below(flow, towering, chart))
    return tell_first_rows(flow, tell_fixed(flow, chart if has_words else add_given(flow, towering, chart)))


def label_begun_with(flow: Flow, start: int, nodes: Collection[int]) -> dict[int, str]:
    """What the step is called with which a stream begins that puts rows made elsewhere end to end (Flux)."""
    here, reading = flow.carried_from(start), list_reading_data(flow)
    if here is None or here not in nodes or flow.op(here) != "cat":
        return {}
    rows, makers = list_joined(flow, here), {*flow.makers[here]}
    are_made = len(rows) > 1 and makers <= reading and makers.isdisjoint(nodes)
    return {here: f"END TO END: {' + '.join(f'{one:,}' for one in rows)}"} if are_made else {}


def list_copied(flow: Flow, start: int, streams: int | None) -> set[int]:
    """The step that makes so many streams of the rows that an entrance ends with: copies, side by side (GLM-5-next).

    With those that only move these rows before they are copied (DeepSeek-V4).
    """
    moved = {*flow.ahead(start, within=lambda node: node == start or flow.op(node) in CARRYING)}
    copies = sorted(node for node in moved if streams is not None and count_copies(flow, node) == streams)[:1]
    return {*copies, *(node for node in flow.behind(*copies) if node in moved)}


def tell_dropped_below(flow: Flow, towering: Towering, chart: Chart) -> Chart:
    """The chart whose boxes say what share of what they give a dropout before the first layer drops."""
    start = towering.start or 0
    own = {start, *(flow.places[step.id] for step in list_dropouts(flow, start))}  # where these drop, layers read them
    taking = {one for node in own for one in flow.leaf_readers(node)} - own - {*towering.entrance}
    return tell_dropped(flow, chart, before=min(taking, default=0))


def tell_fixed(flow: Flow, chart: Chart) -> Chart:
    """The chart with a word in the boxes of one row each that nothing leads to: it is worked out of fixed numbers.

    Of a table the ids are fixed: what they pick may be learned (Presto's channels).
    """
    led = {edge.target for edge in chart.edges}
    fixed = {node.key for node in chart.nodes if node.key not in led and node.steps and is_fixed(flow, node)}
    words = {node.key: FIXED_IDS if node.steps[0].op in LOOKUPS else FIXED for node in chart.nodes if node.key in fixed}
    told = (replace(node, told=(*node.told, *filter(None, [words.get(node.key)]))) for node in chart.nodes)
    return replace(chart, nodes=tuple(told))


def tell_first_rows(flow: Flow, chart: Chart) -> Chart:
    """The chart in which lookups for which the model made nothing but zeros itself say so (RoCBert).

    Each says the name of its table, as nothing else tells what it is of.
    """

    def tell(node: Node) -> Node:
        lookups = [one for one in node.steps if one.op in LOOKUPS]
        step = lookups[0] if len(lookups) == 1 and node.steps[0] is lookups[0] and not node.told else None
        ids = [] if step is None else [maker for one, maker in flow.given(flow.places[step.id]) if not one.is_float]
        made = [flow.carried_from(maker, CARRYING | REPEATS) for maker in ids]
        if step is None or len(made) != 1 or made[0] is None or flow.op(made[0]) not in ZEROS:
            return node
        name = f" OF {step.path.rpartition('.')[2].replace('_', ' ').upper()}" if step.module else ""
        return replace(node, label=f"ROW 0{name}" if name and node.label == LOOKUP else f"{node.label}, ROW 0{name}")

    return replace(chart, nodes=tuple(map(tell, chart.nodes)))


def is_fixed(flow: Flow, node: Node) -> bool:
    """Whether a box makes one row, of what steps made of no data and of nothing that is learned."""
    place = flow.places[node.steps[0].id]
    made = flow.behind(*flow.makers[place])
    return (
        len(flow.output(place).shape) == 1
        and place not in list_reading_data(flow)
        and None not in {maker for record, maker in flow.given(place) if record.role != "parameter"}
        and any(maker is not None for maker in flow.makers[place])
        and not any(record.role == "parameter" for one in made for record in flow.steps[one].inputs)
    )


def label_residual(flow: Flow, one: Residual) -> str:
    """What a box is called in which rows are told by codes several times, by what is done each time."""
    before, behind = ([label_step(flow, node) for node in nodes] for nodes in one.turn)
    return f"{len(one.picked)} TIMES: {'; '.join((*before, label_codes(one.picked[0]), *behind))}"


def tell_residual(flow: Flow, chart: Chart, residual: Collection[Residual]) -> Chart:
    """The chart whose boxes of codes of what is left over say so, and what all of it holds."""
    own = {flow.steps[one.end].id: one for one in residual}
    nodes = []
    for node in chart.nodes:
        held = next((own[step.id] for step in node.steps if step.id in own), None)
        if held is not None:
            node = replace(node, told=LEFT_OVER, extra=describe_params(flow, *held.learning))
        nodes.append(node)
    return replace(chart, nodes=tuple(nodes))


def name_columns(flow: Flow, chart: Chart, columns: Collection[IdColumns]) -> Chart:
    """The chart whose boxes of lookups of several columns say of which argument these are, and what all tables hold."""
    named = {flow.steps[node].id: one for one in columns for node in [*one.list_folded()][:1]}
    nodes = []
    for node in chart.nodes:
        own = next((named[step.id] for step in node.steps if step.id in named), None)
        if own is not None:
            held = describe_params(flow, *own.lookups)
            more = ", others beside it" * own.has_more
            told = (f"of {own.name}{more}", held) if own.name else ()
            node = replace(node, told=told, extra="" if told else held)
        nodes.append(node)
    return replace(chart, nodes=tuple(nodes))


def tell_smaller(flow: Flow, lookups: Sequence[int]) -> dict[int, str]:
    """What the lookup in the smaller of two tables is called, where the other is far larger (CPM-Ant's segments)."""
    rows = {node: count for node in lookups if (count := table_rows(flow, node)) is not None}
    few, many = (min(rows, key=rows.__getitem__), max(rows.values())) if len(rows) == len(lookups) == 2 else (-1, 0)
    return {few: f"LOOKUP IN {rows[few]:,} ROWS"} if many and rows[few] * FAR_LARGER <= many else {}


def chart_zeros(flow: Flow, start: int) -> Chart | None:
    """The zeros that a stream begins as, to which only its layers add something; None for anything else (DETR)."""
    made = flow.carried_from(start)
    if made is None or flow.op(made) not in ZEROS:
        return None
    places = dict.fromkeys([start, made])
    return chart_alone(Node("zeros", "ZEROS", 0, MIDDLE, steps_at(flow, *places), flow.output(start)))


def label_resampler(one: Resampler) -> str:
    """How many rows of its own an attention looks at how many others with."""
    learned = "LEARNED " if one.trained is not False else ""
    rows = f"ONE {learned}ROW LOOKS" if one.rows == 1 else f"{one.rows:,} {learned}ROWS LOOK"
    return f"{rows} AT {one.seen:,}{label_heads(one.heads)}"


def add_scale(flow: Flow, chart: Chart, nodes: Collection[int]) -> Chart:
    """The chart with the number on top by which all that it gives is multiplied, if it is."""
    drawn = max(flow.places[step.id] for node in chart.nodes for step in node.steps)
    scales = [one for one in sorted(nodes) if one > drawn and is_scale(flow, one) and number(flow.steps[one]) != 1]
    if len(scales) != 1 or len(flow.output(scales[0]).shape) != 3:
        return chart
    label = label_scale(flow, scales[0])
    return add_above(chart, Node("scale", label, 0, MIDDLE, steps_at(flow, *scales), flow.output(scales[0])))


def label_scale(flow: Flow, node: int) -> str:
    """What a step is called that multiplies all that comes in by one number, or by one for each of a row."""
    if list_of_one_number(flow, node):
        return label_of_one_number(flow, node)
    if is_root(flow, node):
        return f"{'÷' if flow.op(node) in DIVISIONS else '×'} √d_model"
    factor, given = read_scaling(flow, node), flow.steps[node].inputs
    several = [one.role for one in given if one.shape != flow.output(node).shape and prod(one.shape) > 1]
    if several:
        return "× LEARNED NUMBERS" if several == ["parameter"] else "MULTIPLIED"
    return "× ONE NUMBER" if factor is None else name_times(factor)


def list_scaled_words(flow: Flow, nodes: Collection[int]) -> list[int]:
    """The steps that multiply words by one number before something is put among them (Gemma 3), or added (TIPSv2).

    So those that multiply what became of a signal (Speech2Text), those before a mask takes some places out (VITS), and
    words that are one of several streams. The one number of a norm of a lone row is worked out of it, and is no scale
    (Gemma 3n).
    """
    joining = PLACING | SUMS | {"where", "stack"}
    joins = {node for node in nodes if flow.op(node) in joining or label_entry(flow, node) in (MASKED, CLEARED)}
    scales = (node for node in nodes if is_scale(flow, node) and not joins.isdisjoint(list_carried_readers(flow, node)))
    return [
        node
        for node in scales
        if number(flow.steps[node]) != 1
        and find_any_norm(flow, node) is None
        and (comes_in(flow, node) or is_words(flow, node, nodes))
    ]


def is_words(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether a step works on words that were looked up, or on what became of a signal."""
    word = flow.carried_from(flow.makers[node][0], CARRYING)
    return word is not None and (flow.op(word) in PLACING or is_substance(flow, word, nodes))


def comes_in(flow: Flow, node: int) -> bool:
    """Whether a step works on rows of numbers as they come in (Fun-ASR)."""
    record, maker = next(flow.taken(node))
    return (
        maker is None and record.role == "activation" and record.is_float and len(record.shape) > len(("row", "width"))
    )


def chart_places(flow: Flow, towering: Towering, start: int) -> Chart | None:
    """Words looked up and places worked out, added up; None for an entrance of any other build."""
    end = flow.carried_from(start, CARRYING | DROPOUTS)
    lookups = [node for node in towering.entrance if flow.op(node) in LOOKUPS]
    if end is None or len(lookups) != 1 or flow.op(end) not in SUMS or len(flow.makers[end]) != 2:
        return None
    word = lookups[0]
    if looks_up_places(flow, word) or next(describe_sum(flow, end, ()), None) is None:
        return None
    given = list(flow.given(end))
    sides = [flow.carried_from(maker, CARRYING | DROPOUTS | SCALINGS) for _, maker in given]
    if word not in sides or None in sides or towering.tower.reads != "ids":
        return None
    record, place = given[1 - sides.index(word)]
    way = flow.behind(given[sides.index(word)][1], within=lambda one: one > word)
    scales = [node for node in way if flow.op(node) in SCALINGS]
    factors = [read_scaling(flow, node) for node in scales]
    is_made = any(flow.op(node) in SCALINGS and flow.output(node).is_float for node in flow.behind(place))
    if place is None or is_made or len(factors) > 1 or None in factors or flow.steps[place].params:
        return None
    label = "EMBED" if factors in ([], [1]) else f"EMBED {label_scale(flow, scales[0])}"
    dropped, told = list_dropouts(flow, end), describe_params(flow, word)
    nodes = (
        Node("words", label, 0, (0.5, 0.5), steps_at(flow, word, *scales), flow.output(word), told),
        Node(
            "plus",
            "+",
            1,
            (0.5, 0.1),
            (flow.steps[end], *dropped),
            flow.output(end),
            describe_dropout(flow, dropped),
            form="sign",
        ),
        Node("places", f"POSITIONS{tell_fitting(flow, end)}", 1, (0.79, 0.4), steps_at(flow, place), record),
    )
    return Chart(nodes, (Edge("words", "plus"), Edge("places", "plus")), ("words",), "plus")


def without_places(chart: Chart) -> Chart:
    """The same without a node for the places: the sign that adds them stands for them."""
    places = next((node for node in chart.nodes if node.key == "places"), None)
    if places is None:
        return chart
    nodes = tuple(
        replace(node, steps=(*node.steps, *places.steps)) if node.key == "plus" else node
        for node in chart.nodes
        if node is not places
    )
    return replace(chart, nodes=nodes, edges=tuple(edge for edge in chart.edges if edge.source != "places"))


def is_root(flow: Flow, node: int) -> bool:
    """Whether a step multiplies or divides by the root of the width of the rows that it reads, be these no picture."""
    factor, made = flow.steps[node].settings.get("factor", number(flow.steps[node])), flow.output(node)
    are_rows = len(made.shape) < MAP or made.axes[-1:] == ("d_model",)
    return are_rows and isinstance(factor, float) and isclose(factor, sqrt(made.shape[-1]), rel_tol=1e-4)
