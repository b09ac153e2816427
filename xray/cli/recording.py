"""What `xray trace` and its sisters record: the chatbot of a run folder, or somebody's own model."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from xray.cli.keeping_stdout import keep_stdout
from xray.cli.loading import loading
from xray.cli.options.of_sources import DEFAULT_RUN
from xray.cli.output import say
from xray.errors import TraceError, XRayError
from xray.ir.trace import Step, Trace
from xray.ir.values import drop_values
from xray.sources.request import Request
from xray.story.failure.rules import find_misfit
from xray.text import show_controls

if TYPE_CHECKING:
    from xray.capture.targets.run import Phase, Run
    from xray.capture.targets.target import Outcome


def load_or_make(run: Path | None, device: str) -> "Run":
    """The chatbot of a run folder, by default the usual one; where there is none, an untrained one, which is said."""
    with loading():
        from xray.capture.targets.run import load, make_untrained

    if run is not None or DEFAULT_RUN.exists():
        return load(run or DEFAULT_RUN, device=device)
    say(
        f"xray: no trained run in {DEFAULT_RUN}, so the model is untrained: its shapes are exact, its words are "
        "chance. To train one: xray demo"
    )
    return make_untrained(device=device)


def record_chatbot(
    run: Path | None,
    phase: "Phase",
    ask: str | None,
    max_turns: int,
    device: str,
    *,
    kv_cache: bool = False,
    with_page: bool = False,
) -> tuple[Trace, Trace | None]:
    """The chatbot's trace, after what there is to say about the question; and one with more values for a page.

    They are recorded one after the other, so that the first is the same whether a page is made or not.
    """
    chatbot = load_or_make(run, device)
    for note in (*chatbot.chatbot.notes, *chatbot.notes(ask)):
        say(f"xray: {show_controls(note)}")
    recorded = chatbot.trace(phase, ask, max_turns, kv_cache=kv_cache)
    page = chatbot.trace(phase, ask, max_turns, kv_cache=kv_cache, values="page") if with_page else None
    return recorded, page


def record_target(
    name: str,
    request: Request,
    *,
    values: Literal["page", "attention"] | None = None,
    mesh: str | None = None,
    rank: int = 0,
    tp_plan: Path | None = None,
    trains: bool = False,
) -> tuple[Trace, Trace | None, XRayError | None]:
    """The trace of a model that somebody names, one with the values that are asked for, and the failure that ended it.

    The failure is to be raised once the trace is shown. The model runs once; the plain trace is the other less values.
    With a mesh it is one rank of a model divided so, and where it `trains` the way back from its loss too.
    """
    with loading():
        from xray.capture.targets.page_values import preview_for_page
        from xray.capture.targets.target import run_target
        from xray.capture.values import preview_attention
        from xray.sources.loading import load_source

    with keep_stdout():
        rules = {"page": preview_for_page, "attention": preview_attention}
        preview = rules.get(values or "")
        if mesh is None:
            outcome = run_target(load_source(name, request), preview)
        else:
            from xray.ranks.recording import ask, record_rank

            asked = ask(mesh, rank, tp_plan, trains=trains)
            outcome = record_rank(load_source(name, request), asked, preview)
    if outcome.told:
        say(f"xray: {show_controls(name)} ran {outcome.told}")
    valued = None if values is None else outcome.trace
    recorded = outcome.trace if valued is None else drop_values(valued)
    return recorded, valued, read_failure(outcome)


def record_twinned(name: str, request: Request, twins: Sequence[str]) -> tuple[Trace, dict[str, Trace]]:
    """A model that somebody names with the values of a page, and its twins by their names.

    Raises:
        UsageError: there is no such twin of it.
        TraceError: the model fails.
    """
    with loading():
        from xray.capture.targets.page_values import preview_for_page
        from xray.capture.targets.twins import record_twins
        from xray.sources.loading import load_source

    shown = show_controls(name)
    with keep_stdout():
        target = load_source(name, request)
        outcome, others = record_twins(target, preview_for_page, twins, shown, answers=request.answer is not None)
    if outcome.told:
        say(f"xray: {shown} ran {outcome.told}")
    error = read_failure(outcome)
    if error is not None:
        raise error
    return outcome.trace, others


def read_failure(outcome: "Outcome") -> XRayError | None:
    """The failure that ended a recording, with where it was and what to do; None where it went well."""
    if outcome.error is None:
        return None
    failed = next((step for step in reversed(outcome.trace.steps) if step.error is not None), None)
    line = find_user_line(outcome.error)
    where = f" at {failed.path}" if failed is not None else ""
    where += f" ({line})" if line else ""
    reason = show_controls(" ".join(str(outcome.error).split())).rstrip(".")
    if isinstance(outcome.error, SystemExit):
        told = f"the forward ended the program{show_controls(where)}, with sys.exit({reason}). Let it return a result."
    else:
        told = f"the forward raised {type(outcome.error).__name__}{show_controls(where)}: {reason}.{hint_at(failed)}"
    error = TraceError(f"{told} What ran before it is shown.")
    error.__cause__ = outcome.error
    return error


def hint_at(failed: Step | None) -> str:
    """The rule that a step has broken, where it is known, with what to do."""
    rule = "" if failed is None else find_misfit(failed).rule
    return f" Hint: {rule}." if rule else ""


def find_user_line(error: BaseException) -> str | None:
    """The innermost line of an exception's traceback that is neither torch's nor X-Ray's: "my_model.py:41"."""
    own = ("/torch/", "/xray/", "\\torch\\", "\\xray\\")
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not any(one in frame.filename for one in own)
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else None
