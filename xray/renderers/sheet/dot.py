"""A layout and a theme as DOT text: pinned nodes, own curves, HTML-like labels; nothing in it is taken as markup."""

from collections.abc import Iterable
from itertools import groupby
from math import ceil

from graphviz import Digraph

from xray.renderers.fonts import FONT_ASCENT, FONT_DESCENT, lacks_letters, text_width
from xray.renderers.sheet.dashes import dashes
from xray.renderers.sheet.markup import clean, identity, point_size, write_run
from xray.renderers.sheet.paper import POINTS_PER_INCH, POSTER_PAPER, Paper, paper_size
from xray.renderers.sheet.shading import cell_shapes
from xray.renderers.themes import Theme
from xray.story.layout import Align, Box, Curve, Layout, Line, Panel, Point, baselines, line_width

ZOOM = 2
"""Graphviz rounds the advance of every letter to a pixel at 96 dpi; drawn larger and scaled down, nobody sees it."""

BARE = 'BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0"'
RAISED = {"": 0.0, "sup": 0.2, "sub": -0.14}
"""How far raised and lowered text is moved, in sizes of the text."""

CONTINUED = " \\\n"
"""A line break that DOT leaves out; its reader takes no more than 16,384 characters at once."""


def write_dot(layout: Layout, theme: Theme, dpi: int | None = None, paper: Paper = POSTER_PAPER) -> str:
    """The poster as DOT, to be drawn by `nop2`, as large as the paper holds."""
    width, height = sorted(paper_size(paper), reverse=layout.width > layout.height)
    scale = min(width / layout.width, height / layout.height) / POINTS_PER_INCH
    scaled = f"{layout.width * scale:.4f},{layout.height * scale:.4f}"
    graph = Digraph("poster")
    graph.attr(
        "graph",
        bb=f"0,0,{point((layout.width, layout.height))}",
        size=scaled + "!",
        bgcolor=theme.surfaces["page"].fill,
        pad="0",
        margin="0",
        outputorder="edgesfirst",
        fontname=theme.font,
        id="poster",
        tooltip=clean(layout.title),
        _background=write_background(layout, theme),
        **({"dpi": str(dpi)} if dpi else {}),
    )
    graph.attr("node", shape="box", fixedsize="shape", fontname=theme.font, fontsize="10", margin="0", label="")
    graph.attr("edge", fontname=theme.font, fontsize="10", arrowsize="0.6")
    graph.node("corner_low", pos="0,0!", width="0.01", height="0.01", style="invis")
    graph.node(
        "corner_high", pos=point((layout.width, layout.height)) + "!", width="0.01", height="0.01", style="invis"
    )
    for place, curve in enumerate(layout.curves):
        write_curve(graph, curve, place, theme)
    for box in layout.boxes:
        write_box(graph, box, theme)
    for cells in layout.cells:
        if cells.tooltip:
            graph.node(
                name(cells.id),
                pos=point((cells.x + cells.width / 2, cells.y - cells.height / 2)) + "!",
                width=inches(cells.width),
                height=inches(cells.height),
                style="filled",
                fillcolor="transparent",
                penwidth="0",
                id=identity(cells.id),
                tooltip=clean(cells.tooltip),
                **{"class": cells.kind},
            )
    return str(graph.source)


def write_box(graph: Digraph, box: Box, theme: Theme) -> None:
    """A shape with its facts, then a node for each line of text, so that every baseline is where it was put."""
    if box.filled:
        fill, edge = paint_of(box.on, theme)
        line = theme.lines[box.outline] if box.outline else edge
        style = {"shape": "circle", "style": "filled"} if box.shape == "circle" else {"style": "rounded,filled"}
        graph.node(
            name(box.id),
            pos=point((box.x, box.y)) + "!",
            width=inches(box.width),
            height=inches(box.height),
            id=identity(box.id),
            tooltip=clean(box.tooltip) if box.tooltip else " ",
            fillcolor=fill,
            color=line,
            penwidth=number(box.outline_width * ZOOM),
            **style,
            **{"class": box.kind},
        )
    for place, (line_, baseline) in enumerate(zip(box.lines, baselines(box), strict=True)):
        if any(run.text.strip() for run in line_):
            write_line(graph, box, place, line_, baseline, theme)


def write_line(graph: Digraph, box: Box, place: int, line: Line, baseline: float, theme: Theme) -> None:
    """One line of text as nodes without a shape: one for each stretch of it on the same baseline."""
    width = line_width(line, text_width)
    x = {"left": box.left, "center": box.x - width / 2, "right": box.right - width}[box.align]
    for part, runs in enumerate(stretches(line)):
        shift = runs[0].shift
        wide = line_width(runs, text_width)
        size = max(run.size for run in runs)
        if any(run.text.strip() for run in runs):
            row = "".join(write_run(run, box.on, theme, ZOOM) for run in runs)
            raised = baseline + RAISED[shift] * size
            cell, centre = hold_edge("left" if runs != line or is_foreign(line) else box.align, x, wide)
            graph.node(
                f"{name(box.id)}_text_{place}_{part}",
                pos=point((centre, raised + centre_above_baseline(runs))) + "!",
                label=f"<<TABLE {BARE}><TR><TD{cell}>{row}</TD></TR></TABLE>>",
                shape="none",
                width="0.1",
                height="0.1",
                tooltip=" ",
                **{"class": "text" if box.filled else box.kind},
            )
        x += wide


