"""Lines and cells on the composed page: none of them runs through a remark, and no line lies on another."""

from functools import cache
from itertools import combinations, pairwise
from math import dist

import pytest
from poster_cases import make_case
from recorded import FAMILIES, recorded
from story.body.elsewhere import NAMES, kept

from xray.renderers.fonts import text_width
from xray.renderers.sheet.dashes import flattened
from xray.story.layout import baselines, line_width
from xray.story.poster import compose_poster
from xray.story.sheet.canvas.routing import Pieces, lie_along

CASES = ("training", "inference", "length 40", "all of one and six layers", "a turn fails")
MORE_CASES = (
    *("batch 1", "length 1", "norm before", "two heads", "all layers", "all of six layers"),
    *("all of six and one layers", "all layers, norm before", "layers not alike", "a layer that differs now"),
    *("other heads", "other batch, training", "other order of norms", "a turn more", "head fails"),
)

EDGE, SHARED = 1.6, 6.0
"""How near a line ends to a box that it leads to, and how far lines may lie on each other without looking like one."""


def remark_areas(layout):
    """Where each line of free text is: left, bottom, right, top, words."""
    for box in layout.boxes:
        for line, baseline in zip(box.lines, baselines(box), strict=True):
            if not box.filled:
                width, size = line_width(line, text_width), max(run.size for run in line)
                left = {"left": box.left, "center": box.x - width / 2, "right": box.right - width}[box.align]
                words = "".join(run.text for run in line)
                yield left, baseline - 0.18 * size, left + width, baseline + 0.62 * size, words


def points_along(curve):
    path = flattened(curve.points)
    for start, end in pairwise(path):
        steps = max(1, int(dist(start, end) / 2))
        for step in range(steps + 1):
            yield tuple(a + (b - a) * step / steps for a, b in zip(start, end, strict=True))


@pytest.fixture(scope="module", params=[*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE_CASES)])
def layout(request):
    trace, options = make_case(request.param)
    return compose_poster(trace, text_width, **options)


def list_struck(layout):
    """The remarks through which a line runs."""
    areas = list(remark_areas(layout))
    return {words for curve in layout.curves for words in list_struck_by(curve, areas)}


def list_struck_by(curve, areas):
    """The same of one line, which is asked at every place only where its whole stretch meets an area."""
    points = [*points_along(curve)]
    (west, south), (east, north) = (tuple(map(end, zip(*points, strict=True))) for end in (min, max))
    for left, bottom, right, top, words in areas:
        is_near = left < east and west < right and bottom < north and south < top
        if is_near and any(left < x < right and bottom < y < top for x, y in points):
            yield words


@pytest.mark.sampled(3)
def test_no_line_runs_through_a_remark(layout):
    assert list_struck(layout) == set()


@cache
def compose(name):
    """The sheet of a model of which a trace is kept; None where it has none."""
    trace = kept(name)[0] if name in NAMES else recorded(f"{name}, inference")
    return compose_poster(trace, text_width)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*FAMILIES, *NAMES])
def test_no_line_runs_through_what_is_written_beside_boxes(name):
    layout = compose(name)
    assert layout is None or list_struck(layout) == set()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*FAMILIES, *NAMES])
def test_nothing_is_written_on_what_is_written_elsewhere(name):
    layout = compose(name)
    areas = [] if layout is None else list(remark_areas(layout))
    covered = [
        (one[-1], other[-1])
        for one, other in combinations(areas, 2)
        if one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    ]
    assert covered == []


def find_ends(layout, curve):
    """The boxes at which a line begins and ends; None where there is none."""
    for x, y in (curve.points[0], curve.points[-1]):
        at = (box.id for box in layout.boxes if box.filled and touches(box, x, y))
        yield next(at, None)


def touches(box, x, y):
    """Whether a place is on the edge of a box."""
    is_level = min(abs(y - box.bottom), abs(y - box.top)) < EDGE and box.left - EDGE < x < box.right + EDGE
    return is_level or (min(abs(x - box.left), abs(x - box.right)) < EDGE and box.bottom < y < box.top)


def list_shared(layout):
    """Where lines that neither begin nor end at one box lie on each other."""
    flows = [curve for curve in layout.curves if curve.kind == "flow"]
    flows = [(*find_ends(layout, curve), flattened(curve.points)) for curve in flows]
    apart = (
        (one, other) for one, other in combinations(flows, 2) if None not in (one[0], other[0]) and one[0] != other[0]
    )
    return [
        (one[0], other[0])
        for one, other in apart
        if (one[1] is None or one[1] != other[1])
        and lie_along(Pieces(tuple(one[2])), Pieces(tuple(other[2])), along_for=SHARED)
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*FAMILIES, *NAMES])
def test_no_line_lies_on_one_between_other_boxes(name):
    layout = compose(name)
    assert layout is None or list_shared(layout) == []


@pytest.mark.sampled(3)
def test_no_cells_stand_on_a_remark(layout):
    covered = [
        words
        for cells in layout.cells
        for left, bottom, right, top, words in remark_areas(layout)
        if left < cells.x + cells.width - 0.5
        and right > cells.x + 0.5
        and bottom < cells.y - 0.5
        and top > cells.y - cells.height + 0.5
    ]
    assert covered == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", [f"{name}, inference" for name in FAMILIES])
def test_no_cells_stand_on_a_node(case):
    layout = compose_poster(recorded(case), text_width)
    covered = [
        (cells.id, box.id)
        for cells in layout.cells
        for box in layout.boxes
        if box.filled
        and cells.x < box.right - 0.5
        and cells.x + cells.width > box.left + 0.5
        and cells.y - cells.height < box.top - 0.5
        and cells.y > box.bottom + 0.5
    ]
    assert covered == []
