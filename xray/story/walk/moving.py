"""A layout moved to the right, to make room at its left."""

from dataclasses import replace

from xray.story.layout import Layout, Point


def move(layout: Layout, by: float) -> Layout:
    """Everything on a layout so many points further to the right."""

    def moved(points: tuple[Point, ...]) -> tuple[Point, ...]:
        return tuple((x + by, y) for x, y in points)

    return replace(
        layout,
        panels=tuple(replace(panel, path=moved(panel.path)) for panel in layout.panels),
        cells=tuple(replace(cells, x=cells.x + by) for cells in layout.cells),
        curves=tuple(replace(curve, points=moved(curve.points)) for curve in layout.curves),
        boxes=tuple(replace(box, x=box.x + by) for box in layout.boxes),
    )
