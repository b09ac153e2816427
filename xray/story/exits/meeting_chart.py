"""Where two towers are compared: rows made one long, and the product in which those of one meet those of the other."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import prod

from xray.ir.flow.cut_rows import list_cut_parts
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CASTING, CLAMPS, SCALINGS, SUMS
from xray.story.body.links import Meetings
from xray.story.charts.chart import BROAD, Chart, Edge, Node, add_above, steps_at
from xray.story.charts.steps.operations_chart import spread
from xray.story.exits.handed_rows import name_rows
from xray.story.recognition.lengths import BY_LENGTH, ITS_LENGTH, list_unit_lengths


def add_comparisons(flow: Flow, chart: Chart, own: str, meetings: Meetings) -> Chart:
    """The chart of a tower's exit with all in which its rows meet those of towers before it, side by side above it.

    What towers behind it made together with those is named too (SAM 2: maps of the image, and rows worked on since).
    The tower that ends next to it comes first, so that no way to them has to cross another.
    """
    if not any(own in pair for pair in meetings):
        return chart
    chart = add_unit_length(flow, chart)
    met: dict[int, list[str]] = {}
    for (first, second), place in reversed(meetings.items()):
        if second == own:
            met.setdefault(place, []).insert(0, first)
    met = {place: names for place, names in met.items() if met.keys().isdisjoint(flow.behind(*flow.makers[place]))}
    later = {
        meeting: [second for (first, second), one in meetings.items() if (first, one) == (own, meeting)]
        for meeting in met
    }
    drawn = {flow.places[step.id] for node in chart.nodes for step in node.steps if step.id in flow.places}
    nodes = [
        replace(
            make_meeting(
                flow, key_meeting(*names), label_meeting([*names, *later[meeting]], len(met) == 1), meeting, drawn
            ),
            row=chart.rows,
            place=BROAD if len(met) == 1 else spread(number, len(met)),
        )
        for number, (meeting, names) in enumerate(met.items())
    ]
    led = {node.key: list_leading(flow, chart, meeting) for node, meeting in zip(nodes, met, strict=True)}
    edges = [Edge(source, key) for key, sources in led.items() for source in sources]
    feet = (*chart.feet, *(key for key, sources in led.items() if not sources))
    head = nodes[0].key if len(nodes) == 1 else chart.head
    chart = replace(chart, nodes=(*chart.nodes, *nodes), edges=(*chart.edges, *edges), feet=feet, head=head)
    return add_taken(flow, chart, *met) if len(met) == 1 else chart


def add_taken(flow: Flow, chart: Chart, meeting: int) -> Chart:
    """The chart with a box above a product for the step that takes some of what it gives (SAM's masks: 3 of 4)."""
    top = max([meeting, *list_scaled(flow, meeting)])
    readers = flow.leaf_readers(top)
    told = label_taken(flow, readers[0]) if len(readers) == 1 else ""
    if not told:
        return chart
    return add_above(chart, Node("taken", told, 0, BROAD, steps_at(flow, *readers), flow.output(readers[0])))


def label_taken(flow: Flow, node: int) -> str:
    """How many a step takes along the only axis that it makes shorter; "" for any other step."""
    before, after = (flow.steps[node].inputs[0].shape if flow.steps[node].inputs else ()), flow.output(node).shape
    if not leaves_some(flow, node) or len(before) != len(after):
        return ""
    shorter = [(some, whole) for some, whole in zip(after, before, strict=True) if some != whole]
    return "{:,} OF {:,} TAKEN".format(*shorter[0]) if len(shorter) == 1 else ""


def list_leading(flow: Flow, chart: Chart, meeting: int) -> list[str]:
    """The last boxes of an exit that lead to a comparison: a head beside it does not (SAM's scores of its masks).

    Nor does what stands beside the rows that are cut out for it (SAM-HQ's own mask, which meets other maps).
    """
    owners = {flow.places[one.id]: node.key for node in chart.nodes for one in node.steps if one.id in flow.places}
    first = min(owners, default=meeting)

    def read(here: int) -> list[int | None]:
        parts = list_cut_parts(flow, here)
        is_drawn = any(flow.carried_from(maker, CASTING) in owners for maker in flow.makers[here])
        return [maker for _, maker in (parts if parts and not is_drawn else flow.given(here))]

    behind = flow.behind(meeting, within=lambda here: here >= first, ends=owners.__contains__, reads=read)
    reached = {owners[here] for here in behind if here in owners}
    onward = {edge.source for edge in chart.edges if edge.target in reached}
    return [node.key for node in chart.nodes if node.key in reached - onward]


def label_meeting(names: Sequence[str], is_only: bool) -> str:
    """What a product is called in which a tower's rows meet what others made, each by itself or together."""
    told = " AND ".join(names).upper()
    one = f"THE {told} TOWER" if len(names) == 1 else told
    return f"COMPARED WITH {one}" if is_only else f"WITH {told}"


def key_meeting(*others: str) -> str:
    """The key of the box in which a tower is compared with others."""
    return f"meeting_{'+'.join(other.replace(' ', '_') for other in others)}"


def count_met(nodes: Iterable[Node]) -> int:
    """How many towers a tower is compared with in boxes of its exit."""
    return sum(node.key.count("+") + 1 for node in nodes if node.key.startswith(key_meeting("")))


def find_meeting(keys: Iterable[str], other: str) -> str | None:
    """Among keys of boxes the one of that in which a tower is compared with another one."""
    name = other.replace(" ", "_")
    return next((key for key in keys if name in key.removeprefix(key_meeting()).split("+") and key != name), None)


def find_compared(chart: Chart) -> str:
    """The box of an exit whose rows are compared: the last one below those in which they meet others."""
    met = (edge.source for edge in chart.edges if edge.target.startswith(key_meeting("")))
    return next(met, chart.head)


def add_unit_length(flow: Flow, chart: Chart) -> Chart:
    """The chart with the box above it in which every row of what it ends with, or one, is divided by its own length."""
    head = next(node for node in chart.nodes if node.key == chart.head)
    made = [flow.places[step.id] for step in head.steps if step.id in flow.places]
    picked = [reader for place in made for reader in flow.readers.get(place, ()) if name_rows(flow, reader)]
    lengths = ((place, one) for place in (*made, *picked) for one in list_unit_lengths(flow, place))
    found = next((one for one in lengths if one[1][-1] not in made), None)
    if found is None:
        return chart
    place, nodes = found
    taken = (place,) if place in picked else ()
    label = f"{name_rows(flow, place)} {BY_LENGTH}" if taken else ITS_LENGTH
    steps = steps_at(flow, nodes[-1], *taken, *nodes[:-1])
    return add_above(chart, Node("unit", label, 0, BROAD, steps, flow.output(nodes[-1])))


def make_meeting(flow: Flow, key: str, label: str, meeting: int, drawn: Collection[int]) -> Node:
    """The product in which what one tower gives meets what another one gives, and its scale where no box is `drawn`."""
    twin = {flow.carried_from(maker) for maker in flow.makers[meeting]}
    alike = [
        place
        for place in range(meeting + 1, len(flow.steps))
        if flow.op(place) == flow.op(meeting) and {flow.carried_from(maker) for maker in flow.makers[place]} == twin
    ]
    steps = [step for place in (meeting, *alike) for step in (place, *list_scaled(flow, place))]
    steps = [place for place in steps if place not in drawn]
    told = tell_both_ways(flow, meeting, alike, drawn)
    return Node(key, label, 0, BROAD, steps_at(flow, *steps), flow.output(meeting), told, surface="ghost")


def tell_both_ways(flow: Flow, meeting: int, alike: Sequence[int], drawn: Collection[int]) -> str:
    """What is done with all that a product gives, and with what another one does of the same rows in turn (CLAP).

    Nothing of a scale that only one of both has.
    """
    parts = [[one for one in (place, *list_scaled(flow, place)) if one not in drawn] for place in (meeting, *alike)]
    first, *others = ([flow.carried_from(maker) for maker in flow.makers[place]] for place in (meeting, *alike))
    if others != [first[::-1]]:
        return tell_scaled(flow, [one for part in parts for one in part])
    scales = [[node for node in part if flow.op(node) in SCALINGS] for part in parts]
    kinds = {(tell_scaled(flow, part), *map(flow.op, own)) for part, own in zip(parts, scales, strict=True)}
    told = tell_scaled(flow, parts[0]) if len(kinds) == 1 else ""
    factors = {find_learned_factor(flow, node) for own in scales for node in own} - {None}
    return ", ".join(filter(None, ("both ways", told and f"{'each ' * (len(factors) > 1)}{told}")))


def tell_scaled(flow: Flow, steps: Sequence[int]) -> str:
    """What is done with all that a product gives: by what it is scaled, and that a learned number is added (SigLIP)."""
    scales = [node for node in steps if flow.op(node) in SCALINGS]
    scaled = next(filter(None, (name_learned_factor(flow, node) for node in scales)), "scaled" if scales else "")
    is_moved = any(flow.op(node) in SUMS and find_learned_factor(flow, node) is not None for node in steps)
    added = "another added" if "learned" in scaled else "a learned number added"
    return ", ".join(filter(None, (scaled, added if is_moved else "")))


def name_learned_factor(flow: Flow, scale: int) -> str:
    """That one of the factors of a step is a single learned number, or e to the power of one (CLIP); "" if none is."""
    found = find_learned_factor(flow, scale)
    if found is None:
        return ""
    curves = [flow.op(node) for node in flow.behind(*found) if flow.op(node) not in CARRYING]
    is_power = curves[:1] == ["exp"] and len(curves) < 3 and CLAMPS.issuperset(curves[1:])
    return f"scaled by {'e to ' * is_power}a learned number{' that is clamped' * (is_power and len(curves) > 1)}"


def find_learned_factor(flow: Flow, scale: int) -> tuple[int, ...] | None:
    """The last of the steps that make one learned number out of which a step scales or adds; none if bare."""
    for record, maker in flow.given(scale):
        ends = (
            [record]
            if maker is None
            else [one for node in flow.behind(maker) for one, made in flow.taken(node) if made is None]
        )
        if prod(record.shape) == 1 and ends and all(one.role == "parameter" for one in ends):
            return () if maker is None else (maker,)
    return None


def list_scaled(flow: Flow, product: int) -> list[int]:
    """The steps by which a product is scaled: before it, what it reads, and behind it, what it gives."""
    found: list[int] = []
    for maker in flow.makers[product]:
        here = maker
        while here is not None and is_scaled(flow, here):
            found.append(here)
            here = next((one for record, one in flow.given(here) if one is not None and record.shape), None)
    here = product
    while True:
        readers = flow.leaf_readers(here)
        if len(readers) != 1 or not is_scaled(flow, readers[0]) or leaves_some(flow, readers[0]):
            return found
        here = readers[0]
        found.append(here)


def leaves_some(flow: Flow, node: int) -> bool:
    """Whether a step moves some of the numbers that it is given, and leaves the others."""
    given = flow.steps[node].inputs
    return flow.op(node) in CARRYING and bool(given) and prod(flow.output(node).shape) < prod(given[0].shape)


def is_scaled(flow: Flow, node: int) -> bool:
    """Whether a step does no more than move numbers, or multiply all by one and add one to all."""
    given = [record.shape for record in flow.steps[node].inputs]
    alike = len(given) == 1 or any(prod(shape) == 1 for shape in given)
    return flow.op(node) in CARRYING or (flow.op(node) in SCALINGS | SUMS and alike)
