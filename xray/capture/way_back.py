"""Whose way back is running: to which module what autograd does just now belongs.

Autograd numbers its nodes as they are made, so those of a module's call are the numbers between its begin and its end.
"""

import sys
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from xray.capture.calls import Counted, OpenCall

FSDP_GROUP = "FSDPParamGroup"


class WayBack:
    """Remembers which of autograd's nodes each call of a module has made; paths are all that is kept."""

    def __init__(self, known: Mapping[int, tuple[nn.Module, Counted]]) -> None:
        self.known = known
        self.firsts: list[int] = []
        self.spans: list[tuple[int, str]] = []
        self.open: dict[int, int] = {}

    def begin(self, call: OpenCall) -> None:
        """A module's call begins."""
        self.open[call.serial] = len(self.firsts)
        self.firsts.append(next_number())
        self.spans.append((-1, call.path))

    def end(self, call: OpenCall) -> None:
        """It is over."""
        place = self.open.pop(call.serial, None)
        if place is not None:
            self.spans[place] = (next_number(), self.spans[place][1])

    def find_place(self, name: str) -> tuple[str, str]:
        """The path of the innermost module to whose way back this moment belongs, and what is exchanged there.

        The path is "" where it is of no single module; the other is "weights", "gradients", or "" for what flows back.
        """
        holder = find_holder()
        if holder is not None:
            known = [self.known[id(one)][1].path for one in holder.modules if id(one) in self.known]
            of = "weights" if name == "all_gather" else "gradients"
            return known[0] if len(known) == 1 else self.find_by_node(), of
        node: Any = torch._C._current_autograd_node()
        return self.find_by_node(), "gradients" if type(node).__name__ == "AccumulateGrad" else ""

    def find_by_node(self) -> str:
        node: Any = torch._C._current_autograd_node()
        number = -1 if node is None else node._sequence_nr()
        for place in range(bisect_right(self.firsts, number) - 1, -1, -1):
            last, path = self.spans[place]
            if number < last:
                return path
        return ""


def find_holder() -> Any:
    """What FSDP2 holds a module's weights by, if it is that which runs; it may be ahead of the module or behind it."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        group = frame.f_locals.get("self")
        if type(group).__name__ == FSDP_GROUP:
            return group
        frame = frame.f_back
    return None


def next_number() -> int:
    """The number that autograd's next node will have."""
    number: int = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]  # torch does not list it
    return number
