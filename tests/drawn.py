"""What was really drawn: texts and shapes read back from an SVG, with the widths of the fonts that it carries."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from xray.renderers.fonts import FAMILIES, text_width
from xray.story.layout import Weight

SVG = "{http://www.w3.org/2000/svg}"
WEIGHTS: dict[str, Weight] = {family: weight for weight, family in FAMILIES.items() if weight != "bold"}
CAPITALS, DESCENDER = 0.66, 0.2


@dataclass(frozen=True)
class Area:
    """A rectangle on the page, in points from the top left, with the text in it."""

    left: float
    top: float
    right: float
    bottom: float
    text: str = ""
    size: float = 0.0
    owner: str = ""

    def overlaps(self, other, slack=0.6):
        return (
            self.left + slack < other.right
            and other.left + slack < self.right
            and self.top + slack < other.bottom
            and other.top + slack < self.bottom
        )

    def holds(self, other, slack=0.8):
        return (
            self.left - slack <= other.left
            and other.right <= self.right + slack
            and self.top - slack <= other.top
            and other.bottom <= self.bottom + slack
        )


@dataclass(frozen=True)
class Drawing:
    """A poster as drawn: its page, every text, and every node's shape by id."""

    page: Area
    texts: tuple[Area, ...]
    shapes: dict[str, Area]


def read_drawing(svg):
    root = ElementTree.fromstring(svg)
    width, height = (float(root.attrib[name].removesuffix("pt")) for name in ("width", "height"))
    box = [float(number) for number in root.attrib["viewBox"].split()]
    group = root.find(f"{SVG}g")
    scale = float(re.search(r"scale\(([\d.]+)", group.attrib["transform"])[1])
    shift = [float(n) for n in re.search(r"translate\(([-\d.]+) ([-\d.]+)\)", group.attrib["transform"]).groups()]
    to_points = width / box[2]

    def place(x, y):
        return ((x + shift[0]) * scale * to_points, (y + shift[1]) * scale * to_points)

    texts, shapes = [], {}
    for node in group.iter(f"{SVG}g"):
        owner = node.attrib.get("id", "")
        for text in node.findall(f"{SVG}text"):
            texts.append(read_text(text, owner, place, scale * to_points))
        circle = node.find(f"{SVG}ellipse")
        if circle is not None:
            x, y, r = (float(circle.attrib[name]) for name in ("cx", "cy", "rx"))
            (left, top), (right, bottom) = place(x - r, y - r), place(x + r, y + r)
            shapes[owner] = Area(left, top, right, bottom)
        shape = node.find(f"{SVG}path") if "class" in node.attrib and "node" in node.attrib["class"] else None
        if shape is not None:
            numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", shape.attrib["d"])]
            (left, top), (right, bottom) = (
                place(min(numbers[::2]), min(numbers[1::2])),
                place(max(numbers[::2]), max(numbers[1::2])),
            )
            shapes[owner] = Area(left, top, right, bottom)
    return Drawing(Area(0, 0, width, height), tuple(texts), shapes)


def read_text(text, owner, place, scale):
    size = float(text.attrib["font-size"]) * scale
    weight = WEIGHTS[text.attrib.get("font-family", FAMILIES["regular"])]
    if text.attrib.get("font-weight") == "bold":
        weight = "bold"
    content = text.text or ""
    x, y = place(float(text.attrib["x"]), float(text.attrib["y"]))
    x += text_width(content[: len(content) - len(content.lstrip())], size, weight)
    width = text_width(content.strip(), size, weight)
    return Area(x, y - CAPITALS * size, x + width, y + DESCENDER * size, content, size, owner)


def overlapping_texts(drawing):
    """Pairs of texts of which one covers the other; pieces of one line may touch."""
    found = []
    ordered = sorted((area for area in drawing.texts if area.text.strip()), key=lambda area: area.left)
    for place, one in enumerate(ordered):
        for other in ordered[place + 1 :]:
            if other.left > one.right:
                break
            same_line = abs(one.bottom - DESCENDER * one.size - other.bottom + DESCENDER * other.size) < 0.3
            if one.overlaps(other, slack=1.2 + 0.02 * (one.right - one.left) if same_line else 0.6):
                found.append((one.text, other.text))
    return found
