"""The ways in which a model may run that X-Ray builds itself: the cheapest that works is taken."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from xray.capture.targets.inputs import Target, parse_input
from xray.capture.tensors import positional_names
from xray.errors import TraceError, XRayError
from xray.ir.trace import CUTS, SMALL_COPY, WHOLE_PARAMS, Trace
from xray.sources.known_values import LengthyError, build_on_meta, known_values
from xray.sources.quiet import quietly
from xray.sources.request import Request
from xray.sources.stand_ins import stand_ins
from xray.text import show_controls

MOST_BYTES = 2 << 30
"""Weights that take up more than this are not made with numbers; a small copy of the model is, where there is one."""
PATIENCE_S = 60.0
"""After so long no other inputs are tried."""

MOST_OPERATIONS = 60_000
"""A pass with more than these is not waited for where a smaller image may do: some sort their keys place by place."""

STRETCH = 1_000_003
DRAWING = frozenset({torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default})
"""Where more numbers than the first are drawn by one of these, they repeat."""

WITHOUT_STORAGE = "without storage: shapes and masks, but no other numbers"
OF_LITTLE = f"{WITHOUT_STORAGE}; of a small image, as a large one takes too long"
WITH_CHANCE = "with chance weights"
COPIED = "as a small copy with fewer layers and chance weights"
Make = Callable[[], nn.Module]
Finish = Callable[[Trace], Trace]
Block = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Made:
    """Keywords to call a model with, and the words for their axes."""

    values: dict[str, Any]
    axes: Mapping[str | int, tuple[str, ...]]


@dataclass(frozen=True)
class SmallCopy:
    """How to build a small copy of a model, and what it has fewer of: settings, each as "num_layers 1 of 28"."""

    make: Make
    cuts: tuple[str, ...]


class Feed(Protocol):
    """Whoever makes inputs for a model: guesses, the likeliest first."""

    def __call__(self, model: nn.Module, *, has_storage: bool) -> Iterator[Made]:
        """The inputs; what is chance has no values without storage."""


FeedLittle = Callable[[nn.Module], Feed | None]
"""What makes a smaller image for a model than its settings speak of; None where it takes none, or one was asked for."""
Ways = Generator[Target, BaseException, None]


def run_ways(
    make: Make,
    feed: Feed,
    request: Request,
    name: str,
    small: SmallCopy | None = None,
    feed_little: FeedLittle | None = None,
) -> Target:
    """The first way to run the model that `make` builds; where it fails, the target knows the next.

    It runs without storage where it can. Where it asks for numbers that hang on its weights, it is built with chance
    weights, and where it is too large for that, a small copy of it is. What takes very long is given less.

    Raises:
        TraceError: it cannot be built.
    """
    ways = list_ways(make, feed, request, name, small, feed_little)
    return link(next(ways), ways)


def link(target: Target, ways: Ways) -> Target:
    """The target, and behind it all others."""

    def go_on(error: BaseException) -> Target | None:
        try:
            return link(ways.send(error), ways)
        except StopIteration:
            return None

    return replace(target, otherwise=go_on)


def tell_more(target: Target, more: str) -> Target:
    """The target and all behind it, which say of how they run something more."""

    def go_on(error: BaseException) -> Target | None:
        other = target.otherwise(error) if target.otherwise is not None else None
        return None if other is None else tell_more(other, more)

    return replace(target, told=f"{target.told}; {more}", otherwise=go_on)


def list_ways(
    make: Make, feed: Feed, request: Request, name: str, small: SmallCopy | None, feed_little: FeedLittle | None
) -> Ways:
    """The targets to try one after the other; it is sent the error in which each of them ended."""
    bare = build(lambda: build_on_meta(make), name)
    little = None if feed_little is None else feed_little(bare)
    most = None if little is None else MOST_OPERATIONS
    error = yield from list_targets(bare, feed, request, WITHOUT_STORAGE, most=most)
    if little is not None and isinstance(error, LengthyError):
        yield from list_targets(bare, little, request, OF_LITTLE)
        error = yield from list_targets(bare, feed, request, WITHOUT_STORAGE)  # it takes images of one size alone
    if request.meta or error is None or not asks_for_numbers(error):
        return
    if count_bytes(bare) <= MOST_BYTES:
        yield from list_targets(build(lambda: build_seeded(make), name), feed, request, WITH_CHANCE)
    elif small is not None:
        finish = partial(note_copy, cuts=small.cuts, params=sum(one.numel() for one in bare.parameters()))
        yield from list_targets(build(lambda: build_seeded(small.make), name), feed, request, COPIED, finish=finish)


def list_targets(
    model: nn.Module,
    feed: Feed,
    request: Request,
    told: str,
    *,
    finish: Finish | None = None,
    most: int | None = None,
) -> Generator[Target, BaseException, BaseException | None]:
    """The model with one guess at its inputs after the other, until the error is no matter of inputs any more.

    Nor is it where a pass without storage takes more operations than `most`.
    """
    began, error = time.monotonic(), None
    has_storage = not told.startswith(WITHOUT_STORAGE)
    around: Block = quietly if has_storage else partial(without_storage, most)
    guesses = iter([read_inputs(model, request)]) if request.inputs else feed(model, has_storage=has_storage)
    while time.monotonic() - began < PATIENCE_S:
        with around():
            made = next(guesses, None)
        if made is None:
            break
        error = yield Target(model, (), made.values, axes=made.axes, around=around, told=told, finish=finish)
        if asks_for_numbers(error) or isinstance(error, LengthyError):
            break
    return error


def note_copy(trace: Trace, cuts: Sequence[str], params: int) -> Trace:
    """The trace with a note that it is of a small copy: what that has fewer of, and the parameters of the whole."""
    return replace(trace, config={**trace.config, SMALL_COPY: True, CUTS: ", ".join(cuts), WHOLE_PARAMS: params})


def read_inputs(model: nn.Module, request: Request) -> Made:
    """The inputs that were asked for, each by its name."""
    names = positional_names(type(model))
    given = [parse_input(text) for text in request.inputs]
    return Made({key or names[place]: value for place, (key, value) in enumerate(given)}, {})


def asks_for_numbers(error: BaseException) -> bool:
    """Whether a model failed because it had to know a number that nobody had worked out."""
    told = str(error).lower()
    return isinstance(error, NotImplementedError) or "meta" in told or "unallocated storage" in told


def build(make: Make, name: str) -> nn.Module:
    """What a recipe gives.

    Raises:
        TraceError: it cannot be built.
    """
    try:
        with quietly():
            return make()
    except XRayError:
        raise
    except Exception as error:  # whatever a library raises on settings that do not fit together
        reason = show_controls(" ".join(str(error).split())[:300]).rstrip(".")
        raise TraceError(
            f"{show_controls(name)} cannot be built: {type(error).__name__}: {reason}. Check its settings."
        ) from error


def build_seeded(make: Make) -> nn.Module:
    """The same model each time, and the random state as it was."""
    with torch.random.fork_rng(devices=[]), RepeatedChance():  # type: ignore[no-untyped-call]  # torch's own
        torch.manual_seed(0)
        return make()


class RepeatedChance(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves its hook for subclasses untyped
    """A block in which large tensors are filled with one stretch of chance numbers, over and over.

    To draw each of some billions of numbers takes longer than all else. The stretch is as long as a prime, so that no
    two rows of a matrix begin at the same place of it.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """One operation."""
        if func not in DRAWING or args[0].numel() <= STRETCH or not args[0].is_contiguous():
            return func(*args, **(kwargs or {}))
        numbers = args[0].view(-1)
        stretch = func(numbers.new_empty(STRETCH), *args[1:], **(kwargs or {}))
        whole = numbers.numel() // STRETCH * STRETCH
        numbers[:whole].view(-1, STRETCH).copy_(stretch)
        numbers[whole:].copy_(stretch[: numbers.numel() - whole])
        return args[0]


@contextmanager
def without_storage(most: int | None = None) -> Iterator[None]:
    """A block in which a model runs that was built without storage, in no more operations than `most`."""
    with quietly(), stand_ins(), known_values(most):
        yield


def count_bytes(model: nn.Module) -> int:
    """The bytes of a model's weights."""
    return sum(one.numel() * one.element_size() for one in model.parameters())
