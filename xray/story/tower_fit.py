"""How the towers of layers fit their card: which groups stand in them, how close, and what each cell says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xray.story.canvas import Canvas, words
from xray.story.column import Column
from xray.story.journey import Journey
from xray.story.layer_groups import LayerGroup
from xray.story.layout import Line, Run, block_height, line_width
from xray.story.ledgers import phase_line
from xray.story.plan import LABEL, NOTE
from xray.story.shapes import TIMES, ShapeText, digits

PAD, AISLE, BETWEEN = 14.0, 46.0, 6.0
LOWEST_FOR_TWO = 10.0
COLUMNS = {
    "encoder": (
        ("SCORES", "self_attention.scores", "self_attention"),
        ("WIDEST", "feed_forward.expand", "feed_forward"),
    ),
    "decoder": (
        ("SCORES", "self_attention.scores", "self_attention"),
        ("CROSS SCORES", "cross_attention.scores", "cross_attention"),
        ("WIDEST", "feed_forward.expand", "feed_forward"),
    ),
}
"""For each side the columns of its tower: heading, the step whose shape is shown, and what the cell stands for."""


@dataclass(frozen=True)
class Density:
    """How close the frames stand, how much air is in them, and whether the second phase is told as well."""

    gap: float
    air: float
    both: bool

    @property
    def is_low(self) -> bool:
        """Whether frames are too low for a name on two lines."""
        return self.air < LOWEST_FOR_TWO


DENSITIES = (
    Density(26, 16, both=True),
    Density(16, 16, both=True),
    Density(9, 14, both=True),
    Density(9, 14, both=False),
    Density(4, 8, both=False),
    Density(2, 6, both=False),
)


@dataclass(frozen=True)
class Storey:
    """One frame of a tower: its group, and the lines of each of its cells."""

    column: Column
    group: LayerGroup
    cells: tuple[tuple[Line, ...], ...]
    density: Density

    @property
    def label(self) -> tuple[Line, ...]:
        """The group's name left of its cells."""
        return label_lines(self.group, self.density)

    @property
    def height(self) -> float:
        """How high the frame is."""
        return max(block_height(lines) for lines in self.cells) + self.density.air


@dataclass(frozen=True)
class Towers:
    """The tower of each side, with the widths that they share."""

    label: float
    cell: float
    gap: float
    sides: tuple[tuple[Storey, ...], ...]
    left_out: int = 0

    @property
    def height(self) -> float:
        """How high the taller one is."""
        return max(sum(storey.height + self.gap for storey in side) for side in self.sides) - self.gap + 16


def fit_towers(canvas: Canvas, columns: Sequence[Column], width: float, room: float) -> Towers:
    """The roomiest towers that fit; where none do, alike layers go together, and then the upper ones are left out."""
    towers = build_towers(canvas, columns, width, DENSITIES[0])
    for folded in (False, True):
        shown = [replace(column, groups=fold_groups(column.groups)) for column in columns] if folded else columns
        for density in DENSITIES:
            towers = build_towers(canvas, shown, width, density)
            if towers.height <= room:
                return towers
    while towers.height > room and max(len(side) for side in towers.sides) > 1:
        tallest = max(range(len(towers.sides)), key=lambda place: len(towers.sides[place]))
        cut = tuple(side[:-1] if place == tallest else side for place, side in enumerate(towers.sides))
        towers = replace(towers, sides=cut, left_out=towers.left_out + 1)
    return towers


def fold_groups(groups: Sequence[LayerGroup]) -> tuple[LayerGroup, ...]:
    """Neighbours that are alike as one group again."""
    folded: list[LayerGroup] = []
    for group in groups:
        if folded and not group.unlike:
            folded[-1] = replace(folded[-1], layers=(*folded[-1].layers, *group.layers))
        else:
            folded.append(group)
    return tuple(folded)


def build_towers(canvas: Canvas, columns: Sequence[Column], width: float, density: Density) -> Towers:
    """Both towers at a density: how wide a cell is, and what stands in each."""
    labels = [line for column in columns for group in column.groups for line in label_lines(group, density)]
    label = max(line_width(line, canvas.measure) for line in labels) + 14
    count = sum(len(COLUMNS[column.side]) for column in columns)
    cell = (width - 2 * PAD - AISLE * (len(columns) - 1) - len(columns) * (label + BETWEEN)) / count
    sides = [
        tuple(
            Storey(column, group, storey_cells(canvas, column, group, cell, density), density)
            for group in column.groups
        )
        for column in columns
    ]
    return Towers(label, cell, density.gap, tuple(sides))


def label_lines(group: LayerGroup, density: Density) -> tuple[Line, ...]:
    """A group's name with how many layers it has, on one line where the frame is low."""
    word, numbers = group.title.split(" ")
    upper = words(word, NOTE, "quiet", "semibold")
    if len(group.layers) > 1:
        upper = (*upper, Run(f" {TIMES}{len(group.layers)}", NOTE, "text", "bold"))
    lower = words(numbers, LABEL, "text", "bold")
    return ((*upper, Run("  ", NOTE), *lower),) if density.is_low else (upper, lower)


def storey_cells(
    canvas: Canvas, column: Column, group: LayerGroup, width: float, density: Density
) -> tuple[tuple[Line, ...], ...]:
    journeys = [column.main, *([column.brief] if column.brief is not None and density.both else [])]
    cells = []
    for _, part, _ in COLUMNS[column.side]:
        lines: list[Line] = []
        for journey in journeys:
            shape = journey.output(layer_path(group, part))
            if shape is not None:
                lines += fit_shape(canvas, journey, shape, width - BETWEEN - 8)
        cells.append(tuple(lines) or (words("none", NOTE, "quiet"),))
    return tuple(cells)


def layer_path(group: LayerGroup, part: str) -> str:
    return f"{group.side}.layers.{group.first}.{part}"


def fit_shape(canvas: Canvas, journey: Journey, shape: ShapeText, width: float) -> list[Line]:
    """A shape with the dot of its phase, on two lines where one is too narrow."""
    line = phase_line(canvas, journey, shape, width)
    if line_width(line, canvas.measure) <= width:
        return [line]
    half = (len(shape.sizes) + 1) // 2
    upper = ShapeText(shape.sizes[:half], shape.axes[:half])
    lower = ShapeText(shape.sizes[half:], shape.axes[half:])
    return [(line[0], *digits(upper, NOTE), Run(TIMES, NOTE, "quiet")), digits(lower, NOTE)]


def tower_width(towers: Towers, storeys: Sequence[Storey]) -> float:
    return towers.label + towers.cell * len(COLUMNS[storeys[0].column.side]) + BETWEEN
