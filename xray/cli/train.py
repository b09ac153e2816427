"""`xray train`: a chatbot taught from pairs, wherever they are."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xray.cli import train_options as opt
from xray.config import TextConfig, TrainConfig
from xray.learn.presets import PRESETS, PresetName

if TYPE_CHECKING:
    from xray.cli.watching import Watching
    from xray.data.reading.origin import Origin
    from xray.learn.runs.saved_training import Training
    from xray.learn.steps.processes import World

TEXT = ("tokeniser", "src_limit", "min_frequency")


def train(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files of pairs (.csv, .tsv, .jsonl, .parquet), or a data set on the hub (owner/name).",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--run", help="The folder of the run.", show_default="runs/<name of the file>"),
    ] = None,
    preset: Annotated[PresetName, typer.Option(help="The recipe to start from; options change it.")] = "movie",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in the folder stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    source: opt.Source = "question",
    target: opt.Target = "answer",
    encoding: opt.Encoding = "utf-8",
    separator: opt.Separator = None,
    skip_bad: opt.SkipBad = False,
    valid: opt.Valid = None,
    hub_config: opt.HubConfig = None,
    split: opt.Split = None,
    valid_split: opt.ValidSplit = None,
    tokeniser: opt.Tokeniser = None,
    src_vocab: opt.SrcVocab = None,
    tgt_vocab: opt.TgtVocab = None,
    min_frequency: opt.MinFrequency = None,
    max_len: opt.MaxLen = None,
    epochs: opt.Epochs = None,
    batch: opt.Batch = None,
    batch_tokens: opt.BatchTokens = None,
    accumulate: opt.Accumulate = None,
    lr: opt.Lr = None,
    optimiser: opt.OptimiserName = None,
    weight_decay: opt.WeightDecay = None,
    beta2: opt.Beta2 = None,
    schedule: opt.ScheduleName = None,
    warmup: opt.Warmup = None,
    warmup_steps: opt.WarmupSteps = None,
    label_smoothing: opt.LabelSmoothing = None,
    clip: opt.Clip = None,
    patience: opt.Patience = None,
    precision: opt.PrecisionName = None,
    compiled: opt.Compiled = None,
    valid_share: opt.ValidShare = None,
    seed: opt.Seed = None,
    device: opt.Device = "auto",
    heads: opt.Heads = None,
    d_model: opt.DModel = None,
    d_ff: opt.DFf = None,
    encoder_layers: opt.EncoderLayers = None,
    decoder_layers: opt.DecoderLayers = None,
    dropout: opt.Dropout = None,
    norm: opt.Norm = None,
    cross_mask: opt.Crossing = None,
    sharing: opt.SharingKind = None,
    mask_value: opt.Hiding = None,
    scale_embeddings: opt.ScaleEmbeddings = None,
    tensorboard: opt.Tensorboard = False,
    scores: opt.Scores = False,
) -> None:
    """Teach a chatbot pairs of texts; the run folder then holds all that `xray chat` and `xray trace` need.

    Ctrl-C stops after the step at hand and keeps everything; --resume goes on as if it had never stopped. On several
    processors or GPUs: torchrun --nproc-per-node 2 -m xray train FILE.csv
    """
    recipe = PRESETS[preset]
    settings = recipe.model | given(
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
    lessons = recipe.training | given(
        epochs=epochs,
        batch=batch,
        batch_tokens=batch_tokens,
        accumulate=accumulate,
        learning_rate=lr,
        optimiser=optimiser,
        weight_decay=weight_decay,
        beta2=beta2,
        schedule=schedule,
        warmup=warmup,
        warmup_steps=warmup_steps,
        label_smoothing=label_smoothing,
        clip=clip,
        patience=patience,
        precision=precision,
        compiled=compiled,
        valid_share=valid_share,
        seed=seed,
    )
    text = recipe.text | given(tokeniser=tokeniser, src_limit=src_vocab, min_frequency=min_frequency)
    from xray.cli.corpora import Columns, find_corpus
    from xray.cli.stopping import end_on_sigterm
    from xray.cli.watching import Watching
    from xray.errors import UsageError, XRayError
    from xray.learn.runs.begin import begin_training
    from xray.learn.steps.processes import join_world

    if not pairs and not (resume and out):
        raise UsageError("which pairs? Name a file, as in: xray train examples/movie_qa.csv")
    if resume and overwrite:
        raise UsageError("--resume goes on with a run and --overwrite replaces it. Choose one of them.")
    config, cut = TrainConfig.from_dict(lessons), TextConfig.from_dict(text)
    columns = Columns(source, target, encoding, separator, skip_bad)
    origin = find_corpus(pairs, columns, valid or [], hub_config, split, valid_split) if pairs else None
    folder = out or Path("runs") / (origin.stem if origin else "")
    watching = Watching(tensorboard=tensorboard, scores=scores)
    watching.check()
    with end_on_sigterm(), join_world(device) as world:
        try:
            if resume:
                go_on(folder, origin, settings | lessons | text, device, world, watching)
            elif origin is not None:
                begin(
                    watching, partial(begin_training, origin, folder, settings, config, device, overwrite, cut, world)
                )
        except XRayError as error:
            if world.is_writer:
                raise
            raise typer.Exit(error.exit_code) from None


def begin(watching: "Watching", open_training: "Callable[..., AbstractContextManager[Training]]") -> None:
    """Train a new run."""
    from xray.cli.lesson import teach
    from xray.cli.output import say
    from xray.cli.progress_choice import open_stages
    from xray.cli.stopping import StoppedAtOnce

    with ExitStack() as opened:
        try:
            with open_stages() as tell:
                training = opened.enter_context(open_training(tell=tell))
        except (KeyboardInterrupt, StoppedAtOnce):
            say("stopped before the first step; the same command goes on with the preparation where it was.")
            raise
        teach(training, watching)


def go_on(
    folder: Path,
    origin: "Origin | None",
    wishes: dict[str, Any],
    device: str,
    world: "World",
    watching: Any,  # noqa: ANN401
) -> None:
    """Train a run to its end."""
    from xray.cli.lesson import teach
    from xray.learn.runs.begin import resume_training

    with resume_training(folder, origin, wishes, device, world) as training:
        teach(training, watching)


def given(**options: object) -> dict[str, Any]:
    """The options that were given on the command line."""
    return {name: value for name, value in options.items() if value is not None}
