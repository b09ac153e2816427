"""A layout in any format: the way from what stands where to a file's content."""

from typing import Literal

from xray.renderers.sheet.dot import write_dot
from xray.renderers.sheet.image import ImageForm, draw_dot, state_resolution
from xray.renderers.sheet.paper import POSTER_PAPER, Paper, check_dots
from xray.renderers.sheet.svg import finish_svg
from xray.renderers.themes import Theme
from xray.story.layout import Layout

DrawnForm = Literal["svg", "png", "pdf", "dot"]


def draw_layout(
    layout: Layout, form: DrawnForm, theme: Theme, *, dpi: int = 150, paper: Paper | None = None
) -> str | bytes:
    """The layout as SVG or DOT (text), PNG or PDF (bytes), scaled to the paper, A2 if none is named.

    Raises:
        DrawError: Graphviz cannot draw it.
        UsageError: the PNG would have too many dots.
    """
    if form == "png":
        check_dots(paper, dpi)
    dot = write_dot(layout, theme, dpi if form == "png" else None, paper or POSTER_PAPER)
    if form == "dot":
        return dot
    return finish(draw_dot(dot, form), form, layout.title, layout.description, dpi)


def finish(drawn: bytes, form: ImageForm, title: str, description: str, dpi: int) -> str | bytes:
    """What Graphviz drew made into a file's content: an SVG that stands alone, a PNG that knows its resolution."""
    if form == "svg":
        return finish_svg(drawn, title, description)
    return state_resolution(drawn, dpi) if form == "png" else drawn
