"""What the card says of which keys and places attentions look at: chosen ones, windows, others gathered or pooled."""

from math import isfinite

from xray.story.anatomy.attentions import DeformableAttention
from xray.story.anatomy.branch_words import (
    describe_points,
)
from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.where import (
    attentions,
    branches,
    find_one,
    of_some,
    tell_counts,
    tell_where,
)


def describe_chosen_keys(anatomy: Anatomy) -> str:
    some = tell_where(anatomy, lambda branch: branch.chosen_keys)
    if some is None:
        return ""
    choosing = [branch for branch in attentions(anatomy) if branch.chosen_keys]
    many = find_one(branch.chosen_together for branch in choosing)
    told = f"Keys are chosen{some}{f', {many} places at once' if many else ''}"
    few = find_one(branch.chosen_most for branch in choosing)
    told = f"{told}: other scores, made for this alone, say which of them each place looks at"
    told += f", {few:,} at most" if few else ""
    numbers = find_one(branch.chosen_kept for branch in choosing if not branch.chosen_earlier)
    more = f"; a cache keeps {numbers:,} numbers of each place for them" if numbers else ""
    here = " Here all were chosen: no row of this pass has more." * all(branch.all_chosen for branch in choosing)
    return f"{told}{more}.{here}"


def describe_none_chosen(anatomy: Anatomy) -> str:
    choosing = [branch for branch in attentions(anatomy) if branch.chosen_keys]
    many = find_one(branch.chosen_together for branch in choosing if branch.none_chosen)
    if many is None or not all(branch.none_chosen for branch in choosing):
        return ""
    return f"Here no score chose any: the rows of this pass do not fill {many} places."


def describe_window(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.window)
    where = f"Windows{some}: there" if some else "Windows:"
    return f"{where} each place sees at most {told} places." if told else ""


def describe_spread_windows(anatomy: Anatomy) -> str:
    words = "the places of a window lie spread over all."
    return of_some(anatomy, lambda branch: branch.spread, words)


def describe_set_window(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.sliding_window)
    if not told:
        return ""
    rows = "none of their rows" if some else "no row"  # those of other attentions may be longer (PE-Video)
    return (
        f"A window is set{some} (sliding_window = {told}), and not seen at work here, where {rows} has so many places."
    )


def describe_kept_last(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.kept_last)
    if not told:
        return ""
    size = find_one(branch.chunk_size for branch in attentions(anatomy) if branch.kept_last)
    if size is None:
        return f"A cache keeps only the keys of the last {told} places{some}: later places look no further back."
    return (
        f"Pieces are set{some} (attention_chunk_size = {size:,}), and not seen at work here, where no row has so many"
        f" places; a cache keeps only the keys of the last {told}."
    )


def describe_rolled(anatomy: Anatomy) -> str:
    some = tell_where(anatomy, lambda branch: branch.rolled)
    taken = {branch.kept_apart for branch in attentions(anatomy) if branch.rolled}
    by = taken.pop() if len(taken) == 1 else None
    how = f"takes {by:g} off" if by is not None and isfinite(by) else "hides"
    apart = f" A mask {how} the scores of places that the roll alone brings into one window." if by else ""
    return "" if some is None else f"Windows are cut elsewhere{some}: places are rolled before, and back behind.{apart}"


def describe_gathered(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.gathered)
    apart, where = tell_counts(anatomy, lambda branch: branch.ungathered)
    own = f" {'The row' if apart == '1' else f'Each of {apart} rows'} beside these has its own{where}." if apart else ""
    return f"Gathered keys{some}: one key and one value for every {told} places.{own}" if told else ""


def describe_pooled(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.pooled)
    return f"Queries are pooled{some}, {told} places to one: behind them the stream is shorter." if told else ""


def describe_sampled(anatomy: Anatomy) -> str:
    found = [branch for branch in branches(anatomy) if isinstance(branch, DeformableAttention)]
    if not found:
        return ""
    first, *others = {describe_points(branch) for branch in found}
    few = f", {first}" if first and not others else ""
    return f"Deformable attention: queries say where values are sampled{few}, and how much each counts; no keys."


def describe_coarse(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: branch.coarse)
    if not told:
        return ""
    return f"Coarse attention{some}: {told} places become one row before it, and what it finds is spread over them."
