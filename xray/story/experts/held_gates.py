"""Gates whose factors are held between bounds before they meet, or have a number added (gpt-oss)."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CLAMPS, CURVES, SCALINGS, SUMS
from xray.story.anatomy.branches import Held
from xray.story.recognition.values.value_shapes import number
from xray.story.wording import spell_held


@dataclass(frozen=True)
class HeldGate:
    """What is done to both factors of a gate: to the one before it is bent and when it is `bent`; and the steps."""

    gate: Held
    bent: Held
    up: Held
    nodes: tuple[int, ...]

    @property
    def ways(self) -> tuple[tuple[str, Held], ...]:
        """What is done to each, with its name in boxes."""
        return ("gate", self.gate), ("bent gate", self.bent), ("up", self.up)

    @property
    def told(self) -> tuple[str, ...]:
        """Both in one line; none where nothing is done."""
        sides = [f"{name} {spell_held(what)}" for name, what in self.ways if what]
        return (", ".join(sides),) if sides else ()


def find_held(flow: Flow, product: int, inner: Collection[int]) -> HeldGate | None:
    """What holds the factors of a product, of which the bent one is the gate; None where nothing does."""
    ways = [walk_back(flow, maker, inner) for maker in flow.makers[product]]
    bent = [any(flow.op(node) in CURVES for node in way) for way in ways]
    if len(ways) != 2 or bent.count(True) != 1:
        return None
    gate, up = (list_on_all_ways(flow, flow.makers[product][bent.index(is_bent)], inner) for is_bent in (True, False))
    nodes = tuple(node for way in (gate, up) for node in way if read_held(flow, node))
    last = max(node for node in ways[bent.index(True)] if flow.op(node) in CURVES)
    before, behind = ([node for node in gate if (node > last) == is_behind] for is_behind in (False, True))
    return HeldGate(read_way(flow, before), read_way(flow, behind), read_way(flow, up), nodes) if nodes else None


def list_on_all_ways(flow: Flow, start: int | None, inner: Collection[int]) -> list[int]:
    """The steps behind a factor that all of it goes through; not the 1 + tanh of a GELU written out, say."""
    return [
        node for node in walk_back(flow, start, inner) if node == start or not leads_around(flow, start, inner, node)
    ]


def leads_around(flow: Flow, start: int | None, inner: Collection[int], node: int) -> bool:
    """Whether a factor is also reached from behind its steps on a way that leaves one of them out."""
    way = walk_back(flow, start, [one for one in inner if one != node])
    beyond = [maker for one in way for record, maker in flow.given(one) if record.role != "parameter"]
    return any(maker is not None and maker not in way and maker != node for maker in beyond)


def walk_back(flow: Flow, start: int | None, inner: Collection[int]) -> list[int]:
    """The steps, in order, that bend, hold, scale or shift a factor behind the layer that makes it."""
    ops = CARRYING | CLAMPS | CURVES | SCALINGS | SUMS
    return sorted(flow.behind(start, within=lambda here: here in inner and flow.op(here) in ops))


def read_way(flow: Flow, way: Collection[int]) -> Held:
    """What is done to a factor, one after the other."""
    return tuple(one for node in way for one in read_held(flow, node))


def read_held(flow: Flow, node: int) -> Held:
    """Between which bounds a step holds numbers, or what it adds to all of them; nothing for any other, or for a 0."""
    step = flow.steps[node]
    if flow.op(node) in CLAMPS:
        low, high = step.settings.get("min"), step.settings.get("max")
        bounds: tuple[tuple[Literal["least", "most"], object], ...] = (("least", low), ("most", high))
        return tuple((name, float(one)) for name, one in bounds if isinstance(one, int | float))
    added = number(step) if flow.op(node) in SUMS and len(step.inputs) == 1 else None
    return (("plus", float(added)),) if added else ()
