"""What is said beside the boxes of a part: a box is known by its kind, what may be said there by the part's facts."""

from collections.abc import Callable, Mapping, Sequence
from math import inf

from xray.story.anatomy.attentions import Attention, DeformableAttention
from xray.story.anatomy.branches import Branch, Experts, FeedForward, Recurrence
from xray.story.anatomy.tree import Norm
from xray.story.sentences.sentence import Sentence, fixed, say_first

Part = Branch | Norm | None
"""What the boxes belong to; None for what belongs to no part but to the stream itself."""
BENT = "with "
"""Before what bends scores, or holds them within bounds, behind the product that they are."""
HELD_CAP = "at a number that is held"
"""Beside a box of scores whose cap no setting tells (the sound of Gemma 3n)."""
ONE_TABLE = "its table is looked up once, for {many:,} attentions"
SHARED_NUMBERS = "of {parameters} that {many:,} attentions share"
"""Beside a box of what is added to scores, and made of a table before all layers (MPNet, SEW-D)."""
OUTSIDE = "outside"
"""Behind how many parameters make what is added to scores of an argument, before all layers: none of the panel's."""
ADDS_BIAS = "{bias} added to scores: {counted}"
"""Beside an attention that is drawn as one box, where its scores are added to with weights of its own (SAM)."""
FROM_BOX = "from each row's box"
BOXES_AS_AT, WITHOUT = "boxes as at {station}", " without {labels}"
SAME_AS_WORDS = "same weights as the table of the words"
OF_EARLIER = "keys and values of an earlier layer"
"""Beside an attention that is drawn as one box, and behind its name where kinds of layers are told (Gemma 3n)."""
"""Beside a box that reads what another tower made, by so many learned layers that are not drawn (LW-DETR)."""
OF_LONGER = "keys and values of the rows before these became fewer"
"""Beside an attention that is drawn as one box, where queries alone are of fewer rows (Funnel)."""
MADE_BESIDE = "made beside it: {steps}"
"""Beside a sum of rows and a number for each of their channels, which steps outside of the part made (U-Nets)."""
GIVEN_ROWS, BEFORE_NORM = "of another tensor: {shape}", "of the rows before their norm"
BUT_THE_FIRST = "of all rows but the first"
MADE_OF, BY_ATTENTION = "made of {row} of each sequence", "worked out by attention"
"""Beside a box of rows that are worked out of a stream and put beside it (X-CLIP)."""
TABLES, ASKED_BY = "{many:,} tables added up", ", {some:,} of them by {name}"
"""Beside a bias that is the sum of several tables, and by which argument some of these are asked (UDOP)."""
ROWS_SCALED = "rows {factor}"
"""Beside a bias of which the rows that are looked up are multiplied by a number, before they are added (LayoutLMv3)."""
PARTED = "parted by {name}"
"""Beside where sets of experts meet again, whose places an argument tells apart (ERNIE 4.5 VL)."""
OF_SINES = "of sines of places"
"""Beside a bias that is made of these (Transformer-XL)."""
CHOSEN = "{chosen:,} of {experts:,} chosen"
"""Beside the box of linear layers that make queries, of which a router takes some for each place (JetMoe)."""
FIRST_READ, FIRST_READ_TIMES = (f"with what the first layer reads{more}" for more in ("", " × a learned number"))
"""Beside a sum in a layer to which the input of the first one is added (NeoMME)."""
IN_PARTS, IN_OTHER_PARTS = "in {many} parts of {wide:,}", "in parts of {sizes}"
"""Beside a linear layer whose rows are cut right behind it, into parts as wide as each other, or not (LFM2)."""
LOOKED_UP = "with rows looked up in a table of {rows:,}"
"""Beside a sum in a layer to which rows are added that were looked up outside of it (NeoMME)."""
COUNTED_PLACES = "places"
"""What a bias is made of beside arguments, where it is made of what was counted out."""
PIECES = "of {many:,} pieces of {places:,} places"
"""Beside a box of the scores by which keys are chosen, several at once (GLM-5.3)."""
IN_COMMON, OF_THEIR_OWN = "in common", "of their own"
"""Behind what sublayers are called where their parameters are counted, of which they share some (Zamba 2)."""
LONGER = "of {rows:,} rows, before these became fewer"
"""Beside a box of keys or values, where queries alone are pooled (Funnel)."""
BEGUN_WITH = "{rows:,} as before the layers"
"""Stands in a box of rows end to end, of which some were made before the first layer (OneFormer's task)."""
LEFT_BEHIND = "{rows:,} left out behind layer {layer}"
"""Stands in a box of rows end to end, of which a stream went on without some for a while (CrossViT)."""
ADDED_AGAIN = "one of these before each later layer too"
"""Stands in a box of a sum before the first layer, where the same is added to the stream before all others (Cosmos)."""
LED_IN = "of former rows"
"""Stands in a box of rows that are not made of the stream as a branch reads it."""
DROPPED_FIRST = "before: {dropout}"
"""Stands in a box of which what it reads goes through a dropout first (wav2vec 2.0's scores)."""
CHANGED_BEFORE = "of the other row, changed before"
"""Stands in a box of keys or values that the first half of a pair gives, once it has looked at the second."""
IN_A_SEQUENCE = "{count:,} places in a sequence"
"""Stands in a closed box of attention that sees those of one axis of several."""
BOTH_STACKED = "after the other row, by the same weights; then both stacked"
"""Stands in the box of a sum to the second half of a pair."""


