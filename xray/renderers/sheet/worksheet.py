"""A worksheet and its answers as files' contents."""

from dataclasses import dataclass

from xray.errors import DrawError
from xray.ir.trace import Trace
from xray.renderers.fonts import text_width
from xray.renderers.sheet.drawing import DrawnForm, draw_layout
from xray.renderers.sheet.paper import Paper
from xray.renderers.themes import Theme, load_theme
from xray.story.layout import Layout
from xray.story.poster import compose_poster
from xray.story.walk.blanks import make_key, make_sheet
from xray.story.walk.worksheet import Choice, choose_blanks

PRINT = "light"


@dataclass(frozen=True)
class Worksheet:
    """The poster with blanks, the same with the answers, and how many there are."""

    sheet: Layout
    key: Layout
    count: int


def make_worksheet(trace: Trace, choice: Choice | None = None, *, hints: bool = False) -> Worksheet:
    """The worksheet of a trace; with hints the axis words stay in the blanks.

    Raises:
        DrawError: the trace is of a network without a residual stream.
        UsageError: there is nothing to ask for.
    """
    layout = compose_poster(trace, text_width)
    if layout is None:
        raise DrawError(
            f"a worksheet is made from a poster, and {trace.title} has no residual stream to draw one of. "
            "Name another trace or model."
        )
    choice = choice or Choice()
    blanks = choose_blanks(layout, choice)
    sheet = make_sheet(layout, blanks, choice, text_width, hints=hints)
    return Worksheet(sheet, make_key(layout, blanks, choice, text_width), len(blanks))


def draw_worksheet(
    worksheet: Worksheet, form: DrawnForm, *, theme: Theme | None = None, dpi: int = 150, paper: Paper | None = None
) -> tuple[str | bytes, str | bytes]:
    """The sheet and the answers in one format, in the theme for print if none is given.

    Raises:
        DrawError: Graphviz cannot draw it.
        UsageError: a PNG would have too many dots.
    """
    paint = theme or load_theme(PRINT)
    sheet = draw_layout(worksheet.sheet, form, paint, dpi=dpi, paper=paper)
    return sheet, draw_layout(worksheet.key, form, paint, dpi=dpi, paper=paper)
