"""The words of the tables: shapes and axis names as coloured text, cleaned, measured in cells and broken well."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from rich.cells import cell_len, chop_cells
from rich.color import Color, ColorSystem
from rich.style import Style
from rich.text import Text

from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, VISIBLE, TensorRecord
from xray.renderers.themes import Theme
from xray.text import show_controls

Depth = Literal["standard", "256", "truecolor"]
COLOUR_SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}
ISOLATE, END_ISOLATE = "\u2068", "\u2069"


@dataclass(frozen=True)
class Signs:
    """The marks that tables are drawn with; a mask's cell is two columns wide, so that it comes out square."""

    times: str
    arrow: str
    dot: str
    more: str
    rule: str
    heavy: str
    cells: dict[str, str]


UNICODE = Signs("×", "→", "·", "…", "─", "━", {VISIBLE: "██", PADDING: "▒▒", FUTURE: "··", BOTH: "░░", HIDDEN: "▚▚"})
ASCII = Signs("x", "->", "|", "...", "-", "=", {VISIBLE: "##", PADDING: "==", FUTURE: "..", BOTH: "::", HIDDEN: "//"})


@dataclass(frozen=True)
class Words:
    """Everything that text in the tables needs to know: the theme, and the marks and colours that the terminal has.

    Colours are brought down to the terminal's own here and not by rich, whose styles remember how they were first used.
    """

    theme: Theme
    signs: Signs
    depth: Depth = "truecolor"

    def plain(self, text: str) -> Text:
        """Text from anywhere, cleaned, in the page's own colour."""
        return Text(self.clean(text), no_wrap=True)

    def quiet(self, text: str) -> Text:
        """What may be overlooked at first."""
        return Text(self.clean(text), self.style(self.theme.surfaces["page"].quiet), no_wrap=True)

    def strong(self, text: str) -> Text:
        """What is to be seen first."""
        return Text(self.clean(text), Style(bold=True), no_wrap=True)

    def accent(self, text: str, role: str, *, bold: bool | None = None) -> Text:
        """Text in one of the theme's accents."""
        return Text(self.clean(text), self.style(self.theme.accents[role], bold=bold), no_wrap=True)

    def sentence(self, text: str) -> list[Text]:
        """A quiet sentence as words that may stand on different lines."""
        return [self.quiet(word) for word in text.split()]

    def bold_accent(self, role: str) -> Style:
        """The style of what a reader looks for."""
        return self.style(self.theme.accents[role], bold=True)

    def surface(self, name: str) -> Style:
        """The colours of text on one of the theme's surfaces."""
        surface = self.theme.surfaces[name]
        return self.style(surface.text, surface.fill)

    def axis(self, word: str) -> Style:
        """An axis word's own hue; a word such as tgt_len+1 or batch*tgt_len takes that of its first part."""
        first = word.replace("*", "+").split("+")[0]
        return self.style(self.theme.axis_colour(first, "page"))

    def style(self, ink: str, ground: str | None = None, *, bold: bool | None = None) -> Style:
        """Text in a colour of the theme, on another one if asked for."""
        return make_style(ink, ground, bold, self.depth)

    def clean(self, text: str) -> str:
        """Text with nothing in it that a terminal would obey, or that it cannot show."""
        shown = show_controls(text)
        return shown if self.signs is UNICODE else shown.replace("×", "x").encode("ascii", "backslashreplace").decode()

    def word(self, text: str, width: int) -> str:
        """A word from outside, cut to fit a width in cells, and kept from turning its neighbours round."""
        cut = self.cut(self.clean(text), width)
        return f"{ISOLATE}{cut}{END_ISOLATE}" if is_right_to_left(cut) else cut

    def cut(self, text: str, width: int) -> str:
        """Text that takes at most so many cells, its end marked where something is missing."""
        if cell_len(text) <= width:
            return text
        more = self.signs.more if cell_len(self.signs.more) < width else ""
        kept = Text(text)
        kept.truncate(max(0, width - cell_len(more)), overflow="crop")
        return kept.plain.rstrip() + more

    def shape(self, record: TensorRecord) -> Text:
        """A shape such as 8×4×10×8, each digit in the hue of its axis; () for a single number."""
        if not record.shape:
            return self.plain("()")
        sizes = [Text(str(size), self.axis(axis)) for size, axis in zip(record.shape, record.axes, strict=True)]
        return self.quiet(self.signs.times).join(sizes)

    def axes(self, record: TensorRecord) -> Text:
        """The words of a shape's axes, batch × heads × src_len × d_k; a question mark where none is known."""
        if not record.shape:
            known = record.preview.values[:1] if record.preview is not None else ()
            told = [value if isinstance(value, str) else f"{value:.4g}" for value in known]
            return self.quiet(", ".join(["a single number", *told]))
        words = [Text(self.clean(axis) or "?", self.axis(axis)) for axis in record.axes]
        return self.quiet(f" {self.signs.times} ").join(words)


@lru_cache(maxsize=1024)
def make_style(ink: str, ground: str | None, bold: bool | None, depth: Depth) -> Style:
    """The same style each time; a table of many thousand steps has some dozens of them."""
    system = COLOUR_SYSTEMS[depth]
    colours = [None if each is None else Color.parse(each).downgrade(system) for each in (ink, ground)]
    return Style(color=colours[0], bgcolor=colours[1], bold=bold)


def is_right_to_left(text: str) -> bool:
    """Whether a text holds letters that are written from right to left."""
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def flow(pieces: Iterable[Text], width: int) -> tuple[Text, ...]:
    """Pieces set one after the other with a space between, on lines of at most `width` cells, no piece broken.

    A piece that is wider than a whole line is broken inside, after its times signs and spaces where it has some.
    """
    lines: list[Text] = []
    for piece in pieces:
        for part in [piece] if piece.cell_len <= width else break_piece(piece, width):
            if lines and part is piece and lines[-1].cell_len + 1 + part.cell_len <= width:
                lines[-1] = Text(" ", no_wrap=True).join([lines[-1], part])
            else:
                lines.append(part)
    return tuple(lines)


def break_piece(piece: Text, width: int) -> list[Text]:
    """A piece cut into parts that fit, at its times signs and spaces if possible."""
    marks = [place + 1 for place, character in enumerate(piece.plain) if character in "×x ._"]
    parts: list[Text] = []
    for part in piece.divide(marks):
        if parts and parts[-1].cell_len + part.cell_len <= width:
            parts[-1] = parts[-1] + part
        else:
            ends = accumulate(len(chunk) for chunk in chop_cells(part.plain, width))
            parts.extend(part.divide(end for end in ends if end < len(part.plain)))
    return parts


def stack(lines: Sequence[Text]) -> Text:
    """Lines one below the other as one text."""
    return Text("\n", no_wrap=True).join(lines)
