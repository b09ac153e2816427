"""What is said at the station of a branch: what it does, as far as it is proven."""

from dataclasses import replace
from sys import maxsize

from xray.story.anatomy.attentions import ANOTHER_ROW, FORMER_ROWS, Attention, DeformableAttention
from xray.story.anatomy.branch_words import describe_points, spell_curve, spell_pool
from xray.story.anatomy.branches import (
    Branch,
    ChannelAttention,
    Context,
    Convolution,
    CurvedAttention,
    Experts,
    FeedForward,
    FourierMixing,
    LinearAttention,
    PlaceMixing,
    PoolMixing,
    Projection,
    Recurrence,
    StreamMixing,
    Unknown,
)
from xray.story.anatomy.tree import Tower
from xray.story.sentences.of_states import is_one_piece
from xray.story.sentences.sentence import Sentence, fixed, say_first
from xray.story.wording import join_words

MIXED = "Each place is mixed with"
EACH_ALONE, SOME_ALONE = "Each place alone", "Some places alone"


def describe_station(tower: Tower, branch: Branch) -> str:
    """What happens at the station of a branch; no more than is proven."""
    if isinstance(branch, Attention) and branch.source != "self":
        return ASKS.tell((tower, branch))
    if isinstance(branch, FeedForward) and branch.kernel is None:
        return say_first(OF_FORWARDS, (branch, width_at(tower, branch)))
    return say_first(OF_BRANCHES, leave_groups(tower, branch) if isinstance(branch, ChannelAttention) else branch)


def leave_groups(tower: Tower, branch: ChannelAttention) -> ChannelAttention:
    """A branch of which no groups are told where those of other layers are others: channels look there too."""
    every = (one for group in tower.groups for stage in group.stages for one in stage.branches)
    is_alike = all(one == branch for one in every if isinstance(one, ChannelAttention))
    return branch if is_alike else replace(branch, groups=1)


def width_at(tower: Tower, branch: Branch) -> int | None:
    """How wide the stream is where a branch hangs on it."""
    groups = (group for group in tower.groups if any(branch in stage.branches for stage in group.stages))
    return next((group.d_model for group in groups), tower.d_model)


def ask(fact: tuple[Tower, Attention]) -> str:
    tower, branch = fact
    if branch.source == "self":
        return ""
    if branch.source is None and tower.looked_at:
        return "Keys and values come from rows that are made beside it."
    if branch.source == FORMER_ROWS:
        return f"Keys and values come from {FORMER_ROWS}."
    if branch.source == ANOTHER_ROW:
        return f"Places look at those of {ANOTHER_ROW}, as of the other half of a pair."
    if branch.source is None or branch.is_of_unknown:
        return "Keys and values come from another tensor."
    given = join_words([f"the {name}" for name in sorted([branch.source, *branch.with_others])])
    whence = f"what the {branch.beginning} begins with" if branch.beginning else given
    made = "keys come" if branch.keys_alone else "keys and values come"
    return f"The {tower.name} asks; {made} from {whence}."


def describe_sampled(branch: Branch) -> str:
    if not isinstance(branch, DeformableAttention):
        return ""
    whose = {"self": "maps of their own", None: "maps from beside"}.get(branch.source, f"maps from the {branch.source}")
    few = describe_points(branch)
    return f"Places pick points in {whose}{f': {few}' if few else ''}."


