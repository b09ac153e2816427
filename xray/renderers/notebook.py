"""A trace at the end of a notebook cell shows its poster, an anatomy its tables; in plain text, tables and a line."""

from typing import TYPE_CHECKING, Any

from xray.ir.trace import Trace

if TYPE_CHECKING:
    from xray.story.body.tree import Anatomy

TEXT_WIDTH = 100


def show_traces(shell: Any) -> None:  # noqa: ANN401  # IPython's shell, which X-Ray does not depend on
    """Tell an IPython shell how traces look; nothing is drawn, and nothing heavy loaded, before one is shown."""
    formatters = shell.display_formatter.formatters
    formatters["image/svg+xml"].for_type(Trace, draw_svg)
    formatters["text/html"].for_type_by_name("xray.story.body.tree", "Anatomy", draw_anatomy)
    formatters["text/plain"].for_type(Trace, print_tables)


def draw_svg(trace: Trace) -> str:
    """The poster of a trace."""
    from xray.renderers.poster import draw_poster

    return draw_poster(trace, "svg")


def draw_anatomy(anatomy: "Anatomy") -> str:
    """The tables of an anatomy as HTML."""
    from xray.renderers.anatomy import draw_html

    return draw_html(anatomy)


def print_tables(trace: Trace, printer: Any, cycle: bool) -> None:  # noqa: ANN401  # IPython's pretty printer
    """The tables of a trace as plain text."""
    from xray.renderers.table import draw_tables

    printer.text(draw_tables(trace, width=TEXT_WIDTH))
