"""What hangs on a residual stream: the kinds of branches, each with its facts. Every field is proven or None."""

from dataclasses import dataclass
from typing import Literal

from xray.story.anatomy.attentions import Attention, DeformableAttention, Looking, NormKind

Held = tuple[tuple[Literal["least", "most", "plus"], float], ...]
"""What is done to numbers one after the other: held to at least or at most as much as is told, or so much added."""


@dataclass(frozen=True)
class FeedForward:
    """Each place by itself: out to d_ff, bent, and back; `gated` where a second projection is multiplied in.

    `fused` tells that one linear layer makes both factors of a gate. `kernel` is that of a convolution of the wide
    rows on the way, which lets neighbours in (SegFormer), `inner_norm`
    normalises the wide rows before they are led back (BitNet). `gates_beside` is True where they are multiplied by rows
    that are made beside the stream, once for all layers, each of which has its part of them (Gemma 4). `joined` is how
    many rows of the stream it reads side by side, and gives one for (the merger of MiniCPM-V 4.7's eye). `threshold` is
    True where of the gate's numbers those alone go on that are above one that follows from the mean and the spread of
    their row (Gemma 3n). `held_gate` and `held_up` say what is done to the two factors of a gate before they meet, be
    it that they are held between bounds (gpt-oss), `held_bent` what is done to the one when it is bent (Step 3.7).
    `best_again` is True where layers on all rows stand beside others on those rows alone that score best (CoLT5):
    then no one d_ff is that of all.
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
    best_again: bool | None = None
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

    `d_ff` is how wide each expert is, `shared_d_ff` how wide a shared one, `routing` how scores become weights.
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

    `heads` are those that read and change it; None where these are not known.
    `by_pieces` tells that the rows were cut into pieces of several places, and that each piece changed it but once.
    `kernel` is that of a convolution beside it, which lets neighbours in (Mamba); None where there is none. `filled`
    is to how many pieces of how many rows what comes in is made longer by rows of 0; None where this is not proven.
    `one_piece` tells that all rows lay in one piece here. `at_once` tells that there is a state for each place, and all
    lie in one tensor, of which parts are changed by other parts: no place hands one on (a scan in place, mambapy).
    """

    kind: Literal["state space", "linear attention", "gated"] | None
    state: tuple[int, ...] | None
    part: str = "recurrence"
    by_pieces: bool = False
    heads: StateHeads | None = None
    kernel: tuple[int, ...] | None = None
    filled: tuple[int, int] | None = None
    one_piece: bool | None = None
    at_once: bool = False


@dataclass(frozen=True)
class Convolution:
    """Neighbouring places mixed by learned weights; `causal` where each with itself and those before it alone.

    `adds_mean` where the mean of all places is added to each as well, as much of it as the place wants (FocalNet), and
    `is_wide` where it reaches over as many places as there are, or over others than those near it.
    """

    kernel: tuple[int, ...] | None
    groups: int | None
    part: str = "convolution"
    causal: bool | None = None
    adds_mean: bool | None = None
    is_wide: bool | None = None


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
    """A branch that nothing is known of but where it runs, and whether it `multiplies` rows by rows (as attention)."""

    paths: tuple[str, ...]
    multiplies: bool = False
    part: str = "unknown"


@dataclass(frozen=True)
class LinearAttention(Unknown):
    """Keys are multiplied by values over all places, and queries by what comes of it (Katharopoulos et al. 2020).

    It is drawn by its operations. Its `heads`, and `d_k`, the width of each, are told where all of them together are as
    wide as the layers before them.
    """

    heads: int | None = None
    d_k: int | None = None


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
