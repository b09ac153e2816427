"""In a notebook a trace shows its poster, a page itself, an anatomy its tables; at a text prompt, lines and tables."""

from html import escape
from typing import TYPE_CHECKING, Any

from xray.ir.trace import Pass, Trace

if TYPE_CHECKING:
    from xray.story.anatomy.tree import Anatomy
    from xray.story.compare.difference import Difference

TEXT_WIDTH = 100
MOST_CHANGES = 10
PAGE_HEIGHT = 760
FITTING = '<svg style="max-width:100%;height:auto" '
"""How a picture begins that is no wider than the cell it stands in."""


class Picture(str):
    """A drawing as SVG, which a notebook shows as a picture."""

    def _repr_svg_(self) -> str:
        return fit(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ANN401  # IPython's pretty printer
        printer.text(f"<SVG, {len(self):,} characters>")


class Page(str):
    """A page as HTML, which a notebook shows as it is, apart from the notebook's own page."""

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{PAGE_HEIGHT}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(self)}"></iframe>'

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ANN401
        printer.text(f"<page, {len(self):,} characters>")


class Tables(str):
    """Tables as text, which a notebook shows line by line."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ANN401
        printer.text(str(self))


class Image(bytes):
    """A drawing as PNG, which a notebook shows as a picture."""

    def _repr_png_(self) -> bytes:
        return bytes(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ANN401
        printer.text(f"<PNG, {len(self):,} bytes>")


def show_traces(shell: Any) -> None:  # noqa: ANN401  # IPython's shell, which X-Ray does not depend on
    """Tell an IPython shell how traces and the like look; nothing is drawn, or loaded, before one is shown."""
    formatters = shell.display_formatter.formatters
    pictures, tables, lines = (formatters[form] for form in ("image/svg+xml", "text/html", "text/plain"))
    pictures.for_type(Trace, draw_svg)
    pictures.for_type(Pass, draw_pass)
    pictures.for_type_by_name("xray.story.compare.difference", "Difference", draw_difference)
    pictures.for_type_by_name("xray.capture.targets.run", "Run", draw_run)
    tables.for_type_by_name("xray.story.anatomy.tree", "Anatomy", draw_anatomy)
    lines.for_type(Trace, print_tables)
    lines.for_type_by_name("xray.story.compare.difference", "Difference", print_difference)


def fit(svg: str) -> str:
    """The same picture, no wider than the cell that it stands in."""
    return svg.replace("<svg ", FITTING, 1)


def draw_svg(trace: Trace) -> str:
    """The poster of a trace."""
    from xray.renderers.sheet.poster import draw_poster

    return fit(draw_poster(trace, "svg"))


def draw_pass(one_pass: Pass) -> str:
    """The picture of one pass alone."""
    return draw_svg(Trace(title=one_pass.kind, sizes=one_pass.sizes, config={}, passes=(one_pass,)))


def draw_run(run: Any) -> str:  # noqa: ANN401  # a chatbot, which is at home on the side that loads torch
    """The poster of a training step of a chatbot, which is recorded for it."""
    return draw_svg(run.trace("training"))


def draw_difference(difference: "Difference") -> str | None:
    """The picture of the second trace, what changed outlined; none where nothing did."""
    from xray.renderers.sheet.poster import draw_poster
    from xray.story.compare.marks import mark_changes

    if not difference:
        return None
    return fit(draw_poster(difference.after, "svg", marks=mark_changes(difference, difference.after)))


def draw_anatomy(anatomy: "Anatomy") -> str:
    """The tables of an anatomy as HTML."""
    from xray.renderers.table.anatomy import draw_html

    return draw_html(anatomy)


def print_tables(trace: Trace, printer: Any, cycle: bool) -> None:  # noqa: ANN401
    """The tables of a trace as plain text."""
    from xray.renderers.table.table import draw_tables

    printer.text(draw_tables(trace, width=TEXT_WIDTH))


def print_difference(difference: "Difference", printer: Any, cycle: bool) -> None:  # noqa: ANN401
    """What changed, line by line, the first few changes."""
    from xray.story.compare.changes import list_difference

    printer.text("\n".join(list_difference(difference, MOST_CHANGES)))
