"""What is written at the beginning of a ribbon: the name of what leaves a tower, and behind which layers."""

from collections.abc import Collection, Mapping, Sequence
from math import inf

from xray.story.anatomy.tree import Link
from xray.story.canvas import Canvas
from xray.story.layout import LEADING, Box
from xray.story.regions.ribbons.sources import Source, is_end
from xray.story.regions.ribbons.ways import Way
from xray.story.sheet.canvas.routing import CLEAR
from xray.story.sheet.columns import Column
from xray.story.sheet.standing import EXIT, Standing
from xray.story.type_sizes import LABEL, NOTE

UNDER = 20.0
"""How far below what they lead to ribbons turn aside."""
NAME_UNDER, BEND = 8.0, 12.0
"""How far under the roof of its ribbon a name is, and how far before the next bend of that it ends."""
MEMORY = "MEMORY"
"""What a ribbon is called that leads to keys and values alone."""
BY_LAYER = ("LAYER", "BY LAYER")
"""What is written at ribbons that lead from each layer to the one of its number."""
OFF = 14.0
"""How far from the middle of a ribbon its name begins."""
OFF_FRAME = 4.0
"""How far beside a frame, and above its ribbon, a name stands that has no room within."""
BESIDE_RIBBON = 9.0
"""How far the middle of a line is from that of a ribbon beside it."""
Name = tuple[float, float, tuple[str, ...], int, str]
"""What is written at a ribbon: where it stands, its lines, their size, and on what."""


def name_once(canvas: Canvas, named: Mapping[Name, tuple[int, float]]) -> list[Name]:
    """Names with their columns and the lanes right of them; those of a column beside each other once.

    Such a name stands before the next ribbon, or behind all where these go left.
    """
    groups: dict[tuple[object, ...], list[Name]] = {}
    for name, (column, _) in named.items():
        groups.setdefault((column, *name[1:3], name[-1]), []).append(name)
    found = []
    for first, *others in map(sorted, groups.values()):
        if others and named[others[-1]][1] == inf:
            found.append(others[-1])
        elif others:
            room = others[0][0] - first[0] - BEND - OFF
            size = next((one for one in (LABEL, NOTE) if canvas.text_width(first[2][0], one, "bold") < room), NOTE - 2)
            found.append((*first[:3], size, first[-1]))
        else:
            found.append(first)
    return leave_covered(canvas, found)


def leave_covered(canvas: Canvas, names: Sequence[Name]) -> list[Name]:
    """Names without what would be written layer by layer over another such: that stands for ribbons both ways."""
    width, high = max(canvas.text_width(text, NOTE - 2, "bold") for text in BY_LAYER), NOTE * 1.12 * len(BY_LAYER)
    kept: list[Name] = []
    for name in names:
        others = [one for one in kept if BY_LAYER == one[2] == name[2]]
        if not any(abs(one[0] - name[0]) < width and abs(one[1] - name[1]) < high for one in others):
            kept.append(name)
    return kept


def roof_over(box: Box, standing: Standing) -> float:
    """How high a ribbon turns aside from the top of a column, so that its name has room above what stands there."""
    low = max(box.top, standing.drawn.written)
    return low + CLEAR + LABEL * LEADING + NAME_UNDER


def is_top(source: Source, columns: Sequence[Column], standing: Sequence[Standing]) -> bool:
    """Whether nothing stands above a box of a column from which a way begins."""
    own = standing[source.column].exits[0] if columns[source.column].is_last else None
    if own is None:
        return is_end(source, columns, standing)
    return source.box in own.boxes.values() and source.box.top >= max(box.top for box in own.boxes.values())


