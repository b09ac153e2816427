"""What a walk tells of a pair of towers with words: its steps by what they compute, and the station of each."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, LOSSES, SOFTMAXES, TURNS
from xray.ir.flow.remembering import once
from xray.ir.kinds import VIEWS
from xray.ir.trace import Pass, Step
from xray.ir.turns import swaps_last_two
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.attention.ways.ways import read_attention_lanes
from xray.story.body.reading import Reading, read_pass
from xray.story.body.stages import Branching, Staging
from xray.story.body.towers import Towering
from xray.story.entrance.entrance import is_number_scale
from xray.story.recognition.between import is_linear, projections_in
from xray.story.recognition.scored_parts import read_scored
from xray.story.roles.blocks import find_common, find_covering
from xray.story.roles.end_roles import find_choice
from xray.story.roles.mask_roles import JOINING, collect_facts

SIDES = {"encode": ("encoder",), "decode": ("decoder",), "training": ("encoder", "decoder")}
"""Which towers a pass runs."""
FIRST = {"encoder": 1, "decoder": 4}
STAGES = {
    ("encoder", "self_attention"): 2,
    ("encoder", "feed_forward"): 3,
    ("decoder", "self_attention"): 5,
    ("decoder", "cross_attention"): 6,
    ("decoder", "feed_forward"): 7,
}
LAST = {"encoder": 3, "decoder": 7}
OUT, AGAIN = 8, 9
OPERANDS = {"q": "query", "k": "key", "v": "value"}
LOOP = {"shift": 4, "append": AGAIN, "backward": AGAIN}
"""Steps of the loop around a model that are known by their operation."""


@dataclass
class Parts:
    """The steps of a pass by what they are in a pair of towers, and the number of each one's station."""

    steps: dict[str, Step] = field(default_factory=dict)
    params: dict[str, int] = field(default_factory=dict)
    stations: dict[str, int] = field(default_factory=dict)


@once
def find_parts(one_pass: Pass) -> Parts:
    """The parts of a pass that was recorded with its words; none where its towers are no such pair."""
    parts = Parts()
    sides = SIDES.get(one_pass.kind, ())
    reading = read_pass(one_pass)
    if not one_pass.tokens or len(reading.towers) > len(sides):
        return parts
    finder = Finder(reading, parts)
    for towering, side in zip(reading.towers, sides, strict=False):  # a failure leaves the rest out
        finder.take_tower(towering, side)
    finder.take_ends(sides)
    finder.spread()
    return parts


