"""What a model is built with, and what it is trained with; each setting checked before anything is built."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from xray.errors import ConfigError

UNK, PAD, SOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = ("<unk>", "<pad>", "<sos>", "<eos>")
"""The special tokens of both vocabularies; each one's id is its place in this tuple."""

NormPlace = Literal["after", "before"]
CrossMask = Literal["padding", "none"]
Sharing = Literal["none", "decoder", "all"]
MaskValue = Literal["finite", "-inf"]


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
        for name in ("d_model", "heads", "encoder_layers", "decoder_layers", "d_ff", "max_len"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} is too small. It must be 1 or more.")
        for name in ("src_vocab", "tgt_vocab"):
            if getattr(self, name) <= len(SPECIAL_TOKENS):
                raise ConfigError(
                    f"{name}={getattr(self, name)} leaves no room for a word. "
                    f"{len(SPECIAL_TOKENS)} places belong to {' '.join(SPECIAL_TOKENS)}; choose 5 or more."
                )
        if self.d_model % self.heads:
            divisors = [str(n) for n in range(1, self.d_model + 1) if self.d_model % n == 0]
            choices = ", ".join(divisors[:-1]) + " or " + divisors[-1] if len(divisors) > 1 else divisors[0]
            raise ConfigError(f"heads={self.heads} does not divide d_model={self.d_model}. Choose {choices}.")
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"dropout={self.dropout} is out of range. It must be at least 0 and below 1.")
        if self.sharing == "all" and self.src_vocab != self.tgt_vocab:
            raise ConfigError(
                f"sharing=all needs one vocabulary, but src_vocab={self.src_vocab} and tgt_vocab={self.tgt_vocab}. "
                "Train with a shared vocabulary, or choose sharing none or decoder."
            )

    @property
    def d_k(self) -> int:
        """The width of one head, d_model / heads."""
        return self.d_model // self.heads

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

    `epochs` is how often every pair is seen, `warmup` the share of all steps in which the learning rate climbs,
    `valid_share` the share of the pairs held out to measure on, `seed` what all chance is drawn from.
    """

    batch: int = 8
    epochs: int = 60
    learning_rate: float = 2.5e-3
    warmup: float = 0.15
    label_smoothing: float = 0.05
    clip: float = 0.5
    valid_share: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("batch", "epochs"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} is too small. It must be 1 or more.")
        for name in ("learning_rate", "clip"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}={getattr(self, name)} is out of range. It must be above 0.")
        for name in ("warmup", "label_smoothing", "valid_share"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"{name}={getattr(self, name)} is out of range. It must be at least 0 and below 1.")

    def to_dict(self) -> dict[str, Any]:
        """The settings by name, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The configuration that `to_dict` gave; see `ModelConfig.from_dict`."""
        check_names(cls, values)
        return cls(**values)


def check_names(kind: type[ModelConfig] | type[TrainConfig], values: Mapping[str, Any]) -> None:
    """Hold the names of settings from a file to the ones there are.

    Raises:
        ConfigError: a setting is unknown, or one without a default is missing.
    """
    known = {entry.name: entry for entry in fields(kind)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ConfigError(f"unknown setting {unknown[0]!r}. Known settings: {', '.join(sorted(known))}.")
    missing = [name for name, entry in known.items() if entry.default is MISSING and name not in values]
    if missing:
        raise ConfigError(f"the setting {missing[0]} is missing, and it has no default.")


def check_types(config: ModelConfig | TrainConfig) -> None:
    """Hold every field to its annotation, since settings also come from files.

    Raises:
        ConfigError: a value is of another type, or not one of its choices.
    """
    for entry in fields(config):
        value = getattr(config, entry.name)
        choices = get_args(entry.type)
        if choices:
            if value not in choices:
                raise ConfigError(f"{entry.name}={value!r} is unknown. Choose {' or '.join(choices)}.")
        elif entry.type is float:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError(f"{entry.name}={value!r} is not a number.")
        elif type(value) is not entry.type:
            raise ConfigError(f"{entry.name}={value!r} is not of type {getattr(entry.type, '__name__', entry.type)}.")
