"""Softmaxes that are written out: exponentials over their own sum along one axis, or those of logarithms of shares."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.operation_kinds import CASTING, DIFFERENCES, DIVISIONS
from xray.ir.flow.put_together import Makers
from xray.ir.records import TensorRecord
from xray.ir.trace import Setting, Step

EXPONENTIALS = frozenset({"exp", "exp_"})
HIGHEST = frozenset({"amax", "max"})
LAID = CASTING | frozenset({"unsqueeze", "view", "reshape", "index", "detach"})
"""What keeps numbers and their order, where an index only adds axes."""


@dataclass(frozen=True)
class Written:
    """What several steps do as one: its name, what it takes, its settings, and the steps before the last one."""

    op: str
    taken: TensorRecord
    settings: Mapping[str, Setting]
    within: tuple[int, ...]

    def tell(self, last: Step) -> Step:
        """The last step as the one that does all of it."""
        return replace(last, op=self.op, inputs=(self.taken,), settings=self.settings)


def keep_closed(
    found: Iterable[tuple[int, Written]],
    steps: Sequence[Step],
    readers: Mapping[int, Sequence[int]],
    results: frozenset[str],
) -> Iterator[tuple[int, Written]]:
    """Those that give one tensor, and of whose other steps nothing else reads what they make."""
    blocks = {step.parent for step in steps}
    for place, written in found:
        own = {*written.within, place}
        others = (one for node in written.within for one in readers.get(node, ()) if one not in own)
        is_closed = all(steps[one].id in blocks for one in others) and len(steps[place].outputs) == 1
        if is_closed and results.isdisjoint(steps[node].id for node in written.within):
            yield place, written


def list_written_softmaxes(steps: Sequence[Step], makers: Makers) -> Iterator[tuple[int, Written]]:
    """The places of steps that end a softmax, each with what it is made of."""
    for place in range(len(steps)):
        found = read_division(steps, makers, place) or read_exponential(steps, makers, place)
        if found is not None:
            yield place, found


def read_division(steps: Sequence[Step], makers: Makers, place: int) -> Written | None:
    """Exponentials that are divided by their own sum along one axis; the highest may be taken from scores before."""
    if steps[place].op not in DIVISIONS or len(makers[place]) != 2:
        return None
    casts, exponential = go_back(steps, makers, makers[place][0], CASTING)
    laid, total = go_back(steps, makers, makers[place][1], LAID)
    if exponential is None or total is None or steps[exponential].op not in EXPONENTIALS or steps[total].op != "sum":
        return None
    added, summed = go_back(steps, makers, makers[total][0], CASTING)
    axis, shape = read_axis_of(steps[total], len(steps[exponential].outputs[0].shape)), steps[place].outputs[0].shape
    if summed != exponential or axis is None or not is_one_along(steps[place].inputs[1].shape, axis, shape):
        return None
    within = {*casts, *laid, *added, exponential, total}
    less = find_highest(steps, makers, exponential, axis)
    taker = less[0] if less else exponential
    return write_softmax(steps, taker, axis, within.union(less))


def find_highest(steps: Sequence[Step], makers: Makers, exponential: int, axis: int) -> tuple[int, ...]:
    """The steps that take the highest of their row, or of all, from scores before exponentials; none where none do."""
    casts, less = go_back(steps, makers, makers[exponential][0], CASTING)
    if less is None or steps[less].op not in DIFFERENCES or len(makers[less]) != 2:
        return ()
    laid, highest = go_back(steps, makers, makers[less][1], LAID)
    scores, taken = steps[less].inputs
    if highest is None or steps[highest].op not in HIGHEST or len(makers[highest]) != 1:
        return ()
    is_own = makers[highest][0] == makers[less][0] is not None and steps[highest].inputs[0].shape == scores.shape
    is_same = not taken.shape or is_one_along(taken.shape, axis, scores.shape)
    return (less, *casts, *laid, highest) if is_own and is_same else ()


def write_softmax(steps: Sequence[Step], taker: int, axis: int, within: Collection[int]) -> Written:
    """A softmax along an axis, of the scores that a step takes first."""
    return Written("softmax", steps[taker].inputs[0], {"dim": axis}, tuple(sorted(within)))


def read_exponential(steps: Sequence[Step], makers: Makers, place: int) -> Written | None:
    """Exponentials of the logarithms of shares."""
    if steps[place].op not in EXPONENTIALS or len(makers[place]) != 1:
        return None
    casts, taker = go_back(steps, makers, makers[place][0], CASTING)
    if taker is None or steps[taker].op != "log_softmax":
        return None
    axis = read_axis_of(steps[taker], len(steps[place].outputs[0].shape))
    return None if axis is None else write_softmax(steps, taker, axis, {taker, *casts})


def go_back(
    steps: Sequence[Step], makers: Makers, place: int | None, ops: Collection[str]
) -> tuple[list[int], int | None]:
    """The steps of some kinds on the way back from one, each of one tensor, and the first other one behind them."""
    way: list[int] = []
    while place is not None and steps[place].op in ops and len(makers[place]) == 1:
        picked = steps[place].settings.get("index", "") if steps[place].op == "index" else ""
        if not isinstance(picked, str) or picked.replace("None", "").strip(" .,:"):
            break
        way.append(place)
        place = makers[place][0]
    return way, place


def read_axis_of(step: Step, rank: int) -> int | None:
    """The one axis along which a step works, counted from the last one, -1; None where it is not one, or not told."""
    told = step.settings.get("dim", step.settings.get("other", step.settings.get("arg1")))
    if isinstance(told, bool) or not isinstance(told, int | str):
        return None
    axis = str(told).strip("()[], ")
    if not axis.removeprefix("-").isdecimal():
        return None
    return int(axis) - rank if int(axis) >= 0 else int(axis)


def is_one_along(shape: Sequence[int], axis: int, whole: Sequence[int]) -> bool:
    """Whether a shape is that of a whole with one number in place of those along an axis, counted from the last."""
    place = len(whole) + axis
    return place >= 0 and tuple(shape) == (*whole[:place], 1, *whole[place + 1 :])
