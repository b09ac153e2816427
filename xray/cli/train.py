"""`xray train`: a chatbot taught from a file of pairs."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from xray.config import CrossMask, MaskValue, ModelConfig, NormPlace, Sharing, TrainConfig

MODEL, LESSONS, FILE = "The model", "The training", "The file"


def option(*names: str, help: str, panel: str, default: object = None) -> Any:  # noqa: ANN401  # typer's own words
    """An option that knows whether it was given; its default stands in the configuration and in the help."""
    return typer.Option(
        *names, help=help, rich_help_panel=panel, show_default=False if default is None else str(default)
    )


def train(
    file: Annotated[
        Path | None,
        typer.Argument(help="Pairs of question and answer: .csv, .tsv, .jsonl or .parquet.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--run", help="The folder of the run.", show_default="runs/<name of the file>"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in the folder stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    question_column: Annotated[str, typer.Option(help="The column of questions.", rich_help_panel=FILE)] = "question",
    answer_column: Annotated[str, typer.Option(help="The column of answers.", rich_help_panel=FILE)] = "answer",
    encoding: Annotated[str, typer.Option(help="How a text file is encoded.", rich_help_panel=FILE)] = "utf-8",
    separator: Annotated[
        str | None,
        typer.Option(help="What stands between cells.", rich_help_panel=FILE, show_default="comma, or tab in .tsv"),
    ] = None,
    epochs: Annotated[
        int | None, option(help="How often every pair is seen.", panel=LESSONS, default=TrainConfig.epochs)
    ] = None,
    batch: Annotated[int | None, option(help="Pairs in a step.", panel=LESSONS, default=TrainConfig.batch)] = None,
    lr: Annotated[
        float | None,
        option(help="The highest learning rate of Adam.", panel=LESSONS, default=TrainConfig.learning_rate),
    ] = None,
    warmup: Annotated[
        float | None,
        option(help="The share of steps in which it climbs.", panel=LESSONS, default=TrainConfig.warmup),
    ] = None,
    label_smoothing: Annotated[
        float | None,
        option(help="How much less than certain to be.", panel=LESSONS, default=TrainConfig.label_smoothing),
    ] = None,
    clip: Annotated[float | None, option(help="The longest gradient.", panel=LESSONS, default=TrainConfig.clip)] = None,
    valid_share: Annotated[
        float | None,
        option(help="The share of pairs held out.", panel=LESSONS, default=TrainConfig.valid_share),
    ] = None,
    seed: Annotated[
        int | None, option(help="What all chance is drawn from.", panel=LESSONS, default=TrainConfig.seed)
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to train.", rich_help_panel=LESSONS)
    ] = "auto",
    heads: Annotated[int | None, option(help="Attention heads.", panel=MODEL, default=ModelConfig.heads)] = None,
    d_model: Annotated[
        int | None, option(help="The width of an embedding.", panel=MODEL, default=ModelConfig.d_model)
    ] = None,
    d_ff: Annotated[
        int | None, option(help="The width inside feed-forward.", panel=MODEL, default=ModelConfig.d_ff)
    ] = None,
    encoder_layers: Annotated[
        int | None, option(help="Encoder layers.", panel=MODEL, default=ModelConfig.encoder_layers)
    ] = None,
    decoder_layers: Annotated[
        int | None, option(help="Decoder layers.", panel=MODEL, default=ModelConfig.decoder_layers)
    ] = None,
    dropout: Annotated[
        float | None, option(help="The share of values dropped.", panel=MODEL, default=ModelConfig.dropout)
    ] = None,
    tgt_vocab: Annotated[
        int | None, option(help="The most words for answers.", panel=MODEL, default=ModelConfig.tgt_vocab)
    ] = None,
    max_len: Annotated[
        int | None,
        option(help="The most tokens of a question or answer.", panel=MODEL, default=ModelConfig.max_len),
    ] = None,
    norm: Annotated[
        NormPlace | None,
        option(help="Normalise after the residual sum or before.", panel=MODEL, default=ModelConfig.norm),
    ] = None,
    cross_mask: Annotated[
        CrossMask | None,
        option(help="What cross-attention must not see.", panel=MODEL, default=ModelConfig.cross_mask),
    ] = None,
    sharing: Annotated[
        Sharing | None, option(help="Which embeddings share weights.", panel=MODEL, default=ModelConfig.sharing)
    ] = None,
    mask_value: Annotated[
        MaskValue | None, option(help="What hides a score.", panel=MODEL, default=ModelConfig.mask_value)
    ] = None,
    scale_embeddings: Annotated[
        bool | None,
        option(
            "--scale-embeddings/--no-scale-embeddings",
            help="Multiply embeddings by sqrt(d_model).",
            panel=MODEL,
            default="scale-embeddings",
        ),
    ] = None,
) -> None:
    """Teach a chatbot the pairs of a file; the run folder then holds all that `xray chat` and `xray trace` need.

    Ctrl-C stops after the step at hand and keeps everything; --resume goes on as if it had never stopped.
    """
    settings = given(
        heads=heads,
        d_model=d_model,
        d_ff=d_ff,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        dropout=dropout,
        tgt_vocab=tgt_vocab,
        max_len=max_len,
        norm=norm,
        cross_mask=cross_mask,
        sharing=sharing,
        mask_value=mask_value,
        scale_embeddings=scale_embeddings,
    )
    lessons = given(
        epochs=epochs,
        batch=batch,
        learning_rate=lr,
        warmup=warmup,
        label_smoothing=label_smoothing,
        clip=clip,
        valid_share=valid_share,
        seed=seed,
    )
    from xray.cli.lesson import teach
    from xray.data.source import Source
    from xray.errors import UsageError

    if file is None and not (resume and out):
        raise UsageError("which pairs? Name a file, as in: xray train examples/movie_qa.csv")
    if resume and overwrite:
        raise UsageError("--resume goes on with a run and --overwrite replaces it. Choose one of them.")
    config = TrainConfig.from_dict(lessons)
    source = Source(file, question_column, answer_column, encoding, separator) if file else None
    folder = out or Path("runs") / (file.stem if file else "")
    from xray.learn.training import begin_training, resume_training

    if resume:
        with resume_training(folder, source, {**settings, **lessons}, device) as training:
            teach(training)
    elif source is not None:
        with begin_training(source, folder, settings, config, device, overwrite) as training:
            teach(training)


def given(**options: object) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {name: value for name, value in options.items() if value is not None}
