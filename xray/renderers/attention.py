"""Attention weights drawn by themselves: a sheet as SVG, PNG or PDF, or tables for the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.style import Style
from rich.text import Text as Line

from xray.renderers.fonts import text_width
from xray.renderers.sheet.drawing import DrawnForm, draw_layout
from xray.renderers.sheet.shading import weight_colour
from xray.renderers.table.walk import Screen, print_all
from xray.renderers.table.words import UNICODE, Words, flow
from xray.renderers.themes import Theme, is_light, load_theme
from xray.story.weights.picture import Picture
from xray.story.weights.sheet import compose_sheet

SHADES = " ░▒▓█"
ASCII_SHADES = " .:+#"
CELL = 4


def draw_attention(
    pictures: Sequence[Picture],
    form: DrawnForm,
    subtitle: str = "",
    theme: Theme | None = None,
    dpi: int = 150,
) -> str | bytes:
    """The pictures of one kind of attention on a sheet.

    Raises:
        DrawError: Graphviz cannot draw it.
    """
    layout = compose_sheet(pictures, text_width, subtitle)
    return draw_layout(layout, form, theme or load_theme(), dpi=dpi)


def print_attention(pictures: Sequence[Picture], chosen: Picture, screen: Screen) -> str:
    """One picture with its words and percentages, and the entropy of every head beside it, for the terminal."""
    return print_all(attention_parts(pictures, chosen, screen.words, screen), screen)


def attention_parts(
    pictures: Sequence[Picture], chosen: Picture, words: Words, screen: Screen
) -> Iterator[RenderableType]:
    where = f"{chosen.place}, before dropout; rows ask, columns are asked"
    yield Line.assemble(words.accent(chosen.kind.title, "title", bold=True), "  ", words.quiet(where))
    name = min(14, max((len(word) for word in chosen.queries), default=1))
    fitting = max(1, (screen.columns - name - 4) // CELL)
    for begin in range(0, len(chosen.keys), fitting):
        yield from picture_lines(chosen, begin, begin + fitting, name, words, screen)
    yield Line()
    yield from entropy_lines(pictures, chosen, words)


def picture_lines(
    picture: Picture, begin: int, end: int, name: int, words: Words, screen: Screen
) -> Iterator[RenderableType]:
    """Some columns of a picture, with numbers over them and the words of those numbers under them."""
    numbers = "".join(f"{place + 1:{CELL}d}" for place in range(begin, min(end, len(picture.keys))))
    yield words.quiet(" " * (name + 4) + numbers)
    for row, (weights, hidden) in enumerate(zip(picture.weights, picture.hidden, strict=True)):
        word = picture.queries[row] if row < len(picture.queries) else ""
        label = Line(words.word(word, name), no_wrap=True)
        cells = [paint(*pair, words, screen) for pair in zip(weights[begin:end], hidden[begin:end], strict=True)]
        yield Line.assemble(f"{row + 1:3d} ", label, " " * max(0, name - label.cell_len), *cells, no_wrap=True)
    shown = range(begin, min(end, len(picture.keys)))
    if any(picture.keys[place] != str(place + 1) for place in shown):
        yield from flow([words.quiet(f"{place + 1} {picture.keys[place]} ") for place in shown], screen.columns)


def paint(weight: float, is_hidden: bool, words: Words, screen: Screen) -> Line:
    """One cell: its share in percent, in a colour or over a shade as strong as the weight."""
    if is_hidden:
        return words.quiet("   ·" if words.signs is UNICODE else "   -")
    number = f"{round(weight * 100):3d}"
    shades = SHADES if words.signs is UNICODE else ASCII_SHADES
    if not screen.colour:
        return Line(f"{number}{shades[min(4, int(weight * 5))]}")
    ground = weight_colour(weight, words.theme)
    ink = words.theme.surfaces["page"]
    readable = ink.fill if is_light(ground) == is_light(ink.text) else ink.text
    return Line(f"{number} ", words.style(readable, ground))


def entropy_lines(pictures: Sequence[Picture], chosen: Picture, words: Words) -> Iterator[RenderableType]:
    """The entropy of every head, a row for each layer."""
    heads = sorted({picture.head for picture in pictures})
    yield words.quiet("entropy in bits" + "".join(f"   head {head + 1}" for head in heads))
    for layer, nth in sorted({(picture.layer, picture.nth) for picture in pictures}):
        line = Line(f"{f'layer {layer + 1}' + (f' ({nth + 1})' if nth else ''):>15s}", no_wrap=True)
        for head in heads:
            found = next((one for one in pictures if (one.layer, one.nth, one.head) == (layer, nth, head)), None)
            here = (layer, nth, head) == (chosen.layer, chosen.nth, chosen.head)
            line.append(f"{found.entropy:9.2f}" if found is not None else " " * 9, Style(bold=here))
        yield line
