"""What somebody asks to be drawn, held to its kind before anything is drawn."""

from xray.errors import UsageError
from xray.ir.trace import Trace
from xray.renderers.sheet.paper import MILLIMETRES, PAPERS
from xray.renderers.themes import Theme

MOST_DPI = 10_000
BEYOND_REASON = 10**18
"""A number larger than this is not written out in a message."""


def check_wishes(trace: object, theme: object, paper: object, dpi: object) -> None:
    """Make sure that a trace, a theme, a paper and a resolution are what they should be.

    Raises:
        UsageError: one is something else; the message says what it should be.
    """
    if not isinstance(trace, Trace):
        raise UsageError(f"a {type(trace).__name__} cannot be drawn. Give a Trace, as from xray.trace or read_trace.")
    if theme is not None and not isinstance(theme, Theme):
        raise UsageError(f"a {type(theme).__name__} is no theme. Give a Theme, as from load_theme, or leave it out.")
    if paper is not None and not (isinstance(paper, str) and paper in MILLIMETRES):
        raise UsageError(f"the paper {paper!r} is unknown. Choose {', '.join(PAPERS[:-1])} or {PAPERS[-1]}.")
    if type(dpi) is not int or not 1 <= dpi <= MOST_DPI:
        shown = "a number beyond reason" if type(dpi) is int and abs(dpi) > BEYOND_REASON else repr(dpi)
        raise UsageError(f"dpi={shown} is out of range. It must be a whole number from 1 to {MOST_DPI:,}, such as 150.")
