"""A pass as an outline to be read from top to bottom: sections by station, in each of them the steps as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.story.folding import Fold, Place, fold_layers, layer_of, steps_shown
from xray.story.stations import Station, has_stations, station_of


@dataclass(frozen=True)
class Row:
    """One step of the outline.

    `number` is the step's place in its whole pass, from 1, folded layers counted. `name` is the path as far as the rows
    above do not say it, `indent` how many of them it stands inside. A block is a row that others stand inside.
    """

    number: int
    indent: int
    name: str
    step: Step
    is_block: bool

    @property
    def mask(self) -> TensorRecord | None:
        """The mask that the step made, or else the one that it read."""
        records = (*self.step.outputs, *self.step.inputs)
        return next((record for record in records if record.role == "mask"), None)


@dataclass(frozen=True)
class Section:
    """Rows that belong together: one station, and within it one layer or the layers that this one stands for."""

    station: Station | None
    fold: Fold | None
    rows: tuple[Row, ...]


def outline_pass(one_pass: Pass, *, all_layers: bool = False) -> tuple[Section, ...]:
    """The sections of a pass in the order of the journey, alike layers folded into one unless all are asked for.

    Preparation that ran early (cutting the answers into words, say) stands at the station where it is needed. Blocks
    that span several stations have no row: they are what the sections are made of.
    """
    folds = tuple(
        Fold(fold.stack, (number,)) if all_layers else fold
        for fold in fold_layers(one_pass)
        for number in (fold.layers if all_layers else fold.layers[:1])
    )
    at = {(fold.stack, fold.first): fold for fold in folds}
    numbers = {step.id: number for number, step in enumerate(one_pass.steps, start=1)}
    shown = steps_shown(one_pass, folds)
    if not has_stations(one_pass):
        runs: list[tuple[Place | None, list[Step]]] = [(p, list(run)) for p, run in groupby(shown, key=layer_of)]
        return tuple(build_section(None, place, at, run, one_pass, numbers) for place, run in runs)
    groups: dict[tuple[Station | None, Place | None], list[Step]] = {}
    for step in shown:
        station = station_of(step)
        if station is not None or step.id not in one_pass.blocks:
            groups.setdefault((station, layer_of(step)), []).append(step)
    in_order = sorted(groups.items(), key=lambda group: numbers[group[1][-1].id])
    return tuple(build_section(station, place, at, steps, one_pass, numbers) for (station, place), steps in in_order)


def build_section(
    station: Station | None,
    place: Place | None,
    folds: Mapping[Place, Fold],
    steps: Sequence[Step],
    one_pass: Pass,
    numbers: Mapping[str, int],
) -> Section:
    """The section of these steps, each indented under the last block above it that holds it."""
    fold = None if place is None else folds.get(place)
    root = "" if place is None else f"{place[0]}.{place[1]}".lstrip(".")
    rows: dict[str, Row] = {}
    for step in steps:
        above = rows.get(step.parent) if step.parent is not None else None
        indent = 0 if above is None else above.indent + 1
        name = shorten_path(step.path, root if above is None else above.step.path)
        rows[step.id] = Row(numbers[step.id], indent, name, step, step.id in one_pass.blocks)
    return Section(station, fold, tuple(rows.values()))


def shorten_path(path: str, root: str) -> str:
    """The part of a path below a root, or the whole path where it stands elsewhere."""
    below = path.removeprefix(root + ".") if root else path
    return below or path
