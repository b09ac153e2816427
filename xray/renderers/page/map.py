"""The poster's own SVG as the map of a page: its nodes known by step, its digits by axis, its colours by role."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape, unescape

from xray.ir.trace import Pass, Step, Trace
from xray.renderers.blocks.layered import write_modules
from xray.renderers.blocks.names import draw_blocks
from xray.renderers.blocks.plans import Roles, list_lines
from xray.renderers.fonts import text_width
from xray.renderers.page.paint import Codes, encode_theme
from xray.renderers.sheet.drawing import draw_layout, finish
from xray.renderers.themes import Theme
from xray.story.blocks.opening import Choice, check_choice
from xray.story.canvas import AGAIN
from xray.story.compare.marks import mark_alarms, mark_failures
from xray.story.layout import Box, Cells, Layout, Line
from xray.story.poster import compose_poster
from xray.text import show_controls

NODE = re.compile(r'<g id="([^"]*)" class="node([^"]*)">\n(.*?)\n?</g>\n', re.DOTALL)
BOLD = re.compile(r'<text([^>]*font-weight="bold"[^>]*)>([^<]*)</text>')
STYLE = re.compile(r"<style[^>]*>.*?</style>\n?", re.DOTALL)
MARKED = re.compile(r" marked_(\d+)")
STATION = re.compile(r"(?:station|reading)_(\d+)(?:_\d+)?")


@dataclass(frozen=True)
class Drawn:
    """What a drawing was made of: the lines of each node by its id, and the boxes that the numbers in it stand for."""

    lines: Mapping[str, Sequence[Line]]
    marked: Sequence[Box] = ()
    cells: Mapping[str, Cells] = field(default_factory=dict)


def draw_map(trace: Trace, theme: Theme, blocks: Choice | None = None, roles: Roles | None = None) -> str:
    """The map of a trace as SVG to stand in a page, its colours variables that every theme fills.

    Raises:
        DrawError: Graphviz cannot draw the trace.
        UsageError: a pattern in `blocks` fits no block.
    """
    if blocks is not None:
        check_choice(trace, blocks)
    marks = mark_failures(trace) or mark_alarms(trace)
    layout = compose_poster(trace, text_width, marks=marks) if blocks is None else None
    if layout is None:
        return draw_block_map(trace, theme, blocks or Choice(), roles)
    codes = Codes()
    numbered, marked = number_boxes(layout)
    svg = str(draw_layout(numbered, "svg", encode_theme(theme, codes)))
    lines = {box.id: box.lines for box in layout.boxes if box.steps}
    drawn = Drawn(lines, marked, {cells.id: cells for cells in layout.cells})
    return mark_nodes(codes.decode(strip_svg(svg)), trace, drawn)


def number_boxes(layout: Layout) -> tuple[Layout, list[Box]]:
    """The layout with a number in the kind of all that tells of a step or has marks, and the boxes by these numbers.

    A text is drawn line by line, and its lines are known again by their number.
    """
    marked = [box for box in layout.boxes if box.marks or (box.about and not box.filled)]
    numbers = {id(box): number for number, box in enumerate(marked)}
    boxes = (
        replace(box, kind=f"{box.kind} marked_{numbers[id(box)]}") if id(box) in numbers else box
        for box in layout.boxes
    )
    return replace(layout, boxes=tuple(boxes)), marked


def draw_block_map(trace: Trace, theme: Theme, choice: Choice, roles: Roles | None = None) -> str:
    """The drawing by blocks as a map; its roles are found out where they are not told.

    Raises:
        DrawError: Graphviz cannot draw the trace.
    """
    codes = Codes()
    dot = write_modules(trace, encode_theme(theme, codes), choice=choice, marks=mark_failures(trace), roles=roles)
    svg = finish(draw_blocks(dot, "svg"), "svg", trace.title, "", 0)
    return mark_nodes(codes.decode(strip_svg(str(svg))), trace, Drawn(list_lines(trace, choice, roles)))


def map_id(one_pass: Pass, step: Step) -> str:
    """The id that a step's node has on the map: the pass and the step's own id."""
    return f"{one_pass.key}/{step.id}"


def pass_key(one_pass: Pass) -> str:
    """What pass a node belongs to: all turns of decoding share theirs, forward passes have one each."""
    return f"forward{one_pass.number or ''}" if one_pass.kind == "forward" else one_pass.kind


def strip_svg(svg: str) -> str:
    """The drawing alone: no XML head, no fonts, no size of its own, no tooltips."""
    svg = STYLE.sub("", svg[svg.index("<svg") :], count=1)
    svg = re.sub(r"<title>[^<]*</title>\n?|<desc>[^<]*</desc>\n?| xml:space=\"preserve\"", "", svg)
    return re.sub(
        r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 class="drawing" aria-hidden="false">', svg, count=1
    )


def mark_nodes(svg: str, trace: Trace, drawn: Drawn) -> str:
    """The drawing with every step's node, station, mask, picture and word marked for those who touch it."""
    steps = {map_id(one_pass, step): (one_pass, step) for one_pass in trace.passes for step in one_pass.steps}

    def mark(found: re.Match[str]) -> str:
        name, kind, inner = unescape(found[1]), found[2], found[3]
        known = steps.get(name) or steps.get(name.rpartition(AGAIN)[0])
        if known is not None:
            return mark_step(*known, kind, inner, drawn.lines.get(name, ()))
        station = STATION.fullmatch(name)
        if station is not None:
            return f'<g class="node{kind}" data-station="{station[1]}">\n{inner}\n</g>\n'
        number = MARKED.search(kind)
        if number is not None:
            box = drawn.marked[int(number[1])]
            told = steps.get(box.about[0]) if box.about else None
            return f'<g class="node{MARKED.sub("", kind)}"{spell_marks(box, told)}>\n{inner}\n</g>\n'
        cells = drawn.cells.get(name)
        if cells is not None:
            shown = steps.get(cells.about or next(reversed(cells.steps), ""))
            return f'<g class="node{kind}"{spell_cells(trace, cells, shown)}>\n{inner}\n</g>\n'
        return f'<g class="node{kind}">\n{inner}\n</g>\n'

    return re.sub(r'<g id="[^"]*"', "<g", NODE.sub(mark, svg))


