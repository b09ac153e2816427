"""The whole poster of a trace."""

from xray.ir.trace import Trace
from xray.story.compare.marks import Marks
from xray.story.layout import Layout, Measure
from xray.story.sheet.compose import compose_sheet


def compose_poster(
    trace: Trace, measure: Measure, *, all_layers: bool = False, marks: Marks | None = None
) -> Layout | None:
    """The poster of a trace of a transformer, X-Ray's own or another one; None for any other trace.

    Layers that are alike stand as one unless all are asked for. The steps in `marks` are outlined and listed.
    """
    return compose_sheet(trace, measure, all_layers=all_layers, marks=marks)
