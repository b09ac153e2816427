"""The options of `xray train`, each a type that says what it means; one that is not given is None.

The defaults stand in the configuration, and are shown from there.
"""

from typing import Annotated, Any, Literal

import typer

from xray.config import (
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

MODEL, LESSONS, CORPUS, TOKENS, SHOW = "The model", "The training", "The corpus", "The tokens", "What is shown"


def option(help: str, panel: str, default: object = None, *names: str) -> Any:  # noqa: ANN401  # typer's own words
    """An option that knows whether it was given; its default is only shown."""
    return typer.Option(
        *names, help=help, rich_help_panel=panel, show_default=False if default is None else str(default)
    )


Source = Annotated[
    str,
    option(
        'The column of questions; an inner one with a dot, as in "translation.en".',
        CORPUS,
        "question",
        "--source",
        "--question-column",
    ),
]
Target = Annotated[str, option("The column of answers.", CORPUS, "answer", "--target", "--answer-column")]
Encoding = Annotated[str, option("How a text file is encoded.", CORPUS, "utf-8")]
Separator = Annotated[str | None, option("What stands between cells.", CORPUS, "comma, or tab in .tsv")]
SkipBad = Annotated[bool, option("Leave out rows that cannot be read, and count them.", CORPUS, None, "--skip-bad")]
Valid = Annotated[
    list[str] | None, option("A file of pairs to measure on; may be given several times.", CORPUS, None, "--valid")
]
HubConfig = Annotated[str | None, option("The configuration of a data set on the hub.", CORPUS, None, "--config")]
Split = Annotated[str | None, option("The split of a data set to learn from.", CORPUS, "train")]
ValidSplit = Annotated[str | None, option("The split of a data set to measure on.", CORPUS)]

Tokeniser = Annotated[TokeniserKind | None, option("What a token is.", TOKENS, TextConfig.tokeniser)]
SrcVocab = Annotated[int | None, option("The most tokens for questions.", TOKENS, "all words, or 8,000 pieces")]
TgtVocab = Annotated[
    int | None, option("The most tokens for answers.", TOKENS, f"{ModelConfig.tgt_vocab} words, or 8,000 pieces")
]
MinFrequency = Annotated[
    int | None, option("How often a word must occur to get a token.", TOKENS, TextConfig.min_frequency)
]
MaxLen = Annotated[int | None, option("The most tokens of a question or answer.", TOKENS, ModelConfig.max_len)]

Epochs = Annotated[int | None, option("How often every pair is seen.", LESSONS, TrainConfig.epochs)]
Batch = Annotated[int | None, option("Pairs in a batch, all processes together.", LESSONS, TrainConfig.batch)]
BatchTokens = Annotated[int | None, option("Tokens in a batch, instead of pairs.", LESSONS)]
Accumulate = Annotated[int | None, option("Batches in a step.", LESSONS, TrainConfig.accumulate)]
Lr = Annotated[float | None, option("The highest learning rate.", LESSONS, TrainConfig.learning_rate)]
OptimiserName = Annotated[Optimiser | None, option("Which optimiser.", LESSONS, TrainConfig.optimiser, "--optimiser")]
WeightDecay = Annotated[float | None, option("How much AdamW shrinks weights.", LESSONS, TrainConfig.weight_decay)]
Beta2 = Annotated[float | None, option("How long Adam remembers squares.", LESSONS, TrainConfig.beta2)]
ScheduleName = Annotated[
    Schedule | None, option("What follows the warm-up.", LESSONS, TrainConfig.schedule, "--schedule")
]
Warmup = Annotated[float | None, option("The share of steps in which the rate climbs.", LESSONS, TrainConfig.warmup)]
WarmupSteps = Annotated[int | None, option("In how many steps it climbs, instead of a share.", LESSONS)]
LabelSmoothing = Annotated[
    float | None, option("How much less than certain to be.", LESSONS, TrainConfig.label_smoothing)
]
Clip = Annotated[float | None, option("The longest gradient; 0 for any.", LESSONS, TrainConfig.clip)]
Patience = Annotated[int | None, option("Stop after so many epochs without a better held-out loss.", LESSONS, "never")]
PrecisionName = Annotated[
    Precision | None,
    option("What to compute with; auto: bfloat16 on a GPU that has it.", LESSONS, TrainConfig.precision, "--precision"),
]
Compiled = Annotated[
    bool | None,
    option("Let PyTorch compile the model; pays in runs of hours.", LESSONS, "no-compile", "--compile/--no-compile"),
]
ValidShare = Annotated[float | None, option("The share of pairs held out.", LESSONS, TrainConfig.valid_share)]
Seed = Annotated[int | None, option("What all chance is drawn from.", LESSONS, TrainConfig.seed)]
Device = Annotated[Literal["auto", "cpu", "cuda", "mps"], option("Where to train.", LESSONS, "auto")]

Heads = Annotated[int | None, option("Attention heads.", MODEL, ModelConfig.heads)]
DModel = Annotated[int | None, option("The width of an embedding.", MODEL, ModelConfig.d_model)]
DFf = Annotated[int | None, option("The width inside feed-forward.", MODEL, ModelConfig.d_ff)]
EncoderLayers = Annotated[int | None, option("Encoder layers.", MODEL, ModelConfig.encoder_layers)]
DecoderLayers = Annotated[int | None, option("Decoder layers.", MODEL, ModelConfig.decoder_layers)]
Dropout = Annotated[float | None, option("The share of values dropped.", MODEL, ModelConfig.dropout)]
Norm = Annotated[NormPlace | None, option("Normalise after the residual sum or before.", MODEL, ModelConfig.norm)]
Crossing = Annotated[
    CrossMask | None, option("What cross-attention must not see.", MODEL, ModelConfig.cross_mask, "--cross-mask")
]
SharingKind = Annotated[
    Sharing | None, option("Which embeddings share weights.", MODEL, ModelConfig.sharing, "--sharing")
]
Hiding = Annotated[MaskValue | None, option("What hides a score.", MODEL, ModelConfig.mask_value, "--mask-value")]
ScaleEmbeddings = Annotated[
    bool | None,
    option(
        "Multiply embeddings by sqrt(d_model).",
        MODEL,
        "scale-embeddings",
        "--scale-embeddings/--no-scale-embeddings",
    ),
]

Tensorboard = Annotated[
    bool, option("Write losses for TensorBoard too (needs the extra: tensorboard).", SHOW, None, "--tensorboard")
]
Scores = Annotated[
    bool,
    option("Error rates of letters and words, and BLEU, at the end (needs the extra: scores).", SHOW, None, "--scores"),
]