def tell_origin(asked: Sequence[str], names: Sequence[str], *, by_query: bool) -> str:
    """What stands beside a box of numbers for two places each, made of tables (UDOP), or of arguments (BROS)."""
    if asked:
        known = sorted({*asked} - {""})
        by = "".join(ASKED_BY.format(some=asked.count(name), name=name) for name in known)
        return f"{TABLES.format(many=len(asked))}{by}"
    if not names:
        return ""
    rows = "queries × rows made of" if by_query else "made of"
    return f"{rows} {' and '.join(names)}"


def tell_beside(many: int, counted: str) -> str:
    """With how many parameters other attentions stand beside one that is drawn as one box."""
    return f"{'another attention' if many == 1 else f'{many} other attentions'} beside it: {counted}"


def describe_box(key: str, part: Part) -> str:
    """What happens in a box, in plain words, as far as the facts of its part prove it."""
    return say_first(REMARKS.get(kind_of(key), ()), part)


def describe_load(counts: Sequence[int]) -> str:
    """How many places chose each expert; empty where that was not recorded."""
    return say_first(OF_LOADS, counts)


def describe_weights_between(told: str, behind: int) -> str:
    """That weights are those of a step between two layers, of which the first has that number, from 1."""
    return f"{told} as between layers {behind} and {behind + 1}"


def describe_weights_of_entrance(told: str) -> str:
    """That weights are those of a step before the first layer, which stands in the chart of an entrance."""
    return f"{told} as the entrance"


def describe_own_beside(told: str, own: int) -> str:
    """That weights are those of another step, and how many a step has beside these; of its own, where it has any."""
    return f"{told}, {own:,} parameters of its own" if own else told


def kind_of(key: str) -> str:
    """The kind of a box by its key: "linear of several" of "linear0_qkv"."""
    kind, _, lanes = key.partition("_")
    return kind.rstrip("0123456789") + (" of several" if len(lanes) > 1 else "")


def of_attention(name: str, text: str, needs: Callable[[Attention], object]) -> Sentence[Part]:
    return fixed(name, text, lambda part: isinstance(part, Attention) and needs(part))


def of_forward(name: str, text: str, needs: Callable[[FeedForward], object]) -> Sentence[Part]:
    return fixed(name, text, lambda part: isinstance(part, FeedForward) and needs(part))


def of_experts(name: str, text: str, needs: Callable[[Experts], object]) -> Sentence[Part]:
    return fixed(name, text, lambda part: isinstance(part, Experts) and needs(part))


def are_weighed(part: Experts) -> bool:
    """Whether it counts how much the chosen experts were wanted: what one alone has, divided by its sum, is 1."""
    return bool(part.chosen) and not (part.chosen == 1 and part.routing is not None and part.routing.divided_by_sum)


def of_sampling(name: str, text: str) -> Sentence[Part]:
    return fixed(name, text, lambda part: isinstance(part, DeformableAttention))


def of_norm(name: str, text: str, needs: Callable[[Norm], object]) -> Sentence[Part]:
    return fixed(name, text, lambda part: isinstance(part, Norm) and needs(part))


def any_attention(part: Attention) -> bool:
    """For what is said of every softmax over queries and keys."""
    return True


def has_heads(part: Attention) -> bool:
    return part.heads is not None and part.heads > 1


def shares_keys(part: Attention) -> bool:
    return part.heads is not None and part.kv_heads is not None and part.heads > part.kv_heads


def shares_one(part: Attention) -> bool:
    """Whether the weights by which values are mixed are those that softmax gives, and no sink takes a share of them."""
    return gives_one(part) and part.mixed_heads in (None, "before")


def gives_one(part: Attention) -> bool:
    """Whether softmax shares out one whole among the keys, and no row is known to see nothing."""
    return part.sinks is False and not part.blind