class Finder:
    """Finds the parts of one pass."""

    def __init__(self, reading: Reading, parts: Parts) -> None:
        self.flow: Flow = reading.flow
        self.reading = reading
        self.parts = parts
        self.at: dict[int, int] = {}

    def name(self, name: str, node: int | None, station: int | None = None) -> None:
        """A step by its part; the first one of a part is told of."""
        if node is None:
            return
        self.parts.steps.setdefault(name, self.flow.steps[node])
        if station is not None:
            self.at.setdefault(node, station)

    def take_tower(self, towering: Towering, side: str) -> None:
        """Entrance, layers and end of a tower."""
        flow = self.flow
        words = next((n for n in sorted(towering.entrance) if flow.op(n) == "embedding"), None)
        self.name(f"{side}.embedding.words", words)
        self.name(f"{side}.embedding.scale", next((n for n in towering.entrance if is_number_scale(flow, n)), None))
        places = next((n for n in sorted(towering.entrance) if flow.op(n) == "positions"), None)
        self.name(f"{side}.embedding.positions", places)
        self.name(f"{side}.embedding.add", towering.start)
        self.at |= dict.fromkeys(towering.entrance, FIRST[side])
        for number, layer in enumerate(towering.layers):
            prefix = f"{side}.layers.{number}"
            nodes = set().union(*(staging.nodes for staging in layer)) - towering.entrance
            block = find_common(flow, sorted(nodes), [])
            self.parts.params[prefix] = count_params(flow, nodes) if block is None else flow.steps[block].params
            for staging in layer:
                self.take_stage(staging, side, prefix)
        if towering.final is not None:
            self.at |= dict.fromkeys(towering.final.nodes, LAST[side])
        self.name(side, towering.end)

    def take_stage(self, staging: Staging, side: str, prefix: str) -> None:
        """A sublayer: its branch, its sum, its norm."""
        for one in staging.branches:
            kind = name_kind(one)
            station = STAGES.get((side, kind))
            if station is None:
                continue
            path = f"{prefix}.{kind}"
            norms = set().union(*(norm.nodes for norm in staging.norms))
            self.parts.params[path] = count_params(self.flow, one.region.inner - norms)
            if isinstance(one.branch, Attention):
                for name, node in list_attention(self.flow, one):
                    self.name(f"{path}.{name}", node)
            else:
                inner = projections_in(self.flow, one.region.inner)
                self.name(f"{path}.expand", inner[0])
                self.name(f"{path}.contract", inner[-1])
                bends = [node for node in one.region.inner if inner[0] < node < inner[-1]]
                self.name(f"{path}.activation", min(bends, default=None))
            self.name(f"{path}_add", staging.joints[-1].add)
            self.name(f"{path}_norm", staging.norms[-1].end if staging.norms else None)
            self.at |= {node: station for node in staging.nodes if node not in self.at}

    def take_ends(self, sides: tuple[str, ...]) -> None:
        """What stands around the towers: words cut into ids, masks, scores for words, the loss, the next word."""
        flow = self.flow
        texts = [node for node, step in enumerate(flow.steps) if step.op == "tokenize"]
        for node, side in zip(texts, sides, strict=False):
            self.name(f"tokenize.{'src' if side == 'encoder' else 'tgt'}", node, FIRST[side])
        for towering, side in zip(self.reading.towers, sides, strict=False):
            self.take_masks(towering, side)
        for node, step in enumerate(flow.steps):
            if step.op in LOOP:
                self.name(step.op, node, LOOP[step.op])
        if "decoder" not in sides[: len(self.reading.towers)]:
            return
        end = self.reading.towers[-1].end
        head = next((n for n in range(end + 1, len(flow.steps)) if flow.is_leaf(n) and is_linear(flow, n)), None)
        self.name("head", head, OUT)
        loss = next((n for n, step in enumerate(flow.steps) if step.op in LOSSES and flow.is_leaf(n)), None)
        if loss is not None:
            self.name("loss.cross_entropy", loss, OUT)
            for name, (_, maker) in zip(("logits", "targets"), flow.given(loss), strict=False):
                if maker is not None and maker != head:
                    self.name(f"loss.flatten_{name}", maker, OUT)
        way = find_choice(flow, head) if head is not None else None
        if head is not None and way is not None:
            rank = len(flow.output(head).shape)
            self.name("next_word.last_row", next((n for n in way if len(flow.output(n).shape) < rank), None))
            self.name("next_word.softmax", next((n for n in way if flow.op(n) in SOFTMAXES), None))
            self.name("next_word.argmax", way[-1])
            self.at |= dict.fromkeys(way, OUT)

    def take_masks(self, towering: Towering, side: str) -> None:
        """What hides scores of a tower's own attention, and what it was put together from."""
        flow, facts = self.flow, collect_facts(self.flow)
        sites = [
            one.site for staging in towering.stagings for one in staging.branches if name_kind(one) == "self_attention"
        ]
        masks = [part.operand for site in sites[:1] if site for part in read_scored(flow, site.scored)]
        read = next((one.maker for one in masks if one is not None and one.maker is not None), None)
        maker = flow.carried_from(read, CARRYING | VIEWS)
        if maker is None:
            return
        name = "src_mask" if side == "encoder" else "tgt_mask.combine"
        self.name(name, maker, FIRST[side])
        for _, part in flow.given(maker) if flow.op(maker) in JOINING else ():
            known = facts.get(flow.steps[part].id) if part is not None else None
            if known is not None and known.kind in ("padding", "causal"):
                self.name(f"tgt_mask.{known.kind}", part, FIRST[side])

    def spread(self) -> None:
        """What drops or moves numbers stands where these were made; a block where all of it stands."""
        flow = self.flow
        for node in range(len(flow.steps)):
            origin = next((maker for maker in flow.makers[node] if maker in self.at), None)
            if flow.is_leaf(node) and node not in self.at and origin is not None:
                self.at[node] = self.at[origin]
        for node in range(len(flow.steps)):
            inside = [one for one in range(node + 1, flow.ends[node]) if flow.is_leaf(one)]
            found = {self.at.get(one) for one in inside}
            if len(found) == 1 and None not in found:
                self.at[node] = self.at[inside[0]]
        self.parts.stations |= {flow.steps[node].id: number for node, number in self.at.items()}


def name_kind(found: Branching) -> str:
    """Which sublayer a branch is."""
    if isinstance(found.branch, Attention):
        return "self_attention" if found.branch.source == "self" else "cross_attention"
    return "feed_forward" if isinstance(found.branch, FeedForward) else ""


def list_attention(flow: Flow, found: Branching) -> Iterator[tuple[str, int | None]]:
    """The steps of an attention by what they are."""
    site, ways = found.site, read_attention_lanes(flow, found)
    if site is None:
        return
    for lane in ways.own:
        word = OPERANDS[lane.letter]
        for part in lane.parts:
            if part.kind == "linear":
                yield word, next((node for node in part.nodes if is_linear(flow, node)), None)
            elif (
                part.kind == "heads"
                and lane.letter == "k"
                and len(part.nodes) == 1
                and swaps_last_two(flow.steps[part.nodes[-1]])
            ):
                yield "transpose_key", part.nodes[-1]
            elif part.kind == "heads":
                whole = find_covering(flow, set(part.nodes))
                yield f"split_{word}", part.nodes[-1] if whole is None else whole
                yield f"split_{word}.view", next((n for n in part.nodes if flow.op(n) not in TURNS), None)
                yield f"split_{word}.transpose", next((n for n in part.nodes if flow.op(n) in TURNS), None)
    if ways.turn is not None:
        yield "transpose_key", ways.turn.nodes[-1]
    yield "scores", site.scores
    for scored in read_scored(flow, site.scored):
        if scored.kind in ("scale", "mask"):
            yield scored.kind, scored.nodes[-1]
    yield "softmax", site.softmax
    yield "weighted_sum", site.weighted_sum
    whole = find_covering(flow, set(site.concat)) if site.concat else None
    yield "concat", whole if whole is not None or not site.concat else site.concat[-1]
    yield "output", site.output


def count_params(flow: Flow, nodes: Collection[int]) -> int:
    """The parameters of some steps, each module's once."""
    return sum({flow.steps[node].path: flow.steps[node].params for node in nodes if flow.is_leaf(node)}.values())
