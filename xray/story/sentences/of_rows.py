"""What is said of rows that only some sublayers of a layer leave out, and of what rows take from places before."""

from dataclasses import dataclass

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Experts
from xray.story.anatomy.tree import Anatomy
from xray.story.sentences.sentence import Sentence, say_first
from xray.story.sentences.where import attentions, branches, of_some, tell_counts
from xray.story.wording import join_words

ONE = {"feed-forward": "a feed-forward", "convolution": "a convolution", "linear": "a linear layer"}
"""What parts are called of which there is one."""


@dataclass(frozen=True)
class OtherRows:
    """So many rows that are put beside those which sublayers worked on, `in_front` of these or behind them.

    `through` is what the parts are called that they went through meanwhile; None where that is not known.
    """

    count: int
    in_front: bool
    through: tuple[str, ...] | None


def describe_listed(anatomy: Anatomy) -> str:
    """How many keys lists name at most, and that all are named, where rows are shorter and each sees all before it."""
    told, some = tell_counts(anatomy, lambda branch: branch.listed)
    if not told:
        return ""
    is_all = all(sees_all_before(branch) for branch in attentions(anatomy) if branch.listed)
    here = " Here all are named: no row of this pass has more." * is_all
    return f"Keys are listed{some}, {told} at most for each place: the mask shows no others.{here}"


def sees_all_before(branch: Attention) -> bool:
    """Whether every place sees all those before it in this pass."""
    return bool(branch.causal) and not (branch.partial or branch.window or branch.pieces)


def describe_others(others: OtherRows) -> str:
    """Which rows did not go through the last sublayers, and what they went through in place of these."""
    return say_first(OF_OTHERS, others)


def name_rows(others: OtherRows) -> str:
    """Which rows they are, by their end and their number."""
    end = "first" if others.in_front else "last"
    return f"the {end} row" if others.count == 1 else f"the {end} {others.count:,} rows"


def spell_branch(others: OtherRows) -> str:
    """The way of rows that go through a branch of their own; "" for others."""
    if not others.through:
        return ""
    whose, name = "its own" if others.count == 1 else "their own", others.through[0]
    return f"{name_rows(others)}: through {ONE.get(name, name)} of {whose}"


def spell_unchanged(others: OtherRows) -> str:
    """That rows went by as they were; "" for others."""
    were = "it was" if others.count == 1 else "they were"
    return f"{name_rows(others)}: as {were}" if others.through == () else ""


OF_OTHERS: tuple[Sentence[OtherRows], ...] = (
    Sentence("rows through a branch of their own", spell_branch),
    Sentence("rows as they were", spell_unchanged),
    Sentence("rows apart", lambda others: f"{name_rows(others)}: worked out apart" if others.through is None else ""),
)
"""What is said where rows that went two ways are put end to end."""


def describe_mixed_before(anatomy: Anatomy) -> str:
    many = sorted({branch.mixed_before for branch in attentions(anatomy) if branch.mixed_before})
    places = "the place before" if many == [1] else f"the {' or '.join(f'{one:,}' for one in many)} places before"
    told = f"convolutions mix queries and keys of {places} into those of each place."
    return of_some(anatomy, lambda branch: branch.mixed_before, told)


def describe_shifted(anatomy: Anatomy) -> str:
    parts = {branch.shifted for branch in attentions(anatomy) if branch.shifted}
    if len(parts) != 1 and any(2 * before != whole for before, whole in parts):
        return ""
    share = "half of the" if len(parts) != 1 else "{:,} of the {:,}".format(*parts.pop())
    told = f"{share} numbers of which a place's queries, keys and values are made are"
    return of_some(anatomy, lambda branch: branch.shifted, f"{told} those of the place before it.")


def describe_values_before(anatomy: Anatomy) -> str:
    parts = {branch.values_before for branch in attentions(anatomy) if branch.values_before}
    if len(parts) != 1:
        return ""
    before, whole = parts.pop()
    part = "half of the" if 2 * before == whole else f"{before:,} of {whole:,}"
    return of_some(
        anatomy,
        lambda branch: branch.values_before,
        f"{part} numbers that a place gives as values are made of the place before it.",
    )


def describe_mixed_back(anatomy: Anatomy) -> str:
    found = {branch.mixed_back for branch in attentions(anatomy)}
    names = [*found.pop()] if len(found) == 1 else []
    names += ["what experts give"] * any(isinstance(one, Experts) and one.looks_back for one in branches(anatomy))
    return f"Convolutions mix {join_words(names)} of each place with those of places just before it." if names else ""


OF_NEIGHBOURS: tuple[Sentence[Anatomy], ...] = (
    Sentence("queries and keys of places before", describe_mixed_before),
    Sentence("rows of the place before", describe_shifted),
    Sentence("values of the place before", describe_values_before),
    Sentence("rows mixed with those before", describe_mixed_back),
)
"""What the card says of rows of the places before."""


def describe_pieces(anatomy: Anatomy) -> str:
    told, some = tell_counts(anatomy, lambda branch: None if branch.window else branch.pieces)
    if not told:
        return ""
    return f"Packed rows{some}: {told} pieces lie end to end, and attention stays within each."
