"""The layered drawing laid out, with the name of every frame where no line crosses it."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from xray.renderers.blocks.layered import FREE
from xray.renderers.engine import load_graphviz
from xray.renderers.sheet.image import ImageForm, draw_dot

NAME, BOX, WIDTH, HEIGHT, WAY = "lp", "bb", "lwidth", "lheight", "pos"
"""Graphviz's own words for where a name is, for its frame, its size, and for a line."""
SAMPLES = 12
EDGE = 8
"""Points between a name and its frame."""
POINTS_PER_INCH = 72

Point = tuple[float, float]
Span = tuple[float, float]


def draw_blocks(dot: str, form: ImageForm) -> bytes:
    """What Graphviz draws of a layered drawing, names moved aside where a line would go through them.

    Raises:
        DrawError: Graphviz refuses the text.
    """
    placed = draw_dot(dot, "dot", "dot").decode()
    return draw_dot(move_names(placed), form)


def move_names(placed: str) -> str:
    """A drawing that is laid out, every name at the leftmost place of its frame that no line crosses."""
    pygraphviz = load_graphviz()

    graph = pygraphviz.AGraph(string=placed)
    lines = [list(follow(edge.attr[WAY])) for edge in graph.edges_iter() if edge.attr[WAY]]
    frames = graph.subgraphs()
    for frame in frames:
        frames += frame.subgraphs()
        box, name = read_numbers(frame.graph_attr[BOX]), read_numbers(frame.graph_attr[NAME])
        if len(box) == 4 and len(name) == 2:
            whole = float(frame.graph_attr[WIDTH]) * POINTS_PER_INCH
            height = float(frame.graph_attr[HEIGHT]) * POINTS_PER_INCH
            crossed = [span for line in lines for span in cross(line, name[1] - height / 2, name[1] + height / 2)]
            start = name[0] - whole / 2
            moved = find_room(start, (whole - FREE) / 2, box[2] - EDGE, crossed)
            if moved != start:
                frame.graph_attr[NAME] = f"{moved + whole / 2:.2f},{name[1]:.2f}"
    return str(graph.to_string())


def find_room(start: float, width: float, end: float, crossed: Iterable[Span]) -> float:
    """Where from `start` on a name of that width is crossed by no line; `start` itself where there is no such room."""
    at = start
    for left, right in sorted(crossed):
        if right > at and left < at + width:
            at = right + EDGE
    return at if at + width <= end else start


def cross(line: list[Point], low: float, high: float) -> Iterator[Span]:
    """Between which two places a line is inside a band, for each piece of it that is."""
    for (x, y), (next_x, next_y) in pairwise(line):
        if max(y, next_y) >= low and min(y, next_y) <= high:
            yield min(x, next_x) - EDGE / 2, max(x, next_x) + EDGE / 2


def follow(way: str) -> Iterator[Point]:
    """The points along a line as Graphviz writes it: curves of four points each, and where its arrow ends."""
    tips = [tuple(read_numbers(word[2:])) for word in way.split() if word[0] in "es"]
    points = [read_numbers(word) for word in way.split() if word[0] not in "es"]
    for first in range(0, len(points) - 3, 3):
        piece = points[first : first + 4]
        for number in range(SAMPLES + 1):
            t = number / SAMPLES
            shares = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            yield (
                sum(share * point[0] for share, point in zip(shares, piece, strict=True)),
                sum(share * point[1] for share, point in zip(shares, piece, strict=True)),
            )
    yield from ((tip[0], tip[1]) for tip in tips if len(tip) == 2)


def read_numbers(text: str | None) -> list[float]:
    """Numbers between commas."""
    return [float(one) for one in (text or "").split(",") if one]