def spell_marks(box: Box, told: tuple[Pass, Step] | None) -> str:
    """What a page knows of a text or a bar as attributes: the step that it tells of, and its marks."""
    marks = dict(box.marks)
    if told is not None:
        marks |= {"of": pass_key(told[0]), "about": told[1].id}
    return "".join(f' data-{name}="{spell(value)}"' for name, value in marks.items())


def spell(value: str) -> str:
    """A text from outside as the value of an attribute: nothing in it that anything obeys."""
    return escape(show_controls(value))


def spell_cells(trace: Trace, cells: Cells, shown: tuple[Pass, Step] | None) -> str:
    """What a page knows of a picture as attributes: which view it opens, and of which step of which pass."""
    if shown is None:
        return ""
    number = next(number for number, one in enumerate(trace.passes) if one is shown[0])
    opens = "masks" if cells.kind == "mask" else "attention"
    return f' data-opens="{opens}" data-number="{number}" data-shows="{spell(shown[1].id)}"'


def mark_step(one_pass: Pass, step: Step, kind: str, inner: str, lines: Sequence[Line]) -> str:
    """A step's node: what it is for the keyboard and for those who hear it, and an axis for each of its sizes."""
    sizes = [run for line in lines for run in line if run.ink.startswith("axis:")]
    waiting = iter(sizes)
    awaited = next(waiting, None)

    def name_axis(found: re.Match[str]) -> str:
        nonlocal awaited
        if awaited is None or unescape(found[2]) != awaited.text:
            return found[0]
        axis, awaited = awaited.axis, next(waiting, None)
        symbol = "" if found[2].isdigit() else f' data-symbol="{found[2]}"'
        return f'<text{found[1]} data-axis="{spell(axis)}"{symbol}>{found[2]}</text>' if axis else found[0]

    return (
        f'<g class="node{kind}" data-pass="{pass_key(one_pass)}" data-step="{escape(step.id)}" role="button" '
        f'tabindex="-1" aria-description="{escape(step.path)}">\n{BOLD.sub(name_axis, inner)}\n</g>\n'
    )
