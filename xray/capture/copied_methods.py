"""Functions of torch that were copied into a class: as methods they still hand themselves on by a name that is gone."""

import builtins
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType

from torch import nn


@contextmanager
def name_copied_methods(model: nn.Module) -> Iterator[None]:
    """A block in which methods that hand themselves on to who watches torch's functions are found by their own name.

    Nobody watches where the model runs alone, so that its author never saw that the name is missing (HRFormer).
    """
    with ExitStack() as named:
        for method in {one for kind in map(type, model.modules()) for one in list_nameless(kind)}:
            method.__globals__[method.__name__] = method
            named.callback(method.__globals__.pop, method.__name__, None)
        yield


def list_nameless(kind: type[nn.Module]) -> Iterator[FunctionType]:
    """The methods of a class that hand themselves on by a name that nothing has where they were written."""
    for own in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for name, method in vars(own).items():
            if not isinstance(method, FunctionType) or name in method.__globals__ or hasattr(builtins, name):
                continue
            if method.__name__ == name and {name, "handle_torch_function"} <= {*method.__code__.co_names}:
                yield method