def is_apart(part: Attention) -> bool:
    """Whether queries, keys and values are known to have a linear layer each."""
    return part.latent is None and part.fused is None


def views_places(part: Attention) -> bool:
    """Whether no rows but those of the places, each by itself, are known to be those of keys, values or queries."""
    others = (part.gathered, part.fewer_keys, part.pooled, part.coarse, part.longer_keys, part.other_rows)
    return not (part.shifted or any(others))


def fuses_apart(part: Attention) -> bool:
    """Whether one linear layer makes several of queries, keys and values, and none makes a waist for them."""
    return part.fused is not None and part.latent is None


def turns_by_places(part: Attention) -> bool:
    """Whether each pair of numbers is turned by its place alone, by one number of it."""
    is_by_one = part.numbers_alike or not part.numbers_unlike
    return bool(part.positions == "rotary" and part.turned_by_learned is None and is_by_one)


def is_split(part: FeedForward) -> bool:
    """Whether gate and up are a linear layer each."""
    return bool(part.gated) and part.fused is False


def is_fused(part: FeedForward) -> bool:
    """Whether one linear layer makes gate and up, which is twice as wide."""
    return bool(part.gated and part.fused)


def norms_over(part: Attention, what: str) -> bool:
    """Whether the norms that are drawn are those of queries and keys, and none of a waist."""
    return part.qk_norm_over == what and part.latent is None


