"""What a model is built with, and what it is trained with; each setting checked before anything is built."""

import sys
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from math import isqrt
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from xray.errors import ConfigError

MOST = (1 << 31) - 1
"""No size, count or seed is larger than this."""

MOST_PLACES = 1 << 20
"""No sequence is longer than this."""

MOST_LAYERS = 1000
"""No stack is higher than this."""

Share = Annotated[float, Meta(ge=0, lt=1, description="a number of at least 0 and below 1")]
Amount = Annotated[float, Meta(ge=0, le=sys.float_info.max, description="a finite number, 0 or more")]
Rate = Annotated[float, Meta(gt=0, le=sys.float_info.max, description="finite and above 0, such as 0.001")]


def whole(lowest: int, highest: int) -> Meta:
    """The bounds of a whole number, and what is said of them."""
    return Meta(ge=lowest, le=highest, description=f"a whole number from {lowest:,} to {highest:,}")


Count = Annotated[int, whole(0, MOST)]
Size = Annotated[int, whole(1, MOST)]
Seed = Annotated[int, whole(-MOST, MOST)]
Places = Annotated[int, whole(1, MOST_PLACES)]
Layers = Annotated[int, whole(1, MOST_LAYERS)]

CHOICES = 12
"""The most numbers that a message offers."""

SHOWN = 60
"""The most characters of a value that a message shows."""

UNK, PAD, SOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = ("<unk>", "<pad>", "<sos>", "<eos>")
"""The special tokens of both vocabularies; each one's id is its place in this tuple."""

Vocabulary = Annotated[int, whole(len(SPECIAL_TOKENS) + 1, MOST)]
"""The special tokens, and room for a word."""

NormPlace = Literal["after", "before"]
CrossMask = Literal["padding", "none"]
Sharing = Literal["none", "decoder", "all"]
MaskValue = Literal["finite", "-inf"]
Optimiser = Literal["adam", "adamw"]
Schedule = Literal["plateau", "cosine", "inverse-sqrt", "constant"]
BestBy = Literal["loss", "answers"]
Precision = Literal["float32", "bfloat16", "auto"]
TokeniserKind = Literal["word", "bpe", "unigram"]


@dataclass(frozen=True)
class Settings:
    """Settings that hold themselves to their annotations, wherever they come from: a command, a program or a file."""

    def __post_init__(self) -> None:
        for name, kind in kinds_of(type(self)).items():
            check_value(name, getattr(self, name), kind)

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What `to_dict` gave.

        Raises:
            ConfigError: a setting is unknown, missing, of the wrong type or out of range.
        """
        known = kinds_of(cls)
        unknown = sorted(set(values) - set(known), key=str)
        if unknown:
            raise ConfigError(f"unknown setting {show_value(unknown[0])}. Known settings: {', '.join(sorted(known))}.")
        missing = [one.name for one in fields(cls) if one.default is MISSING and one.name not in values]
        if missing:
            raise ConfigError(f"the setting {missing[0]} is missing, and it has no default.")
        return cls(**values)


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The sizes of an encoder-decoder transformer, and its choices where the texts differ.

    `norm` puts layer normalisation after the residual sum (the paper, section 3.1) or before the sublayer, with a last
    norm at the end. `cross_mask` hides the question's padding from cross-attention, or nothing. `sharing` ties no
    weights, the decoder's embedding with the output layer, or those two and the encoder's embedding (the paper,
    section 3.4; needs one vocabulary). `scale_embeddings` multiplies embeddings by sqrt(d_model). `mask_value` is what
    a hidden score becomes: the lowest finite number or -inf.
    """

    src_vocab: Vocabulary
    tgt_vocab: Vocabulary = 950
    d_model: Size = 32
    heads: Size = 4
    encoder_layers: Layers = 3
    decoder_layers: Layers = 3
    d_ff: Size = 128
    max_len: Places = 64
    dropout: Share = 0.0
    norm: NormPlace = "after"
    cross_mask: CrossMask = "padding"
    sharing: Sharing = "none"
    scale_embeddings: bool = True
    mask_value: MaskValue = "finite"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % self.heads:
            nearest = sorted(divisors_of(self.d_model), key=lambda one: abs(one - self.heads))[:CHOICES]
            choices = " or ".join(", ".join(map(str, sorted(nearest))).rsplit(", ", 1))
            raise ConfigError(f"heads={self.heads} does not divide d_model={self.d_model}. Choose {choices}.")
        if self.sharing == "all" and self.src_vocab != self.tgt_vocab:
            raise ConfigError(
                f"sharing=all needs one vocabulary, but src_vocab={self.src_vocab} and tgt_vocab={self.tgt_vocab}. "
                "Train with a shared vocabulary, or choose sharing none or decoder."
            )

    @property
    def d_k(self) -> int:
        """The width of one head, d_model / heads."""
        return self.d_model // self.heads

    @property
    def least_weights(self) -> int:
        """The numbers in the matrices and embeddings of such a model; norms and biases come on top."""
        width = self.d_model
        embeddings = {"none": self.src_vocab + 2 * self.tgt_vocab, "decoder": self.src_vocab + self.tgt_vocab}
        layers = self.encoder_layers * (4 * width + 2 * self.d_ff) + self.decoder_layers * (8 * width + 2 * self.d_ff)
        return width * (embeddings.get(self.sharing, self.tgt_vocab) + layers)


