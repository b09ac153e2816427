"""What hangs on a residual stream: the kinds of branches, each with its facts. Every field is proven or None."""

from dataclasses import dataclass
from typing import Literal

NormKind = Literal["rms", "layer", "batch", "group", "instance"]
"""Over what a norm takes its measure: of "rms" no mean is taken away."""
Positions = Literal["rotary", "waves", "alibi", "relative", "added", "none"]
"""How an attention knows where its places are, beside what the entrance adds: "added" to queries and keys by itself."""
ANOTHER_ROW = "another row of the batch"
FORMER_ROWS = "former rows of the stream"
"""Those that it had before rows of another kind were made of it, which look at them (GroupViT)."""
"""What an attention looks at whose keys come from its own stream, but from the other half of a pair."""


Held = tuple[tuple[Literal["least", "most", "plus"], float], ...]
"""What is done to numbers one after the other: held to at least or at most as much as is told, or so much added."""


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

    `source` is "self", `ANOTHER_ROW`, `FORMER_ROWS` or the name of the tower that is looked at, `beside` that of one
    whose keys and values stand beside those of the stream itself (joint attention). `window` is how many places each
    query sees at most, `kernel` the name of the fused operation that computed it, "plain" where every product was a
    step of its own. `fused_by` says that what makes all three has them in turn for each "head", or "group" of heads.
    `cap` is the number that scores cannot pass (c·tanh(score / c)), `inner_norm` normalises what the heads found before
    the last linear layer. `qk_norm_over` says what `qk_norm` normalises: each "head" by itself, d_k numbers, or the
    "width" of all heads of a row at once, `qk_norm_kind` by which norm. `rolled` says, where places are cut into
    windows, whether they are rolled before (Swin), `pooled` how many places become one query, where they do (Hiera),
    `gathered` how many become one key and value (SegFormer), `coarse` how many become one row that asks and whose
    answer is spread over them again (EfficientLoFTR). `pieces` says into how many parts a packed row is cut that attend
    each by itself, `foreign_queries` is True where queries are made beside the stream, and keys and values of it (GC
    ViT), `partial` where some places do not see some others, in no way that has a name: a mask hides them, the places
    of one image became several sequences (MobileViT), or the queries that scored best alone ask (Informer).
    `other_rows` is True where beside the key of each place stand keys that the stream makes too, but not one for each
    (DeepSeek-V4). `sliding_window` is the setting of its block by this name where this pass cannot show what it does:
    it has fewer places than that, and no mask is recorded that cuts a window. `earlier_keys` is True where keys and
    values are those that an earlier layer made for itself (Gemma 3n), `longer_keys` where they are of rows that the
    stream had before these became fewer (Funnel), `chosen_keys` where a mask shows those keys alone
    that have the highest of other scores (the indexer of DeepSeek-V3.2), for which a cache keeps `chosen_kept` numbers
    of each place, `chosen_earlier` where an earlier layer chose them (Hunyuan 4), `chosen_together` how many places one
    such score is of, where it is of several, `chosen_most` how many keys a place chooses at most, `all_chosen` where no
    row of this pass has more, and `none_chosen` where the rows of this pass are too few for any (GLM-5.3),
    `listed` how many keys a list names for each place at most that a mask shows alone (Qwen4). `turned` is how many
    numbers of a head are turned by its place, where not all are (GPT-NeoX), `query_experts` among how many experts a
    router chooses the `query_chosen` that make the queries of a place (JetMoe). `turned_by_head` is True where queries
    and keys are turned by an angle of each head, the same at every place (NeuCodec). `place_numbers` is how many
    numbers tell each place where they are several, each of which turns its own part of a head: rows and columns, or
    time too (Qwen2-VL). Where these are all one place, counted through and repeated, `numbers_alike` is True: no image
    came in.
    `within_a_kind` is True where a number for how far apart two places are is added to their score if both are of one
    kind, and else one for their two kinds, whatever lies between them (the segments of CPM-Ant).
    `beginning` is the tower whose stream begins with what keys and values are made of, where these are no end of one
    (SAM's image, before its first layer): the `source` is then whose end that was made of. `places_by_rows` is True
    where what is added to scores for "relative" places depends on what queries or keys hold, too (Transformer-XL).
    `each_side` is how many places of a window lie on each side of the one that looks, where that is followed weight by
    weight (Longformer). `kept_last` is of how many places a cache keeps keys, the last ones, where this pass shows no
    window: its rows may be shorter, `chunk_size` of how many places a piece is, by a setting that goes with that: a
    place looks at none before its own piece (Llama 4). `beside_unturned` is True where keys of the stream `beside` are
    not turned by their place, and the own ones are (T5Gemma 2). `convolved` is over how many places a convolution mixes
    values, whose result is added to what the heads found of them (Nyströmformer), `mixed_before` how many places before
    their own convolutions mix into queries and keys, `mixed_back` which rows, by name, others mix with those just
    before them (Inkling), `values_before` the parts of values, of how many, that are made of the place before (ZAYA).
    `rotary_base` is the base of the angles by which "rotary" places turn, where the constants show one: base^(-2i/d)
    for the pair i of d numbers. `rotary_slowed` is how many times slower than that the slowest of them turn, where the
    fastest turn as it says (YaRN, Llama 3.1), `rotary_all_slowed` how many times slower all do (Gemma 3). `turn_length`
    is how many times as long "rotary" places make what they turn, where it is not once: a number multiplies all cosines
    and sines (YaRN, GPT-OSS).
    `turned_pairs` says which two numbers are turned together: "neighbours", or one from each of two "halves".
    Where their angles are laid out otherwise, no pair is turned: `positions` are "waves" then (V-JEPA 2).
    `queries_by_place` tells that a number worked out of each place alone multiplies queries, one for each "place" or
    for each "head" too (Llama 4). `v_norm` is True where values are normalised behind their last linear layer too
    (Gemma 4), `values_turned` that "rotary" places turn values too (CLVP, DeepSeek-V4).
    `gate_curve` is the activation by which the numbers of a `gate` are bent before what the heads found is multiplied.
    `cut_by` is by which of several tables `pieces` end, the first is 1, where attentions of one tower read several that
    say the same in this pass (Muse Glimmer's windows, which are as large as an image).
    `together` is how many places look at each other where those of one input became several sequences (VideoPrism).
    """

    kv_heads: int | None
    d_k: int | None
    d_v: int | None
    window: int | None = None
    positions: Positions | None = None
    qk_norm: bool | None = None
    qk_norm_over: Literal["head", "width"] | None = None
    qk_norm_kind: NormKind | None = None
    latent: Latent | None = None
    sinks: bool | None = None
    gate: bool | None = None
    gate_curve: str | None = None
    fused: Literal["qkv", "kv"] | None = None
    fused_by: Literal["head", "group"] | None = None
    kernel: str | None = None
    causal: bool | None = None
    beside: str | None = None
    cap: float | None = None
    inner_norm: NormKind | None = None
    rolled: bool | None = None
    pooled: int | None = None
    gathered: int | None = None
    other_rows: bool | None = None
    pieces: int | None = None
    partial: bool | None = None
    coarse: int | None = None
    foreign_queries: bool | None = None
    sliding_window: int | None = None
    earlier_keys: bool | None = None
    longer_keys: bool | None = None
    chosen_keys: bool | None = None
    chosen_earlier: bool | None = None
    chosen_kept: int | None = None
    chosen_together: int | None = None
    chosen_most: int | None = None
    all_chosen: bool | None = None
    none_chosen: bool | None = None
    listed: int | None = None
    query_experts: int | None = None
    query_chosen: int | None = None
    turned: int | None = None
    turned_by_head: bool | None = None
    place_numbers: int | None = None
    numbers_alike: bool | None = None
    within_a_kind: bool | None = None
    beginning: str | None = None
    places_by_rows: bool | None = None
    each_side: int | None = None
    kept_last: int | None = None
    chunk_size: int | None = None
    cut_by: int | None = None
    unscaled: bool | None = None
    beside_unturned: bool | None = None
    convolved: int | None = None
    mixed_before: int | None = None
    mixed_back: tuple[str, ...] = ()
    values_before: tuple[int, int] | None = None
    rotary_base: float | None = None
    rotary_slowed: float | None = None
    rotary_all_slowed: float | None = None
    turn_length: float | None = None
    turned_pairs: Literal["neighbours", "halves"] | None = None
    queries_by_place: Literal["place", "head"] | None = None
    v_norm: bool | None = None
    values_turned: bool | None = None
    together: int | None = None
    part: str = "attention"


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


@dataclass(frozen=True)
class FeedForward:
    """Each place by itself: out to d_ff, bent, and back; `gated` where a second projection is multiplied in.

    `kernel` is that of a convolution of the wide rows on the way, which lets neighbours in (SegFormer), `inner_norm`
    normalises the wide rows before they are led back (BitNet). `gates_beside` is True where they are multiplied by rows
    that are made beside the stream, once for all layers, each of which has its part of them (Gemma 4). `joined` is how
    many rows of the stream it reads side by side, and gives one for (the merger of MiniCPM-V 4.7's eye). `threshold` is
    True where of the gate's numbers those alone go on that are above one that follows from the mean and the spread of
    their row (Gemma 3n). `held_gate` and `held_up` say what is done to the two factors of a gate before they meet, be
    it that they are held between bounds (gpt-oss), `held_bent` what is done to the one when it is bent (Step 3.7).
    """

    d_ff: int | None
    activation: str | None
    gated: bool | None
    fused: bool | None = None
    kernel: tuple[int, ...] | None = None
    inner_norm: NormKind | None = None
    gates_beside: bool | None = None
    joined: int | None = None
    threshold: bool | None = None
    held_gate: Held = ()
    held_bent: Held = ()
    held_up: Held = ()
    part: str = "feed_forward"


@dataclass(frozen=True)
class Routing:
    """How a router's scores become weights of experts.

    `bend` says what bends the scores ("softmax", "sigmoid", "sqrt of softplus", "none"), `over` whether a softmax is
    over those of "all" experts or of the "chosen" ones. What the chosen have may be divided by its sum and multiplied
    by a `factor`; `scaled` is what multiplies the scores before they are bent. `groups`: chosen is within so many of so
    many. `biased`: a number for each expert is added to the scores for the choice alone (DeepSeek-V3, section 2.1.2).
    `with_shared` is how many scores of experts for all places are divided by that sum too and weigh these, `learned`
    that a learned number multiplies all weights (Inkling). `within` tells that one is chosen after the other, each by a
    softmax over the scores left that lie no further below the best than this part of the larger of both (Phi-3.5-MoE).
    `enters` tells that what goes into an expert is multiplied, in place of what it gives (Llama 4).
    """

    bend: str | None
    over: Literal["all", "chosen"] | None
    divided_by_sum: bool | None
    factor: float | None
    groups: tuple[int, int] | None
    biased: bool | None
    scaled: float | None = None
    with_shared: int | None = None
    learned: bool = False
    within: float | None = None
    enters: bool = False


@dataclass(frozen=True)
class Experts:
    """Many feed-forwards of which some are chosen for each place; `shared` ones see every place, and may be wider.

    `chosen_by` says what chooses: the scores of a "router", or a "table" with the experts of each word, be it that a
    router weighs them (hash layers, Roller et al. 2021). `others` is another set of experts with a router of its own,
    for the places that do not go through these (ERNIE 4.5 VL). `neighbours` says that what they give is mixed with that
    of neighbouring places behind them (Inkling), `looks_back` that these stand before it alone. `handing_on` is how
    many are no feed-forward: they hand on the rows that chose them as they are (the zero experts of LongCat).
    `capacity` is how many places of each sequence an expert takes at most: those that chose it behind these go through
    none (Switch Transformers, Fedus et al. 2021). `chosen_or_none` is how many are chosen where one score more is for
    none of them, `earlier_router` tells that a router adds what the one before it worked out of its rows (ZAYA).
    `held_gate`, `held_bent` and `held_up` are as those of one feed-forward. `on_all` tells that each expert works on
    all places, be it chosen or not (Llama 4).
    """

    experts: int | None
    chosen: int | None
    shared: int | None
    d_ff: int | None
    activation: str | None
    gated: bool | None
    chosen_by: Literal["router", "table"] | None = None
    routing: Routing | None = None
    others: "Experts | None" = None
    neighbours: bool = False
    looks_back: bool = False
    handing_on: int | None = None
    capacity: int | None = None
    shared_d_ff: int | None = None
    chosen_or_none: int | None = None
    earlier_router: bool = False
    held_gate: Held = ()
    held_bent: Held = ()
    held_up: Held = ()
    on_all: bool = False
    part: str = "experts"

    @property
    def sets(self) -> "tuple[Experts, ...]":
        """All sets of experts, this one first."""
        return (self, *(() if self.others is None else self.others.sets))


@dataclass(frozen=True)
class StateHeads:
    """Of what heads queries, keys and values are that read and change a state, a matrix for each head of values.

    `by_length` tells that each query and each key is divided by its length, `corrects` that what the state gives for a
    key is taken off its value before the rest is written (the delta rule, Schlag et al. 2021), `in_order` that each row
    of a piece is worked out of those before it, `fades` that what was there is first multiplied by exp of numbers that
    are worked out of the rows (gated, Yang et al. 2024), `fades_alike` that it is multiplied by one number for each
    head, which no row changes (lightning attention, Qin et al. 2024). `writes` is what bends the number for each head
    by which what each row writes is multiplied; None where this is not proven. `by_keys` tells that what is read is
    divided by the size of what queries read of a second state, of keys alone (mLSTM, Beck et al. 2024).
    """

    key_heads: int
    value_heads: int
    d_k: int
    d_v: int
    by_length: bool = False
    corrects: bool = False
    in_order: bool = False
    fades: bool = False
    fades_alike: bool = False
    writes: Literal["sigmoid", "exp"] | None = None
    by_keys: bool = False


@dataclass(frozen=True)
class Recurrence:
    """A state that each place changes and hands on; its shape does not grow with the length.

    `by_pieces` tells that the rows were cut into pieces of several places, and that each piece changed it but once.
    `kernel` is that of a convolution beside it, which lets neighbours in (Mamba); None where there is none. `filled`
    is to how many pieces of how many rows what comes in is made longer by rows of 0; None where this is not proven.
    """

    kind: Literal["state space", "linear attention", "gated"] | None
    state: tuple[int, ...] | None
    part: str = "recurrence"
    by_pieces: bool = False
    heads: StateHeads | None = None
    kernel: tuple[int, ...] | None = None
    filled: tuple[int, int] | None = None


@dataclass(frozen=True)
class Convolution:
    """Neighbouring places mixed by learned weights; `causal` where each with itself and those before it alone."""

    kernel: tuple[int, ...] | None
    groups: int | None
    part: str = "convolution"
    causal: bool | None = None


@dataclass(frozen=True)
class Projection:
    """Linear layers that nothing bends, one or some side by side, as where rows become narrower for a while.

    `d_out` is how wide the rows are that they make, `layers` how many of them there are.
    """

    d_out: int | None
    layers: int = 1
    part: str = "projection"


@dataclass(frozen=True)
class StreamMixing:
    """So many streams side by side mixed by a matrix that is worked out of them (AltUp, Baykal et al. 2023).

    It is worked out `of_one` of them alone where that is proven.
    """

    streams: int
    of_one: bool = False
    part: str = "stream_mixing"


@dataclass(frozen=True)
class Context:
    """Places summed up, each by its weight; what comes out multiplies each of them (MobileViTV2's attention).

    So many `places` are one sum. Its cost grows with the length alone, as there are no scores of pairs. They are not
    `weighed` where each weight is the softmax of one number alone, and so 1 (SwiftFormer). So many `sums` there are
    where places stand in several sets, and each set is summed up apart.
    """

    places: int | None
    weighed: bool = True
    sums: int | None = None
    part: str = "context"


@dataclass(frozen=True)
class ChannelAttention:
    """Channels that look at each other, by what they are at all places (Florence-2; XCiT).

    So many `groups` of so many `channels` each; the scores of a group are as many however long the rows are.
    """

    groups: int
    channels: int
    part: str = "channel_attention"


@dataclass(frozen=True)
class PlaceMixing:
    """Places mixed by learned weights, the same for each channel (MLP-Mixer, Tolstikhin et al. 2021).

    So many `places` go out to `wide` numbers and back, bent in between where an activation is known.
    """

    places: int
    wide: int | None
    activation: str | None
    part: str = "place_mixing"


@dataclass(frozen=True)
class FourierMixing:
    """Places mixed by a Fourier transform whose real part goes on, nothing learned (FNet, Lee-Thorp et al. 2021).

    So many `places` are mixed with each other; where it goes along their `features` too, so are the numbers of each.
    """

    places: int
    features: bool
    part: str = "fourier_mixing"


@dataclass(frozen=True)
class PoolMixing:
    """Each place becomes the mean or the maximum of those around it, nothing learned (PoolFormer, Yu et al. 2021).

    It stands in the middle of so many along each axis, the `kernel`. Where `less_itself`, what it held is taken off.
    """

    kernel: tuple[int, ...]
    of: Literal["mean", "maximum"]
    less_itself: bool = False
    part: str = "pool_mixing"


@dataclass(frozen=True)
class CurvedAttention(Looking):
    """Values weighed by products of queries and keys that a curve bends, with no softmax (YOSO, Zeng et al. 2021).

    `curve` is what is done to each score, step by step, each with its number: ("acos", None), ("div", 3.14159) … Where
    it `is_masked`, weights are multiplied by what says which places count.
    """

    d_k: int | None
    curve: tuple[tuple[str, float | None], ...]
    is_masked: bool = False
    part: str = "curved_attention"


@dataclass(frozen=True)
class Unknown:
    """A branch that nothing is known of but where it runs."""

    paths: tuple[str, ...]
    part: str = "unknown"


Branch = (
    Attention
    | DeformableAttention
    | FeedForward
    | Experts
    | Recurrence
    | Convolution
    | Projection
    | StreamMixing
    | Context
    | ChannelAttention
    | PlaceMixing
    | FourierMixing
    | PoolMixing
    | CurvedAttention
    | Unknown
)
