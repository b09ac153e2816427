"""What is said at the ends of a tower: what goes in, what comes out, and what begins anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from xray.config import EOS, SPECIAL_TOKENS
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.anatomy.branches import FeedForward
from xray.story.anatomy.tree import Anatomy, Head, Tower
from xray.story.sentences.sentence import Sentence, fixed, say_first
from xray.story.sheet.words import Words
from xray.story.wording import join_words, plural

OF_VIDEO = len(("pictures", "height", "width"))


@dataclass(frozen=True)
class Leaving:
    """What comes out of a tower: the operations behind its last layer, in order, and the head that reads it.

    `vocab` is how many rows the tower's table of words has; `is_signal` where frequencies become a signal last, and
    `at_each` where something is chosen for each of several places. `meets` says with how many towers it is compared,
    `is_joined` that what is made beside the tower is put to it, `times` how many places transposed convolutions make of
    each, and `met` are the towers whose maps meet those of this one. It `is_lost` where nothing reads what is made
    last, and the model does not hand it out, and `goes_on` where more is worked out of it that no box tells of. It is
    `by_chance` where numbers that were drawn so behind the layers go into it, and goes `to_one` number where a box says
    so.
    """

    ops: tuple[str, ...]
    head: Head | None
    has_loss: bool = False
    vocab: int | None = None
    is_signal: bool = False
    at_each: bool = False
    meets: int = 0
    is_joined: bool = False
    times: int = 1
    met: tuple[str, ...] = ()
    is_lost: bool = False
    goes_on: bool = False
    by_chance: bool = False
    to_one: bool = False


@dataclass(frozen=True)
class Again:
    """What goes back to the beginning: gradients, a chosen word, and the last word that was chosen."""

    goes_back: bool
    is_looped: bool
    last_word: str = ""

    @property
    def until(self) -> str:
        """Until when words are chosen, where the run came to it."""
        return f" until {SPECIAL_TOKENS[EOS]}" if self.last_word == SPECIAL_TOKENS[EOS] else ""


def describe_entrance(tower: Tower, reads: Sequence[Words] = ()) -> str:
    """What goes in; `reads` are the words of every phase."""
    if reads:
        return say_first(OF_WORDS, (tower, reads[0]))
    return " ".join(text for one in OF_ENTRANCES if (text := one.tell(tower)))


def describe_exit(leaving: Leaving) -> str:
    """What comes out of a tower."""
    return say_first(OF_EXITS, leaving)


def describe_again(again: Again) -> str:
    """What begins anew when all is done."""
    return say_first(OF_LOOPS, again)


def part_of(tower: Tower, name: str) -> EntrancePart | None:
    """A part of a tower's entrance that its own rows go through; None if it has none of that name."""
    return next((part for part in tower.entrance if part.part == name and not part.beside), None)


def describe_image(tower: Tower) -> str:
    part = part_of(tower, "patches")
    is_deep = part is not None and len(part.kernel) == OF_VIDEO and tower.reads == "video"
    deep = part.kernel[0] if part is not None and is_deep else 1
    patches = "" if part is None else f", one for each patch{f' of {deep} pictures' * (deep > 1)}"
    begun = {"image": "An image becomes", "map": "A map becomes", "video": "The pictures of a video become"}
    what = begun.get(tower.reads or "")
    return f"{what} vectors{patches}." if what else ""


def describe_among(tower: Tower) -> str:
    what = {"image": "an image", "audio": "a signal", "vectors": "vectors that come in"}.get(tower.among or "")
    return f"Rows made of {what} take the place of some." if what else ""


def describe_rows(tower: Tower) -> str:
    first = list(takewhile(lambda part: part.part == "learned rows", tower.entrance))
    rows = sum(part.size or 0 for part in first)
    if not first or not all(part.learned and part.size for part in first) or tower.reads is not None:
        return ""
    return f"{plural(rows, 'learned row')} go{'es' * (rows == 1)} in."


def describe_other(tower: Tower) -> str:
    if tower.reads is not None or describe_rows(tower) or describe_looked_up(tower):
        return ""
    own = "It begins with the model's own numbers."
    return own if tower.own_numbers else "What goes in."


def describe_looked_up(tower: Tower) -> str:
    """How many rows are looked up for each place by several ids of an argument (LayoutLM's boxes).

    Where other rows stand beside ids in one stream, these are looked up for ids alone (LayoutLMv3's text).
    """
    counts: dict[tuple[str, str], int] = {}
    for part in tower.entrance:
        if part.columns:
            by = part.argument, "numbers" if part.made_whole else "ids"
            counts[by] = counts.get(by, 0) + len(part.columns)
    told = (
        f"{plural(rows, 'row')} by {what} of {name}" if name else plural(rows, "row")
        for (name, what), rows in counts.items()
    )
    are_all = any(part.with_others for part in tower.entrance if part.columns)
    each = "id" if tower.also == "ids" and not are_all else "place"
    return f"Looked up for each {each}: {', '.join(told)}." if counts else ""


