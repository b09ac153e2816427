"""Options gathered in dataclasses: a command takes them as one object, the command line their fields one by one."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def open_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer wants it: each parameter that is a dataclass is replaced by the fields of that."""
    parameters = signature(command, eval_str=True).parameters.values()
    groups = {one.name: one.annotation for one in parameters if is_dataclass(one.annotation)}

    def run(**given: Any) -> None:  # noqa: ANN401  # what the fields say
        gathered = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})  # type: ignore[operator]
            for name, group in groups.items()
        }
        command(**given, **gathered)

    flat = [each for one in parameters for each in open_group(one)]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in flat}
    return run


def open_group(parameter: Parameter) -> Iterator[Parameter]:
    """The parameters that stand for one: the fields of a dataclass, or itself."""
    if not is_dataclass(parameter.annotation):
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(parameter.annotation, include_extras=True)
    for field in fields(parameter.annotation):
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
