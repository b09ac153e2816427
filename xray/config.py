"""What a model is built with, and what it is trained with; each setting checked before anything is built."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from math import isqrt
from typing import Any, Literal, Self, get_args

from xray.errors import ConfigError

MOST = (1 << 31) - 1
"""No size, count or seed is larger than this."""

MOST_PLACES = 1 << 20
"""No sequence is longer than this."""

MOST_LAYERS = 1000
"""No stack is higher than this."""

CHOICES = 12
"""The most numbers that a message offers."""

SHOWN = 60
"""The most characters of a value that a message shows."""

UNK, PAD, SOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = ("<unk>", "<pad>", "<sos>", "<eos>")
"""The special tokens of both vocabularies; each one's id is its place in this tuple."""

NormPlace = Literal["after", "before"]
CrossMask = Literal["padding", "none"]
Sharing = Literal["none", "decoder", "all"]
MaskValue = Literal["finite", "-inf"]
Optimiser = Literal["adam", "adamw"]
Schedule = Literal["cosine", "inverse-sqrt", "constant"]
Precision = Literal["float32", "bfloat16", "auto"]
TokeniserKind = Literal["word", "bpe", "unigram"]


@dataclass(frozen=True)
class ModelConfig:
    """The sizes of an encoder-decoder transformer, and its choices where the texts differ.

    `norm` puts layer normalisation after the residual sum (the paper, section 3.1) or before the sublayer, with a last
    norm at the end. `cross_mask` hides the question's padding from cross-attention, or nothing. `sharing` ties no
    weights, the decoder's embedding with the output layer, or those two and the encoder's embedding (the paper,
    section 3.4; needs one vocabulary). `scale_embeddings` multiplies embeddings by sqrt(d_model). `mask_value` is what
    a hidden score becomes: the lowest finite number or -inf.
    """

    src_vocab: int
    tgt_vocab: int = 950
    d_model: int = 32
    heads: int = 4
    encoder_layers: int = 3
    decoder_layers: int = 3
    d_ff: int = 128
    max_len: int = 64
    dropout: float = 0.0
    norm: NormPlace = "after"
    cross_mask: CrossMask = "padding"
    sharing: Sharing = "none"
    scale_embeddings: bool = True
    mask_value: MaskValue = "finite"

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("d_model", "heads", "d_ff"):
            check_range(self, name, 1, MOST + 1)
        check_range(self, "max_len", 1, MOST_PLACES + 1)
        for name in ("encoder_layers", "decoder_layers"):
            check_range(self, name, 1, MOST_LAYERS + 1)
        for name in ("src_vocab", "tgt_vocab"):
            if getattr(self, name) <= len(SPECIAL_TOKENS):
                raise ConfigError(
                    f"{name}={show_value(getattr(self, name))} leaves no room for a word. "
                    f"{len(SPECIAL_TOKENS)} places belong to {' '.join(SPECIAL_TOKENS)}; choose 5 or more."
                )
            check_range(self, name, len(SPECIAL_TOKENS) + 1, MOST + 1)
        if self.d_model % self.heads:
            nearest = sorted(divisors_of(self.d_model), key=lambda one: abs(one - self.heads))[:CHOICES]
            choices = " or ".join(", ".join(map(str, sorted(nearest))).rsplit(", ", 1))
            raise ConfigError(f"heads={self.heads} does not divide d_model={self.d_model}. Choose {choices}.")
        check_range(self, "dropout", 0, 1)
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

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The configuration that `to_dict` gave.

        Raises:
            ConfigError: a setting is unknown, missing, of the wrong type or out of range.
        """
        check_names(cls, values)
        return cls(**values)


@dataclass(frozen=True)
class TrainConfig:
    """How the chatbot is trained.

    `batch` is how many pairs make a batch, or `batch_tokens`, above 0, how many tokens, padding included; `accumulate`
    batches make one step. `epochs` is how often every pair is seen; training ends sooner if the held-out loss has not
    fallen for `patience` epochs (0: never). The learning rate climbs to `learning_rate` for `warmup_steps` steps, or,
    where that is 0, for the share `warmup` of all, and then follows `schedule`. Gradients longer than `clip` are
    shortened (0: never). `weight_decay` is that of AdamW. `precision` "auto" computes in bfloat16 where the device has
    it. `compiled` lets PyTorch compile the model, which takes a minute before the first step. `valid_share` is the
    share of the pairs held out to measure on, `seed` what all chance is drawn from.
    """

    batch: int = 8
    batch_tokens: int = 0
    accumulate: int = 1
    epochs: int = 60
    patience: int = 0
    optimiser: Optimiser = "adam"
    learning_rate: float = 2.5e-3
    schedule: Schedule = "cosine"
    warmup: float = 0.15
    warmup_steps: int = 0
    beta2: float = 0.98
    weight_decay: float = 0.0
    label_smoothing: float = 0.05
    clip: float = 0.5
    precision: Precision = "float32"
    compiled: bool = False
    valid_share: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("batch", "epochs", "accumulate"):
            check_range(self, name, 1, MOST + 1)
        for name in ("batch_tokens", "patience", "warmup_steps"):
            check_range(self, name, 0, MOST + 1)
        for name in ("weight_decay", "clip"):
            check_range(self, name, 0)
        check_range(self, "seed", -MOST, MOST + 1)
        for name in ("warmup", "label_smoothing", "valid_share", "beta2"):
            check_range(self, name, 0, 1)
        if not 0.0 < self.learning_rate < float("inf"):
            raise ConfigError(
                f"learning_rate={show_value(self.learning_rate)} is out of range. "
                "It must be finite and above 0, such as 0.001."
            )
        if self.weight_decay and self.optimiser != "adamw":
            raise ConfigError(
                f"weight_decay={show_value(self.weight_decay)} belongs to AdamW, and the optimiser is "
                f"{self.optimiser}. Choose --optimiser adamw, or leave the weight decay out."
            )

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The configuration that `to_dict` gave; see `ModelConfig.from_dict`."""
        check_names(cls, values)
        return cls(**values)


