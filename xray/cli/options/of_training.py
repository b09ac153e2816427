"""The options of `xray train`, gathered by what they set; one that is not given is None.

The defaults stand in the configuration, and are shown from there. An option is named as the setting that it gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from xray.config import (
    BestBy,
    CrossMask,
    MaskValue,
    ModelConfig,
    NormPlace,
    Optimiser,
    Precision,
    Schedule,
    Sharing,
    TextConfig,
    TokeniserKind,
    TrainConfig,
)

if TYPE_CHECKING:
    from xray.data.reading.origin import Origin

MODEL, LESSONS, CORPUS, TOKENS = "The model", "The training", "The corpus", "The tokens"


def option(help: str, panel: str, default: object = None, *names: str) -> Any:  # noqa: ANN401  # typer's own words
    """An option that knows whether it was given; its default is only shown."""
    return typer.Option(
        *names, help=help, rich_help_panel=panel, show_default=False if default is None else str(default)
    )


@dataclass(frozen=True)
class Given:
    """Options that are settings."""

    def settings(self) -> dict[str, Any]:
        """Those that were given on the command line."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class CorpusOptions:
    """Where the pairs stand, and what else to measure on."""

    source: Annotated[
        str,
        option(
            'The column of questions; an inner one with a dot, as in "translation.en".',
            CORPUS,
            "question",
            "--source",
            "--question-column",
        ),
    ] = "question"
    target: Annotated[str, option("The column of answers.", CORPUS, "answer", "--target", "--answer-column")] = "answer"
    encoding: Annotated[str, option("How a text file is encoded.", CORPUS, "utf-8")] = "utf-8"
    separator: Annotated[str | None, option("What stands between cells.", CORPUS, "comma, or tab in .tsv")] = None
    skip_bad: Annotated[
        bool, option("Leave out rows that cannot be read, and count them.", CORPUS, None, "--skip-bad")
    ] = False
    valid: Annotated[
        list[str] | None, option("A file of pairs to measure on; may be given several times.", CORPUS, None, "--valid")
    ] = None
    hub_config: Annotated[
        str | None, option("The configuration of a data set on the hub.", CORPUS, None, "--config")
    ] = None
    split: Annotated[str | None, option("The split of a data set to learn from.", CORPUS, "train")] = None
    valid_split: Annotated[str | None, option("The split of a data set to measure on.", CORPUS)] = None

    def find(self, names: Sequence[str]) -> "Origin":
        """The corpus of some files or data sets."""
        from xray.cli.options.corpora import Columns, find_corpus

        columns = Columns(self.source, self.target, self.encoding, self.separator, self.skip_bad)
        return find_corpus(names, columns, self.valid or [], self.hub_config, self.split, self.valid_split)


@dataclass(frozen=True)
class TextOptions(Given):
    """Fields of `TextConfig`."""

    tokeniser: Annotated[TokeniserKind | None, option("What a token is.", TOKENS, TextConfig.tokeniser)] = None
    src_limit: Annotated[
        int | None, option("The most tokens for questions.", TOKENS, "all words, or 8,000 pieces", "--src-vocab")
    ] = None
    min_frequency: Annotated[
        int | None, option("How often a word must occur to get a token.", TOKENS, TextConfig.min_frequency)
    ] = None


