"""Which part of each weight a rank holds, read off what layers tell of their own; by what weights were divided."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from xray.ir.trace import Setting, Trace
from xray.story.recognition.values.value_shapes import number

SUFFIX = "_placement"
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True)
class Held:
    """A weight, or several alike: how many, the whole, this rank's part and where it begins, and how it is divided.

    `parts` tells the parts of all ranks where they are uneven: "0: 476x64, 1: 475x64".
    """

    name: str
    shape: tuple[int, ...]
    local: tuple[int, ...]
    begin: tuple[int, ...]
    placement: str
    parts: str = ""
    count: int = 1


def list_divisors(trace: Trace) -> tuple[float, ...]:
    """By which numbers matrices of weights were divided in place, before any weights worked."""
    found = set[float | None]()
    for step in trace.passes[0].leaves if trace.passes else ():
        weights = [one for one in step.inputs if one.role == "parameter" and one.source is None]
        is_divided = step.op == "div_" and len(weights) == len(step.inputs) == 1
        if step.params or (weights and not is_divided):
            break
        found |= {number(step) for one in weights if len(one.shape) > 1}
    return tuple(sorted(one for one in found if one not in (None, 1)))


def list_held(trace: Trace) -> tuple[Held, ...]:
    """The weights of which this rank holds a part, or knows that all ranks have the same; those of like layers once."""
    found: dict[Held, int] = {}
    seen = set()
    for step in trace.steps:
        for key, placement in step.settings.items():
            name = key.removesuffix(SUFFIX)
            path = f"{step.path}.{name}"
            if key.endswith(SUFFIX) and isinstance(placement, str) and path not in seen:
                seen.add(path)
                held = read_held(path, name, placement, step.settings)
                if held is not None:
                    found[held] = found.get(held, 0) + 1
    return tuple(replace(held, count=count) for held, count in found.items())


def read_held(path: str, name: str, placement: str, settings: Mapping[str, Setting]) -> Held | None:
    """One weight; None where a recording of an older X-Ray does not tell its whole."""
    shape, local = (read_sizes(settings.get(f"{name}_{key}")) for key in ("shape", "local"))
    begin = read_sizes(settings.get(f"{name}_begin"))
    if not shape or len(local) != len(shape):
        return None
    parts = settings.get(f"{name}_parts")
    return Held(NUMBER.sub("*", path), shape, local, begin, placement, parts if isinstance(parts, str) else "")


def read_sizes(text: Setting) -> tuple[int, ...]:
    """Sizes as settings have them: "32x16"."""
    parts = text.split("x") if isinstance(text, str) else []
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()
