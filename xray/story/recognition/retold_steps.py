"""Which step of a recording each part of a transformer is, by the paths that the parts have in X-Ray's own model."""

from collections.abc import Sequence

from xray.ir.trace import Step
from xray.story.recognition.covering import find_common, find_covering
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.operation_kinds import CARRYING, DROPOUTS, REPEATS, SCALINGS, SUMS
from xray.story.recognition.scored_parts import condition_of

MOST_UNKNOWN = 12
PASSED = CARRYING | DROPOUTS | SCALINGS | SUMS | REPEATS | frozenset({"index_select", "gather"})


class Retold:
    """One pass as it is retold: the step behind each path, the path that each step is a part of.

    `norm_first` has the paths of the layers whose norms come first.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.origins: dict[str, Step] = {}
        self.owners: dict[int, str] = {}
        self.norm_first: set[str] = set()
        self._covered: dict[tuple[int, ...], int | None] = {}

    def add(self, path: str, nodes: Sequence[int], *, owns: bool = True, core: Sequence[int] = ()) -> None:
        """One more part, made of the given steps; `core` are those of them that do what it is about, all if not given.

        Without `owns` the steps are part of something else, too.
        """
        self.origins[path] = self.origin_of(core or nodes)
        if owns:
            self.owners.update(dict.fromkeys(nodes, path))

    def open(self, path: str, nodes: Sequence[int], *, apart: Sequence[int] = (), exact: bool = False) -> None:
        """A block around the given steps; `apart` are steps that its block in the recording may not hold.

        With `exact` that block may hold nothing but the given steps.
        """
        common = self.covering(nodes) if exact else find_common(self.flow, nodes, apart)
        self.origins[path] = self.flow.steps[common] if common is not None else self.origin_of(nodes)

    def knows(self, maker: int) -> bool:
        """Whether a tensor was made by a part; steps that were not recognised are passed on the way back."""
        here: int | None = maker
        for _ in range(MOST_UNKNOWN):
            if here is None or here in self.owners:
                break
            condition = condition_of(self.flow, here)
            if condition is not None:
                here = condition.maker
                continue
            if self.flow.op(here) not in PASSED or not self.flow.makers[here]:
                return False
            here = self.flow.makers[here][0]
        return here in self.owners

    def origin_of(self, nodes: Sequence[int]) -> Step:
        """The recorded block that holds just these steps, or the one that does the most."""
        covering = self.covering(nodes)
        if covering is not None:
            return self.flow.steps[covering]
        main = max(nodes, key=lambda node: (self.flow.steps[node].params > 0, self.flow.op(node) not in CARRYING, node))
        return self.flow.steps[main]

    def covering(self, nodes: Sequence[int]) -> int | None:
        """The outermost recorded block of which nothing but these steps is data flow; None where there is none."""
        key = tuple(nodes)
        if key not in self._covered:
            self._covered[key] = find_covering(self.flow, set(nodes))
        return self._covered[key]