def stretches(line: Line) -> list[Line]:
    """A line cut where its baseline changes, and around every run where some are set in a font that is not ours."""
    foreign = is_foreign(line)
    return [
        tuple(run for _, run in grouped)
        for _, grouped in groupby(enumerate(line), key=lambda pair: (pair[1].shift, foreign and pair[0]))
    ]


def is_foreign(line: Line) -> bool:
    """Whether some of a line is set in a font that is not ours, and as wide as only the viewer knows."""
    return any(lacks_letters(run.text, run.weight) for run in line)


def hold_edge(align: Align, left: float, width: float) -> tuple[str, float]:
    """The cell's attributes and centre that keep a text's edge in place; Graphviz measures a little differently."""
    if align == "center":
        return "", left + width / 2
    room = ceil(width * ZOOM * 1.03) + 2
    centre = left + room / ZOOM / 2 if align == "left" else left + width - room / ZOOM / 2
    return f' WIDTH="{room}" ALIGN="{align.upper()}"', centre


def centre_above_baseline(line: Line) -> float:
    """How far the middle of Graphviz's line is above its baseline; it sets a line of one plain run differently."""
    size = max(point_size(run, ZOOM) for run in line)
    ascent, descent = ceil(FONT_ASCENT * size * 4 / 3 - 0.01) * 0.75, ceil(FONT_DESCENT * size * 4 / 3 - 0.01) * 0.75
    plain = len(line) == 1 and line[0].weight != "bold"
    return ((ascent if plain else 0.95 * size - 1) - (ascent + descent) / 2) / ZOOM


def write_curve(graph: Digraph, curve: Curve, place: int, theme: Theme) -> None:
    points = list(curve.points)
    tip = points[-1]
    if curve.head:
        points[-1] = pulled_back(points[-2], tip, 10 * curve.head_size)
    pieces = dashes(tuple(points), *curve.dash) if curve.dash else [tuple(points)]
    splines = [" ".join(point(one) for one in piece) for piece in pieces]
    if curve.head:
        splines[-1] = f"e,{point(tip)} {splines[-1]}"
    graph.edge(
        "corner_low",
        "corner_high",
        pos=";".join(splines),
        color=theme.lines[curve.role],
        penwidth=number(curve.width * ZOOM),
        arrowhead="normal" if curve.head else "none",
        arrowsize=number(curve.head_size * ZOOM),
        id=f"line_{place}",
        tooltip=clean(curve.tooltip) if curve.tooltip else " ",
        **{"class": curve.kind},
    )


def pulled_back(before: Point, tip: Point, length: float) -> Point:
    """Where a line has to end so that its arrow's tip is where the line ended."""
    distance = ((tip[0] - before[0]) ** 2 + (tip[1] - before[1]) ** 2) ** 0.5
    if distance <= 0:
        return tip
    share = min(1.0, length / distance)
    return (tip[0] - (tip[0] - before[0]) * share, tip[1] - (tip[1] - before[1]) * share)


def write_background(layout: Layout, theme: Theme) -> str:
    """Panels and cells in Graphviz's own drawing language."""
    parts: list[str] = []
    for panel in layout.panels:
        parts += panel_parts(panel, theme)
    for cells in layout.cells:
        for shape in sorted(cell_shapes(cells, theme), key=lambda shape: (-shape.pen, shape.fill)):
            parts += [colour("c", shape.line), colour("C", shape.fill), f"S {len(pen(shape.pen))} -{pen(shape.pen)}"]
            parts.append(drawn("P", shape.corners))
    return CONTINUED.join(parts)


def panel_parts(panel: Panel, theme: Theme) -> Iterable[str]:
    fill, edge = paint_of(panel.fill, theme)
    line = theme.lines[panel.outline] if panel.outline else edge
    width = pen(panel.outline_width if panel.outline else 1.0)
    return [colour("c", line), colour("C", fill), f"S {len(width)} -{width}", drawn("b", panel.path)]


def paint_of(role: str, theme: Theme) -> tuple[str, str]:
    """The colours of a surface and of its edge; "line:NAME" is the colour of a line."""
    kind, _, name_ = role.rpartition(":")
    if kind == "line":
        return theme.lines[name_], theme.lines[name_]
    return theme.surfaces[name_].fill, theme.surfaces[name_].line


def pen(width: float) -> str:
    return f"setlinewidth({number(width * ZOOM)})"


def colour(letter: str, value: str) -> str:
    return f"{letter} {len(value)} -{value}"


def drawn(letter: str, points: Iterable[Point]) -> str:
    listed = list(points)
    return f"{letter} {len(listed)} " + " ".join(f"{number(x * ZOOM)} {number(y * ZOOM)}" for x, y in listed)


def name(identity: str) -> str:
    """A node's name without what DOT reads as a port."""
    return identity.replace(":", "_").replace("\\", "_")


def point(at: Point) -> str:
    return f"{number(at[0] * ZOOM)},{number(at[1] * ZOOM)}"


def inches(points: float) -> str:
    return f"{points * ZOOM / POINTS_PER_INCH:.4f}"


def number(value: float) -> str:
    """A number with at most two digits after the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