@dataclass(frozen=True)
class TextConfig:
    """How text is cut into tokens.

    `tokeniser` takes whole words, or learns pieces of words by byte-pair encoding or by a unigram model.
    `src_limit` and `tgt_limit` are the most tokens of each vocabulary (0: all words, or 8,000 pieces); a word or a pair
    of pieces that stands in the corpus less than `min_frequency` times gets no token of its own.
    """

    tokeniser: TokeniserKind = "word"
    src_limit: int = 0
    tgt_limit: int = 950
    min_frequency: int = 1

    def __post_init__(self) -> None:
        check_types(self)
        check_range(self, "min_frequency", 1, MOST + 1)
        for name in ("src_limit", "tgt_limit"):
            if getattr(self, name) != 0:
                check_range(self, name, len(SPECIAL_TOKENS) + 1, MOST + 1)
        if self.tokeniser == "unigram" and self.min_frequency > 1:
            raise ConfigError(
                f"min_frequency={self.min_frequency} has no meaning for a unigram tokeniser, which weighs all pieces. "
                "Leave it out, or choose the tokeniser word or bpe."
            )

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The configuration that `to_dict` gave; see `ModelConfig.from_dict`."""
        check_names(cls, values)
        return cls(**values)


def check_range(config: "AnyConfig", name: str, lowest: int, below: int | None = None) -> None:
    """Hold a number to be at least `lowest`, and less than `below` where that is given.

    Raises:
        ConfigError: it is not.
    """
    value = getattr(config, name)
    if value < lowest:
        rule = f"at least {lowest} and below {below}" if below is not None and below <= 1 else f"{lowest} or more"
        raise ConfigError(f"{name}={show_value(value)} is too small. It must be {rule}.")
    if below is None and not value < float("inf"):
        raise ConfigError(f"{name}={value} is not a finite number. It must be {lowest} or more.")
    if below is not None and not value < below:
        rule = f"at least {lowest} and below {below}" if below <= 1 else f"at most {below - 1:,}"
        raise ConfigError(f"{name}={show_value(value)} is out of range. It must be {rule}.")


def is_beyond_floats(value: float) -> bool:
    """Whether a whole number is too large to reckon with."""
    try:
        float(value)
    except OverflowError:
        return True
    return False


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


def check_names(kind: "type[AnyConfig]", values: Mapping[str, Any]) -> None:
    """Hold the names of settings from a file to the ones there are.

    Raises:
        ConfigError: a setting is unknown, or one without a default is missing.
    """
    known = {entry.name: entry for entry in fields(kind)}
    unknown = sorted(set(values) - set(known), key=str)
    if unknown:
        raise ConfigError(f"unknown setting {show_value(unknown[0])}. Known settings: {', '.join(sorted(known))}.")
    missing = [name for name, entry in known.items() if entry.default is MISSING and name not in values]
    if missing:
        raise ConfigError(f"the setting {missing[0]} is missing, and it has no default.")


def check_types(config: "AnyConfig") -> None:
    """Hold every field to its annotation, since settings also come from files.

    Raises:
        ConfigError: a value is of another type, or not one of its choices.
    """
    for entry in fields(config):
        value = getattr(config, entry.name)
        choices = get_args(entry.type)
        if choices:
            if not isinstance(value, str) or value not in choices:
                raise ConfigError(f"{entry.name}={show_value(value)} is unknown. Choose {' or '.join(choices)}.")
        elif entry.type is float:
            if isinstance(value, bool) or not isinstance(value, int | float) or is_beyond_floats(value):
                raise ConfigError(f"{entry.name}={show_value(value)} is not a number.")
        elif type(value) is not entry.type:
            raise ConfigError(
                f"{entry.name}={show_value(value)} is not of type {getattr(entry.type, '__name__', entry.type)}."
            )


AnyConfig = ModelConfig | TrainConfig | TextConfig
