"""Which steps of a trace a reader wants to see: those at certain paths, those that touch a certain shape."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property

from xray.errors import TraceError, UsageError
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.ir.work import StepWork, measure_work
from xray.text import show_controls

ANY = ("*", "?", "t")
NUMBERS = re.compile(r"(\d+|[*?t])([x×,](\d+|[*?t]))*")
WORD = re.compile(r"[A-Za-z_][\w+]*")
SHAPE_EXAMPLE = '"*x4x*x8", "8x4x10x10" or "batch x heads x * x *"'


@dataclass(frozen=True)
class Pick:
    """A choice of steps: `paths` are globs such as "decoder.*", `shapes` patterns such as "*x4x*x8".

    A step is chosen if its path fits one of the globs and one of its tensors fits one of the shapes; nothing given
    leaves everything. A path means that step with all inside it, where it is a block. In a shape `*` stands for one
    axis of any size, and a word for the axis of that name.
    """

    paths: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths or self.shapes)

    @cached_property
    def wanted_shapes(self) -> tuple[tuple[int | str | None, ...], ...]:
        """The shapes read: for each axis its size, its word, or None for any."""
        return tuple(read_shape(text) for text in self.shapes)

    def takes(self, step: Step) -> bool:
        """Whether a step is among those chosen."""
        return self._takes_path(step) and self._takes_shape(step)

    def _takes_path(self, step: Step) -> bool:
        return not self.paths or any(path_fits(step.path, glob) for glob in self.paths)

    def _takes_shape(self, step: Step) -> bool:
        records = (*step.outputs, *step.inputs)
        wanted = self.wanted_shapes
        return not wanted or any(shape_fits(record, shape) for record in records for shape in wanted)

    @property
    def words(self) -> str:
        """The choice in words: "steps at decoder.* with a tensor of shape *x4x*x8"."""
        where = f" at {' or '.join(self.paths)}" if self.paths else ""
        what = f" with a tensor of shape {' or '.join(self.shapes)}" if self.shapes else ""
        return show_controls(f"steps{where}{what}")


def read_shape(text: str) -> tuple[int | str | None, ...]:
    """A shape as it is typed: "8x4x10x10", "*x4x*x8", "[2, 10]", "batch x heads x * x *".

    Raises:
        UsageError: it is none of those.
    """
    bare = re.sub(r"[\[\]()]", "", text).strip()
    compact = bare.replace(" ", "").rstrip(",")
    if NUMBERS.fullmatch(compact):
        parts = re.split(r"[x×,]", compact)
    else:
        parts = [part.strip() for part in re.split(r"\s+x\s+|[×,]", bare)]
    if not parts or not all(part in ANY or part.isdecimal() or WORD.fullmatch(part) for part in parts):
        raise UsageError(f"the shape {show_controls(text)!r} is not understood. Write it as {SHAPE_EXAMPLE}.")
    return tuple(None if part in ANY else int(part) if part.isdecimal() else part for part in parts)


def shape_fits(record: TensorRecord, wanted: Sequence[int | str | None]) -> bool:
    """Whether a tensor has as many axes as a shape asks for, and on each the size or the word."""
    if len(record.shape) != len(wanted):
        return False
    axes = zip(record.shape, record.axes, wanted, strict=True)
    return all(one is None or one == (size if isinstance(one, int) else axis) for size, axis, one in axes)


def path_fits(path: str, glob: str) -> bool:
    """Whether a path is what a glob means, or stands inside a block that is."""
    return fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}.*")


def pick_steps(one_pass: Pass, pick: Pick) -> tuple[Step, ...]:
    """The steps of a pass that are chosen, in order."""
    return tuple(step for step in one_pass.steps if pick.takes(step))


def check_pick(trace: Trace, pick: Pick) -> None:
    """Make sure that a choice chooses something.

    Raises:
        UsageError: a shape is not understood.
        TraceError: no step is chosen; the message names paths that are near.
    """
    steps = trace.steps
    if not pick or any(pick.takes(step) for step in steps):
        return
    paths = list(dict.fromkeys(step.path for step in steps))
    lost = [glob for glob in pick.paths if not any(path_fits(path, glob) for path in paths)]
    if lost and len(lost) == len(pick.paths):
        near = find_near(lost[0], paths)
        hint = f"Near it: {', '.join(near)}." if near else f"The paths begin with {', '.join(list_roots(paths))}."
        raise TraceError(f"no step has the path {show_controls(lost[0])}. {show_controls(hint)}")
    rank = len(pick.wanted_shapes[0])
    shapes = dict.fromkeys(
        record.shape
        for step in steps
        if not pick.paths or Pick(pick.paths).takes(step)
        for record in (*step.outputs, *step.inputs)
        if len(record.shape) == rank
    )
    some = ", ".join("x".join(map(str, shape)) for shape in list(shapes)[:5])
    where = f" at {' or '.join(pick.paths)}" if pick.paths else ""
    hint = f"Of {rank} axes there are: {some}." if some else f"There is none of {rank} axes."
    raise TraceError(show_controls(f"no tensor has the shape {' or '.join(pick.shapes)}{where}. {hint}"))


def find_near(glob: str, paths: Sequence[str]) -> list[str]:
    """Up to three paths that look like a glob, or hold the words between its stars."""
    bare = glob.strip("*?.").lower()
    folded = {path.lower(): path for path in paths}
    holding = [path for low, path in folded.items() if bare and bare in low]
    if holding:
        return sorted(holding, key=len)[:3]
    parts = list(
        dict.fromkeys(".".join(path.split(".")[:end]) for path in paths for end in range(1, path.count(".") + 2))
    )
    return get_close_matches(bare or glob, parts, n=3, cutoff=0.5)


def list_roots(paths: Sequence[str]) -> list[str]:
    """The first parts of all paths, each once, ten at most."""
    return list(dict.fromkeys(path.split(".")[0] for path in paths))[:10]


def add_up_picked(one_pass: Pass, pick: Pick) -> StepWork:
    """The work of what was chosen of a pass, a block with all inside it, nothing twice."""
    work: Mapping[str, StepWork] = measure_work(one_pass)
    total, counted = StepWork(), set[str]()
    for step in one_pass.steps:
        if step.parent in counted or pick.takes(step):
            if step.parent not in counted:
                total += work[step.id]
            counted.add(step.id)
    return total