def describe_windowed(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.window:
        return ""
    if branch.window == 1:
        return "Every place looks at itself alone."
    rolled = ", in windows cut elsewhere" if branch.rolled else ""
    looks = "looks back at" if branch.causal and not branch.partial else "looks at"
    spread = ", spread over all" * bool(branch.spread)
    sides = f": itself and {branch.each_side} on each side" if branch.each_side else ""
    return f"Every place {looks} no more than {branch.window:,} places{rolled}{spread}{sides}."


def describe_set_window(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.sliding_window or branch.causal is None or branch.partial:
        return ""
    looks = "Every place looks back, never ahead" if branch.causal else "Every place looks at every other"
    return f"{looks}; sliding_window = {branch.sliding_window:,} is set."


def describe_together(branch: Branch) -> str:
    """How many places look at each other, where the places of one input became several sequences."""
    count = branch.together if isinstance(branch, Attention) and branch.causal is False else None
    return f"Every place looks at every other of the {count:,} in its sequence." if count else ""


def describe_kept_last(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.kept_last or not branch.causal or branch.partial:
        return ""
    if branch.chunk_size:
        return f"Every place looks back, never ahead; attention_chunk_size = {branch.chunk_size:,} is set."
    return f"Every place looks back, never ahead; a cache keeps only the keys of the last {branch.kept_last:,} places."


def describe_mixing(branch: Branch) -> str:
    if not isinstance(branch, StreamMixing):
        return ""
    made_of = "one of them" if branch.of_one else "them"
    return f"The {branch.streams} streams of each place are mixed, by a matrix that is worked out of {made_of}."


def describe_state_by_pieces(branch: Branch) -> str:
    """How a state goes from piece to piece, and whether there is but one here."""
    here = "; here all rows are one piece" if is_one_piece(branch) else ""
    told = f"A state goes from one piece of the rows to the next and is changed by each{here}."
    return told if isinstance(branch, Recurrence) and branch.by_pieces else ""


def describe_channels(branch: Branch) -> str:
    """That channels and not places look at each other, and in how many groups, where that is proven."""
    if not isinstance(branch, ChannelAttention):
        return ""
    groups = f", in {branch.groups:,} groups of {branch.channels:,}" if branch.groups > 1 else ""
    return f"Channels look at each other, by what they are at all places{groups}."


def describe_convolution(one: Branch) -> str:
    if not isinstance(one, Convolution):
        return ""
    near = "others" if one.is_wide else "places near it"
    mixed = f"those {'just ' * (not one.is_wide)}before it" if one.causal else near
    return f"{MIXED} {mixed}{', and the mean of all places is added' * bool(one.adds_mean)}."


def describe_projection(branch: Branch) -> str:
    if not isinstance(branch, Projection):
        return ""
    several = branch.layers > 1
    layers = f"{branch.layers} linear layers side by side" if several else "a linear layer"
    return f"Each place alone, by {layers}" + (
        f": {branch.d_out:,} numbers{' each' * several}." if branch.d_out else "."
    )


def describe_fourier(branch: Branch) -> str:
    """That places are mixed by a Fourier transform, and whether the numbers of each are too."""
    if not isinstance(branch, FourierMixing):
        return ""
    along = "along places and along the numbers of each" if branch.features else "along places alone"
    return f"Every place is mixed with every other by a Fourier transform, {along}; nothing of it is learned."


def describe_pooled(branch: Branch) -> str:
    """What each place becomes of those around it, where that is a pool and no more."""
    if not isinstance(branch, PoolMixing):
        return ""
    return f"Each place becomes the {spell_pool(branch)}; nothing of that is learned."


def describe_beside(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.beside:
        return ""
    whose = branch.beside if branch.beside.startswith("another ") else f"the {branch.beside} tower"
    if branch.causal is None:
        return f"Places look at those of {whose} too."
    own = "back, never ahead" if branch.causal else "at each other"
    window = f"; sliding_window = {branch.sliding_window:,} is set" if branch.sliding_window else ""
    return f"Places look {own}, and at those of {whose}{window}."


def describe_chosen(branch: Branch) -> str:
    if not isinstance(branch, Experts):
        return ""
    count = branch.chosen or branch.chosen_or_none
    few = f"{count} of {branch.experts} experts" if count and branch.experts else "experts"
    few += " or none" * bool(branch.chosen_or_none)
    if branch.capacity and not branch.neighbours:
        return f"Each place through at most {few}."  # it depends on how many before it an expert has taken
    if branch.neighbours:
        around = "those just before it" if branch.looks_back else "places next to it"
        return f"Each place through {few}, then mixed with {around}."
    return f"Each place alone, through {few}." if count else "Places go through experts."  # some may go through none


def describe_gathered(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.gathered:
        return ""
    count = branch.ungathered
    own = f"; {'the row' if count == 1 else f'each of {count} rows'} beside them has its own" if count else ""
    return f"Every place looks at all of them, by one key for every {branch.gathered}{own}."


def describe_fewer_keys(branch: Branch) -> str:
    """How many keys each place looks at, where places are mixed into fewer of them."""
    count = branch.fewer_keys if isinstance(branch, Attention) else None
    return f"Every place looks at {count:,} keys, each made of several places." if count else ""


def describe_pieces(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.pieces:
        return ""
    look = "look back at" if branch.causal else "look at"
    return f"{branch.pieces} pieces lie end to end; places {look} those of their own."


def describe_coarse(branch: Branch) -> str:
    if not isinstance(branch, Attention) or not branch.coarse:
        return ""
    return f"{branch.coarse} places become one row, the rows look at each other, and are spread out again."


def describe_curved(branch: Branch) -> str:
    if not isinstance(branch, CurvedAttention):
        return ""
    seen = "those that the mask leaves it" if branch.is_masked else "every other"
    return f"Every place weighs {seen} by {spell_curve(branch.curve)}, with no softmax."


def chooses_elsewhere(branch: Attention) -> bool:
    """Whether keys that are chosen were so by an earlier layer, or none was in this pass."""
    return bool(branch.chosen_earlier or branch.none_chosen)


ASKS = Sentence("asks", ask)


def describe_sums(branch: Branch) -> str:
    """What happens where places stand in several sets, each of which is summed up apart."""
    if not isinstance(branch, Context) or not branch.sums:
        return ""
    how = "each by its weight" if branch.weighed else "each with the weight 1, softmax of one number"
    return f"Places are summed up in {branch.sums} sets, {how}; what comes out of a set multiplies each place of it."


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
        "station of keys chosen earlier",
        "Every place looks back, at the places that an earlier layer chose for it.",
        lambda one: isinstance(one, Attention) and one.chosen_earlier and one.causal and not one.none_chosen,
    ),
    fixed(
        "station of chosen keys",
        "Every place looks back, at the places chosen for it.",
        lambda one: isinstance(one, Attention) and one.chosen_keys and one.causal and not chooses_elsewhere(one),
    ),
    Sentence("station of a window that is set", describe_set_window),
    Sentence("station of keys that a cache leaves off", describe_kept_last),
    fixed(
        "some look back",
        "Places look back, never ahead.",
        lambda one: isinstance(one, Attention) and one.causal and one.partial,
    ),
    Sentence("station of fewer keys", describe_fewer_keys),
    fixed("looks back", "Every place looks back, never ahead.", lambda one: isinstance(one, Attention) and one.causal),
    fixed(
        "looks at more",
        "Every place looks at all places that there were before these became fewer.",
        lambda one: isinstance(one, Attention) and one.longer_keys and one.causal is False and not one.partial,
    ),
    fixed(
        "looks at all",
        "Every place looks at every other.",
        lambda one: isinstance(one, Attention) and one.causal is False and not one.partial,
    ),
    Sentence("station of several sequences", describe_together),
    fixed(
        "looks past a roll",
        "Places are rolled, and look at those that were as far away before.",
        lambda one: isinstance(one, Attention) and one.rolled and one.kept_apart and not one.window,
    ),
    fixed("one looks", "One row looks at all.", lambda one: isinstance(one, Attention) and one.one_looks),
    fixed(
        "looks at some", "Places look at those that they may see.", lambda one: isinstance(one, Attention) and one.hides
    ),
    fixed("looks", "Places look at other places.", lambda one: isinstance(one, Attention)),
    fixed(
        "station of neighbours",
        "Each place with what stands next to it, wider and back.",
        lambda one: isinstance(one, FeedForward) and one.kernel is not None,
    ),
    Sentence("station of experts", describe_chosen),
    Sentence("station of contexts", describe_sums),
    fixed(
        "station of a context",
        "Places are summed up, each by its weight; what comes out multiplies each of them.",
        lambda one: isinstance(one, Context) and one.weighed and not one.sums,
    ),
    fixed(
        "station of a context of equal weights",
        "Places are summed up, each with the weight 1, softmax of one number; what comes out multiplies each of them.",
        lambda one: isinstance(one, Context) and not one.weighed and not one.sums,
    ),
    Sentence("station of channels", describe_channels),
    Sentence("station of a curve in place of softmax", describe_curved),
    Sentence("station of a state by pieces", describe_state_by_pieces),
    fixed(
        "station of a state",
        "A state goes from place to place and is changed by each.",
        lambda one: isinstance(one, Recurrence) and not one.by_pieces and not one.at_once,
    ),
    fixed(
        "station of states of all places",
        "Each place has a state of its own; they are worked out together, of each other.",
        lambda one: isinstance(one, Recurrence) and one.at_once,
    ),
    Sentence("station of a convolution", describe_convolution),
    Sentence("station of a projection", describe_projection),
    Sentence("station of mixed streams", describe_mixing),
    fixed(
        "station of mixed places",
        "Places are mixed by learned weights, the same for every channel.",
        lambda one: isinstance(one, PlaceMixing),
    ),
    Sentence("station of a Fourier transform", describe_fourier),
    Sentence("station of a pool", describe_pooled),
    fixed(
        "station of linear attention",
        "Linear attention: keys and values are multiplied first, over all places; queries read what comes of it.",
        lambda one: isinstance(one, LinearAttention),
    ),
    fixed("no name", "Operations: what they are is not known.", lambda one: type(one) is Unknown),
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
    fixed("best again", "Each place alone; those that score best once more.", lambda fact: bool(fact[0].best_again)),
    fixed("wider", f"{EACH_ALONE}, wider and back.", lambda fact: (fact[0].d_ff or 0) > (fact[1] or maxsize)),
    fixed("narrower", f"{EACH_ALONE}, narrower and back.", lambda fact: (fact[0].d_ff or maxsize) < (fact[1] or 0)),
    fixed("alone", f"{EACH_ALONE}.", lambda _: True),
)
"""What a feed-forward does on a stream of so many numbers."""