@dataclass(frozen=True)
class LessonOptions(Given):
    """Fields of `TrainConfig`."""

    epochs: Annotated[int | None, option("How often every pair is seen.", LESSONS, TrainConfig.epochs)] = None
    batch: Annotated[int | None, option("Pairs in a batch, all processes together.", LESSONS, TrainConfig.batch)] = None
    batch_tokens: Annotated[int | None, option("Tokens in a batch, instead of pairs.", LESSONS)] = None
    accumulate: Annotated[int | None, option("Batches in a step.", LESSONS, TrainConfig.accumulate)] = None
    learning_rate: Annotated[
        float | None, option("The highest learning rate.", LESSONS, TrainConfig.learning_rate, "--lr")
    ] = None
    optimiser: Annotated[
        Optimiser | None, option("Which optimiser.", LESSONS, TrainConfig.optimiser, "--optimiser")
    ] = None
    weight_decay: Annotated[
        float | None, option("How much AdamW shrinks weights.", LESSONS, TrainConfig.weight_decay)
    ] = None
    beta2: Annotated[float | None, option("How long Adam remembers squares.", LESSONS, TrainConfig.beta2)] = None
    schedule: Annotated[
        Schedule | None, option("What follows the warm-up.", LESSONS, TrainConfig.schedule, "--schedule")
    ] = None
    warmup: Annotated[
        float | None, option("The share of steps in which the rate climbs.", LESSONS, TrainConfig.warmup)
    ] = None
    warmup_steps: Annotated[int | None, option("In how many steps it climbs, instead of a share.", LESSONS)] = None
    label_smoothing: Annotated[
        float | None, option("How much less than certain to be.", LESSONS, TrainConfig.label_smoothing)
    ] = None
    clip: Annotated[float | None, option("The longest gradient; 0 for any.", LESSONS, TrainConfig.clip)] = None
    patience: Annotated[
        int | None, option("Stop after so many epochs without a better held-out loss.", LESSONS, "never")
    ] = None
    best_by: Annotated[
        BestBy | None,
        option(
            "What makes a checkpoint the best: held-out loss, or answers.", LESSONS, TrainConfig.best_by, "--best-by"
        ),
    ] = None
    average: Annotated[
        int | None, option("Keep the mean of the weights after the last so many epochs too.", LESSONS, "none")
    ] = None
    precision: Annotated[
        Precision | None,
        option(
            "What to compute with; auto: bfloat16 where it is faster.", LESSONS, TrainConfig.precision, "--precision"
        ),
    ] = None
    compiled: Annotated[
        bool | None,
        option(
            "Let PyTorch compile the model; minutes, and no gain on CPUs so far.",
            LESSONS,
            "no-compile",
            "--compile/--no-compile",
        ),
    ] = None
    valid_share: Annotated[float | None, option("The share of pairs held out.", LESSONS, TrainConfig.valid_share)] = (
        None
    )
    seed: Annotated[int | None, option("What all chance is drawn from.", LESSONS, TrainConfig.seed)] = None


Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], option("Where to train.", LESSONS, "auto")]
Shard = Annotated[
    bool,
    option("Divide weights among the processes of torchrun, for a model larger than a GPU.", LESSONS, None, "--shard"),
]


@dataclass(frozen=True)
class ModelOptions(Given):
    """Fields of `ModelConfig`."""

    tgt_vocab: Annotated[
        int | None, option("The most tokens for answers.", TOKENS, f"{ModelConfig.tgt_vocab} words, or 8,000 pieces")
    ] = None
    max_len: Annotated[int | None, option("The most tokens of a question or answer.", TOKENS, ModelConfig.max_len)] = (
        None
    )
    heads: Annotated[int | None, option("Attention heads.", MODEL, ModelConfig.heads)] = None
    d_model: Annotated[int | None, option("The width of an embedding.", MODEL, ModelConfig.d_model)] = None
    d_ff: Annotated[int | None, option("The width inside feed-forward.", MODEL, ModelConfig.d_ff)] = None
    encoder_layers: Annotated[int | None, option("Encoder layers.", MODEL, ModelConfig.encoder_layers)] = None
    decoder_layers: Annotated[int | None, option("Decoder layers.", MODEL, ModelConfig.decoder_layers)] = None
    dropout: Annotated[float | None, option("The share of values dropped.", MODEL, ModelConfig.dropout)] = None
    norm: Annotated[
        NormPlace | None, option("Normalise after the residual sum or before.", MODEL, ModelConfig.norm)
    ] = None
    cross_mask: Annotated[
        CrossMask | None, option("What cross-attention must not see.", MODEL, ModelConfig.cross_mask, "--cross-mask")
    ] = None
    sharing: Annotated[
        Sharing | None, option("Which embeddings share weights.", MODEL, ModelConfig.sharing, "--sharing")
    ] = None
    mask_value: Annotated[
        MaskValue | None, option("What hides a score.", MODEL, ModelConfig.mask_value, "--mask-value")
    ] = None
    scale_embeddings: Annotated[
        bool | None,
        option(
            "Multiply embeddings by sqrt(d_model).",
            MODEL,
            "scale-embeddings",
            "--scale-embeddings/--no-scale-embeddings",
        ),
    ] = None
