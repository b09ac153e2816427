"""A model from somebody's own code: a file or module is imported, and what it builds is told apart from its inputs."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from xray.capture.targets.inputs import Target
from xray.capture.tensors import reads_argument
from xray.errors import TraceError, UsageError
from xray.text import show_controls

Inputs = tuple[Sequence[Any], Mapping[str, Any]]
"""Arguments and keywords."""

EXAMPLE = "Write it as my_model.py:build."


def build_target(name: str, *, meta: bool = False) -> Target:
    """The model that `file.py:build` or `package.module:build` gives, with the inputs that come with it.

    `build` is a model, or a function that returns one, alone or with its inputs (see `sort_inputs`). This runs the code
    in the file. With `meta` the model is built without storage.

    Raises:
        UsageError: the name is not of the right form.
        TraceError: there is no such file, module or function, or it gives no model.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise UsageError(f"the model {show_controls(name)!r} names no function. {EXAMPLE}")
    module = import_place(place)
    build = getattr(module, attribute, None)
    if build is None:
        known = ", ".join(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise TraceError(
            f"{show_controls(place)} has no {show_controls(attribute)}. It has: {known or 'no functions'}."
        )
    if isinstance(build, nn.Module) or is_exported(build):
        return make_target(build, name)
    with torch.device("meta") if meta else nullcontext():
        built = call_build(build, name)
    target = make_target(built, name)
    if is_exported(first_of(built)):  # whose sizes are settled
        return target
    return replace(target, rebuild=lambda: make_target(build(), name).model)


def import_place(place: str) -> ModuleType:
    """The module in a file, or the one of that name, first looked for in the current folder.

    Raises:
        TraceError: there is none, or it cannot be run.
    """
    try:
        if place.endswith(".py"):
            return run_file(Path(place))
        if not all(part.isidentifier() for part in place.split(".")):
            raise TraceError(f"{show_controls(place)} is neither a Python file nor a module. {EXAMPLE}")
        if (path := Path(f"{place}.py")).is_file():
            return run_file(path)
        look_first_in(Path.cwd())
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        missing = show_controls(error.name or "")
        if not missing:  # the file itself says what is missing
            raise TraceError(f"cannot import {show_controls(place)}: {show_controls(str(error))}.") from error
        if f"{place}.".startswith(f"{missing}."):
            raise TraceError(f"cannot import {show_controls(place)}: No module named {missing!r}. {EXAMPLE}") from error
        raise TraceError(
            f"cannot import {show_controls(place)}: it needs {missing!r}, which is not installed here."
        ) from error
    except SyntaxError as error:
        raise TraceError(
            f"{show_controls(place)} line {error.lineno}: {show_controls(str(error.msg))}. Mend it, and trace again."
        ) from error
    except TraceError:
        raise
    except (Exception, SystemExit) as error:
        raise TraceError(f"{show_controls(place)} cannot be run: {describe_raised(error)}") from error


def run_file(path: Path) -> ModuleType:
    """The module in a file; what it imports is looked for beside it first.

    Raises:
        TraceError: there is no such file.
    """
    if not path.is_file():
        raise TraceError(f"cannot read {show_controls(str(path))}: no such file. {EXAMPLE}")
    # a file may be called like a module that others need, xray.py for instance
    name = path.stem if path.stem not in sys.modules else f"traced_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TraceError(f"cannot read {show_controls(str(path))} as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that the file's own classes can be found by name, as when it is imported
    look_first_in(path.resolve().parent)
    with leaving_no_bytecode():
        spec.loader.exec_module(module)
    return module


@contextmanager
def leaving_no_bytecode() -> Iterator[None]:
    """A block in which imports leave no compiled files in folders, which are somebody else's."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def look_first_in(folder: Path) -> None:
    """Let imports look in a folder before all others."""
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


def call_build(build: object, name: str) -> object:
    """What somebody's function gives.

    Raises:
        TraceError: it is no function, wants arguments, or raises.
    """
    if not callable(build):
        raise TraceError(f"{show_controls(name)} is a {type(build).__name__}. It has to be a function or a model.")
    try:
        return build()
    except (Exception, SystemExit) as error:
        raise TraceError(f"{show_controls(name)} gave no model: {describe_raised(error)}") from error


def describe_raised(error: BaseException) -> str:
    """What somebody's own code raised, in one line."""
    text = show_controls(" ".join(str(error).split()))
    return f"it raised {type(error).__name__}{': ' if text else ''}{text}. See all of it with --debug."


def make_target(built: object, name: str) -> Target:
    """The model and the inputs in what a function returned.

    Raises:
        TraceError: there is no model in it.
    """
    model = first_of(built)
    rest = built[1:] if isinstance(built, tuple | list) else ()
    known: Inputs = ((), {})
    if is_exported(model):
        known, model = model.example_inputs or known, model.module()
    if not isinstance(model, nn.Module):
        raise TraceError(
            f"{show_controls(name)} gives {describe_other(model)}. It has to return a torch.nn.Module, or one and its "
            "inputs."
        )
    args, kwargs = sort_inputs(model, rest) if rest else known
    return Target(model, tuple(args), dict(kwargs))


def first_of(built: object) -> Any:
    """The model in what a function returned, which comes first where more was returned."""
    return built[0] if isinstance(built, tuple | list) and built else built


def is_exported(value: object) -> bool:
    """Whether this is a program that torch.export made, which holds a model and is none."""
    export = sys.modules.get("torch.export")  # a file that has made one has loaded it
    return export is not None and isinstance(value, export.ExportedProgram)


def describe_other(value: object) -> str:
    """What it is that is no model: "nothing", "the class Net, not a Net()", "a dict"."""
    if value is None:
        return "nothing"
    if isinstance(value, type):
        return f"the class {value.__name__}, not a model made of it"
    return f"a {type(value).__name__}"


def sort_inputs(model: nn.Module, rest: Sequence[Any]) -> Inputs:
    """The arguments and keywords in what a function returned after its model.

    They may stand one by one (`model, a, b`), together (`model, (a, b)`), as keywords (`model, {"mask": m}`), or as
    both (`model, a, {"mask": m}`, `model, (a, b), {"mask": m}`). Among others a mapping holds keywords if the forward
    has parameters of these names.
    """
    *args, last = rest
    kwargs: Mapping[str, Any] = {}
    if isinstance(last, Mapping) and (not args or all(reads_argument(type(model), str(key)) for key in last)):
        kwargs = last
    else:
        args = [*args, last]
    if len(args) == 1 and type(args[0]) in (tuple, list):  # not a named one, such as a PackedSequence
        args = list(args[0])
    return args, kwargs
