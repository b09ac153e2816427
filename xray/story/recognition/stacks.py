"""Stacks and layers: sublayers that follow one another on one residual stream, cut where the pattern begins again."""

from dataclasses import dataclass

from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.norms import Norm
from xray.story.recognition.operation_kinds import CARRYING, DROPOUTS, SCALINGS, SUMS
from xray.story.recognition.sublayers import Sublayer, ending_norm

Layer = tuple[Sublayer, ...]
FARTHEST = 6


@dataclass(frozen=True)
class Stack:
    """Layers on one stream; `entry` is the step that made what the first one reads, None if it is from outside."""

    layers: tuple[Layer, ...]
    final_norm: Norm | None

    @property
    def entry(self) -> int | None:
        """The maker of the stream's beginning."""
        return self.layers[0][0].stream

    @property
    def end(self) -> int:
        """The step that ends it, its own last norm left out."""
        return self.layers[-1][-1].end

    @property
    def result(self) -> int:
        """The step that ends it, its own last norm included."""
        return self.end if self.final_norm is None else self.final_norm.end

    @property
    def sites(self) -> tuple[Site, ...]:
        """Its attentions, in order."""
        return tuple(one.part for layer in self.layers for one in layer if isinstance(one.part, Site))

    @property
    def crossings(self) -> tuple[Site, ...]:
        """Its cross-attentions."""
        return tuple(site for site in self.sites if site.kind == "cross")

    @property
    def norm_first(self) -> bool:
        """Whether norms stand before the sublayers."""
        return self.layers[0][0].norm_first


def find_stacks(flow: Flow, sublayers: list[Sublayer]) -> tuple[Stack, ...]:
    """The stacks of a pass that have attention in them, in order."""
    runs: list[list[Sublayer]] = []
    ends: dict[int, int] = {}
    for one in sublayers:
        number = find_run(flow, one, ends)
        if number is None:
            number = len(runs)
            runs.append([])
        else:
            for end in [end for end, run in ends.items() if run == number]:
                del ends[end]
        runs[number].append(one)
        ends[one.end] = ends[one.add] = number
    stacks = []
    for run in runs:
        while run and run[0].kind == "feed_forward":
            run.pop(0)
        if run:
            stacks.append(Stack(tuple(cut_layers(run)), last_norm(flow, run[-1])))
    return tuple(stacks)


def find_run(flow: Flow, sublayer: Sublayer, ends: dict[int, int]) -> int | None:
    """The run of sublayers whose stream this one goes on with."""
    here = sublayer.stream
    for _ in range(FARTHEST):
        if here is None:
            return None
        if here in ends:
            return ends[here]
        if flow.op(here) not in CARRYING | DROPOUTS | SCALINGS:
            return None
        here = flow.makers[here][0] if flow.makers[here] else None
    return None


def cut_layers(run: list[Sublayer]) -> list[Layer]:
    """The run cut behind each feed-forward, and before each sublayer of a kind that the layer already has."""
    layers: list[list[Sublayer]] = []
    for one in run:
        held = {other.kind for other in layers[-1]} if layers else {"feed_forward"}
        fresh = one.kind in held or one.kind == "self_attention" or "feed_forward" in held
        if fresh:
            layers.append([])
        layers[-1].append(one)
    return [tuple(layer) for layer in layers]


def last_norm(flow: Flow, last: Sublayer) -> Norm | None:
    """A norm of its own behind the last sublayer, moves between them left out.

    None where the stream goes on beside the norm: that one then belongs to a sublayer that was not recognised.
    """
    here = last.end
    for _ in range(FARTHEST):
        readers = flow.readers.get(here, ())
        if any(flow.op(reader) in SUMS for reader in readers):
            return None
        for reader in readers:
            norm = ending_norm(flow, reader, here)
            if norm is not None:
                return norm
        onward = [reader for reader in readers if flow.op(reader) in CARRYING]
        if len(onward) != 1:
            return None
        here = onward[0]
    return None
