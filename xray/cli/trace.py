"""`xray trace`: record the chatbot, or any model, and show the poster and the tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from xray.cli.options.of_sources import (
    DEFAULT_RUN,
    SOURCE_OPTIONS,
    BatchOption,
    ImageSizeOption,
    KindOption,
    MeshOption,
    PlanOption,
    RankOption,
    SeqLenOption,
    TrustOption,
    make_request,
)
from xray.text import show_controls

if TYPE_CHECKING:
    from xray.sources.request import Asked

CHATBOT_ONLY = ("phase", "ask", "run", "max_turns", "kv_cache", "device")
ANSWERS = ("phase", "ask", "max_turns")
CHATBOT, ANSWER, ANY_MODEL, PICTURE, TABLES = "The chatbot", "An answer", "Any model", "The picture", "The tables"


def trace(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            help="A model that is not the chatbot: hf:owner/model, hf:bert for a family with its default settings, a "
            "folder or file with a config.json, timm:name, torchvision:name, diffusers:owner/pipeline, a folder or a "
            "class of it, model.pt2, or my_model.py:build and package.module:build, where build returns a model, or a "
            "model and its inputs; the last two run the code that is there.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            help="A file to write: .svg .png .pdf .html .json, tables as .txt .md .csv, graphs as .dot .mmd; may be "
            "given several times.",
        ),
    ] = None,
    phase: Annotated[
        Literal["training", "inference", "both"],
        typer.Option(
            help="Which journey to record; of a model by its name inference, its answer, in place of one call, or with "
            "--mesh training, the way back.",
            rich_help_panel=ANSWER,
        ),
    ] = "both",
    ask: Annotated[
        str | None,
        typer.Option(
            help="The question to answer, or the prompt of a model by its name, which its tokenizer.json makes ids of.",
            show_default=False,
            rich_help_panel=ANSWER,
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="The folder of a trained chatbot.", show_default=str(DEFAULT_RUN), rich_help_panel=CHATBOT),
    ] = None,
    max_turns: Annotated[
        int,
        typer.Option(
            min=1,
            max=512,
            help="The most words an answer may have.",
            show_default="20, or 4 of a model by its name",
            rich_help_panel=ANSWER,
        ),
    ] = 20,
    kv_cache: Annotated[
        bool,
        typer.Option(
            "--kv-cache", help="Decode with a key-value cache, one query row a turn.", rich_help_panel=CHATBOT
        ),
    ] = False,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"],
        typer.Option(help="Where the chatbot runs.", rich_help_panel=CHATBOT),
    ] = "auto",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            help='An input to make, as in "src=int64[2,10]<1000" or "float32[1,3,224,224]".',
            rich_help_panel=ANY_MODEL,
        ),
    ] = None,
    meta: Annotated[
        bool,
        typer.Option(
            "--meta", help="Build it without storage: shapes of any size, no numbers.", rich_help_panel=ANY_MODEL
        ),
    ] = False,
    kind: KindOption = None,
    batch: BatchOption = None,
    seq_len: SeqLenOption = None,
    image_size: ImageSizeOption = None,
    trust_remote_code: TrustOption = False,
    mesh: MeshOption = None,
    rank: RankOption = 0,
    tp_plan: PlanOption = None,
    theme: Annotated[
        str,
        typer.Option(help="dark, light (for print), or a theme file of your own (.toml).", rich_help_panel=PICTURE),
    ] = "dark",
    paper: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"] | None,
        typer.Option(help="The paper of a picture.", show_default="a2 for the poster", rich_help_panel=PICTURE),
    ] = None,
    tile: Annotated[
        Literal["a0", "a1", "a2", "a3", "a4", "a5"] | None,
        typer.Option(
            help="Cut a PDF into sheets of this paper, to be glued together.",
            show_default=False,
            rich_help_panel=PICTURE,
        ),
    ] = None,
    dpi: Annotated[int, typer.Option(min=20, max=600, help="Dots per inch of a PNG.", rich_help_panel=PICTURE)] = 150,
    layers: Annotated[
        Literal["folded", "all"],
        typer.Option(help="Show equal layers once, or each of them.", rich_help_panel=PICTURE),
    ] = "folded",
    only: Annotated[
        list[str] | None,
        typer.Option(
            help='Only the steps at these paths in the tables, as in "decoder.*"; may be given several times.',
            rich_help_panel=TABLES,
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            help='Only the steps with a tensor of this shape, as in "*x4x*x8", where * is one axis of any size.',
            rich_help_panel=TABLES,
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Draw by blocks, so many levels of them opened; a transformer too, instead of its poster. "
            "Without it what holds most weights is opened first, as far as stays readable.",
            show_default=False,
            rich_help_panel=PICTURE,
        ),
    ] = None,
    opened: Annotated[
        list[str] | None,
        typer.Option(
            "--open",
            help="Draw by blocks and open what has this path, a block or a step, with all around it, as in "
            '"decoder.layers.*"; norms, rotary turns and masks are one box until named. May be given several times.',
            show_default=False,
            rich_help_panel=PICTURE,
        ),
    ] = None,
    closed: Annotated[
        list[str] | None,
        typer.Option(
            "--close",
            help='Draw by blocks and keep those of these paths closed, as in "encoder"; may be given several times.',
            show_default=False,
            rich_help_panel=PICTURE,
        ),
    ] = None,
    blocks: Annotated[
        bool,
        typer.Option(
            "--blocks", help="Draw a transformer by blocks too, instead of its poster.", rich_help_panel=PICTURE
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No tables, only the files.")] = False,
) -> None:
    """Record every tensor shape and mask of a training step and of greedy inference, and draw them as one poster.

    With stdout sent to a file the poster goes there as SVG and the tables to the terminal. Without a trained run an
    untrained model is traced: exact in its shapes, random in its words.
    """
    from xray.cli.options.given import refuse
    from xray.cli.recording import record_chatbot, record_target
    from xray.cli.screen.painting import pick_theme
    from xray.cli.shown import check_picture, choose_forms, choose_steps, refuse_unshown, show_trace
    from xray.renderers.render import BlockOptions
    from xray.sources.spelling import names_settings

    answer = None
    if model is None:
        refuse(
            context,
            ("inputs", "meta", *SOURCE_OPTIONS, "mesh", "rank", "tp_plan"),
            "the chatbot makes its own inputs. Name a model, as my_model.py:build.",
        )
    else:
        chatbots = [name for name in CHATBOT_ONLY if name not in ANSWERS or not names_settings(model)]
        trains = mesh is not None and phase == "training"
        refuse(
            context,
            CHATBOT_ONLY[1:] if trains else chatbots,
            f"it is for the chatbot, and {show_controls(model)} is another model. Leave it out.",
        )
        answer = None if trains else read_asked(context, phase, ask, max_turns)
        if answer is not None:
            refuse(context, ("inputs", "mesh"), "an answer has a prompt for input, and one rank. Leave it out.")
    if mesh is None:
        refuse(context, ("rank", "tp_plan"), "nothing is divided. Give a mesh, as in --mesh dp=2,tp=8.")
    files = choose_forms(output or [])
    refuse_unshown(context, files, quiet=quiet)
    check_picture(files, paper, dpi)
    paint, pick = pick_theme(theme), choose_steps(only, shape)
    page, error = None, None
    request = make_request(inputs or [], meta, kind, batch, seq_len, image_size, trust_remote_code, answer)
    with_page = any(form == "html" for _, form in files)
    if model is None:
        recorded, page = record_chatbot(run, phase, ask, max_turns, device, kv_cache=kv_cache, with_page=with_page)
    else:
        values: Literal["page"] | None = "page" if with_page else None
        recorded, page, error = record_target(
            model, request, values=values, mesh=mesh, rank=rank, tp_plan=tp_plan, trains=phase == "training"
        )
    unfolded = layers == "all"
    asked = BlockOptions(depth=depth, open=opened or (), close=closed or (), blocks=blocks)
    show_trace(
        context,
        recorded,
        files,
        theme=paint,
        paper=paper,
        dpi=dpi,
        all_layers=unfolded,
        quiet=quiet,
        page=page,
        blocks=asked,
        pick=pick,
        tile=tile,
    )
    if error is not None:
        raise error


def read_asked(context: typer.Context, phase: str, ask: str | None, max_turns: int) -> "Asked | None":
    """What a model by its name is to answer; None where it is to be called once.

    Raises:
        UsageError: its training is asked for.
    """
    from xray.cli.options.given import is_given, refuse
    from xray.sources.request import TURNS, Asked

    if phase != "inference":
        told = "of a model by its name inference is recorded, or one call. Say --phase inference, or give --mesh."
        refuse(context, ("phase",), told)
    if not any(is_given(context, name) for name in ANSWERS):
        return None
    return Asked(ask, max_turns if is_given(context, "max_turns") else TURNS)
