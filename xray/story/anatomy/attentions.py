"""What looks at other places: the kinds of attention, each with its facts. Every field is proven or None."""

from dataclasses import dataclass
from typing import Literal

NormKind = Literal["rms", "layer", "batch", "group", "instance"]
"""Over what a norm takes its measure: of "rms" no mean is taken away."""
Positions = Literal["rotary", "waves", "alibi", "relative", "added", "none"]
"""How an attention knows where its places are, beside what the entrance adds: "added" to queries and keys by itself."""
Blind = Literal["nothing", "hidden"]
"""A row that may see nothing sees none where a kernel makes its weights 0; a softmax makes one whole of what is hidden.

So it looks at "hidden" keys, those ahead included, where finite numbers hide; by -inf the softmax has no answer.
"""
ANOTHER_ROW = "another row of the batch"
"""What an attention looks at whose keys come from its own stream, but from the other half of a pair."""
FORMER_ROWS = "former rows of the stream"
"""Those that it had before rows of another kind were made of it, which look at them (GroupViT)."""


@dataclass(frozen=True)
class Latent:
    """The widths of the narrow waists through which queries, and keys with values, are made; None where none is.

    `kept` is how many numbers of each place a cache keeps, where it is the waist that it keeps; None where that is not
    proven.
    """

    q: int | None
    kv: int | None
    kept: int | None = None


@dataclass(frozen=True)
class Looking:
    """What looks at other places, with so many heads: at those of its own stream, or at another tower's."""

    source: str | None
    heads: int | None

    @property
    def leaves_stream(self) -> bool:
        """Whether what is looked at comes from beside the stream: from another tower, or from nobody knows where."""
        return self.source not in ("self", ANOTHER_ROW, FORMER_ROWS)


