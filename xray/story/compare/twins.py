"""Two recordings of one model held beside each other, pass by pass: what was said, seen, hidden and computed in each.

How to use it:

    for beside in hold_beside(trace, twin):
        beside.before.said, beside.after.said              # the words that were chosen, with their chances
        beside.before.products, beside.after.products      # the work
        beside.changes                                     # what differs, step by step, the same in all layers once
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xray.errors import UsageError
from xray.ir.records import Preview, TensorRecord
from xray.ir.trace import Pass, PassKind, Setting, Step, Trace
from xray.ir.work import measure_work
from xray.story.body.reading import read_pass
from xray.story.compare.changes import group_changes, leave_echoes, leave_numbers
from xray.story.compare.difference import Aspect, Change, diff
from xray.story.facts.kept_keys import measure_growth
from xray.story.weights.found import FoundAttention, list_attentions
from xray.story.weights.picture import Picture
from xray.story.weights.reading import draw_heads

READ = ("decoder_input", "input")
"""Under these names a pass keeps the words that it goes on from."""
PassKey = tuple[PassKind, int]


@dataclass(frozen=True)
class Said:
    """The word that a pass chose after those that it had read, and its chance; what was not kept is None."""

    read: tuple[str, ...]
    word: str | None
    number: int
    chance: float | None
    chances: tuple[float, ...] = ()


@dataclass(frozen=True)
class Scored:
    """The scores of one kind of attention in a pass: so many queries and keys, the pictures of its heads if kept."""

    kind: str
    title: str
    queries: int
    keys: int
    softmax: str
    pictures: tuple[Picture, ...]

    @property
    def bits(self) -> float | None:
        """How widely its queries look, in bits, the mean of all heads; None where no weights were kept."""
        widths = [one.entropy for one in self.pictures]
        return sum(widths) / len(widths) if widths else None


@dataclass(frozen=True)
class Side:
    """What one recording tells of a pass.

    `products` counts multiplications, `stored` the bytes of new tensors, `kept` those of keys and values kept for later
    passes; None where nothing is kept.
    """

    said: Said | None
    loss: float | None
    products: int
    stored: int
    kept: int | None
    scored: tuple[Scored, ...]


@dataclass(frozen=True)
class GroupedChange:
    """What differs at a step, and at `more` like it in other layers; `inside` counts the steps that it holds.

    `step` is the step's path, `at` the step of the first recording to look at: itself, or for one that only the other
    recording has, the one `behind` which it ran or which holds it.
    """

    aspect: Aspect | Literal["settings"]
    step: str
    at: str | None
    behind: bool
    more: int
    inside: int
    tensor: str | None
    words: tuple[str, str] | None
    before: TensorRecord | None
    after: TensorRecord | None


@dataclass(frozen=True)
class Beside:
    """A pass of both recordings; one side is None for a pass that only the other has."""

    kind: PassKind
    number: int
    before: Side | None
    after: Side | None
    changes: tuple[GroupedChange, ...]


def hold_beside(trace: Trace, twin: Trace, name: str) -> tuple[Beside, ...]:
    """The passes of both recordings in pairs, by kind and number, those of the first one first.

    Raises:
        UsageError: they are of different models, or have no pass in common.
    """
    if not isinstance(twin, Trace):
        raise UsageError(f"the twin {name!r} is a {type(twin).__name__}. Give a Trace, as from xray.trace.")
    old = {(one.kind, one.number): one for one in trace.passes}
    new = {(one.kind, one.number): one for one in twin.passes}
    if trace.title != twin.title or not set(old) & set(new):
        what = "another model" if trace.title != twin.title else "other passes"
        raise UsageError(f"the twin {name!r} is a trace of {what}. Record the same once more, or use xray diff.")
    changes: dict[PassKey, list[Change]] = {}
    for change in leave_echoes(diff(trace, twin).changes):
        if change.aspect not in ("axes", "pass missing", "pass added"):  # sizes tell more than the names of axes
            changes.setdefault((change.kind, change.number), []).append(change)
    kept = [read_kept(one) for one in (trace, twin)]
    return tuple(
        Beside(
            *key,
            tell_side(trace, old[key], kept[0]) if key in old else None,
            tell_side(twin, new[key], kept[1]) if key in new else None,
            tuple(list_changes(changes.get(key, ()), old[key], new[key])) if key in old and key in new else (),
        )
        for key in dict.fromkeys((*old, *new))
    )


def read_kept(trace: Trace) -> Mapping[PassKey, int]:
    """The bytes of keys and values that each pass leaves for later ones."""
    growth = measure_growth(trace)
    return {(one.kind, one.number): one.bytes for one in growth.turns} if growth is not None and growth.is_kept else {}


def tell_side(trace: Trace, one_pass: Pass, kept: Mapping[PassKey, int]) -> Side:
    """What a recording tells of one of its passes."""
    work = measure_work(one_pass)
    roots = [work[step.id] for step in one_pass.steps if step.parent is None]
    return Side(
        said=read_choice(one_pass),
        loss=read_loss(one_pass),
        products=sum(one.flops for one in roots) // 2,
        stored=sum(one.bytes for one in roots),
        kept=kept.get((one_pass.kind, one_pass.number)),
        scored=tuple(list_scored(trace, one_pass)),
    )


def read_choice(one_pass: Pass) -> Said | None:
    """The choice that ends a pass: the last argmax, and of what; None where none was recorded."""
    chosen = next((step for step in reversed(one_pass.steps) if step.op == "argmax" and step.inputs), None)
    ids = None if chosen is None or not chosen.outputs else chosen.outputs[0].preview
    if chosen is None or ids is None or len(ids.values) != 1:
        return None
    number = int(ids.values[0])
    read = next((one_pass.tokens[name][0] for name in READ if one_pass.tokens.get(name)), ())
    word = next(iter(one_pass.tokens.get("new", ((),))[0]), None)
    chances = read_chances(one_pass, chosen)
    return Said(read, word, number, chances[number] if number < len(chances) else None, chances)


def read_chances(one_pass: Pass, chosen: Step) -> tuple[float, ...]:
    """The chances that a choice was made of, where it was made of chances and all of them were kept."""
    maker = one_pass.by_id.get(chosen.inputs[0].source or "")
    if maker is None or maker.op != "softmax" or not maker.outputs:
        return ()
    made = maker.outputs[0]
    kept: Preview | None = made.preview
    return tuple(map(float, kept.values)) if kept is not None and len(kept.values) == made.shape[-1] else ()


def read_loss(one_pass: Pass) -> float | None:
    """The loss of a pass, where it has one and its number was kept."""
    for step in one_pass.leaves:
        for record in step.outputs:
            if record.role == "loss" and record.source == step.id and record.preview is not None:
                return float(record.preview.values[0])
    return None


def list_scored(trace: Trace, one_pass: Pass) -> Iterator[Scored]:
    """The kinds of attention of a pass, each with the scores of its first layer and the pictures of all."""
    steps = read_pass(one_pass).flow.steps
    kinds: dict[str, list[Picture]] = {}
    firsts: dict[str, FoundAttention] = {}
    for found in list_attentions(trace, one_pass):
        firsts.setdefault(found.kind.name, found)
        kinds.setdefault(found.kind.name, []).extend(draw_heads(trace, one_pass, found))
    for name, found in firsts.items():
        softmax = steps[found.site.softmax]
        shape = softmax.outputs[0].shape
        yield Scored(name, found.kind.title, shape[-2], shape[-1], softmax.id, tuple(kinds[name]))


def list_changes(changes: Sequence[Change], before: Pass, after: Pass) -> Iterator[GroupedChange]:
    """All that differs in a pass: what its steps are, make and read, then with which settings they run."""
    yield from group_places(changes, before, after)
    found: dict[tuple[str, str, str, str], list[Step]] = {}
    for step in before.steps:
        other = after.by_id.get(step.id)
        if other is None or step.op != other.op:
            continue
        for name in sorted(set(step.settings) | set(other.settings)):
            was, now = (write_setting(one.settings.get(name)) for one in (step, other))
            if was != now:
                found.setdefault((leave_numbers(step.id), name, was, now), []).append(step)
    for (_, name, was, now), steps in found.items():
        yield GroupedChange(
            "settings", steps[0].path, steps[0].id, False, len(steps) - 1, 0, name, (was, now), None, None
        )


def write_setting(value: Setting) -> str:
    """A setting as one reads it, numbers to a few digits."""
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def group_places(changes: Sequence[Change], before: Pass, after: Pass) -> Iterator[GroupedChange]:
    """The changes of a pass, each with where it is to be seen; what is the same in all layers once."""
    for group, inside in group_changes(changes):
        first = group[0]
        at, behind = find_place(first, before, after)
        path = (first.step or "").rpartition("#")[0]
        yield GroupedChange(
            first.aspect, path, at, behind, len(group) - 1, inside, first.tensor, first.words, first.before, first.after
        )


def find_place(change: Change, before: Pass, after: Pass) -> tuple[str | None, bool]:
    """The step of the first recording where a change is to be seen, and whether what changed ran behind it."""
    own = change.was or change.step or ""
    if own in before.by_id and change.aspect != "step added":
        return own, False
    step = after.by_id.get(change.step or "")
    if step is None:
        return None, False
    earlier = after.steps[: after.steps.index(step)]
    beside = next((one.id for one in reversed(earlier) if one.parent == step.parent and one.id in before.by_id), None)
    if beside is not None:
        return beside, True
    return (step.parent, False) if step.parent in before.by_id else (None, False)


def find_furthest(before: Scored, after: Scored) -> tuple[Picture, Picture] | None:
    """The head of one sequence whose width of looking differs most, in both recordings; None without such a pair."""
    others = {(one.layer, one.nth, one.head, one.sequence): one for one in after.pictures}
    pairs = [
        (one, others[key]) for one in before.pictures if (key := (one.layer, one.nth, one.head, one.sequence)) in others
    ]
    return max(pairs, key=lambda pair: abs(pair[0].entropy - pair[1].entropy), default=None)
