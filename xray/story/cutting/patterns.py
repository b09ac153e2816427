"""Layers by the pattern of their sublayers, where it comes again."""

from collections.abc import Sequence
from itertools import pairwise

from xray.story.anatomy.attentions import Looking
from xray.story.anatomy.tree import Stage
from xray.story.body.stages import Staging

LONGEST_PATTERN = 12
MIXING = ("mix", "cross", "unknown")
KINDS = {"feed_forward": "think", "experts": "think", "convolution": "convolve", "stream_mixing": "think"}
KINDS |= {"unknown": "unknown"}
"""What a stage is for a layer by its first branch, if none looks at other places; any other mixes places."""
Layer = tuple[Staging, ...]


def cut_by_pattern(stagings: Sequence[Staging]) -> list[Layer]:
    """Stages in layers: by the shortest pattern that comes again to the end, else where one mixes places anew."""
    kinds = [name_coarse(staging.stage) for staging in stagings]
    for names in (kinds, ["mix" if kind == "convolve" else kind for kind in kinds]):
        length = find_period(names)
        if length is not None:
            cuts = [place for place in range(len(kinds)) if place % length == 0 or begins_anew(names, place, length)]
            return [tuple(stagings[one:other]) for one, other in pairwise([*cuts, len(kinds)])]
    length = find_long_pattern(kinds)
    if length is not None:
        cuts = [*range(0, len(kinds) + 1, length), len(kinds)]
        return [tuple(stagings[one:other]) for one, other in pairwise(cuts) if one < other]
    layers: list[list[Staging]] = []
    held: set[str] = set()
    for staging, kind in zip(stagings, kinds, strict=True):
        is_again = "think" in held if kind == "unknown" else kind in held and not staging.stage.since
        if not layers or is_again or (kind in ("mix", "both") and held):
            layers.append([])
            held = set()
        layers[-1].append(staging)
        held.add(kind)
    return [tuple(layer) for layer in layers]


def find_period(kinds: Sequence[object]) -> int | None:
    """After how many stages a pattern comes again, all the way to the end; None if none does."""
    for length in range(1, min(LONGEST_PATTERN, len(kinds) // 2) + 1):
        if len(kinds) % length == 0 and all(one == kinds[place % length] for place, one in enumerate(kinds)):
            return length
    return None


def find_long_pattern(kinds: Sequence[str]) -> int | None:
    """The same where something shorter than the pattern follows its last time (FastSpeech 2); it comes three times."""
    for length in range(3, min(LONGEST_PATTERN, len(kinds) // 3) + 1):
        rest = len(kinds) % length
        if find_period(kinds[: len(kinds) - rest]) == length:
            return length
    return None


def begins_anew(kinds: Sequence[str], place: int, length: int) -> bool:
    """Whether a layer begins in the middle of a pattern: each of its parts mixes places first, and thinks last.

    So it is where some layers look at another tower and others do not (BLIP-2, Mllama).
    """
    first, last = kinds[0], kinds[length - 1]
    return first in MIXING and last == "think" and kinds[place] in MIXING and kinds[place - 1] == "think"


def runs_on(stagings: Sequence[Staging], pieces: Sequence[Layer], layers: Sequence[Layer]) -> bool:
    """Whether blocks had to be cut, and one pattern goes through all of them with fewer layers than there are (UViT).

    So blocks of two lists are called in turn, of which one holds two sums that are alike.
    """
    kinds = [name_coarse(one.stage) for one in stagings]
    return len(layers) > len(pieces) > len(cut_by_pattern(stagings)) and find_period(kinds) is not None


def name_coarse(stage: Stage) -> str:
    """What a stage is for a layer: it mixes places, looks at another tower, or thinks about each place alone.

    Convolutions beside each other are no layer's: what they make may be of another kind (FastSpeech 2's predictors).
    """
    if stage.parallel and ({one.part for one in stage.branches} not in ({"attention"}, {"feed_forward"})):
        return "both"
    branch = next((one for one in stage.branches if isinstance(one, Looking)), stage.branches[0])
    if isinstance(branch, Looking):
        return "mix" if branch.source == "self" else "cross"
    return KINDS.get(branch.part, "mix")