def name_way(
    canvas: Canvas,
    columns: Sequence[Column],
    standing: Sequence[Standing],
    way: Way,
    alike: Sequence[Way],
    links: Sequence[Link],
    lane: float,
    roof: float,
) -> list[Name]:
    """What is written at the beginning of a way, and of those that begin there too.

    It turns aside at its `roof`, and they go up or down a `lane`.
    """
    box, column, layer = way.source.box, columns[way.source.column], way.source.layer
    own = standing[way.source.column]
    own_ways = [one for one in alike if one.source.key == way.source.key]
    is_memory = all(one.is_memory and not one.is_worked_in for one in own_ways)
    told: tuple[str, ...]
    if way.is_kept:
        aim, width = way.aims[0][0], max(canvas.text_width(text, NOTE - 2, "bold") for text in BY_LAYER)
        boxes = [one for shown in standing[way.target].drawn.shown for one in shown.placed[0].boxes.values()]
        queries = min((one.x for one in boxes if one.right < aim.left and one.top < aim.bottom), default=aim.left)
        top = aim.bottom - UNDER + BESIDE_RIBBON / 2 + NOTE * 1.12 * len(BY_LAYER)
        own_spot = (queries - 8 - width, top, f"{columns[way.target].look.own}_panel")
        spots = find_room(canvas, aim, own_spot, width, is_right=way.source.column > way.target)
        return [(x, top, BY_LAYER, NOTE - 2, on) for x, top, on in spots]
    if is_top(way.source, columns, standing):
        told = (MEMORY if is_memory else f"FROM THE {column.name.upper()} TOWER",)
        lowered = max(0.0, roof_over(box, own) - roof) / 2
        return [(box.x + OFF, roof_over(box, own) - NAME_UNDER - lowered, told, LABEL, "page")]
    told = (MEMORY,) if is_memory else ("FROM THE", f"{column.name.upper()} TOWER")
    leaving = own.exits[0].boxes.values() if own.exits[0] is not None else ()
    if box in leaving:
        x, size, _ = fit_name(canvas, told, box.right, lane)
        return [(x, box.y + 6 + NOTE * 1.12 * len(told), told, size, "page")]
    if is_end(way.source, columns, standing):
        low, told = own.drawn.top + EXIT, (MEMORY,) if is_memory else ("FROM THE", column.name.upper(), "TOWER")
        if not any(one.aims for one in own_ways) and way.target == way.source.column - 1:
            return [(own.left + 2, low - 5 + NOTE * 1.12, told[:1], LABEL, "page")]
        return [name_end(canvas, own, told, lane)]
    if layer is None:
        return []
    layers = {one.source.layer for one in alike if one.source.layer is not None}
    several = {columns[one.target].name for one in alike if not ends_in_one_layer(columns, standing, one)}
    layers |= list_read_behind(column, layer, several, links)
    layers -= (
        {column.towering.tower.layers - 1} if any(is_end(one.source, columns, standing) for one in alike) else set()
    )
    return [(box.right + 4, box.y - 8, name_layers(sorted(layers)), NOTE - 2, f"{column.look.own}_panel")]


def find_room(
    canvas: Canvas, aim: Box, spot: tuple[float, float, str], width: float, *, is_right: bool
) -> list[tuple[float, float, str]]:
    """Where what is written at ribbons that lead to a box stands, and on what: at a spot, if nothing else is there.

    Else it stands beside the frame, on the side from which these ribbons come; or nowhere, if there is something too.
    """
    x, top, _ = spot
    areas = [[*zip(*panel.path, strict=True)] for panel in canvas.panels]
    around = [(min(xs), max(xs)) for xs, ys in areas if min(xs) < aim.x < max(xs) and min(ys) < aim.y < max(ys)]
    left, right = min((one for one, _ in around), default=x), max((one for _, one in around), default=x)
    beside = (right + OFF_FRAME if is_right else left - OFF_FRAME - width, top + OFF_FRAME, "page")
    return [one for one in (spot, beside) if not is_struck(canvas, one[0], one[1], width)][:1]


