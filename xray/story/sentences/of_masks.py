"""What is said of a mask: what it hides, how much of it, and how much of it can be drawn."""

from collections.abc import Collection
from dataclasses import dataclass

from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, VISIBLE, MaskFacts
from xray.story.facts.mask_names import (
    ALONG,
    BACK,
    BLOCKWISE,
    BOTH_SIDES,
    ITSELF,
    WEIGHING,
    name_mask,
    read_own_blocks,
    read_windows,
)
from xray.story.facts.masks import describe_blocks, draws_blocks
from xray.story.sentences.sentence import Sentence, fixed, say_first
from xray.story.wording import join_words, spell_share


@dataclass(frozen=True)
class Shown:
    """A mask, and how many rows and columns of it are drawn; `is_known` where its cells follow from its kind.

    `leading` are the words of the axes along which its matrices are stacked, `number` is which of these is drawn,
    `start` the first key that is.
    """

    facts: MaskFacts
    rows: int
    columns: int
    is_known: bool = False
    leading: tuple[str, ...] = ()
    number: int = 0
    start: int = 0


LETTERS = {
    VISIBLE: "may be read",
    PADDING: "padding, hidden",
    FUTURE: "the future, hidden",
    BOTH: "padding and future",
    HIDDEN: "hidden",
}
"""What the cells of a mask mean."""


def list_letters(seen: Collection[str]) -> list[tuple[str, str]]:
    """The cells of masks that are among some, and what they mean."""
    return [(letter, text) for letter, text in LETTERS.items() if letter in seen]


def describe_hidden(facts: MaskFacts) -> str:
    """What a mask hides, and how much of it."""
    share, told = f"{spell_share(facts.hidden_share)} of its cells", say_first(OF_MASKS, facts)
    return told if name_mask(facts) == WEIGHING else f"{told}: {share}" if told else f"hides {share}"


def describe_shown(shown: Shown) -> str:
    """How much of a mask is drawn; empty where it is drawn as a whole."""
    return say_first(OF_PICTURES, shown)


def named(name: str, text: str) -> Sentence[MaskFacts]:
    return fixed(f"mask: {name}", text, lambda facts: name_mask(facts) == name)


def describe_own_blocks(facts: MaskFacts) -> str:
    """Of which blocks each place sees its own, where it sees no other, or only others before that."""
    found = read_own_blocks(facts) if name_mask(facts) == BLOCKWISE else None
    if found is None:
        return ""
    sizes = " or ".join(f"{size:,}" for size in dict.fromkeys(found.sizes))
    others = {0: "", None: " and those before"}.get(found.before, f" and {found.before} before it")
    return f"hides from each place all but its own block of {sizes}{others}"


def describe_window(facts: MaskFacts) -> str:
    """How many places a window shows beside the one that looks."""
    if name_mask(facts) not in (BACK, BOTH_SIDES):
        return ""
    told = [
        f"{back:,} on each side" if back == ahead else f"{back:,} before it{f' and {ahead:,} behind it' * (ahead > 0)}"
        for back, ahead in read_windows(facts)
    ]
    return f"hides from each place all but itself and {join_words(told, 'or')}"


OF_MASKS: tuple[Sentence[MaskFacts], ...] = (
    named("padding", "hides padding"),
    named("causal", "hides the future"),
    named("padding+causal", "hides padding and the future"),
    Sentence("mask: window", describe_window),
    named(ITSELF, "hides from each place all but itself"),
    named(ALONG, "hides from each place all but a stretch that moves along with it"),
    Sentence("mask: block by block", describe_own_blocks),
    named("none", "hides nothing"),
    named(WEIGHING, "adds numbers of its own"),
)
"""What a mask hides, the first that is proven."""


def describe_drawn_blocks(shown: Shown) -> str:
    blocks = shown.facts.blocks
    if blocks is None or not draws_blocks(shown.facts):
        return ""
    return describe_blocks(blocks) + ("; the first corner" if shown.rows < 2 * len(blocks.cells[0]) else "")


def describe_number(shown: Shown) -> str:
    """Which of several matrices is drawn that differ, as those of sequences or windows do."""
    if not shown.facts.cells or is_row_each(shown) or len(set(shown.facts.cells)) == 1:
        return ""
    return f"number {shown.number + 1} of {len(shown.facts.cells)}" + (", the first corner" if is_cut(shown) else "")


def is_cut(shown: Shown) -> bool:
    """Whether cells are drawn in part: those of one matrix, or the one row of each where that is all."""
    cells = shown.facts.cells
    if not cells:
        return False
    rows = len(cells) if is_row_each(shown) else len(cells[0])
    return (shown.rows, shown.columns) != (rows, len(cells[0][0]))


def describe_keys(shown: Shown) -> str:
    """Which keys of each row are drawn, where those before hide nothing."""
    cells = shown.facts.cells
    many = f"{shown.start + 1:,}–{shown.start + shown.columns:,}"
    return f"keys {many} of {len(cells[0][0]):,}" if cells and shown.start else ""


def is_row_each(shown: Shown) -> bool:
    """Whether all queries see the same, so that each matrix of a mask has one row: one for each sequence, or head."""
    return bool(shown.facts.cells) and all(len(matrix) == 1 for matrix in shown.facts.cells or ())


def is_sequence_each(shown: Shown) -> bool:
    """Whether such a row is that of a sequence: along no other axis are they stacked."""
    return is_row_each(shown) and {*shown.leading} - {"1"} == {"batch"}


OF_PICTURES: tuple[Sentence[Shown], ...] = (
    Sentence("blocks of a mask", describe_drawn_blocks),
    fixed("corner by its kind", "its first corner, by its kind", lambda shown: shown.is_known),
    fixed("too large", "too large to draw", lambda shown: not shown.facts.cells),
    Sentence("one of several", describe_number),
    Sentence("some keys of each row", describe_keys),
    fixed("corner", "the first corner", lambda shown: is_cut(shown) and not shown.start),
    fixed("row for each sequence", "a row for each sequence", is_sequence_each),
    fixed("row for each", "each row for all queries", lambda shown: is_row_each(shown) and not is_sequence_each(shown)),
)
"""How much of a mask is drawn, the first that is proven."""
