"""What is said at the station of a whole stage: of each branch in order, and in which layers it does so."""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import (
    Branch,
)
from xray.story.anatomy.tree import Stage, Tower
from xray.story.sentences.stations.of_stations import MIXED, describe_station, describe_windowed

EACH_PLACE, OTHERS = "Every place ", ("the other it", "the others it")


def list_told(tower: Tower, stage: Stage) -> list[str]:
    """What happens at the station of a whole stage, in order; what happens several times in a row is told once.

    Of branches side by side is told how many do it, not how often each does (pitch and energy in FastSpeech 2).
    """
    told = [describe_station(tower, branch) for branch in stage.branches]
    rows = [(text, len(list(alike))) for text, alike in groupby(told)]
    many = "in {} branches" if stage.parallel else "{} times"
    return [f"{text.removesuffix('.')}, {many.format(count)}." if count > 1 else text for text, count in rows]


def describe_stage(tower: Tower, stage: Stage, closed: Collection[Stage] = ()) -> str:
    """All of it, and in how many layers places see so many others, where they see others elsewhere (Gemma 3).

    So is what else is not said of one of the `closed` stages, which have no station of their own (MobileViT).
    """
    found, kind = list_told(tower, stage), name_kinds(stage)
    windowed = {
        describe_station(tower, one)
        for one in stage.branches
        if has_window(one) or getattr(one, "together", None) or is_alone(tower, one)
    }
    alike = [one for one in closed if name_kinds(one) == kind]
    others = [list_told(tower, one) for one in alike if all(is_told_apart(tower, branch) for branch in one.branches)]
    for number, text in enumerate(found):
        if text not in windowed and all(is_said(text, texts) for texts in others):
            continue
        counts, fewer, as_many, unknown, each = Counter[str](), 0, 0, 0, list[set[str]]()
        window = next((one for one in stage.branches if text == describe_windowed(one)), None)
        for group in tower.groups:
            alike = [one for one in group.stages if name_kinds(one) == kind]
            told = {texts[number] for texts in (list_told(tower, one) for one in alike) if number < len(texts)}
            counts.update(dict.fromkeys(told, group.count))
            each.append(told)
            those = [one for stage in alike for one in stage.branches if describe_station(tower, one) in told]
            is_fewer = text not in told and any(sees_fewer(one, window) for one in those)
            fewer += group.count * is_fewer
            is_whole = text not in told and any(sees_as_many(one, window) for one in those)
            as_many += group.count * (is_whole and not is_fewer)
            unknown += text not in told and any(sees_some(one) for stage in alike for one in stage.branches)
        if len(counts) > 1 and counts[text] + as_many < tower.layers:
            few = "" if as_many else tell_others(each, counts, text)
            few = f"; at fewer in {fewer} of these" if fewer else few
            layers = f"{'at least ' * bool(unknown)}{counts[text] + fewer + as_many}"
            found[number] = f"{text.removesuffix('.')}, in {layers} of {tower.layers} layers{few}."
    return " ".join(found)


def is_said(text: str, texts: Collection[str]) -> bool:
    """Whether a text is among others, or one as of convolutions, of which some reach over a small map (ConvNeXt)."""
    return text in texts or (text.startswith(MIXED) and any(one.startswith(MIXED) for one in texts))


def tell_others(each: Sequence[Collection[str]], counts: Counter[str], text: str) -> str:
    """What each place does in all layers where it does not do what a text says, if that is one thing.

    Nothing where the text says it too, and more (OLMo 3). `each` has what is told of the layers of every group: one of
    the two.
    """
    others = [other for other in counts if other != text]
    if len(others) != 1 or any(len(told) != 1 for told in each) or not others[0].startswith(EACH_PLACE):
        return ""
    if text.startswith(f"{others[0].removesuffix('.')};"):
        return ""
    return f"; in {OTHERS[counts[others[0]] > 1]} {others[0].removeprefix(EACH_PLACE).removesuffix('.')}"


def sees_fewer(branch: Branch, other: Branch | None) -> bool:
    """Whether an attention is known to see fewer places than the window of another one, cut in the same way, has."""
    return sees_no_more(branch, other) and count_seen(branch) < count_seen(other)


def sees_as_many(branch: Branch, other: Branch | None) -> bool:
    """Whether an attention sees all places, which are as many as another one sees in its window."""
    return sees_no_more(branch, other) and count_seen(branch) == count_seen(other)


def sees_some(branch: Branch) -> bool:
    """Whether an attention sees not all places, and it is not known how many."""
    return isinstance(branch, Attention) and branch.partial is True and not (branch.together or has_window(branch))


def sees_no_more(branch: Branch, other: Branch | None) -> bool:
    if not isinstance(branch, Attention) or not isinstance(other, Attention) or not other.window:
        return False
    seen = count_seen(branch)
    is_alone = seen == 1  # and has none before or behind itself
    looks_alike = (branch.causal, bool(branch.rolled)) == (other.causal, bool(other.rolled))
    return 0 < seen <= other.window and (looks_alike or is_alone)


def is_told_apart(tower: Tower, branch: Branch) -> bool:
    """Whether what is said of a branch may be false of another: not where that sees more, or it is not known what."""
    is_counted = any(map(str.isdigit, describe_station(tower, branch))) and not has_window(branch)
    return is_counted or not isinstance(branch, Attention)


def count_seen(branch: Branch | None) -> int:
    """How many places each place sees at most: those of a window, or all there are; 0 where that is not known."""
    return (branch.window or branch.all_places or 0) if isinstance(branch, Attention) else 0


def has_window(branch: Branch) -> bool:
    """Whether a branch is an attention of which a window is known."""
    return isinstance(branch, Attention) and (branch.window or branch.sliding_window or branch.kept_last) is not None


def is_alone(tower: Tower, branch: Branch) -> bool:
    """Whether the rows of some layers look back alone, and those of others do not."""
    every = [one for group in tower.groups for stage in group.stages for one in stage.branches]
    looking = [one.causal for one in every if isinstance(one, Attention) and one.source == "self"]
    is_known = isinstance(branch, Attention) and branch.source == "self" and branch.causal is not None
    return is_known and {True, False} <= {*looking}


def name_kinds(stage: Stage) -> list[tuple[str, object]]:
    """What the branches of a stage are, and at what they look."""
    return [(branch.part, getattr(branch, "source", None)) for branch in stage.branches]
