"""What is said at the stations: what goes in, what each sublayer does, what comes out, and what begins anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from sys import maxsize

from xray.config import EOS, SPECIAL_TOKENS
from xray.story.anatomy.branches import (
    ANOTHER_ROW,
    Attention,
    Branch,
    Context,
    Convolution,
    DeformableAttention,
    Experts,
    FeedForward,
    Looking,
    Projection,
    Recurrence,
    StreamMixing,
    Unknown,
)
from xray.story.anatomy.tree import EntrancePart, Group, Head, Stage, Tower
from xray.story.anatomy.wording import describe_points
from xray.story.sentences.sentence import Sentence, fixed, say_first
from xray.story.sheet.words import Words
from xray.story.wording import plural


@dataclass(frozen=True)
class Leaving:
    """What comes out of a tower: the operations behind its last layer, in order, and the head, if it is the last.

    `vocab` is how many rows the tower's table of words has; `is_signal` where frequencies become a signal last.
    """

    ops: tuple[str, ...]
    head: Head | None
    has_loss: bool = False
    vocab: int | None = None
    is_signal: bool = False


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


def describe_station(tower: Tower, branch: Branch) -> str:
    """What happens at the station of a branch; no more than is proven."""
    if isinstance(branch, Attention) and branch.source != "self":
        return ASKS.tell((tower, branch))
    if isinstance(branch, FeedForward) and branch.kernel is None:
        return say_first(OF_FORWARDS, (branch, width_at(tower, branch)))
    return say_first(OF_BRANCHES, branch)


def describe_stage(tower: Tower, stage: Stage) -> str:
    """What happens at the station of a whole stage, in order; what happens several times in a row is told once."""
    told = [describe_station(tower, branch) for branch in stage.branches]
    rows = [(text, len(list(alike))) for text, alike in groupby(told)]
    return " ".join(f"{text.removesuffix('.')}, {count} times." if count > 1 else text for text, count in rows)


def width_at(tower: Tower, branch: Branch) -> int | None:
    """How wide the stream is where a branch hangs on it."""
    groups = (group for group in tower.groups if any(branch in stage.branches for stage in group.stages))
    return next((group.d_model for group in groups), tower.d_model)


def describe_entrance(tower: Tower, reads: Sequence[Words] = ()) -> str:
    """What goes in; `reads` are the words of every phase."""
    if reads:
        return say_first(OF_WORDS, (tower, reads[0]))
    return " ".join(text for one in OF_ENTRANCES if (text := one.tell(tower)))


def describe_exit(leaving: Leaving) -> str:
    """What comes out of a tower."""
    return say_first(OF_EXITS, leaving)


def describe_memory(tower: Tower) -> str:
    """What a tower takes from the memory that it looks at."""
    return say_first(OF_MEMORIES, tower)


def describe_again(again: Again) -> str:
    """What begins anew when all is done."""
    return say_first(OF_LOOPS, again)


def ask(fact: tuple[Tower, Attention]) -> str:
    tower, branch = fact
    if branch.source == "self":
        return ""
    if branch.source is None:
        return "Queries are the stream's own; keys and values come from another tensor."
    if branch.source == ANOTHER_ROW:
        return f"Places look at those of {ANOTHER_ROW}, as of the other half of a pair."
    return f"The {tower.name} asks; keys and values come from the {branch.source}."


def describe_sampled(branch: Branch) -> str:
    if not isinstance(branch, DeformableAttention):
        return ""
    whose = {"self": "maps of their own", None: "maps from beside"}.get(branch.source, f"maps from the {branch.source}")
    few = describe_points(branch)
    return f"Places pick points in {whose}{f': {few}' if few else ''}."


def describe_windowed(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.window:
        return ""
    rolled = ", in windows cut elsewhere" if branch.rolled else ""
    looks = "looks back at" if branch.causal and not branch.partial else "looks at"
    return f"Every place {looks} no more than {branch.window} places{rolled}."


def describe_set_window(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.sliding_window or branch.causal is None or branch.partial:
        return ""
    looks = "Every place looks back, never ahead" if branch.causal else "Every place looks at every other"
    return f"{looks}; sliding_window = {branch.sliding_window} is set."


def describe_mixing(branch: Branch) -> str:
    if not isinstance(branch, StreamMixing):
        return ""
    return f"The {branch.streams} streams of each place are mixed, by a matrix that is worked out of them."


def describe_projection(branch: Branch) -> str:
    if not isinstance(branch, Projection):
        return ""
    return "Each place alone, by a linear layer" + (f": {branch.d_out:,} numbers." if branch.d_out else ".")


def describe_beside(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.beside:
        return ""
    whose = branch.beside if branch.beside.startswith("another ") else f"the {branch.beside} tower"
    if branch.causal is None:
        return f"Places look at those of {whose} too."
    own = "back, never ahead" if branch.causal else "at each other"
    return f"Places look {own}, and at those of {whose}."


def describe_chosen(branch: Branch) -> str:
    if not isinstance(branch, Experts):
        return ""
    few = f"{branch.chosen} of {branch.experts} experts" if branch.chosen and branch.experts else "experts"
    return f"Each place alone, through {few}."


def describe_gathered(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.gathered:
        return ""
    return f"Every place looks at all of them, {branch.gathered} gathered into one."


def describe_pieces(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.pieces:
        return ""
    return f"{branch.pieces} pieces lie end to end; places look at those of their own."


def describe_coarse(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.coarse:
        return ""
    return f"{branch.coarse} places become one row, the rows look at each other, and are spread out again."


ASKS = Sentence("asks", ask)
OF_BRANCHES: tuple[Sentence[Branch], ...] = (
    Sentence("station of joint attention", describe_beside),
    fixed(
        "station of foreign queries",
        "Queries are made beside the stream; keys and values are its own.",
        lambda one: isinstance(one, Attention) and one.foreign_queries,
    ),
    Sentence("station of sampled points", describe_sampled),
    Sentence("station of a window", describe_windowed),
    Sentence("station of pieces", describe_pieces),
    Sentence("station of coarse rows", describe_coarse),
    Sentence("station of gathered keys", describe_gathered),
    fixed(
        "station of chosen keys",
        "Every place looks back, at the places chosen for it.",
        lambda one: isinstance(one, Attention) and one.chosen_keys and one.causal,
    ),
    Sentence("station of a window that is set", describe_set_window),
    fixed(
        "some look back",
        "Places look back, never ahead.",
        lambda one: isinstance(one, Attention) and one.causal and one.partial,
    ),
    fixed("looks back", "Every place looks back, never ahead.", lambda one: isinstance(one, Attention) and one.causal),
    fixed(
        "looks at all",
        "Every place looks at every other.",
        lambda one: isinstance(one, Attention) and one.causal is False and not one.partial,
    ),
    fixed("looks", "Places look at each other.", lambda one: isinstance(one, Attention)),
    fixed(
        "station of neighbours",
        "Each place wider, mixed with its neighbours, and back.",
        lambda one: isinstance(one, FeedForward) and one.kernel is not None,
    ),
    Sentence("station of experts", describe_chosen),
    fixed(
        "station of a context",
        "Places are summed up, each by its weight; what comes out multiplies each of them.",
        lambda one: isinstance(one, Context),
    ),
    fixed(
        "station of a state",
        "A state goes from place to place and is changed by each.",
        lambda one: isinstance(one, Recurrence),
    ),
    fixed(
        "station of a convolution",
        "Each place is mixed with its neighbours.",
        lambda one: isinstance(one, Convolution),
    ),
    Sentence("station of a projection", describe_projection),
    Sentence("station of mixed streams", describe_mixing),
    fixed("no name", "Operations without a common name.", lambda one: isinstance(one, Unknown)),
)
"""What a sublayer does, the first that is proven of its branch."""


def describe_joined(fact: tuple[FeedForward, int | None]) -> str:
    joined = fact[0].joined
    return f"{joined} places at a time, side by side, become one." if joined else ""


OF_FORWARDS: tuple[Sentence[tuple[FeedForward, int | None]], ...] = (
    fixed(
        "gated rows",
        "What stands beside each place, as much as its gate leaves.",
        lambda fact: fact[0].gates_beside,
    ),
    Sentence("rows to one", describe_joined),
    fixed("wider", "Each place alone, wider and back.", lambda fact: (fact[0].d_ff or 0) > (fact[1] or maxsize)),
    fixed("narrower", "Each place alone, narrower and back.", lambda fact: (fact[0].d_ff or maxsize) < (fact[1] or 0)),
    fixed("alone", "Each place alone.", lambda _: True),
)
"""What a feed-forward does on a stream of so many numbers."""


def part_of(tower: Tower, name: str) -> EntrancePart | None:
    """A part of a tower's entrance that its own rows go through; None if it has none of that name."""
    return next((part for part in tower.entrance if part.part == name and not part.beside), None)