def is_struck(canvas: Canvas, left: float, top: float, width: float) -> bool:
    """Whether a line, told by the bounds of each of its pieces, or a box is where layer by layer would be written."""
    size = NOTE - 2
    low, high = top - size * 1.12 * len(BY_LAYER) + size * 0.1, top - size * 0.22
    pieces = (curve.points[place : place + 4] for curve in canvas.curves for place in range(0, len(curve.points), 3))
    bounds = [[*zip(*piece, strict=True)] for piece in pieces]
    bounds += [[(box.left, box.right), (box.bottom, box.top)] for box in canvas.boxes]
    return any(left < max(xs) and min(xs) < left + width and low < max(ys) and min(ys) < high for xs, ys in bounds)


def name_end(canvas: Canvas, standing: Standing, told: tuple[str, ...], lane: float) -> Name:
    """The name of what leaves the last frame of a tower under its exit: right of that, or left of the stream.

    It stands left where it has no room before a lane, if no line leads there.
    """
    leaving, last, low = standing.exits[0], standing.drawn.last, standing.drawn.top + EXIT
    boxes = leaving.boxes.values() if leaving is not None else ()
    corners = [(x, y) for one in (leaving.ways if leaving is not None else ()) for x, y in one.points if y < low + 40]
    right = max([box.right for box in boxes if box.bottom < low + 40] + [x for x, _ in corners], default=last.right)
    x, size, is_held = fit_name(canvas, told, right, lane)
    if is_held or any(x < last.x - CLEAR for x, _ in corners):
        return x, low + 2 + NOTE * 1.12 * len(told), told, size, "page"
    line = " ".join(told)
    return last.x - 8 - canvas.text_width(line, LABEL, "bold"), low - 3, (line,), LABEL, "page"


def fit_name(canvas: Canvas, told: Sequence[str], right: float, lane: float) -> tuple[float, int, bool]:
    """Where a name begins between what ends at the right and a lane, the largest type that has room, and if any has."""
    size = LABEL if len(told) == 1 else NOTE
    for x, smaller in ((right + 8, size), (right + 5, size), (right + 5, NOTE)):
        if x + max(canvas.text_width(text, smaller, "bold") for text in told) < lane - BEND:
            return x, smaller, True
    return right + 5, NOTE, False


def ends_in_one_layer(columns: Sequence[Column], standing: Sequence[Standing], way: Way) -> bool:
    """Whether all boxes that a way ends at are of a layer that stands for itself, and reads behind no others.

    So do those before the first layer (TNT).
    """
    counts = {id(panel): frame.group.count for frame in columns[way.target].frames for panel in frame.panels}
    alone = [
        box
        for shown in standing[way.target].drawn.shown
        for panel, placed in zip(shown.panels[:1], shown.placed[:1], strict=True)
        if counts.get(id(panel)) == 1
        for box in placed.boxes.values()
    ]
    alone += [box for placed in standing[way.target].entrances for box in placed.boxes.values()]
    return all(box in alone for box in (*way.wholes, *(one for row in way.aims for one in row)))


def list_read_behind(column: Column, layer: int, targets: Collection[str], links: Sequence[Link]) -> set[int]:
    """The layers that are drawn as one with some layer, behind which layers of other towers read too.

    Of several of these that are alike one alone is drawn, and led to (BridgeTower).
    """
    alike = next((frame.group.layers for frame in column.frames if layer in frame.group.layers), ())
    return {
        number
        for link in links
        if link.source == column.name and link.target in targets
        for number in link.behind
        if number in alike
    }


def name_layers(layers: Sequence[int]) -> tuple[str, ...]:
    """Behind which layers, from 0, ways begin, in lines of two numbers."""
    numbers = [", ".join(str(one + 1) for one in layers[place : place + 2]) for place in range(0, len(layers), 2)]
    lines = [f"{line}," for line in numbers[:-1]] + numbers[-1:]
    return ("BEHIND", "LAYER" if len(layers) == 1 else "LAYERS", *lines)