def describe_places(tower: Tower) -> str:
    places = part_of(tower, "positions")
    if places is None:
        return ""
    held = "Places of a fixed table" if places.learned is False and places.size else "Places"
    known = "Sines of places" if places.sines else "Learned places" if places.learned else held
    return f"{known} are added."


def describe_mixed(tower: Tower) -> str:
    """That a convolution is added to what it reads, and that nothing tells places apart behind it, where that is so."""
    if not any(part.added for part in tower.entrance):
        return ""
    branches = [one for group in tower.groups for stage in group.stages for one in stage.branches]
    looking = [one for one in branches if isinstance(one, Attention)]
    is_blind = all(one.positions == "none" and one.causal is False and not one.window for one in looking)
    is_known = is_blind and all(isinstance(one, Attention | FeedForward) for one in branches)
    alone = "; nothing behind it tells places apart" * (is_known and part_of(tower, "positions") is None)
    return f"What convolution makes of each place and its neighbours is added{alone}."


OF_ENTRANCES: tuple[Sentence[Tower], ...] = (
    fixed("ids", "Ids become vectors.", lambda tower: tower.reads == "ids"),
    Sentence("image", describe_image),
    fixed("audio", "A signal becomes vectors.", lambda tower: tower.reads == "audio"),
    fixed("vectors", "Vectors come in.", lambda tower: tower.reads == "vectors"),
    fixed("ids beside", "Beside them stand vectors of ids.", lambda tower: tower.also == "ids"),
    Sentence("put among", describe_among),
    fixed("noise", "Noise is drawn by chance.", lambda tower: tower.reads == "noise"),
    Sentence("learned rows", describe_rows),
    Sentence("entrance", describe_other),
    Sentence("columns of ids", describe_looked_up),
    Sentence("places", describe_places),
    Sentence("mixed", describe_mixed),
    fixed("rows looked at", "What they look at is made beside them.", lambda tower: tower.looked_at),
    fixed(
        "attention first",
        "Places look at each other; what goes in there is not added.",
        lambda tower: tower.before == "self-attention",
    ),
)
"""What a tower reads: all that is proven, one after the other."""


def describe_start(fact: tuple[Tower, Words]) -> str:
    _, words = fact
    if not words.is_answer:
        return ""
    grows = ", grows by one each turn" if words.grows else ""
    return f"The answer starts with {' '.join(words.read_in(words.first))}{grows}."


def describe_question(fact: tuple[Tower, Words]) -> str:
    tower, words = fact
    places = ", places" if part_of(tower, "positions") else ""
    return f"The question: ids, vectors{places}; read once." if words.first.kind == "encode" else ""


def describe_words(fact: tuple[Tower, Words]) -> str:
    return f"Words become ids, ids vectors{'; places are added' if part_of(fact[0], 'positions') else ''}."


OF_WORDS: tuple[Sentence[tuple[Tower, Words]], ...] = (
    fixed(
        "shift",
        "Answers shifted by one: read a word, say the next.",
        lambda fact: fact[1].is_shifted,
    ),
    Sentence("start", describe_start),
    Sentence("question", describe_question),
    Sentence("words", describe_words),
)
"""What a tower reads where its words were recorded, the first that is proven."""


CHOOSING = {
    "last_row": "last row",
    "softmax": "softmax",
    "argmax": "argmax",
    "multinomial": "one drawn by chance",
}


def describe_choice(leaving: Leaving) -> str:
    chosen = [CHOOSING[op] for op in leaving.ops if op in CHOOSING]
    if not leaving.ops or leaving.ops[-1] not in ("argmax", "multinomial") or leaving.to_one:
        return ""
    if leaving.has_loss:
        return f"Training: loss. Inference: {', '.join(word for word in chosen if word != 'last row')}, a word."
    word = "the next word" if "last_row" in leaving.ops else "a word"
    is_number = leaving.head is not None and leaving.head.kind in ("numbers", "classes")
    what = "one for each place" if leaving.at_each else "one of the numbers" if is_number else word
    return f"{', '.join(chosen).capitalize()}: {what}."


