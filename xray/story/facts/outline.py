"""A pass as an outline to be read from top to bottom: sections by station, in each of them the steps as rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step
from xray.ir.work import StepWork, measure_work
from xray.story.facts.folding import Fold, Place, fold_layers, layer_of, steps_shown
from xray.story.facts.selection import Pick
from xray.story.walk.stations import Station, has_stations, station_of


@dataclass(frozen=True)
class Row:
    """One step of the outline.

    `number` is the step's place in its whole pass, from 1, folded layers counted. `name` is the path as far as the rows
    above do not say it, `indent` how many of them it stands inside. A block is a row that others stand inside, and is
    around a failure if one of these failed. `work` is that of the step and all inside it; `role` says in a few words
    what it is for, where that is known.
    """

    number: int
    indent: int
    name: str
    step: Step
    is_block: bool
    is_around_failure: bool
    work: StepWork = field(default_factory=StepWork)
    role: str = ""

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


@dataclass(frozen=True)
class Facts:
    """What rows are made of besides their steps: places in the pass, blocks, work and roles, all by step id.

    `around` are the blocks of steps that failed.
    """

    numbers: Mapping[str, int]
    blocks: frozenset[str]
    around: frozenset[str]
    work: Mapping[str, StepWork]
    roles: Mapping[str, str]


def outline_pass(
    one_pass: Pass,
    *,
    all_layers: bool = False,
    pick: Pick | None = None,
    roles: Mapping[str, str] | None = None,
) -> tuple[Section, ...]:
    """The sections of a pass in the order of the journey, alike layers folded into one unless all are asked for.

    With a `pick` only the steps that it chooses; a folded layer stands for others only if the same was chosen of each.
    Preparation that ran early (cutting the answers into words, say) stands at the station where it is needed. Blocks
    that span several stations have no row: they are what the sections are made of.
    """
    folds = tuple(
        Fold(fold.stack, (number,)) if all_layers else fold
        for fold in fold_layers(one_pass)
        for number in (fold.layers if all_layers else fold.layers[:1])
    )
    if pick:
        folds = unfold_unlike(one_pass, folds, pick)
    at = {(fold.stack, fold.first): fold for fold in folds}
    numbers = {step.id: number for number, step in enumerate(one_pass.steps, start=1)}
    around = frozenset(step.parent for step in one_pass.steps if step.error is not None and step.parent is not None)
    facts = Facts(numbers, one_pass.blocks, around, measure_work(one_pass), roles or {})
    shown = [step for step in steps_shown(one_pass, folds) if not pick or pick.takes(step)]
    if not has_stations(one_pass):
        sizes = Counter(map(layer_of, one_pass.steps))

        def framed(step: Step) -> Place | None:
            """The layer of a step, if it is worth a frame: one of several steps, or one that stands for others."""
            place = layer_of(step)
            return place if place in at and (sizes[place] > 1 or at[place].count > 1) else None

        runs: list[tuple[Place | None, list[Step]]] = [(p, list(run)) for p, run in groupby(shown, key=framed)]
        return tuple(build_section(None, place, at, run, facts) for place, run in runs)
    groups: dict[tuple[Station | None, Place | None], list[Step]] = {}
    for step in shown:
        station = station_of(one_pass, step)
        if station is not None or step.id not in one_pass.blocks or pick:
            groups.setdefault((station, layer_of(step)), []).append(step)
    in_order = sorted(groups.items(), key=lambda group: numbers[group[1][-1].id])
    return tuple(build_section(station, place, at, steps, facts) for (station, place), steps in in_order)


def unfold_unlike(one_pass: Pass, folds: Sequence[Fold], pick: Pick) -> tuple[Fold, ...]:
    """The folds, those taken apart in whose layers not the same was chosen."""
    chosen: dict[Place, list[str]] = {}
    for step in one_pass.steps:
        place = layer_of(step)
        if place is not None and pick.takes(step):
            chosen.setdefault(place, []).append(step.path.removeprefix(name_layer(place)))
    parts: list[Fold] = []
    for fold in folds:
        first = chosen.get((fold.stack, fold.first))
        alike = all(chosen.get((fold.stack, number)) == first for number in fold.layers)
        parts.extend([fold] if alike else [Fold(fold.stack, (number,)) for number in fold.layers])
    return tuple(parts)


def name_layer(place: Place) -> str:
    """The path of a layer."""
    return f"{place[0]}.{place[1]}".lstrip(".")


def group_passes(passes: Sequence[Pass]) -> tuple[tuple[Pass, ...], ...]:
    """The passes in order, forward passes after the first with those that follow and did the same operations.

    Of a loop that generates words, the first pass reads the whole prompt and the others one word each, so these stand
    together. What ran outside of the model between two passes does not matter.
    """
    groups: list[list[Pass]] = []
    for one in passes:
        last = groups[-1] if groups else []
        if one.kind == "forward" and last and last[0].kind == "forward" and alike(last[0], one):
            last.append(one)
        else:
            groups.append([one])
    return tuple(map(tuple, groups))


def alike(one: Pass, other: Pass) -> bool:
    """Whether two passes did the same operations in the same order inside the model."""
    return list_inside(one) == list_inside(other)


def list_inside(one_pass: Pass) -> list[tuple[str, str]]:
    """The steps inside a pass's modules: where each stood, and what it did."""
    return [(step.path, step.op) for step in one_pass.steps if step.parent is not None]


def build_section(
    station: Station | None, place: Place | None, folds: Mapping[Place, Fold], steps: Sequence[Step], facts: Facts
) -> Section:
    """The section of these steps, each indented under the last block above it that holds it."""
    fold = None if place is None else folds.get(place)
    root = "" if place is None else name_layer(place)
    rows: dict[str, Row] = {}
    for step in steps:
        above = rows.get(step.parent) if step.parent is not None else None
        rows[step.id] = Row(
            number=facts.numbers[step.id],
            indent=0 if above is None else above.indent + 1,
            name=shorten_path(step.path, root if above is None else above.step.path),
            step=step,
            is_block=step.id in facts.blocks,
            is_around_failure=step.id in facts.around,
            work=facts.work[step.id],
            role=facts.roles.get(step.id, ""),
        )
    return Section(station, fold, tuple(rows.values()))


def shorten_path(path: str, root: str) -> str:
    """The part of a path below a root, or the whole path where it stands elsewhere."""
    below = path.removeprefix(root + ".") if root else path
    return below or path