@dataclass(frozen=True)
class TrainConfig(Settings):
    """How the chatbot is trained.

    `batch` is how many pairs make a batch, or `batch_tokens`, above 0, how many tokens, padding included; `accumulate`
    batches make one step. `epochs` is how often every pair is seen; training ends sooner if the held-out loss has not
    fallen for `patience` epochs (0: never). The learning rate climbs to `learning_rate` for `warmup_steps` steps, or,
    where that is 0, for the share `warmup` of all, and then follows `schedule`. Gradients longer than `clip` are
    shortened (0: never). `weight_decay` is that of AdamW. `precision` "auto" computes in bfloat16 where the device is
    faster in it. `best_by` says what makes the best checkpoint, the held-out loss or the share of held-out answers that
    are right word for word; with `average` the mean of the weights after the last so many epochs is kept too.
    `compiled` lets PyTorch compile the model, which takes minutes before the first step. `valid_share` is the share of
    the pairs held out to measure on, `seed` what all chance is drawn from.
    """

    batch: Size = 8
    batch_tokens: Count = 0
    accumulate: Size = 1
    epochs: Size = 60
    patience: Count = 0
    best_by: BestBy = "loss"
    average: Count = 0
    optimiser: Optimiser = "adam"
    learning_rate: Rate = 2.5e-3
    schedule: Schedule = "plateau"
    warmup: Share = 0.1
    warmup_steps: Count = 0
    beta2: Share = 0.98
    weight_decay: Amount = 0.0
    label_smoothing: Share = 0.05
    clip: Amount = 0.5
    precision: Precision = "float32"
    compiled: bool = False
    valid_share: Share = 0.02
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average > self.epochs:
            raise ConfigError(
                f"average={self.average:,} is more than the epochs={self.epochs:,}. Average over some of the last ones."
            )
        if self.average and self.patience:
            raise ConfigError(
                f"average={self.average:,} is about the last epochs, and with patience={self.patience:,} nobody knows "
                "which is the last. Leave one of them out."
            )
        if self.weight_decay and self.optimiser != "adamw":
            raise ConfigError(
                f"weight_decay={show_value(self.weight_decay)} belongs to AdamW, and the optimiser is "
                f"{self.optimiser}. Choose --optimiser adamw, or leave the weight decay out."
            )


@dataclass(frozen=True)
class TextConfig(Settings):
    """How text is cut into tokens.

    `tokeniser` takes whole words, or learns pieces of words by byte-pair encoding or by a unigram model.
    `src_limit` and `tgt_limit` are the most tokens of each vocabulary (0: all words, or 8,000 pieces); a word or a pair
    of pieces that stands in the corpus less than `min_frequency` times gets no token of its own.
    """

    tokeniser: TokeniserKind = "word"
    src_limit: Count = 0
    tgt_limit: Count = 950
    min_frequency: Size = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("src_limit", "tgt_limit"):
            if getattr(self, name):
                check_value(name, getattr(self, name), Vocabulary)
        if self.tokeniser == "unigram" and self.min_frequency > 1:
            raise ConfigError(
                f"min_frequency={self.min_frequency} has no meaning for a unigram tokeniser, which weighs all pieces. "
                "Leave it out, or choose the tokeniser word or bpe."
            )


def divisors_of(number: int) -> list[int]:
    """All numbers that divide it, in order."""
    small = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return small + [number // one for one in reversed(small) if one * one != number]


def show_value(value: object) -> str:
    """A value as it was written, cut where it is endless."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return f"a {type(value).__name__} of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def kinds_of(settings: type[Settings]) -> dict[str, Any]:
    """What each setting may be: its annotation, with its bounds."""
    hints = get_type_hints(settings, include_extras=True)
    return {entry.name: hints[entry.name] for entry in fields(settings)}


def check_value(name: str, value: object, kind: Any) -> None:  # noqa: ANN401  # any annotation
    """Hold a value to its annotation.

    Raises:
        ConfigError: it is of another type, none of the choices, or out of bounds.
    """
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}={show_value(value)} is not possible. {rule_of(kind)}.") from error


def rule_of(kind: Any) -> str:  # noqa: ANN401  # any annotation
    """What a setting must be, in words."""
    if kind is bool:
        return "It must be True or False"
    if get_origin(kind) is Annotated:
        return f"It must be {get_args(kind)[1].description}"
    return f"Choose {' or '.join(get_args(kind))}"
