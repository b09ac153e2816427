"""Ribbons and turns between columns that stand beside each other with nothing but an aisle between them."""

from collections.abc import Sequence

from xray.story.anatomy.tree import Attention, Link, Looking
from xray.story.canvas import Canvas, words
from xray.story.layout import Box
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import Standing
from xray.story.streams.asides import list_carried_readers
from xray.story.type_sizes import LABEL

MEMORY = "MEMORY"
"""What a ribbon is called that leads to keys and values alone."""


def draw_turns(canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], aisle: float) -> None:
    """The stream's way from the top of one column of a tower to the foot of the next."""
    for number, column in enumerate(columns):
        if column.is_first:
            continue
        last, first = standing[number - 1].drawn.last, standing[number].drawn.first
        roof, lane = standing[number - 1].drawn.top + 34, standing[number].left - aisle / 2
        floor = first.bottom - 40
        way = (
            (last.x, last.top),
            (last.x, roof),
            (lane, roof),
            (lane, floor),
            (first.x, floor),
            (first.x, first.bottom),
        )
        canvas.line(*way, role="boundary", width=3, radius=14)


def draw_links(
    canvas: Canvas, columns: Sequence[Column], standing: Sequence[Standing], links: Sequence[Link], aisle: float
) -> float:
    """Ribbons from where one tower ends to where another one takes it up; gives how high they go."""
    highest = 0.0
    named: dict[tuple[float, float], list[str]] = {}
    places = {column.name: number for number, column in enumerate(columns) if column.is_last}
    begins = {column.name: number for number, column in enumerate(columns) if column.is_first}
    for link in links:
        source, target = places.get(link.source), begins.get(link.target)
        if source is None or target is None or source == target:
            continue
        start = find_start(standing[source], columns[source], columns[target])
        roof = max(start.top + 24, standing[source].drawn.top + 40)
        highest = max(highest, roof)
        if link.kind == "memory":
            aims = [
                (number, row)
                for number, column in enumerate(columns)
                if column.name == link.target
                for row in list_fed(standing[number], link.source)
            ]
        else:
            aims = [(target, list_entered(columns[target], standing[target]) if link.kind == "joined" else [])]
        for number, boxes in aims:
            lane = standing[number].left - aisle * 0.42 - 6 * source
            for box in boxes:
                level = min(one.bottom for one in boxes) - 15
                way = [(start.x, start.top), (start.x, roof), (lane, roof)]
                is_memory = link.kind == "memory"
                way += [(lane, level), (box.x, level), (box.x, box.bottom)] if is_memory else []
                way += [] if is_memory else [(lane, box.y), (box.left, box.y)]
                canvas.line(*way, role="casing", width=8.5, radius=16, head=False, kind="ribbon")
                canvas.line(*way, role="ribbon", width=5.5, radius=16, head_size=0.5, kind="ribbon")
        if any(boxes for _, boxes in aims):
            name = MEMORY if link.kind == "memory" else f"FROM THE {link.source.upper()} TOWER"
            named.setdefault((start.x + 14, roof - 8), []).append(name)
    for (x, y), names in named.items():
        name = next((name for name in names if name != MEMORY), MEMORY)
        canvas.note(x, y, (words(name, LABEL, "text", "bold"),))
    return highest


def find_start(standing: Standing, column: Column, target: Column) -> Box:
    """The box that another tower takes up what a tower gives from: the top of what stands above it, or its end."""
    start, chart, leaving = standing.ends(column)[0], column.exit, standing.exits[0]
    if chart is None or leaving is None or chart.head not in leaving.boxes or column.reading is not target.reading:
        return start
    flow = column.reading.flow
    besides = (joint.region.beside for chain in target.towering.chains for joint in chain.joints)
    theirs = target.towering.nodes.union(*besides)
    head = next(node for node in chart.nodes if node.key == chart.head)
    made = [flow.places[step.id] for step in head.steps if step.id in flow.places]
    onward = (reader for place in made for reader in list_carried_readers(flow, place))
    return leaving.boxes[chart.head] if any(reader in theirs for reader in onward) else start


def list_fed(standing: Standing, source: str) -> list[list[Box]]:
    """The boxes of each stage that reads what a tower gives; where none says whose it reads, of every such stage."""
    rows: list[tuple[set[str | None], list[Box]]] = []
    for shown in standing.drawn.shown:
        panel, boxes = shown.panels[0], shown.placed[0].boxes
        beside = any(isinstance(one, Attention) and one.beside == source for one in panel.staging.stage.branches)
        if beside:
            joins = [boxes[node.key] for node in panel.chart.nodes if node.key.startswith("join") and node.key in boxes]
            rows += [({source}, joins)] if joins else []
            continue
        fed = [boxes[key] for key in panel.chart.memory if key in boxes]
        looking = [one for one in panel.staging.stage.branches if isinstance(one, Looking) and one.leaves_stream]
        rows += [({one.source for one in looking}, fed)] if fed else []
    return [fed for sources, fed in rows if source in sources or None in sources or not sources]


def list_entered(column: Column, standing: Standing) -> list[Box]:
    """The boxes of a tower's entrance that read what another one gives."""
    if column.entrance is None or not standing.entrances:
        return []
    boxes = standing.entrances[0].boxes
    return [boxes[key] for key in column.entrance.memory or (column.entrance.head,)]
