"""The poster of a trace, in any of its formats."""

from typing import Literal, overload

from xray.ir.trace import Trace
from xray.renderers.dot import write_dot
from xray.renderers.fonts import text_width
from xray.renderers.image import Program, draw_dot
from xray.renderers.modules import write_modules
from xray.renderers.svg import finish_svg
from xray.renderers.themes import Theme, load_theme
from xray.story.poster import compose_poster


@overload
def draw_poster(trace: Trace, form: Literal["svg", "dot"], *, theme: Theme | None = None, dpi: int = 150) -> str: ...
@overload
def draw_poster(trace: Trace, form: Literal["png", "pdf"], *, theme: Theme | None = None, dpi: int = 150) -> bytes: ...
def draw_poster(
    trace: Trace, form: Literal["svg", "png", "pdf", "dot"], *, theme: Theme | None = None, dpi: int = 150
) -> str | bytes:
    """What a trace looks like: the infographic for X-Ray's own transformer, a layered drawing for any other model.

    SVG and DOT come as text, PNG (at `dpi`) and PDF as bytes; the same trace gives the same ones.

    Raises:
        DrawError: Graphviz cannot draw it.
    """
    theme = theme or load_theme()
    layout = compose_poster(trace, text_width)
    program: Program = "nop2" if layout is not None else "dot"
    title = trace.title
    description = (
        layout.description if layout is not None else f"The modules of {trace.title}, with the shapes between them."
    )
    scale = dpi if form == "png" else None
    dot = write_dot(layout, theme, scale) if layout is not None else write_modules(trace, theme, scale)
    if form == "dot":
        return dot
    drawn = draw_dot(dot, form, program)
    return finish_svg(drawn, title, description) if form == "svg" else drawn
