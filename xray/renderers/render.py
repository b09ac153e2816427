"""One door to every form that a trace can be drawn in."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, Unpack, get_args, overload

from xray.errors import UsageError
from xray.ir.json_form import trace_to_json
from xray.ir.trace import Trace
from xray.renderers.notebook import Image, Page, Picture, Tables
from xray.renderers.sheet.paper import Paper
from xray.renderers.themes import Theme
from xray.renderers.wishes import check_wishes
from xray.story.blocks.opening import Choice

TextForm = Literal["svg", "html", "dot", "json", "table", "markdown", "csv", "mermaid"]
BytesForm = Literal["png", "pdf"]
Form = Literal["svg", "html", "dot", "json", "table", "markdown", "csv", "mermaid", "png", "pdf"]
FORMS: tuple[str, ...] = get_args(Form)


class BlockOptions(TypedDict, total=False):
    """What `render` is told of the drawing by blocks."""

    depth: int | None
    open: Sequence[str]
    close: Sequence[str]
    blocks: bool


class TextOptions(BlockOptions, total=False):
    """All that `render` may be told of a form that is text; each has the default that `render` says."""

    theme: Theme | None
    all_layers: bool
    paper: Paper | None
    twins: Mapping[str, Trace] | None


class Options(TextOptions, total=False):
    """All that `render` may be told."""

    dpi: int


@overload
def render(trace: Trace, form: TextForm, **options: Unpack[TextOptions]) -> str: ...
@overload
def render(trace: Trace, form: BytesForm, **options: Unpack[Options]) -> bytes: ...
@overload
def render(trace: Trace, form: Form, **options: Unpack[Options]) -> str | bytes: ...
def render(
    trace: Trace,
    form: Form,
    *,
    theme: Theme | None = None,
    all_layers: bool = False,
    depth: int | None = None,
    open: Sequence[str] = (),
    close: Sequence[str] = (),
    blocks: bool = False,
    dpi: int = 150,
    paper: Paper | None = None,
    twins: Mapping[str, Trace] | None = None,
) -> str | bytes:
    """The trace drawn: the poster as "svg", "dot" (text), "png" or "pdf" (bytes), the page as "html", or the facts
    as "table", "markdown", "csv" or "json". "mermaid" is the drawing by blocks as a Mermaid flowchart.

    `paper` is "a0" to "a5", A2 for the poster if none is named; `dpi` is the resolution of a PNG of it. `all_layers`
    unfolds equal layers. A model that is no transformer, and with `blocks` or one of the three that follow any model,
    is drawn by blocks: `depth` levels of them are opened (as many as stay readable), and those whose paths fit a
    pattern in `open`, as in "decoder.layers.*"; what fits one in `close` stays one node. A page holds `twins`, other
    recordings of the same model by name, beside this one. In a notebook pictures, pages and tables show themselves.

    Raises:
        UsageError: the form is none of those, the PNG would have too many dots, a pattern fits no block, or a twin is
            none.
        DrawError: the trace holds nothing that can be drawn.
    """
    check_wishes(trace, theme, paper, dpi)
    asked = blocks or depth is not None or open or close
    choice = Choice(depth, tuple(open), tuple(close)) if asked else None
    if twins and form != "html":
        raise UsageError(f"a twin stands on the page alone, not in the form {form!r}. Choose html.")
    if form == "json":
        return trace_to_json(trace)
    if form == "table":
        from xray.renderers.table.table import draw_tables

        return Tables(draw_tables(trace, theme=theme, all_layers=all_layers))
    if form == "markdown":
        from xray.renderers.table.markdown import write_markdown

        return write_markdown(trace, all_layers=all_layers)
    if form == "csv":
        from xray.renderers.table.spreadsheet import write_csv

        return write_csv(trace)
    if form == "mermaid":
        from xray.renderers.blocks.mermaid import write_mermaid

        return write_mermaid(trace, theme=theme, all_layers=all_layers, blocks=choice)
    if form == "html":
        from xray.renderers.page.page import draw_page

        return Page(draw_page(trace, theme=theme, blocks=choice, twins=twins))
    if form in ("svg", "dot", "png", "pdf"):
        from xray.renderers.sheet.poster import draw_poster

        drawn = draw_poster(trace, form, theme=theme, dpi=dpi, paper=paper, all_layers=all_layers, blocks=choice)
        if isinstance(drawn, str):
            return Picture(drawn) if form == "svg" else drawn
        return Image(drawn) if form == "png" else drawn
    raise UsageError(f"the form {form!r} is unknown. Choose {', '.join(FORMS[:-1])} or {FORMS[-1]}.")
