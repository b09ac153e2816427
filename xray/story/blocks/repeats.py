"""Which neighbours in a block are alike, found by what they do and how they are joined, never by their names.

How to use it:

    tree = grow_tree(one_pass)
    for run in find_repeats(tree, tree.roots, portray_steps(tree)):
        run.start, run.period, run.count           # 3, 2, 4: from the fourth neighbour on, two of them stand four times

Neighbours are alike when, step for step, the same is done with the same settings and parameter counts on the same
shapes, when each reads the same things as the one before or the like places of its own predecessors, and when what
leaves them goes to the same places. So query, key and value, three equal layers that are read differently, stay apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.blocks.tree import OUTSIDE, Tree
from xray.story.facts.folding import NO_DIFFERENCE

PICKING = frozenset(["index", "select", "getitem", "slice", "narrow", "index_select", "unbind"])
"""Operations whose settings say where in a tensor something is taken from."""
MOST_TRIED = 48
"""How many distances to the next like neighbour are tried."""
IN_A_ROW = 6
"""So many like neighbours in a row make it likely that a longer repeat begins there."""
FEWEST_LEAVES, FEWEST_TIMES = 6, 3
"""Operations without a block around them are folded only if so many of them stand so many times."""


@dataclass(frozen=True)
class Run:
    """Neighbours that repeat: from number `start` on, `period` of them, `count` times."""

    start: int
    period: int
    count: int

    @property
    def end(self) -> int:
        """The number of the first neighbour behind the run."""
        return self.start + self.period * self.count


def portray_steps(tree: Tree, *, loosely: bool = False) -> tuple[int, ...]:
    """A number for each step; those that do the same, with the same inside, have the same.

    Loosely, sizes, settings and parameter counts do not matter.
    """
    known: dict[object, int] = {}
    portraits = [0] * len(tree.steps)
    for place in reversed(range(len(tree.steps))):
        step = tree.steps[place]
        own = (step.op, step.module, len(step.inputs)) if loosely else portray(step, bool(tree.inside[place]))
        whole = (own, tuple(portraits[one] for one in tree.inside[place]))
        portraits[place] = known.setdefault(whole, len(known))
    return tuple(portraits)


def portray(step: Step, is_block: bool) -> tuple[object, ...]:
    """What must be equal for two steps to do the same, where they stand and what they are called left out.

    What a block is set to shows in what is inside it, so that its number among the layers, say, keeps nothing apart;
    which slice is taken of a tensor is a place and no way of doing.
    """
    is_place = is_block or step.op in PICKING
    told = ((name, repr(value)) for name, value in step.settings.items() if name not in NO_DIFFERENCE)
    settings = () if is_place else tuple(sorted(told))
    ends = (tuple(map(portray_record, step.inputs)), tuple(map(portray_record, step.outputs)))
    return step.op, step.module, step.params, settings, step.error, ends


def portray_record(record: TensorRecord) -> tuple[object, ...]:
    mask = None if record.mask is None else (record.mask.kind, record.mask.hidden_share, record.mask.polarity)
    return record.name, record.shape, record.dtype, record.role, mask


def find_repeats(tree: Tree, neighbours: Sequence[int], portraits: Sequence[int]) -> tuple[Run, ...]:
    """The runs among the neighbours, in order and apart from each other; at each place the one that folds most."""
    looks = [portraits[place] for place in neighbours]
    rows = list(zip(*(looks[ahead:] for ahead in range(IN_A_ROW)), strict=False))
    like: dict[tuple[int, ...], list[int]] = defaultdict(list)
    ranks: list[int] = []
    for number, look in enumerate(rows):
        ranks.append(len(like[look]))
        like[look].append(number)
    runs: list[Run] = []
    start = 0
    while start < len(looks):
        tried = [
            number
            for number in range(start + 1, start + IN_A_ROW)
            if looks[number : number + 1] == looks[start : start + 1]
        ]
        if start < len(rows):
            far = like[rows[start]][ranks[start] + 1 : ranks[start] + 1 + MOST_TRIED]
            tried += [number for number in far if number >= start + IN_A_ROW]
        best = find_best(tree, neighbours, looks, start, tried)
        if is_worth_it(tree, neighbours, best):
            runs.append(best)
            start = best.end
        else:
            start += 1
    return tuple(runs)


def find_best(tree: Tree, neighbours: Sequence[int], looks: Sequence[int], start: int, like: Sequence[int]) -> Run:
    """The run from `start` on that folds most, its period the way to one of the like neighbours behind it."""
    best = Run(start, 1, 1)
    for number in like:
        period = number - start
        if best.count > 1 and (best.end == len(looks) or (number < best.end and period % best.period == 0)):
            continue
        run = measure_run(tree, neighbours, looks, start, period)
        if run.period * (run.count - 1) > best.period * (best.count - 1):
            best = run
    return best


def is_worth_it(tree: Tree, neighbours: Sequence[int], run: Run) -> bool:
    """Whether folding helps: any block that repeats, or enough operations."""
    return run.count >= count_fewest(tree, neighbours, run) and (
        run.count * run.period >= FEWEST_LEAVES or holds_block(tree, neighbours, run)
    )


def count_fewest(tree: Tree, neighbours: Sequence[int], run: Run) -> int:
    """How often neighbours must stand at least for folding them to help."""
    return 2 if holds_block(tree, neighbours, run) else FEWEST_TIMES


def holds_block(tree: Tree, neighbours: Sequence[int], run: Run) -> bool:
    return any(tree.inside[place] for place in neighbours[run.start : run.start + run.period])


def measure_run(tree: Tree, neighbours: Sequence[int], looks: Sequence[int], start: int, period: int) -> Run:
    """How often what stands at `start` repeats at this period."""
    alone = Run(start, period, 1)
    end = start + period
    if end + period > len(looks) or looks[end + period - 1] != looks[end - 1]:
        return alone
    unit = looks[start:end]
    if looks[end : end + period] != unit:
        return alone
    fewest = count_fewest(tree, neighbours, alone)
    if any(looks[start + number * period : end + number * period] != unit for number in range(2, fewest)):
        return alone
    first = neighbours[start]
    length = tree.ends[neighbours[end - 1]] - first
    count = 1
    while (
        end + period <= len(looks)
        and looks[end : end + period] == unit
        and is_joined_alike(tree, first + (count - 1) * length, length, is_first=count == 1)
    ):
        count += 1
        end += period
    while count > 1:
        kept = count_sent_alike(tree, first, length, count)
        if kept == count:
            break
        count = kept
    return Run(start, period, count)


def is_joined_alike(tree: Tree, start: int, length: int, *, is_first: bool) -> bool:
    """Whether the unit behind the one at `start` reads what that one reads, or the same places one unit on.

    The first unit of a run reads from outside what the others read from the unit before them. Other arguments of the
    model are other things.
    """
    behind = start + length
    for place in range(start, behind):
        both = [(tree.steps[one].inputs, tree.sources[one]) for one in (place, place + length)]
        for record, own, other, next_one in zip(*both[0], *both[1], strict=True):
            is_one = own == next_one and (own != OUTSIDE or name_argument(record) == name_argument(other))
            if is_one or (own != OUTSIDE and next_one - own == length):
                continue
            if not (is_first and own < start and start <= next_one < behind):
                return False
    return True


def name_argument(record: TensorRecord) -> str:
    """Which argument of the model a tensor is, numbers left out: what is handed to each layer is one thing."""
    return re.sub(r"\d+", "", record.argument or "")


def count_sent_alike(tree: Tree, first: int, length: int, count: int) -> int:
    """How many units, from the first one on, send what they make to the same places; the last of a chain to more."""
    end = first + count * length
    sent = list(list_sent(tree, first, first, length, end))
    for number in range(1, count):
        start = first + number * length
        is_last = number == count - 1
        for (chained, readers), (_, others) in zip(sent, list_sent(tree, first, start, length, end), strict=True):
            if not (readers <= others if chained and is_last else readers == others):
                return number
    return count


def list_sent(tree: Tree, first: int, start: int, length: int, end: int) -> Iterator[tuple[bool, frozenset[object]]]:
    """For each step of a unit: whether the next unit reads what it makes, and who reads it outside of the run."""
    behind = start + length
    for place in range(start, behind):
        readers = tree.readers[place]
        yield (
            any(behind <= reader < behind + length for reader, _ in readers),
            frozenset((reader, name) for reader, name in readers if not first <= reader < end),
        )
