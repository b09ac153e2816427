"""What several commands take alike: the options of a model by its name, and the chatbot where none is named."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from xray.sources.request import Asked, Request

DEFAULT_RUN = Path("runs/movie_qa")
"""Where the chatbot is that the commands take if nobody names one."""

PANEL, RANKS = "A model by its name", "One rank of many"
SOURCE_OPTIONS = ("kind", "batch", "seq_len", "image_size", "trust_remote_code")

KindOption = Annotated[
    str | None,
    typer.Option(
        "--as",
        help="Which of its classes, as causal-lm, sequence-classification or base.",
        show_default="what its settings name",
        rich_help_panel=PANEL,
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch", min=1, max=4096, help="How many inputs to make at a time.", show_default="2", rich_help_panel=PANEL
    ),
]
SeqLenOption = Annotated[
    int | None,
    typer.Option(
        "--seq-len",
        min=1,
        max=1 << 24,
        help="How many words to make, images and sounds among them apart.",
        show_default="10",
        rich_help_panel=PANEL,
    ),
]
ImageSizeOption = Annotated[
    int | None,
    typer.Option(
        "--image-size",
        min=1,
        max=16_384,
        help="The side of the images to make.",
        show_default="what its settings say",
        rich_help_panel=PANEL,
    ),
]
MeshOption = Annotated[
    str | None,
    typer.Option(
        help="Divide it among ranks that are not there, as dp=2,tp=8, and record one of them: dp, fsdp, tp, ep, pp.",
        show_default=False,
        rich_help_panel=RANKS,
    ),
]
RankOption = Annotated[int, typer.Option(min=0, help="Which rank of the mesh to record.", rich_help_panel=RANKS)]
PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--tp-plan",
        help='How tp divides it, as JSON: {"layers.*.up": "colwise", "layers.*.down": "rowwise"}.',
        show_default="the model's own plan",
        rich_help_panel=RANKS,
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run the code that a model brings along, from the hub or in a .pt2, this once. Nothing else does.",
        rich_help_panel=PANEL,
    ),
]


def make_request(
    inputs: Sequence[str],
    meta: bool,
    kind: str | None,
    batch: int | None,
    seq_len: int | None,
    image_size: int | None,
    trust_remote_code: bool,
    answer: "Asked | None" = None,
) -> "Request":
    """What was asked of a model beside its name."""
    from xray.sources.request import Request
    from xray.sources.sizes import Wishes

    wishes = Wishes(batch, seq_len, image_size)
    return Request(tuple(inputs), meta, kind, wishes, trust_remote_code, answer=answer)
