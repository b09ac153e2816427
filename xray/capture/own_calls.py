"""Models whose class has a `__call__` of its own: torch's hooks may not see its beginning, its end, or either."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from torch import nn


def has_own_call(kind: type[nn.Module]) -> bool:
    """Whether the model's author wrote what calling it does, rather than torch."""
    own = kind.__call__
    return own is not nn.Module.__call__ and str(getattr(own, "__module__", "")).partition(".")[0] != "torch"


@contextmanager
def hear_own_call(model: nn.Module, before: Callable[..., None], after: Callable[..., None]) -> Iterator[None]:
    """A block in which each call of this model is told, from the first line of its class's own `__call__` to its last.

    So it is told once, and wholly, be torch's call inside it or not.
    """
    kind = type(model)
    own, is_inherited = kind.__call__, "__call__" not in vars(kind)

    @wraps(own)
    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if self is not model:
            return own(self, *args, **kwargs)
        before(self, args, is_own=True)
        try:
            result = own(self, *args, **kwargs)
        except BaseException:
            after(self, args, kwargs, is_own=True)
            raise
        after(self, args, kwargs, result, is_own=True)
        return result

    kind.__call__ = call  # type: ignore[method-assign]  # put back below
    try:
        yield
    finally:
        if is_inherited:
            del kind.__call__
        else:
            kind.__call__ = own  # type: ignore[method-assign]
