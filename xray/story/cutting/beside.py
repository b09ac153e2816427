"""Sums that stand beside the blocks of a stack: what they do is done between its layers."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.story.body.stages import Staging
from xray.story.cutting.blocks import ANY_NUMBER, find_work, list_blocks
from xray.story.cutting.patterns import Layer, name_coarse
from xray.story.passages.bridges import find_bridges
from xray.story.streams.joints import Joint


def list_worked_in(flow: Flow, stagings: Sequence[Staging]) -> set[int]:
    """The stages, by their ids, that work what was there before all into the stream, where several do.

    They are no layers, however often that is (an equilibrium model's input).
    """
    holders = [frozenset(flow.parents(one.joints[0].add)) for one in stagings]
    shared = frozenset.intersection(*holders)
    begun = stagings[0].joints[0].stream
    apart = (one for one, own in zip(stagings, holders, strict=True) if own == shared)
    found = {id(one) for one in apart if is_worked_in(begun, one.joints[0])}
    return found if len(found) > 1 else set()


def is_worked_in(begun: int | None, joint: Joint) -> bool:
    """Whether a sum behind others adds to the stream what was made of the rows with which that began, or before."""
    start = joint.region.start
    return joint.since > 0 and begun is not None and start is not None and start <= begun


def list_beside(flow: Flow, stagings: Sequence[Staging]) -> set[int]:
    """The stages, by their ids, that no block of the lists holds that all others are in: few, and none that looks.

    A list is known by its path without numbers, so those of all stages are one. None where some are in elements of
    another list of the same class, or in two of another list that follow one another and are alike: these are layers
    too. Where several lists hold all others, what no list holds: so letters are guessed once, in the middle of an
    encoder (Granite Speech).
    """
    around = [[*list_blocks(flow, find_work(flow, (one,)))] for one in stagings]
    shared = set.intersection(*map(set, around))
    held = [[block for block in own if block not in shared] for own in around]
    names = [[ANY_NUMBER.sub("*", flow.steps[block].path) for block in blocks] for blocks in held]
    kinds = [name_coarse(one.stage) for one in stagings]
    looking = [own for own, kind in zip(names, kinds, strict=True) if own and kind not in ("think", "convolve")]
    counts = Counter(name for own in names for name in own)
    whole = [
        name for name, count in counts.items() if count * 4 >= 3 * len(names) and all(name in it for it in looking)
    ]
    name = min(whole, key=lambda one: (counts[one], one.count("*")), default="")
    beside = [place for place, own in enumerate(names) if (name not in own if name else not own)]
    if len(beside) * 4 > len(names):
        return set()
    classes = {flow.steps[held[place][own.index(name)]].module for place, own in enumerate(names) if name in own}
    is_block = any(flow.steps[one].module in classes for place in beside for one in held[place])
    return set() if is_block or follow_alike(held, names, kinds, beside) else {id(stagings[one]) for one in beside}


def follow_alike(
    held: Sequence[list[int]], names: Sequence[list[str]], kinds: Sequence[str], places: Sequence[int]
) -> bool:
    """Whether some stages are in two blocks of one list that follow one another and are alike."""
    runs = [[*run] for _, run in groupby((place for place in places if held[place]), lambda place: held[place][0])]
    return any(
        other[0] == one[-1] + 1
        and names[one[0]][0] == names[other[0]][0]
        and [kinds[place] for place in one] == [kinds[place] for place in other]
        for one, other in pairwise(runs)
    )


def stand_between(flow: Flow, layers: Sequence[Layer], beside: Sequence[Staging], sites: Sequence[Site]) -> bool:
    """Whether all that some stages do is done between two of some layers, and told there."""
    between = frozenset[int]().union(*(one.nodes for one in find_bridges(flow, layers, sites)))
    return all(one.nodes <= between for one in beside)