REMARKS: Mapping[str, tuple[Sentence[Part], ...]] = {
    "input": (fixed("stream", "one vector for every place", lambda part: part is None),),
    "add": (fixed("residual sum", "what came in is added back, so nothing is lost", lambda part: part is None),),
    "since": (
        fixed("sums before", "read here too; others have been added to the stream since", lambda part: part is None),
    ),
    "norm": (
        of_norm("adapted norm", "how much, what stands beside the stream says", lambda part: part.adaptive),
        of_norm("RMS norm", "divided by the root mean square", lambda part: part.kind == "rms"),
        of_norm("layer norm", "mean taken off, divided by the deviation", lambda part: part.kind == "layer"),
        of_attention("norm of heads", "each head normalised by itself", lambda part: norms_over(part, "head")),
        of_attention("norm of rows", "normalised over all heads at once", lambda part: norms_over(part, "width")),
    ),
    "gated": (
        fixed(
            "gate from beside",
            "how much goes on, what stands beside the stream says",
            lambda part: isinstance(part, Attention | FeedForward | Experts),
        ),
    ),
    "linear": (
        of_attention(
            "three views",
            "three views of each place: what it looks for, what it offers, what it says",
            lambda part: part.source == "self" and is_apart(part) and views_places(part),
        ),
        of_attention(
            "two sources",
            "what each place looks for; what the other side offers and says",
            lambda part: part.source not in ("self", None) and is_apart(part),
        ),
    ),
    "linear of several": (of_attention("one for several", "one linear layer makes several of them", fuses_apart),),
    "kept of several": (
        of_attention(
            "kept waist",
            "kept of a place in place of keys and values: these are made of it anew",
            lambda part: part.latent is not None and part.latent.kept and part.latent.kept == part.latent.kv,
        ),
        of_attention(
            "kept with others",
            "kept of a place with numbers beside it: keys and values are made of them anew",
            lambda part: part.latent is not None and (part.latent.kept or 0) > (part.latent.kv or inf),
        ),
    ),
    "heads": (
        of_attention(
            "cut into heads",
            "cut into heads; each head looks on its own",
            lambda part: has_heads(part) and part.mixed_heads is None,
        ),
    ),
    "first": (of_attention("heads before places", "all places of a head together", has_heads),),
    "rotate": (
        of_attention(
            "turned by places",
            "turned by their place, so that scores tell how far apart two are",
            turns_by_places,
        ),
        of_attention(
            "turned by places or learned angles",
            "turned by their place, the first by learned angles",
            lambda part: part.positions == "rotary" and part.turned_by_learned is not None,
        ),
        of_attention(
            "times waves",
            "times cosines of their place; others, times sines, are added or subtracted",
            lambda part: part.positions == "waves",
        ),
        of_attention("turned by an angle", "turned by an angle of each head's own", lambda part: part.turned_by_head),
    ),
    "cache": (of_attention("cache", "with those of the places before", any_attention),),
    "kept": (of_attention("written cache", "written where they are kept, and read back", any_attention),),
    "join": (of_attention("joined keys", "those of another stream stand beside them", lambda part: part.beside),),
    "repeat": (of_attention("repeated keys", "each key head is shared by several query heads", shares_keys),),
    "turn": (of_attention("turned keys", "keys laid on their side to meet every query", any_attention),),
    "scores": (of_attention("scores", "how well each query meets each key", any_attention),),
    "mask": (of_attention("mask", "what may not be seen is pushed far down", lambda part: part.blind != "hidden"),),
    "bias": (
        of_attention("bias of kinds", "how far apart two of one kind are counts too", lambda part: part.within_a_kind),
        of_attention(
            "bias of values", "a number made of each key's value", lambda part: part.added_of_values is not None
        ),
        of_attention("bias of some heads", "how far apart two are counts too, in some heads", lambda part: part.sloped),
        of_attention("bias", "how far apart two are counts too", lambda part: part.positions in ("alibi", "relative")),
    ),
    "softmax": (
        of_attention("rows sum to 1", "each row shares out one whole of attention", gives_one),
        of_attention("a sink's share", "what is left of one whole, the sink has taken", lambda part: part.sinks),
    ),
    "shares": (
        of_attention("one whole before a sink", "each row shares out one whole of attention", lambda part: part.sinks),
    ),
    "cap": (of_attention("capped by tanh", "however large it is, no score passes this number", lambda part: part.cap),),
    "sink": (of_attention("with a sink", "with a sink", lambda part: part.sinks),),
    "formula": (of_attention("sum of a row", ": each row sums to 1", shares_one),),
    "formula-of-chosen": (
        of_attention("sum of a chosen row", " of chosen queries alone: each row sums to 1", shares_one),
    ),
    "values": (
        of_attention("weighted sum", "what the values say, mixed by weight", any_attention),
        of_sampling("weighted samples", "what was sampled, mixed by weight"),
    ),
    "counts": (of_sampling("counted samples", "how much what is sampled will count"),),
    "offsets": (of_sampling("offsets", "how far off each point lies"),),
    "points": (of_sampling("points", "where each head looks"),),
    "sampled": (of_sampling("samples", "what the values say at these points"),),
    "concat": (of_attention("joined heads", "the heads side by side again", has_heads),),
    "output": (of_attention("mixed heads", "lets the heads mix", has_heads),),
    "inner": (
        of_attention("inner norm of attention", "normalised before it is led back", lambda part: part.inner_norm),
        of_forward("inner norm of a feed-forward", "normalised before it is led back", lambda part: part.inner_norm),
    ),
    "gate": (
        of_attention("gated heads", "opened or closed by the stream itself", lambda part: part.gate),
        of_forward("two ways", "one way opens and closes what the other one brings", is_split),
    ),
    "multiply": (
        of_forward("gate times up", "what the gate lets through", is_split),
        of_forward("two halves", "one half opens and closes the other", is_fused),
    ),
    "expand": (
        of_forward(
            "each place alone, for two ways",
            "each place alone: out to d_ff twice",
            lambda part: part.d_ff and part.kernel is None and is_fused(part),
        ),
        of_forward(
            "each place alone",
            "each place alone: out to d_ff",
            lambda part: part.d_ff and part.kernel is None and not part.gated,
        ),
    ),
    "contract": (of_forward("back again", "and back to d_model", lambda part: part.d_ff),),
    "router": (of_experts("router", "a score for every expert, at every place", lambda part: part.experts),),
    "choice": (
        of_experts("choice by a table", "named for each word, by a table", lambda part: part.chosen_by == "table"),
        of_experts("choice", "which experts work for each place", lambda part: part.chosen or part.chosen_or_none),
    ),
    "each": (
        of_experts("others hand on", "the others hand rows on as they are", lambda part: part.handing_on),
        of_experts(
            "each expert",
            "every expert is a feed-forward of its own",
            lambda part: part.d_ff and not part.handing_on,
        ),
    ),
    "mixed": (of_experts("mixed experts", "what the chosen experts say, by how much they were wanted", are_weighed),),
    "shared": (of_experts("shared expert", "every place goes through it too", lambda part: part.shared),),
    "state": (
        fixed(
            "state",
            "what earlier turns left, in a shape that does not grow",
            lambda part: isinstance(part, Recurrence) and not part.at_once,
        ),
    ),
}
"""What may be said beside a box of each kind; the first whose fact is proven is said."""
MOST_COUNTS = 12


def spell_load(counts: Sequence[int]) -> str:
    if not counts:
        return ""
    if len(counts) > MOST_COUNTS:
        return f"places that chose an expert: {min(counts):,} to {max(counts):,}"
    return f"places that chose each: {', '.join(f'{count:,}' for count in counts)}"


OF_LOADS: tuple[Sentence[Sequence[int]], ...] = (Sentence("load of experts", spell_load),)
"""What is said above the bars of experts."""