def describe_head(leaving: Leaving) -> str:
    head = leaving.head
    kind = head.kind if head else ""
    if head and kind == "numbers" and head.size and not (leaving.has_loss or leaving.to_one or leaving.goes_on):
        return f"{numbers_come(head.size)} for each place."
    scored = "A score for every word" if kind == "vocabulary" else ""
    if head and kind == "classes" and head.size:
        scored = plural(head.size, "number")
    if not scored:
        compared = "Compared with the target." * leaving.has_loss
        return compared or "One number comes out." * leaving.to_one
    if head and head.kind == "vocabulary" and head.size and head.size < (leaving.vocab or 0):
        scored = f"A score for {head.size:,} of the {leaving.vocab:,} ids"
    if leaving.has_loss:
        return f"{scored}, compared with the target."
    if leaving.to_one:
        return f"{scored}; of all of them one number is made."
    return f"{numbers_come(head.size)}." if head and kind == "classes" and head.size else f"{scored}."


def numbers_come(size: int) -> str:
    """So many numbers, and what they do."""
    return f"{plural(size, 'number')} come{'s' * (size == 1)} out"


def has_no_head(leaving: Leaving) -> bool:
    return not describe_head(leaving)


def describe_growth(leaving: Leaving) -> str:
    is_more = leaving.times > 1 and has_no_head(leaving)
    return f"What leaves the tower: of each place {leaving.times:,} have been made." if is_more else ""


def describe_meeting(leaving: Leaving) -> str:
    others = "another's" if leaving.meets == 1 else "those of others"
    return f"What leaves the tower is compared with {others}." if leaving.meets else ""


def describe_met_maps(leaving: Leaving) -> str:
    """That finer maps of other towers meet what leaves (RT-DETR)."""
    named = " and ".join(leaving.met)
    more = "towers give" if len(leaving.met) > 1 else "tower gives"
    return f"What leaves the tower is put together with what the {named} {more}." if leaving.met else ""


OF_EXITS: tuple[Sentence[Leaving], ...] = (
    Sentence("next word", describe_choice),
    fixed("signal", "A signal comes out.", lambda leaving: leaving.is_signal),
    Sentence("scores of words", describe_head),
    Sentence("leaves to be compared", describe_meeting),
    fixed(
        "leaves with what is beside",
        "What leaves the tower, with what is made beside it.",
        lambda leaving: leaving.is_joined and has_no_head(leaving),
    ),
    Sentence("leaves to meet maps", describe_met_maps),
    Sentence("leaves as more places", describe_growth),
    fixed(
        "leaves nowhere",
        "Made of what the tower gives, and read by nothing.",
        lambda leaving: leaving.is_lost and has_no_head(leaving),
    ),
    fixed(
        "leaves when changed",
        "Made of what the tower gives; it leaves changed once more.",
        lambda leaving: leaving.goes_on and has_no_head(leaving),
    ),
    fixed(
        "leaves by chance",
        "What leaves the tower, with numbers drawn by chance.",
        lambda leaving: leaving.by_chance and has_no_head(leaving),
    ),
    fixed("leaves", "What leaves the tower.", lambda leaving: has_no_head(leaving)),
)
"""What comes out, the first that is proven."""

OF_LOOPS: tuple[Sentence[Again], ...] = (
    fixed(
        "batch and turn",
        "Gradients and a new batch, or append and go again.",
        lambda again: again.goes_back and again.is_looped,
    ),
    fixed("batch", "Gradients flow back; then a new batch.", lambda again: again.goes_back),
    Sentence("turn", lambda again: f"The word is appended; decode again{again.until}." if again.is_looped else ""),
)
"""What begins anew, the first that is proven."""


MINUS = " − "


def describe_columns(anatomy: Anatomy) -> str:
    """In which tables columns of ids are looked up of which each place has several, by argument."""
    tables: dict[str, list[EntrancePart]] = {}
    for part in (part for tower in anatomy.towers for part in tower.entrance if part.columns):
        tables.setdefault(part.argument, []).append(part)
    return " ".join(spell_tables(name, parts) for name, parts in tables.items())


def spell_tables(name: str, parts: list[EntrancePart]) -> str:
    """The tables in which columns of one argument are looked up, and how large they are."""
    sizes = [f"{part.size:,}" for part in parts if part.size]
    rows = sizes[0] if len(set(sizes)) == 1 else join_words(sizes)
    held = f"{plural(len(parts), 'table')} of {rows} rows" if len(sizes) == len(parts) else plural(len(parts), "table")
    what = "numbers" if any(part.made_whole for part in parts) else "ids"
    made = ", made whole and" if what == "numbers" else ","
    told = f"{name or 'One tensor'} holds several {what} for each of its places{made} looked up by column in {held}"
    is_one_each = all(len(part.columns) == len(part.columns[0]) == 1 for part in parts)
    return f"{told}." if is_one_each else f"{told}: {'; '.join(map(spell_columns, parts))}."


def spell_columns(part: EntrancePart) -> str:
    """The columns that are looked up in one table, each by its number, from 0."""
    return join_words([MINUS.join(map(str, own)) for own in part.columns])
