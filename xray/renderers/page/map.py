"""The poster's own SVG as the map of a page: its nodes known by step, its digits by axis, its colours by role."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape, unescape
from itertools import count

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.renderers.blocks.layered import Roles, write_modules
from xray.renderers.blocks.names import draw_blocks
from xray.renderers.fonts import text_width
from xray.renderers.page.paint import Codes, encode_theme
from xray.renderers.sheet.drawing import draw_layout, finish
from xray.renderers.sheet.poster import draw_poster
from xray.renderers.themes import Theme
from xray.story.blocks.opening import Choice
from xray.story.canvas import AGAIN
from xray.story.compare.marks import mark_alarms, mark_failures
from xray.story.layout import Layout
from xray.story.poster import compose_poster

NODE = re.compile(r'<g id="([^"]*)" class="node([^"]*)">\n(.*?)\n?</g>\n', re.DOTALL)
DIGITS = re.compile(r'<text([^>]*font-weight="bold"[^>]*)>([^<]{1,6})</text>')
STYLE = re.compile(r"<style[^>]*>.*?</style>\n?", re.DOTALL)
ABOUT = re.compile(r" about_(\d+)")
STATION = re.compile(r"(?:station|reading)_(\d+)(?:_\d+)?")


def draw_map(trace: Trace, theme: Theme, blocks: Choice | None = None) -> str:
    """The map of a trace as SVG to stand in a page, its colours variables that every theme fills.

    Raises:
        DrawError: Graphviz cannot draw the trace.
    """
    codes = Codes()
    coded = encode_theme(theme, codes)
    layout = None
    if blocks is None:
        layout = compose_poster(trace, text_width, marks=mark_failures(trace) or mark_alarms(trace))
    if layout is None:
        return mark_nodes(codes.decode(strip_svg(draw_poster(trace, "svg", theme=coded, blocks=blocks))), trace)
    about = [box.about[0] for box in layout.boxes if box.about and not box.filled]
    svg = str(draw_layout(number_texts(layout), "svg", coded))
    return mark_nodes(codes.decode(strip_svg(svg)), trace, about)


def number_texts(layout: Layout) -> Layout:
    """The layout with a number in the kind of every text that tells of a step, by which its lines are known again."""
    numbers = count()
    return replace(
        layout,
        boxes=tuple(
            replace(box, kind=f"{box.kind} about_{next(numbers)}") if box.about and not box.filled else box
            for box in layout.boxes
        ),
    )


def draw_block_map(trace: Trace, theme: Theme, choice: Choice, roles: Roles) -> str:
    """The drawing by blocks as a map, its roles told beforehand.

    Raises:
        DrawError: Graphviz cannot draw the trace.
    """
    codes = Codes()
    dot = write_modules(trace, encode_theme(theme, codes), choice=choice, marks=mark_failures(trace), roles=roles)
    svg = finish(draw_blocks(dot, "svg"), "svg", trace.title, "", 0)
    return mark_nodes(codes.decode(strip_svg(str(svg))), trace)


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


def mark_nodes(svg: str, trace: Trace, about: Sequence[str] = ()) -> str:
    """The drawing with every step's node, station, mask and picture marked for those who touch it.

    `about` has the steps that the numbered texts tell of.
    """
    steps = {map_id(one_pass, step): (one_pass, step) for one_pass in trace.passes for step in one_pass.steps}

    def mark(found: re.Match[str]) -> str:
        name, kind, inner = unescape(found[1]), found[2], found[3]
        known = steps.get(name) or steps.get(name.rpartition(AGAIN)[0])
        if known is not None:
            return mark_step(*known, kind, inner)
        station = STATION.fullmatch(name)
        if station is not None:
            return f'<g class="node{kind}" data-station="{station[1]}">\n{inner}\n</g>\n'
        text = ABOUT.search(kind)
        told = steps.get(about[int(text[1])]) if text is not None else None
        if told is not None:
            place = f'data-of="{pass_key(told[0])}" data-about="{escape(told[1].id)}"'
            return f'<g class="node{ABOUT.sub("", kind)}" {place}>\n{inner}\n</g>\n'
        opens = "masks" if name.startswith("mask_") else "attention" if name.startswith("attention_") else ""
        if opens:
            return f'<g class="node{kind}" data-opens="{opens}" data-name="{escape(name)}">\n{inner}\n</g>\n'
        return f'<g class="node{kind}">\n{inner}\n</g>\n'

    return re.sub(r'<g id="[^"]*"', "<g", NODE.sub(mark, svg))


def mark_step(one_pass: Pass, step: Step, kind: str, inner: str) -> str:
    """A step's node: what it is for the keyboard and for those who hear it, and an axis for each of its digits."""
    shown = find_record(one_pass, step, [content for _, content in DIGITS.findall(inner)])
    axes = iter(shown.axes if shown is not None else ())

    def name_axis(found: re.Match[str]) -> str:
        axis = next(axes, "") if is_size(found[2]) else ""
        return f'<text{found[1]} data-axis="{escape(axis)}">{found[2]}</text>' if axis else found[0]

    return (
        f'<g class="node{kind}" data-pass="{pass_key(one_pass)}" data-step="{escape(step.id)}" role="button" '
        f'tabindex="-1" aria-description="{escape(step.path)}">\n{DIGITS.sub(name_axis, inner)}\n</g>\n'
    )


def find_record(one_pass: Pass, step: Step, texts: Sequence[str]) -> TensorRecord | None:
    """Which tensor a node shows, found by the sizes printed on it: the step's own, or one that is read beside it."""
    sizes = [text for text in texts if is_size(text)]
    return next((record for record in list_records(one_pass, step) if fits(record, sizes)), None)


def list_records(one_pass: Pass, step: Step) -> Iterator[TensorRecord]:
    yield from (*step.outputs, *step.inputs)
    for other in one_pass.steps:
        if other.parent == step.parent and other is not step:
            yield from (*other.inputs, *other.outputs)


def fits(record: TensorRecord, sizes: Sequence[str]) -> bool:
    """Whether the printed sizes are a tensor's; a letter stands for a size that grows, never for a broadcast axis."""
    if not sizes or len(record.shape) != len(sizes):
        return False
    return all(
        int(text) == size if text.isdigit() else axis != "1"
        for text, size, axis in zip(sizes, record.shape, record.axes, strict=True)
    )


def is_size(text: str) -> bool:
    """Whether a printed text is a size: digits, or a letter that stands for one that grows."""
    return text.isdigit() or text in ("t", "t+1")