@dataclass(frozen=True)
class Attention(Looking):
    """Softmax over products of queries and keys (Vaswani et al. 2017, section 3.2).

    `source` is "self", `ANOTHER_ROW`, `FORMER_ROWS` or the name of the tower that is looked at. Queries have `heads`,
    keys and values `kv_heads`; `d_k` is how wide a query and a key of one head is, `d_v` a value. `part` is the kind of
    branch.
    """

    kv_heads: int | None
    d_k: int | None
    d_v: int | None
    window: int | None = None
    """How many places each query sees at most."""
    all_places: int | None = None
    """How many there are, where each sees all, and other attentions of the tower no fewer in a window (MaxViT)."""
    positions: Positions | None = None
    """How it knows where its places are, beside what the entrance adds.

    By turning queries and keys ("rotary"), multiplying them by "waves", or adding to them ("added"); by adding to
    scores a slope of each head times the distance ("alibi"), or other numbers of two places ("relative"); "none" where
    nothing does.
    """
    qk_norm: bool | None = None
    """Whether queries and keys are normalised."""
    qk_norm_over: Literal["head", "width"] | None = None
    """What that normalises: each head by itself, d_k numbers, or the width of all heads of a row at once."""
    qk_norm_kind: NormKind | None = None
    """Over what that takes its measure: "rms", "layer" and so on."""
    latent: Latent | None = None
    """The narrow waists through which queries, keys and values are made."""
    sinks: bool | None = None
    """Whether a learned score stands beside the keys and takes a share of the weights (gpt-oss)."""
    gate: bool | None = None
    """Whether what the heads found is multiplied by numbers that are made of the rows."""
    gate_curve: str | None = None
    """The activation by which those numbers are bent before."""
    fused: Literal["qkv", "kv"] | None = None
    """What one linear layer makes together: all three, or keys and values."""
    fused_by: Literal["head", "group"] | None = None
    """That what makes all three has them in turn for each head, or group of heads."""
    kernel: str | None = None
    """The fused operation that computed it; "plain" where every product was a step of its own."""
    causal: bool | None = None
    """Whether no place sees a later one."""
    beside: str | None = None
    """The tower whose keys and values stand beside those of the stream itself (joint attention)."""
    cap: float | None = None
    """The number that scores cannot pass: c·tanh(score / c)."""
    inner_norm: NormKind | None = None
    """What normalises what the heads found, before the last linear layer."""
    rolled: bool | None = None
    """Whether places that are cut into windows are rolled before (Swin)."""
    spread: bool | None = None
    """Whether the places of a window lie spread over all, and none beside another one (MaxViT)."""
    kept_apart: float | None = None
    """By how much masks lower the scores of places that the roll alone brought into one window."""
    pooled: int | None = None
    """How many places become one query (Hiera)."""
    gathered: int | None = None
    """For how many places there is one key and value (SegFormer)."""
    ungathered: int | None = None
    """How many rows beside those places have a key and a value of their own all the same (CvT's class token)."""
    fewer_keys: int | None = None
    """How many keys there are, each made of several places, where these are mixed into fewer (Twins)."""
    other_rows: bool | None = None
    """That beside the key of each place stand keys that the stream makes too, but not one for each (DeepSeek-V4)."""
    pieces: int | None = None
    """Into how many parts a packed row is cut that attend each by itself."""
    partial: bool | None = None
    """That some places do not see some others, in no way that has a name.

    A mask hides them or may do so, be they padding, the places of one image became several sequences (MobileViT), there
    are fewer keys than places that ask, or the queries that scored best alone ask (Informer).
    """
    hides: bool | None = None
    """That what joins its scores hides some places, or may do so, where it is not known that no more than time does."""
    blind: Blind | None = None
    """What rows look at that may see nothing, where there are such."""
    coarse: int | None = None
    """How many places become one row that asks, whose answer is spread over them again (EfficientLoFTR)."""
    with_others: tuple[str, ...] = ()
    """Further towers than its source that give what keys and values are made of."""
    keys_alone: bool | None = None
    """That keys are made of what another tower gives, and values of something else (OneFormer)."""
    of_others_too: bool | None = None
    """That keys or values come from beside the stream, and are not proven to be of its source and no other rows."""
    foreign_queries: bool | None = None
    """That queries are made beside the stream, and keys and values of it (GC ViT)."""
    sliding_window: int | None = None
    """The setting of its block by this name, where this pass cannot show what it does.

    It has fewer places than that, and no mask is recorded that cuts a window.
    """
    earlier_keys: bool | None = None
    """That keys and values are those that an earlier layer made for itself (Gemma 3n)."""
    earlier_scores: Literal["before", "earlier"] | None = None
    """That scores of the attention "before" it are added to its own (RealFormer), or of an "earlier" one."""
    longer_keys: bool | None = None
    """That keys and values are of rows that the stream had before these became fewer (Funnel)."""
    one_looks: bool | None = None
    """That one row of the stream alone asks, and sees all of it (VOLO's class)."""
    chosen_keys: bool | None = None
    """That a mask shows those keys alone that have the highest of other scores (the indexer of DeepSeek-V3.2)."""
    chosen_earlier: bool | None = None
    """That an earlier layer chose them (Hunyuan 4)."""
    chosen_kept: int | None = None
    """How many numbers of each place a cache keeps for that choice."""
    chosen_together: int | None = None
    """How many places one such score is of, where it is of several."""
    chosen_most: int | None = None
    """How many keys a place chooses at most."""
    all_chosen: bool | None = None
    """That no row of this pass has more."""
    none_chosen: bool | None = None
    """That the rows of this pass are too few for any (GLM-5.3)."""
    listed: int | None = None
    """How many keys a list names for each place at most that a mask shows alone (Qwen4)."""
    kept_scores: int | None = None
    """How many of its scores each row keeps, the highest, where lower ones are hidden before softmax."""
    mixed_heads: Literal["before", "behind", "both"] | None = None
    """Where a learned table mixes what all heads have at one pair of places: scores before softmax, weights behind it.

    These are "talking heads" (Shazeer et al. 2020, section 2).
    """
    mixed_norm: NormKind | None = None
    """What normalises the weights behind that: over all heads, or each by itself where it is "batch" (DeepViT)."""
    query_experts: int | None = None
    """Among how many experts a router chooses those that make the queries of a place (JetMoe)."""
    query_chosen: int | None = None
    """How many it chooses."""
    sloped: int | None = None
    """How many heads have a slope of "alibi" places, where the others have none."""
    turned: int | None = None
    """How many numbers of a head are turned by its place, where not all are (GPT-NeoX)."""
    turned_of: int | None = None
    """How wide rows are in which so many are turned, where all heads still lie side by side in them (CosyVoice 3)."""
    turned_by_head: bool | None = None
    """That queries and keys are turned by an angle of each head, the same at every place (NeuCodec)."""
    place_numbers: int | None = None
    """How many numbers tell each place, each of which turns its own part of a head.

    They are its row and column, or its time too (Qwen2-VL); None where it is one number.
    """
    numbers_alike: bool | None = None
    """That these are all one place, counted through and repeated: no image came in."""
    numbers_unlike: bool | None = None
    """That the two numbers of each pair go by unlike ones of these: only where both say the same it is turned."""
    within_a_kind: bool | None = None
    """That how far apart two places are counts where both are of one kind, and else their kinds alone.

    A number for the one or for the other is added to their score (the segments of CPM-Ant).
    """
    beginning: str | None = None
    """The tower whose stream begins with what keys and values are made of, where these are no end of one.

    The `source` is then whose end that was made of (SAM's image, before its first layer).
    """
    places_by_rows: bool | None = None
    """That what "relative" places add to scores depends on what queries or keys hold, too (Transformer-XL)."""
    places_of: str | None = None
    """The argument that alone tells how far apart two "relative" places are, as boxes on a page do (BROS)."""
    each_side: int | None = None
    """How many places of a window lie on each side of the one that looks, followed weight by weight (Longformer)."""
    kept_last: int | None = None
    """Of how many places, the last ones, a cache keeps keys, where no window shows: rows here may be shorter."""
    chunk_size: int | None = None
    """Of how many places a piece is, by a setting: a place looks at none before its own piece (Llama 4)."""
    added_of_values: tuple[str, ...] | None = None
    """What makes of each value a number for each head that is added to the scores of its key, step by step (Doge)."""
    unscaled: bool | None = None
    """That scores are not divided by √d_k."""
    beside_unturned: bool | None = None
    """That keys of the stream `beside` are not turned by their place, and the own ones are (T5Gemma 2)."""
    convolved: int | None = None
    """Over how many places a convolution mixes values, to be added to what the heads found of them (Nyströmformer)."""
    mixed_anew: int | None = None
    """Over how many places rows are mixed beside the heads, by weights that are made of each place (ConvBERT)."""
    mixed_before: int | None = None
    """How many places before their own convolutions mix into queries and keys."""
    mixed_back: tuple[str, ...] = ()
    """Which rows, by name, convolutions mix with those just before them (Inkling)."""
    shifted: tuple[int, int] | None = None
    """How many numbers, of how many, of each row that all three are made of are those of the place before."""
    values_before: tuple[int, int] | None = None
    """The parts of values, of how many, that are made of the place before (ZAYA)."""
    rotary_base: float | None = None
    """The base of the angles by which "rotary" places turn, where the constants show one.

    It is base^(-2i/d) for the pair i of d numbers (RoFormer, Su et al. 2021, section 3.2.2).
    """
    rotary_slowed: float | None = None
    """How many times slower than that the slowest of them turn, where the fastest do as it says (YaRN, Llama 3.1)."""
    rotary_all_slowed: float | None = None
    """How many times slower than that all of them turn (Gemma 3)."""
    turn_length: float | None = None
    """How many times as long "rotary" places make what they turn, where it is not once.

    A number multiplies all cosines and sines (YaRN, GPT-OSS).
    """
    turned_pairs: Literal["neighbours", "halves"] | None = None
    """Which two numbers are turned together: neighbours, or one from each of two halves.

    Where their angles are laid out otherwise, no pair is turned: `positions` are "waves" then (V-JEPA 2).
    """
    queries_by_place: Literal["place", "head"] | None = None
    """That a number worked out of each place alone multiplies queries, one for each head too (Llama 4)."""
    v_norm: bool | None = None
    """That values are normalised behind their last linear layer too (Gemma 4)."""
    values_turned: bool | None = None
    """That "rotary" places turn values too (CLVP, DeepSeek-V4)."""
    turned_by_learned: tuple[int, int | None] | None = None
    """How many rows, the first, learned angles turn in place of their place, and how many angles (MLCD's class)."""
    taken_off: Literal["known", "learned", "exps"] | None = None
    """That half of what the heads found is taken off the other, times one number: known, or made of learned ones.

    Of these "exps" are two numbers e^x, one less the other, and a known number (DiffLlama).
    """
    together: int | None = None
    """How many places look at each other where those of one input became several sequences (VideoPrism)."""
    part: str = "attention"

    @property
    def is_of_unknown(self) -> bool:
        """Whether it is not proven which towers give all that keys and values are made of."""
        return bool(self.of_others_too and not self.beginning)


@dataclass(frozen=True)
class DeformableAttention(Looking):
    """Values sampled at points of maps, weighed and summed up (Deformable DETR, Zhu et al. 2020, section 4.1).

    Points lie around a place by offsets that a linear layer makes of the query, so are the weights; there are no keys.
    `levels` is how many maps are sampled, `points` at how many points each head samples each of them; None where that
    differs from map to map.
    """

    d_v: int | None
    levels: int | None
    points: int | None
    part: str = "deformable_attention"
