"""Roles as they are given, part by part: to the block that does just that part, else to the step that does most."""

from collections.abc import Collection, Sequence

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROP_PATHS, DROPOUTS, SHAPING, SUMS, TURNS
from xray.ir.flow.projections import data_input
from xray.story.roles.blocks import find_common, find_covering


class Given:
    """The words for the steps of one pass; what was said first of a step stays."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.words: dict[str, str] = {}
        self._helpers: dict[int, str] = {}

    def name(self, place: int, words: str) -> None:
        """One step's role."""
        if words:
            self.words.setdefault(self.flow.steps[place].id, words)

    def part(self, nodes: Collection[int], words: str, main: int | None = None) -> None:
        """The role of a part; its other steps are told as belonging to it.

        It goes to the block of the recording that does just this part, and without one to `main`, or to the step that
        does most.
        """
        if not nodes or not words:
            return
        covering = find_covering(self.flow, set(nodes))
        chosen = covering if covering is not None else self.pick_main(nodes) if main is None else main
        self.name(chosen, words)
        self._helpers |= {node: words for node in nodes if node not in self._helpers}

    def linear(self, node: int, words: str) -> None:
        """The role of a linear layer, with the moves and the bias around it."""
        self.part(list_around(self.flow, node), words, main=node)

    def moves(self, nodes: Sequence[int], words: str, cut: str, turn: str) -> None:
        """The role of moves, each told by itself where there are several: what cuts, and what turns."""
        shown = [node for node in nodes if self.cuts_or_turns(node)]
        if len(shown) < 2:
            self.part(nodes, words)
            return
        covering = find_covering(self.flow, set(nodes))
        if covering is not None:
            self.name(covering, words)
        for node in shown:
            self.name(node, turn if self.flow.op(node) in TURNS else cut)
        self._helpers |= {node: words for node in nodes if node not in self._helpers}

    def block(self, nodes: Collection[int], words: str, apart: Collection[int] = ()) -> int | None:
        """The role of the innermost block that holds some steps and none of others; gives the block."""
        found = find_common(self.flow, sorted(nodes), sorted(apart)) if nodes else None
        if found is not None:
            self.name(found, words)
        return found

    def dropouts(self, places: Collection[int], words: str) -> None:
        """The role of dropouts among steps and right behind them, those that dropped nothing included."""
        handed = {node for place in places for node in self.flow.handed.get(place, ())}
        for node in sorted({*places, *handed}):
            if self.flow.op(node) in DROPOUTS:
                is_whole = self.flow.op(node) in DROP_PATHS
                self.name(node, words.replace("dropout", "drop path", 1) if is_whole else words)

    def finish(self) -> dict[str, str]:
        """All roles."""
        helpers = {self.flow.steps[node].id: f"part of: {words}" for node, words in self._helpers.items()}
        return {**helpers, **self.words}

    def pick_main(self, nodes: Collection[int]) -> int:
        """The step of a part that does most: one with parameters, then one that does more than to move numbers."""
        return max(nodes, key=lambda node: (self.flow.steps[node].params > 0, self.flow.op(node) not in CARRYING, node))

    def cuts_or_turns(self, node: int) -> bool:
        """Whether a move gives numbers other axes, or another order; not one that takes axes of size 1 in or out."""
        step = self.flow.steps[node]
        if step.op in TURNS:
            return True
        before, after = (step.inputs[0].shape if step.inputs else ()), self.flow.output(node).shape
        return step.op in SHAPING and [size for size in before if size > 1] != [size for size in after if size > 1]


def list_around(flow: Flow, node: int) -> list[int]:
    """A linear layer with the moves before it that lay rows under one another, its bias, and the moves back."""
    found = [node]
    number = data_input(flow, node)
    here = None if number is None else flow.makers[node][number]
    while here is not None and flow.op(here) in SHAPING - TURNS and flow.makers[here]:
        before, after = flow.steps[here].inputs[0].shape, flow.output(here).shape
        if before[-1:] != after[-1:] or len(after) >= len(before) or len(flow.readers.get(here, ())) > 1:
            break
        found.insert(0, here)
        here = flow.makers[here][0]
    while len(onward := flow.readers.get(found[-1], ())) == 1:
        step, before = flow.steps[onward[0]], flow.output(found[-1]).shape
        after = flow.output(onward[0]).shape
        is_bias = step.op in SUMS and step.is_given_weights
        is_back = step.op in SHAPING - TURNS and before[-1:] == after[-1:] and len(after) > len(before)
        if not is_bias and not is_back:
            break
        found.append(onward[0])
    return found
