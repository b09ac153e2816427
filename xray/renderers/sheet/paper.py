"""The A papers, and how many dots a picture of one may have."""

from math import floor, isqrt
from typing import Literal, get_args

from xray.errors import UsageError

Paper = Literal["a0", "a1", "a2", "a3", "a4", "a5"]
PAPERS: tuple[str, ...] = get_args(Paper)
POSTER_PAPER: Paper = "a2"

MILLIMETRES: dict[str, tuple[int, int]] = {
    "a0": (841, 1189),
    "a1": (594, 841),
    "a2": (420, 594),
    "a3": (297, 420),
    "a4": (210, 297),
    "a5": (148, 210),
}
"""Width and height, upright, as in ISO 216."""

POINTS_PER_INCH, MILLIMETRES_PER_INCH = 72, 25.4

MOST_DOTS = 150_000_000
"""The most dots of a PNG. A dot takes four bytes while it is painted: A2 at 300 dpi (35 million) was measured to take
206 MB of memory in all, A2 at 600 dpi (139 million) 609 MB."""


def paper_size(paper: Paper) -> tuple[float, float]:
    """Width and height of an upright paper in points.

    Raises:
        UsageError: there is no such paper.
    """
    if paper not in MILLIMETRES:
        raise UsageError(f"the paper {paper!r} is unknown. Choose {', '.join(PAPERS[:-1])} or {PAPERS[-1]}.")
    width, height = MILLIMETRES[paper]
    return width / MILLIMETRES_PER_INCH * POINTS_PER_INCH, height / MILLIMETRES_PER_INCH * POINTS_PER_INCH


def check_dots(paper: Paper | None, dpi: int) -> None:
    """Make sure that a PNG of that paper can be painted in bounded memory.

    Raises:
        UsageError: it would have more dots than that, or none.
    """
    if dpi < 1:
        raise UsageError(f"dpi={dpi} is out of range. A PNG has at least 1 dot per inch; 150 and 300 are usual.")
    paper = paper or POSTER_PAPER
    width, height = (side / POINTS_PER_INCH for side in paper_size(paper))
    dots = round(width * dpi) * round(height * dpi)
    if dots > MOST_DOTS:
        most = floor((MOST_DOTS / (width * height)) ** 0.5 / 10) * 10
        raise UsageError(
            f"{paper.upper()} at {dpi} dpi has {round(width * dpi):,} x {round(height * dpi):,} dots. A PNG may have "
            f"{MOST_DOTS:,} in all. Choose --dpi {most} or less, or a PDF, which is sharp at any size."
        )


def longest_side(dpi: int) -> float:
    """The most inches that both sides of a PNG may have, for a drawing whose proportions are not known beforehand."""
    return isqrt(MOST_DOTS) / dpi
