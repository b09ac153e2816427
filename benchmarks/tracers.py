"""The contestants of tracing.py: bare forward, plain hooks, X-Ray, and the tracers that happen to be installed."""

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from dot_program import offer_dot
from torch import Tensor, nn

import xray
from xray.renderers.sheet.image import draw_dot

Inputs = tuple[Any, ...]
Run = Callable[[nn.Module, Inputs], Any]

BARE, HOOKS, RUNNING, XRAY = "bare forward", "module hooks", "X-Ray, running", "X-Ray, trace in hand"
PEERS = ("torchlens", "torchview", "torchinfo", "torchvista")
INSTALL = "pip install --no-deps --target peers torchlens torchview torchinfo torchvista, then --peers peers"


def run_bare(model: nn.Module, inputs: Inputs) -> None:
    """The model, and nothing else."""
    model(*inputs)


def run_hooks(model: nn.Module, inputs: Inputs) -> None:
    """What people write themselves: the shape of what each module gives. It sees no operation."""
    shapes: list[tuple[str, tuple[int, ...]]] = []

    def note(module: nn.Module, _: Any, result: Any) -> None:  # noqa: ANN401  # modules give anything
        if isinstance(result, Tensor):
            shapes.append((type(module).__name__, tuple(result.shape)))

    handles = [module.register_forward_hook(note) for module in model.modules()]
    model(*inputs)
    for handle in handles:
        handle.remove()


def run_recording(model: nn.Module, inputs: Inputs) -> None:
    """The forward while it is recorded; what a user waits for inside the `with` block."""
    with xray.record(model):
        model(*inputs)


def run_xray(model: nn.Module, inputs: Inputs) -> xray.Trace:
    """The forward recorded, and the record frozen, with its axis words."""
    return xray.trace(model, *inputs)


def run_torchlens(model: nn.Module, inputs: Inputs) -> Any:  # noqa: ANN401  # a type of torchlens
    """As its users call it."""
    import torchlens

    return torchlens.trace(model, list(inputs))


def run_torchview(model: nn.Module, inputs: Inputs) -> Any:  # noqa: ANN401  # a type of torchview
    """With all depths, since X-Ray records them too."""
    from torchview import draw_graph

    return draw_graph(model, input_data=inputs, depth=20, device="cpu", mode="eval", expand_nested=True)


def run_torchinfo(model: nn.Module, inputs: Inputs) -> Any:  # noqa: ANN401  # a type of torchinfo
    """Modules only, no operation."""
    from torchinfo import summary

    return summary(model, input_data=inputs, depth=20, verbose=0, device="cpu", mode="eval")


def run_torchvista(model: nn.Module, inputs: Inputs) -> None:
    """Its page, since it gives nothing else; Graphviz then runs in the reader's browser, which is not timed."""
    from torchvista import trace_model

    with TemporaryDirectory() as folder:
        trace_model(model, inputs, export_format="html", export_path=str(Path(folder) / "page.html"))


TRACERS: dict[str, Run] = {
    BARE: run_bare,
    HOOKS: run_hooks,
    RUNNING: run_recording,
    XRAY: run_xray,
    "torchlens": run_torchlens,
    "torchview": run_torchview,
    "torchinfo": run_torchinfo,
    "torchvista": run_torchvista,
}
"""What is timed while it records."""


def draw_xray(model: nn.Module, inputs: Inputs) -> int:
    """From the call to the SVG's length."""
    return len(str(xray.render(run_xray(model, inputs), "svg")))


def draw_torchlens(model: nn.Module, inputs: Inputs) -> int:
    """Its SVG, by the Graphviz that X-Ray uses where no other is installed."""
    with TemporaryDirectory() as folder, offer_dot():
        run_torchlens(model, inputs).draw(vis_outpath=f"{folder}/graph", vis_save_only=True, vis_fileformat="svg")
        return sum(path.stat().st_size for path in Path(folder).glob("*.svg"))


def draw_torchview(model: nn.Module, inputs: Inputs) -> int:
    """Its DOT, laid out by the Graphviz that X-Ray uses."""
    return len(draw_dot(run_torchview(model, inputs).visual_graph.source, "svg", "dot"))


def draw_torchinfo(model: nn.Module, inputs: Inputs) -> int:
    """It draws nothing; its table instead."""
    return len(str(run_torchinfo(model, inputs)))


def draw_torchvista(model: nn.Module, inputs: Inputs) -> int:
    """Its page, in which nothing is laid out yet."""
    run_torchvista(model, inputs)
    return 0


DRAWERS: dict[str, Callable[[nn.Module, Inputs], int]] = {
    XRAY: draw_xray,
    "torchlens": draw_torchlens,
    "torchview": draw_torchview,
    "torchinfo": draw_torchinfo,
    "torchvista": draw_torchvista,
}
"""What is timed from the call to the picture."""


def quietly(run: Run) -> Run:
    """The contestant without gradients, and without what it prints or warns of."""

    def silent(model: nn.Module, inputs: Inputs) -> Any:  # noqa: ANN401  # whatever the contestant gives
        with (
            torch.no_grad(),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            return run(model, inputs)

    return silent


def is_there(name: str) -> bool:
    """Whether a contestant is installed; those that are no peers always are."""
    return name not in PEERS or importlib.util.find_spec(name) is not None
