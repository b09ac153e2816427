"""Graphviz's SVG made to stand alone: described, with tooltips that every viewer shows, and with its own fonts."""

import re
from collections import defaultdict
from html import unescape
from xml.sax.saxutils import escape

from xray.renderers.fonts import FAMILIES, font_face_css
from xray.renderers.sheet.svg_paths import straighten_paths
from xray.story.layout import Weight
from xray.text import show_controls

NODE = re.compile(
    r'<title>[^<]*</title>\n(?:<g id="a_[^"]*"><a [^>]*xlink:title="([^"]*)"[^>]*>\n(.*?)</a>\n</g>\n)?', re.DOTALL
)
LINES = re.compile(
    r'(</?(?:path|ellipse|text)[^\n]*\n)</g>\n<g id="[^"]*" class="node text">\n(?:<title>[^<]*</title>\n)?(<text)'
)
TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")
SHORTER = (
    (re.compile(r' xml:space="preserve" text-anchor="start"'), ""),
    (re.compile(rf' font-family="{FAMILIES["regular"]}"'), ""),
    (re.compile(r'(font-size="\d+)\.00"'), r'\1"'),
    (re.compile(r'<g id="(?:node|line_)\d+" '), "<g "),
)
"""What is the same on every element is said once, at the root."""

PLACES = re.compile(r' (?:x|y|d|points)="[^"]*"')
HUNDREDTHS = re.compile(r"(?<=\.\d)\d")
WHOLE = re.compile(r"(?<=\d)\.0(?=[ ,\"CML])")
SHAPE = re.compile(r'<(path|polygon) ([^>]*?) (?:d|points)="([^"]*)"/>')

WEIGHT_OF: dict[str, Weight] = {family: weight for weight, family in FAMILIES.items() if weight != "bold"}


def finish_svg(drawn: bytes, title: str, description: str) -> str:
    """Graphviz's SVG made to stand alone: a title and a description, tooltips, and the fonts that it is set in."""
    text = drawn.decode("utf-8")
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"<!DOCTYPE[^>]*>\n?", "", text)
    text = NODE.sub(put_tooltip, text)
    text = LINES.sub(r"\1\2", text)
    for pattern, short in SHORTER:
        text = pattern.sub(short, text)
    text = PLACES.sub(lambda found: WHOLE.sub("", HUNDREDTHS.sub("", found[0])), text)
    text = straighten_paths(merge_shapes(text))
    fonts = font_face_css(used_characters(text))
    head = (
        f"<title>{escape(show_controls(title))}</title>\n<desc>{escape(show_controls(description))}</desc>\n"
        f'<style type="text/css"><![CDATA[\n{fonts}\ntext{{white-space:pre}}\n]]></style>\n'
    )
    return re.sub(
        r"(<svg [^>]*)>\n",
        lambda found: f'{found[1]} role="img" xml:space="preserve" font-family="{FAMILIES["regular"]}">\n{head}',
        text,
        count=1,
    )


def merge_shapes(svg: str) -> str:
    """Neighbours of one look as one path: the dashes of a line, the cells of a mask."""
    merged: list[str] = []
    look, outline = "", ""
    for line in svg.split("\n"):
        found = SHAPE.fullmatch(line)
        if found is not None and "stroke" in found[2]:
            if look and found[2] != look:
                merged.append(f'<path {look} d="{outline}"/>')
                outline = ""
            look = found[2]
            outline += found[3] if found[1] == "path" else as_path(found[3])
            continue
        if look:
            merged.append(f'<path {look} d="{outline}"/>')
            look, outline = "", ""
        merged.append(line)
    return "\n".join(merged)


def as_path(points: str) -> str:
    """A polygon's points as a path; the last one repeats the first."""
    first, *others = points.split(" ")
    return f"M{first}L{' '.join(others[:-1])}Z" if len(others) > 1 else f"M{first}"


def put_tooltip(found: re.Match[str]) -> str:
    """The tooltip as the element's title, which every viewer shows; Graphviz's link around it is dropped."""
    tooltip, inner = found[1], found[2]
    if inner is None:
        return ""
    title = f"<title>{tooltip}</title>\n" if tooltip and tooltip.strip() else ""
    return title + inner


def used_characters(svg: str) -> dict[Weight, str]:
    """The characters that each weight of the font is used for."""
    used: dict[Weight, set[str]] = defaultdict(set)
    for attributes, content in TEXT.findall(svg):
        family = re.search(r'font-family="([^"]*)"', attributes)
        weight: Weight = WEIGHT_OF.get(family[1], "regular") if family else "regular"
        if weight == "regular" and 'font-weight="bold"' in attributes:
            weight = "bold"
        used[weight] |= set(unescape(content))
    return {weight: "".join(sorted(characters)) for weight, characters in used.items()}
