"""Which twins there are of a model, and how it is recorded once more with one thing changed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from xray.capture.kernels.lacking import Lacking
from xray.capture.targets.inputs import Target
from xray.capture.targets.target import Outcome, find_way, run_once
from xray.capture.values import PreviewRule
from xray.config import ModelConfig
from xray.errors import UsageError
from xray.ir.trace import Trace
from xray.ir.twins import TWIN, TWINS
from xray.text import show_controls

LACKS = {"no-scale": "a scale", "no-causal-mask": "a causal mask"}
OWN = "Record it yourself, and give its trace: --twin twin.json"


def check_name(twin: object) -> None:
    """Make sure that a twin is known.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(twin, str) or twin not in TWINS:
        raise UsageError(f"the twin {twin!r} is unknown. Choose {', '.join(TWINS)}, or the trace of another recording.")


def check_twin(twin: object, config: ModelConfig, phase: str, *, kv_cache: bool) -> None:
    """Make sure that there is something to change for a twin of the chatbot.

    Raises:
        UsageError: its name is unknown, or it would be the same.
    """
    check_name(twin)
    if twin in ("kv-cache", "no-kv-cache") and phase == "training":
        raise UsageError(f"{twin}: a training step keeps no keys and values. Choose the phase inference, or both.")
    same = {
        "kv-cache": kv_cache and "the answer is decoded with a cache already. Choose the twin no-kv-cache",
        "no-kv-cache": not kv_cache and "the answer is decoded without a cache anyway. Choose the twin kv-cache",
        "no-cross-mask": config.cross_mask == "none" and "the chatbot has no mask of cross-attention to leave out",
        "no-embedding-scale": not config.scale_embeddings and "the chatbot does not scale its embeddings",
    }
    reason = same.get(str(twin))
    if reason:
        raise UsageError(f"{twin}: {reason}.")


@dataclass(frozen=True)
class State:
    """What a run may change and another run is to find as it was: chance, and what the model keeps beside weights."""

    chance: torch.Tensor
    buffers: dict[str, torch.Tensor]


def read_state(model: nn.Module) -> State:
    """The state of chance, and of a model."""
    return State(torch.get_rng_state(), {name: one.clone() for name, one in model.named_buffers() if not is_lazy(one)})


@contextmanager
def in_state(model: nn.Module, state: State) -> Iterator[None]:
    """Inside the block chance and the model are as they were; chance goes on afterwards as if nothing had been."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.set_rng_state(state.chance)
        for name, one in model.named_buffers():
            if name in state.buffers and not one.is_meta:
                one.copy_(state.buffers[name])
        yield


def record_twins(
    target: Target, preview: PreviewRule | None, twins: Sequence[str], name: str, *, answers: bool
) -> tuple[Outcome, dict[str, Trace]]:
    """A model recorded, and its twins by their names: the same weights, the same inputs, one thing changed.

    Raises:
        UsageError: there is no such twin of this model; the message says why, and what to do.
    """
    for twin in twins:
        check_name(twin)
    states: list[State] = []
    way, outcome = find_way(target, preview, lambda one: states.append(read_state(one.model)) if twins else None)
    if outcome.error is not None:
        return outcome, {}
    return outcome, {one: record_twin(way, states[-1], preview, one, name, answers=answers) for one in twins}


def record_twin(
    target: Target, state: State, preview: PreviewRule | None, twin: str, name: str, *, answers: bool
) -> Trace:
    """One twin of a model that has been recorded in this way, from this state on."""
    mode = None
    if twin == "no-kv-cache" and answers and target.call is not None:
        changed = replace(target, call=partial(target.call, use_cache=False))
    elif twin in LACKS:
        mode = Lacking(twin)
        changed = replace(target, call=partial(call_within, mode, target.call))
    else:
        raise UsageError(f"{twin}: {say_why(twin, name, answers=answers)}.")
    with in_state(target.model, state):
        outcome = run_once(replace(changed, rebuild=None), preview)
    if mode is not None and mode.kept:
        raise UsageError(f"{twin}: {name} cannot be recorded so, as {mode.kept}. {OWN}.")
    if mode is not None and not mode.changed:
        raise UsageError(f"{twin}: {name} never calls scaled_dot_product_attention with {LACKS[twin]}. {OWN}.")
    if outcome.error is not None:
        reason = show_controls(" ".join(str(outcome.error).split())).rstrip(".")
        raise UsageError(f"{twin}: {name} does not run so, {type(outcome.error).__name__}: {reason}. {OWN}.")
    return replace(outcome.trace, config={**outcome.trace.config, TWIN: twin})


def say_why(twin: str, name: str, *, answers: bool) -> str:
    """Why there is no such twin of a model that is not the chatbot."""
    if twin == "kv-cache" and answers:
        return f"{name} answers with its own cache already. Choose no-kv-cache"
    if twin in ("kv-cache", "no-kv-cache"):
        return f"{name} is called once, and keeps nothing. Ask a model of the transformers library, with --ask"
    return f"only the chatbot can be recorded so, not {name}. {OWN}"


def call_within(mode: Lacking, call: Any, model: nn.Module, *args: Any, **kwargs: Any) -> object:
    """What is done with a model, done inside a mode."""
    with mode:
        return model(*args, **kwargs) if call is None else call(model, *args, **kwargs)
