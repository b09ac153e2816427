"""One way to a model for every command: its name, in whatever form, becomes a target that can be recorded."""

from collections.abc import Callable, Mapping

from xray.capture.targets.inputs import Target
from xray.capture.targets.target import load_target
from xray.errors import UsageError
from xray.ir.trace import Setting
from xray.sources.diffusion.loading import load_diffusers
from xray.sources.exported import load_exported
from xray.sources.named import list_settings, load_named
from xray.sources.request import Request
from xray.sources.sizes import Wishes
from xray.sources.spelling import check_there, is_settings
from xray.sources.vision import load_timm, load_torchvision
from xray.text import show_controls

SCHEMES: Mapping[str, Callable[[str, Request], Target]] = {
    "hf": load_named,
    "timm": load_timm,
    "torchvision": load_torchvision,
    "diffusers": load_diffusers,
}


def load_source(source: str, request: Request | None = None) -> Target:
    """The model that somebody names, with inputs: every command that takes a model takes these names.

    "hf:owner/model" and a folder or file with a `config.json` are models of the transformers library; "timm:name",
    "torchvision:name", "diffusers:folder" and "diffusers:Class" those of others; "model.pt2" is an exported program;
    "file.py:build" and "package.module:build" run somebody's own code.

    Raises:
        UsageError: the name is not of the right form, or an option does not go with it.
        TraceError: there is no such model, or it cannot be built.
    """
    request = request or Request()
    scheme, colon, rest = source.partition(":")
    if colon and scheme in SCHEMES:
        check_rest(source, rest)
        if scheme != "hf":
            refuse_answer(source, request)
        return SCHEMES[scheme](rest, request)
    if is_settings(source):
        return load_named(source, request)
    refuse_answer(source, request)
    if source.endswith(".pt2"):
        return load_exported(source, request)
    if request.kind is not None or request.trust_remote_code or request.wishes != Wishes():
        raise UsageError(
            f"{show_controls(source)} makes its own model and inputs: leave out --as, --batch, --seq-len, --image-size "
            "and --trust-remote-code, or name a model such as hf:owner/model."
        )
    check_there(source)
    return load_target(source, request.inputs, meta=request.meta)


def check_rest(source: str, rest: str) -> None:
    """Make sure that a name stands behind the colon.

    Raises:
        UsageError: none does.
    """
    if not rest:
        raise UsageError(f"{show_controls(source)} names no model. Write one behind the colon, as in hf:owner/model.")


def refuse_answer(source: str, request: Request) -> None:
    """Make sure that no answer is asked of a model that X-Ray does not know how to ask.

    Raises:
        UsageError: one is.
    """
    if request.answer is not None:
        raise UsageError(
            f"{show_controls(source)} is called once: only models of the transformers library answer word by word. "
            "Leave out --phase, --ask and --max-turns, or name one, as hf:owner/model."
        )


def read_source_settings(source: str) -> Mapping[str, Setting] | None:
    """The settings that a model of the transformers library is built of; None for every other source.

    Raises:
        TraceError: there is no such model.
    """
    scheme, colon, rest = source.partition(":")
    if colon and scheme == "hf":
        check_rest(source, rest)
        return list_settings(rest)
    return list_settings(source) if is_settings(source) else None
