"""What a model costs over the length of its input: in letters for a terminal, as a picture for a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import log

from xray.ir.cost import Cost, Quantity
from xray.renderers.curve import DASHES, write
from xray.renderers.table.cost import write_bytes
from xray.text import say_short

QUANTITIES: tuple[tuple[str, Callable[[int], str], tuple[tuple[Quantity | None, str], ...]], ...] = (
    (
        "bytes",
        write_bytes,
        (("training_bytes", "training"), ("inference_bytes", "inference"), ("cache_bytes", "kept"), (None, "weights")),
    ),
    ("FLOPs", say_short, (("training_flops", "training"), ("inference_flops", "inference"))),
)
"""What stands in one picture: what it counts, how that is written, and its lines; None is what does not change."""
PLACES = 128


@dataclass(frozen=True)
class Line:
    """One line of a picture: its name, and its known points by length; those at `runs` were measured."""

    name: str
    points: tuple[tuple[int, int], ...]
    runs: tuple[tuple[int, int], ...]


def list_lines(cost: Cost, quantities: Sequence[tuple[Quantity | None, str]], batch: int) -> list[Line]:
    """The lines of a picture: a point wherever a run or a law gives one."""
    ran = sorted({run.length for run in cost.runs if run.batch == batch} or {run.length for run in cost.runs})
    least, most = ran[0], ran[-1]
    lengths = sorted({*ran, *(round(least * (most / least) ** (place / PLACES)) for place in range(PLACES + 1))})
    lines = []
    for quantity, name in quantities:
        if quantity is None:
            weights = sum(cost.param_bytes.values())
            lines.append(Line(name, ((least, weights), (most, weights)), ()))
            continue
        found = [(one, cost.tell(quantity, (batch, one))) for one in lengths]
        points = tuple((one, value) for one, value in found if value)
        if len(points) > 1:
            lines.append(Line(name, points, tuple(one for one in points if cost.find_run((batch, one[0])))))
    return lines


def print_plot(cost: Cost, batch: int = 1, width: int = 76, height: int = 12) -> str:
    """Bytes and FLOPs over the length, both axes by powers, each line by its first letter; large ones were measured."""
    told = []
    for counted, spell, quantities in QUANTITIES:
        lines = list_lines(cost, quantities, batch)
        if not lines:
            continue
        (least, most), (low, high) = bounds(lines)
        labels = (spell(high), spell(low))
        margin = max(map(len, labels)) + 1
        columns = width - margin - 1
        grid = [[" "] * columns for _ in range(height)]
        for line in reversed(lines):
            for point in (*line.points, *line.runs):
                x = round((columns - 1) * share(point[0], least, most))
                y = round((height - 1) * (1 - share(point[1], low, high)))
                grid[y][x] = line.name[0].upper() if point in line.runs else line.name[0]
        edges = [labels[0], *[""] * (height - 2), labels[1]]
        told += [f"{counted} at batch {batch}"]
        told += [f"{label:>{margin}}|{''.join(row).rstrip()}" for label, row in zip(edges, grid, strict=True)]
        told += [" " * margin + "+" + "-" * columns]
        ends = f"{least:,}", f"{most:,} words"
        told += [" " * (margin + 1) + ends[0] + ends[1].rjust(columns - len(ends[0]))]
        told += [" " * (margin + 1) + "   ".join(f"{line.name[0]} {line.name}" for line in lines), ""]
    return "\n".join(told).rstrip()


def draw_plot(cost: Cost, batch: int = 1, width: int = 760, height: int = 330) -> str:
    """The same as an SVG picture in the colour of the text around it; dots were measured, lines between are laws."""
    panels = [
        (f"{counted} at batch {batch}", spell, lines)
        for counted, spell, quantities in QUANTITIES
        if (lines := list_lines(cost, quantities, batch))
    ]
    title = f"{cost.title}: what it costs over the length of its input"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {34 + len(panels) * height}" '
        'fill="none" stroke="currentColor" font-family="sans-serif">',
        f"<title>{escape(title)}</title>",
        write(14, 20, title, "start"),
    ]
    for number, (told, spell, lines) in enumerate(panels):
        parts += draw_panel(lines, told, spell, 34 + number * height, width, height)
    return "\n".join([*parts, "</svg>\n"])


def draw_panel(
    lines: Sequence[Line], title: str, spell: Callable[[int], str], top: float, width: int, height: int
) -> list[str]:
    """One picture with its axes, both by powers: a tick for each doubling or so."""
    (least, most), (low, high) = bounds(lines)
    left, right, above, below = 84.0, width - 110.0, top + 26.0, top + height - 40.0

    def place(point: tuple[int, int]) -> tuple[float, float]:
        x = left + (right - left) * share(point[0], least, most)
        return x, below - (below - above) * share(point[1], low, high)

    parts = [write(left, top + 12, title, "start"), f'<path d="M{left},{above} V{below} H{right}"/>']
    for value in list_ticks(low, high):
        _, y = place((least, value))
        parts += [f'<path opacity="0.2" d="M{left},{y:.1f} H{right}"/>', write(left - 6, y + 4, spell(value), "end")]
    for value in list_ticks(least, most):
        x, _ = place((value, low))
        parts += [f'<path opacity="0.2" d="M{x:.1f},{above} V{below}"/>', write(x, below + 18, f"{value:,}", "middle")]
    taken: list[float] = []
    for number, line in enumerate(lines):
        dashes = DASHES[number % len(DASHES)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, line.points))
        parts.append(f'<polyline stroke-width="2" stroke-dasharray="{dashes}" points="{points}"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="currentColor">'
            f"<title>{value:,} at {length:,}</title></circle>"
            for (length, value), (x, y) in ((one, place(one)) for one in line.runs)
        ]
        y = place(line.points[-1])[1] + 4
        while any(abs(y - other) < 14 for other in taken):
            y += 1
        taken.append(y)
        parts.append(write(right + 8, y, line.name, "start"))
    return parts


def bounds(lines: Sequence[Line]) -> tuple[tuple[int, int], tuple[int, int]]:
    """The least and the greatest length, and the least and the greatest count."""
    lengths = [length for line in lines for length, _ in line.points]
    counts = [count for line in lines for _, count in line.points]
    return (min(lengths), max(lengths)), (min(counts), max(counts))


def share(value: int, least: int, most: int) -> float:
    """How far along an axis by powers a value lies, from 0 to 1."""
    return log(value / least) / log(most / least) if most > least else 0.5


def list_ticks(least: int, most: int) -> list[int]:
    """Powers of two between two values, no more than eight of them."""
    powers = [power for power in range(least.bit_length() - 1, most.bit_length() + 1) if least <= 1 << power <= most]
    step = len(powers) // 8 + 1
    return [1 << power for power in powers[::-1][::step][::-1]]
