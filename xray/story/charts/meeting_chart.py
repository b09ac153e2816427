"""Where two towers are compared: rows made one long, and the product in which those of one meet those of the other."""

from collections.abc import Iterator
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LENGTHS, SCALINGS, SUMS
from xray.story.charts.chart import BROAD, Chart, Node, add_above, steps_at
from xray.story.recognition.value_shapes import number

KEEPING = CARRYING | {"clamp", "clamp_min", "clamp_min_"}


def add_unit_length(flow: Flow, chart: Chart) -> Chart:
    """The chart with the box above it in which every row of what it ends with is divided by its own length."""
    head = next(node for node in chart.nodes if node.key == chart.head)
    made = [flow.places[step.id] for step in head.steps if step.id in flow.places]
    found = next((nodes for place in made for nodes in list_unit_lengths(flow, place)), None)
    if found is None:
        return chart
    end = found[-1]
    return add_above(
        chart, Node("unit", "EACH ROW ÷ ITS LENGTH", 0, BROAD, steps_at(flow, end, *found[:-1]), flow.output(end))
    )


def list_unit_lengths(flow: Flow, origin: int) -> Iterator[list[int]]:
    """The steps by which rows are divided by their own lengths, in order: the last of them divides."""
    for end in flow.readers.get(origin, ()):
        makers = flow.makers[end]
        if flow.op(end) == "normalize" and is_of_squares(flow, end) and is_of_rows(flow, end):
            yield [end]
        elif flow.op(end).startswith(("div", "true_div")) and len(makers) == 2 and makers[0] == origin:
            way = walk_length(flow, makers[1], origin)
            if way:
                yield [*way[::-1], end]


def walk_length(flow: Flow, here: int | None, origin: int) -> list[int]:
    """The steps that work out how long each row is, the last first; none where it is not proven."""
    way: list[int] = []
    while here is not None and here != origin and here > origin:
        way.append(here)
        here = flow.makers[here][0] if flow.makers[here] else None
    ops = [flow.op(node) for node in way if flow.op(node) not in KEEPING]
    powers = [number(flow.steps[node]) for node in way if flow.op(node) == "pow"]
    is_length = len(ops) == 1 and ops[0] in LENGTHS and all(is_of_squares(flow, node) for node in way)
    is_root = ops[1:2] == ["sum"] and (ops[0] == "sqrt" or powers[:1] == [0.5])
    is_square = len(ops) == 3 and (ops[2] == "square" or powers[-1:] == [2])
    sums = [node for node in way if flow.op(node) == "sum" or flow.op(node) in LENGTHS]
    proven = here == origin and (is_length or (is_root and is_square)) and all(is_of_rows(flow, node) for node in sums)
    return way if proven else []


def is_of_squares(flow: Flow, node: int) -> bool:
    """Whether a step works out a root of squares, as a length is one, and no other norm of numbers."""
    return all(number(flow.steps[node], name) in (None, 2) for name in ("p", "ord"))


def is_of_rows(flow: Flow, node: int) -> bool:
    """Whether a step works along the last axis alone."""
    step = flow.steps[node]
    dim = step.settings.get("dim", 1 if step.op == "normalize" else None)
    return dim in (-1, len(step.inputs[0].shape) - 1)


def add_meeting(flow: Flow, chart: Chart, meeting: int, other: str) -> Chart:
    """The chart with the product above it in which what the tower gives meets what another one gives, and its scale."""
    twin = {flow.carried_from(maker) for maker in flow.makers[meeting]}
    alike = [
        place
        for place in range(meeting + 1, len(flow.steps))
        if flow.op(place) == flow.op(meeting) and {flow.carried_from(maker) for maker in flow.makers[place]} == twin
    ]
    steps = [step for place in (meeting, *alike) for step in (place, *list_scaled(flow, place))]
    scaled = "scaled" if any(flow.op(node) in SCALINGS for node in steps) else ""
    label = f"COMPARED WITH THE {other.upper()} TOWER"
    return add_above(chart, Node("meeting", label, 0, BROAD, steps_at(flow, *steps), flow.output(meeting), scaled))


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
        readers = [reader for reader in flow.readers.get(here, ()) if flow.is_leaf(reader)]
        if len(readers) != 1 or not is_scaled(flow, readers[0]):
            return found
        here = readers[0]
        found.append(here)


def is_scaled(flow: Flow, node: int) -> bool:
    """Whether a step does no more than move numbers, or multiply all by one and add one to all."""
    given = [record.shape for record in flow.steps[node].inputs]
    alike = len(given) == 1 or any(prod(shape) == 1 for shape in given)
    return flow.op(node) in CARRYING or (flow.op(node) in SCALINGS | SUMS and alike)
