"""A trace of any transformer as a tale: its steps by the names of X-Ray's own, each still known by where it ran."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xray.ir.trace import Pass, Trace
from xray.story.journey import Journey, Origins, Phase, Side, Tale, key_of
from xray.story.marking import Locate
from xray.story.marks import Mark
from xray.story.recognition.families import Family
from xray.story.retelling import Retelling, retell
from xray.story.retold_whole import is_whole
from xray.story.rows import has_sublayer

SIDES: Mapping[Family, tuple[Side, ...]] = {
    "encoder-decoder": ("encoder", "decoder"),
    "decoder-only": ("decoder",),
    "encoder-only": ("encoder",),
}
PHASES: tuple[Phase, ...] = ("training", "inference", "forward")


@dataclass(frozen=True)
class RetoldTale:
    """A tale, and the trace that it was made from."""

    tale: Tale
    recorded: Trace


def read_retold(trace: Trace) -> RetoldTale | None:
    """The tale of a trace in which a transformer is recognised; None where none is."""
    told = retell(trace)
    return make_retold(told, trace) if told is not None else None


def make_retold(told: Retelling, recorded: Trace) -> RetoldTale | None:
    """The tale of what was recognised; None where no side has an attention that was seen into.

    None too where the tale is not whole, or more attentions are left out than told. Forward passes are told only where
    there is neither training nor generation: of those more is known. A side that one kernel computes is left out.
    """
    for sides in (SIDES[told.family], *((side,) for side in reversed(SIDES[told.family]))):
        tale = tell_sides(told, recorded, sides)
        if tale is not None:
            return RetoldTale(tale, recorded) if is_whole(tale) and count_told(told) >= len(told.untold) else None
    return None


def count_told(told: Retelling) -> int:
    """How many attentions were recognised as part of a layer, in the pass that has the most."""
    return max(sum(step.path.endswith("attention.scores") for step in one.steps) for one in told.trace.passes)


def tell_sides(told: Retelling, recorded: Trace, sides: tuple[Side, ...]) -> Tale | None:
    """The tale of some sides; None where one of them has no attention in any phase."""
    names = {key: f"{kind}{number or ''}" for key, (kind, number) in told.original_passes.items()}
    origins = Origins(told.origins, names)
    found: dict[Side, list[Journey]] = {side: [] for side in sides}
    for phase in PHASES:
        if phase == "forward" and all(found.values()):
            break
        passes = {side: passes_of(told.trace, phase, side) for side in sides}
        journeys = [Journey(phase, side, passes[side], origins) for side in sides if passes[side]]
        if len(journeys) == len(sides) and all(is_told(journey) for journey in journeys):
            for journey in journeys:
                found[journey.side].append(journey)
    if not all(found.values()):
        return None
    params = max((step.params for step in recorded.steps if step.depth == 0), default=0)
    encoder, decoder = (tuple(found.get(side, ())) for side in SIDES["encoder-decoder"])
    return Tale(told.trace, encoder, decoder, is_retold=True, params=params, untold=told.untold)


def passes_of(trace: Trace, phase: Phase, side: Side) -> tuple[Pass, ...]:
    """The passes of a phase that go through a side: the first one, or one for each turn of a decoder."""
    if phase == "inference" and side == "decoder":
        return trace.passes_of("decode")
    listed = trace.passes_of("encode" if phase == "inference" else phase)
    return tuple(one for one in listed if any(step.path.startswith(f"{side}.layers.") for step in one.steps))[:1]


def is_told(journey: Journey) -> bool:
    """Whether there is a layer, and an attention in it."""
    return bool(journey.layers) and has_sublayer((journey,), "self_attention")


def locate(retold: RetoldTale) -> Locate:
    """How a mark on a recorded step becomes one on a step of the tale.

    It is the step itself; of a block that has no name of its own the first step inside it; else what it is inside of.
    """
    origins = retold.tale.journeys(retold.tale.sides[0])[0].origins
    places: dict[tuple[str, str], tuple[Pass, str]] = {}
    for one_pass in retold.tale.trace.passes:
        key = origins.passes.get(key_of(one_pass), key_of(one_pass))
        for told, step in origins.steps.get(key_of(one_pass), {}).items():
            places.setdefault((key, step.id), (one_pass, told))
    parents = {(key_of(one), step.id): step.parent for one in retold.recorded.passes for step in one.steps}
    for (key, identity), place in list(places.items()):
        around = parents.get((key, identity))
        while around is not None and (key, around) not in places:
            places[key, around] = place
            around = parents.get((key, around))

    def find(mark: Mark) -> Mark:
        key, step = f"{mark.kind}{mark.number or ''}", mark.step
        while (key, step) not in places:
            parent = parents.get((key, step))
            if parent is None:
                return mark
            step = parent
        one_pass, told = places[key, step]
        return replace(mark, kind=one_pass.kind, number=one_pass.number, step=told)

    return find
