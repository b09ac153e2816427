"""A program that torch.export saved, a `.pt2` file, with the inputs that it was exported with."""

from pathlib import Path

import torch

from xray.capture.targets.inputs import Target, check_inputs
from xray.capture.targets.own_code import make_target
from xray.capture.targets.target import give_inputs
from xray.errors import TraceError
from xray.sources.request import Request
from xray.text import show_controls


def load_exported(name: str, request: Request) -> Target:
    """The model in a file that `torch.export.save` wrote; only with `trust_remote_code`, as torch may unpickle parts.

    Raises:
        TraceError: there is no such file, it is not trusted, or it holds no exported program.
    """
    path, shown = Path(name).expanduser(), show_controls(name)
    if not path.is_file():
        raise TraceError(f"cannot read {shown}: no such file. Save one with torch.export.save(program, 'model.pt2').")
    if not request.trust_remote_code:
        raise TraceError(
            f"{shown} may bring code along: torch unpickles parts of such a file. If you trust it, run it with "
            "--trust-remote-code."
        )
    try:
        program = torch.export.load(path)
    except Exception as error:  # whatever the zip file, its JSON or torch's own schema makes torch raise
        reason = show_controls(" ".join(str(error).split())[:200]).rstrip(".")
        raise TraceError(
            f"{shown} holds no exported program: {type(error).__name__}: {reason}. Save one with torch.export.save."
        ) from error
    target = give_inputs(make_target(program, name), request.inputs)
    check_inputs(target, name)
    return target
