"""The poster of a trace, in any of its formats."""

from typing import Literal, TypedDict, Unpack, overload

from xray.ir.trace import Trace
from xray.renderers.blocks.layered import write_modules
from xray.renderers.blocks.names import draw_blocks
from xray.renderers.fonts import text_width
from xray.renderers.sheet.drawing import DrawnForm, draw_layout, finish
from xray.renderers.sheet.paper import Paper
from xray.renderers.themes import Theme, load_theme
from xray.story.blocks.opening import Choice, check_choice
from xray.story.compare.marks import Marks, mark_alarms, mark_failures
from xray.story.poster import compose_poster


class Options(TypedDict, total=False):
    """All that `draw_poster` may be told; each has the default that it says."""

    theme: Theme | None
    dpi: int
    paper: Paper | None
    all_layers: bool
    marks: Marks | None
    blocks: Choice | None


@overload
def draw_poster(trace: Trace, form: Literal["svg", "dot"], **options: Unpack[Options]) -> str: ...
@overload
def draw_poster(trace: Trace, form: Literal["png", "pdf"], **options: Unpack[Options]) -> bytes: ...
@overload
def draw_poster(trace: Trace, form: DrawnForm, **options: Unpack[Options]) -> str | bytes: ...
def draw_poster(
    trace: Trace,
    form: DrawnForm,
    *,
    theme: Theme | None = None,
    dpi: int = 150,
    paper: Paper | None = None,
    all_layers: bool = False,
    marks: Marks | None = None,
    blocks: Choice | None = None,
) -> str | bytes:
    """What a trace looks like: the infographic where there is a residual stream, a layered drawing for any other model.

    SVG and DOT come as text, PNG (at `dpi`) and PDF as bytes; the same trace gives the same ones. The infographic is
    scaled to the paper, A2 if none is named; the drawing of another model is as large as it is, if none is named.
    Layers that are alike stand as one unless all are asked for. The steps in `marks` are outlined and listed; without
    any, those that failed, or that an alarm is raised at. `blocks` chooses the layered drawing for a transformer too,
    and how deep it goes.

    Raises:
        DrawError: Graphviz cannot draw it.
        UsageError: the PNG would have too many dots, or a pattern in `blocks` fits no block.
    """
    theme = theme or load_theme()
    marks = marks or mark_failures(trace)
    layout = None
    if blocks is None:
        layout = compose_poster(trace, text_width, all_layers=all_layers, marks=marks or mark_alarms(trace))
    else:
        check_choice(trace, blocks)
    if layout is not None:
        return draw_layout(layout, form, theme, dpi=dpi, paper=paper)
    resolution = dpi if form == "png" else None
    dot = write_modules(trace, theme, resolution, paper, all_layers=all_layers, marks=marks, choice=blocks)
    if form == "dot":
        return dot
    description = f"The modules of {trace.title}, with the shapes between them."
    return finish(draw_blocks(dot, form), form, trace.title, description, dpi)