def describe_image(tower: Tower) -> str:
    patches = ", one for each patch" if part_of(tower, "patches") else ""
    what = {"image": "An image becomes", "video": "The pictures of a video become"}.get(tower.reads or "")
    return f"{what} vectors{patches}." if what else ""


def describe_rows(tower: Tower) -> str:
    rows = next((part for part in tower.entrance[:1] if part.part == "learned rows"), None)
    if rows is None or not rows.learned or rows.size is None or tower.reads is not None:
        return ""
    return f"{plural(rows.size, 'learned row')} go{'es' * (rows.size == 1)} in."


def describe_places(tower: Tower) -> str:
    places = part_of(tower, "positions")
    return "" if places is None else "Learned places are added." if places.learned else "Places are added."


OF_ENTRANCES: tuple[Sentence[Tower], ...] = (
    fixed("ids", "Ids become vectors.", lambda tower: tower.reads == "ids"),
    Sentence("image", describe_image),
    fixed("audio", "A signal becomes vectors.", lambda tower: tower.reads == "audio"),
    fixed("vectors", "Vectors come in.", lambda tower: tower.reads == "vectors"),
    fixed("ids beside", "Beside them stand vectors of ids.", lambda tower: tower.also == "ids"),
    fixed("noise", "Noise is drawn by chance.", lambda tower: tower.reads == "noise"),
    Sentence("learned rows", describe_rows),
    fixed("entrance", "What goes in.", lambda tower: tower.reads is None and not describe_rows(tower)),
    Sentence("places", describe_places),
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


def looks_elsewhere(group: Group, kind: type[Looking] = Attention) -> bool:
    """Whether layers have an attention of a kind whose values come from another tower."""
    branches = (branch for stage in group.stages for branch in stage.branches)
    return any(isinstance(one, kind) and one.leaves_stream for one in branches)


def describe_takers(tower: Tower) -> str:
    every = bool(tower.groups) and all(map(looks_elsewhere, tower.groups))
    return f"keys and values for every {tower.name} layer" if every else ""


def describe_samplers(tower: Tower) -> str:
    found = [looks_elsewhere(group, DeformableAttention) for group in tower.groups]
    whose = f"every {tower.name} layer" if all(found) else "some of the layers"
    return f"values for {whose}" if any(found) else ""


OF_MEMORIES: tuple[Sentence[Tower], ...] = (
    Sentence("memory of every layer", describe_takers),
    fixed("memory", "keys and values for some of the layers", lambda tower: any(map(looks_elsewhere, tower.groups))),
    Sentence("memory that is sampled", describe_samplers),
)
"""What is taken from a memory, the first that is proven."""

CHOOSING = {
    "last_row": "last row",
    "select": "last row",
    "softmax": "softmax",
    "argmax": "argmax",
    "multinomial": "one drawn by chance",
}


def describe_choice(leaving: Leaving) -> str:
    chosen = [CHOOSING[op] for op in leaving.ops if op in CHOOSING]
    if not leaving.ops or leaving.ops[-1] not in ("argmax", "multinomial"):
        return ""
    if leaving.has_loss:
        return f"Training: loss. Inference: {', '.join(word for word in chosen if word != 'last row')}, a word."
    return f"{', '.join(chosen).capitalize()}: the next word."


def describe_head(leaving: Leaving) -> str:
    head = leaving.head
    kind = head.kind if head else ""
    if head and kind == "numbers" and head.size and not leaving.has_loss:
        return f"{head.size:,} numbers come out for each place."
    scored = {"vocabulary": "A score for every word", "classes": "A score for every class"}.get(kind)
    if scored is None:
        return "The loss: one number." if leaving.has_loss else ""
    if head and head.kind == "vocabulary" and head.size and head.size < (leaving.vocab or 0):
        scored = f"A score for {head.size:,} of the {leaving.vocab:,} words"
    if leaving.has_loss:
        return f"{scored}, compared with the target."
    return f"{head.size:,} numbers come out." if head and head.kind == "classes" and head.size else f"{scored}."


OF_EXITS: tuple[Sentence[Leaving], ...] = (
    Sentence("next word", describe_choice),
    Sentence("scores of words", describe_head),
    fixed("signal", "A signal comes out.", lambda leaving: leaving.is_signal),
    fixed("leaves", "What leaves the tower.", lambda leaving: leaving.head is None or leaving.head.kind == "none"),
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
