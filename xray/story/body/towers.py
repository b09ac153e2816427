"""Towers: a stream with its layers, what it reads, and the steps before the first layer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xray.story.body.layers import cut_layers, group_layers
from xray.story.body.regions import find_region, is_linear, is_scale, strip_plain, width_out
from xray.story.body.spine import Chain, stream_norm
from xray.story.body.stages import Staging, find_any_norm, name_norm, read_stage
from xray.story.body.tree import Attention, EntrancePart, Group, Reads, Tower
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.dataflow import Flow
from xray.story.recognition.norms import Norm as FoundNorm
from xray.story.recognition.operation_kinds import CARRYING, DROPOUTS, FINDINGS, LOOKUPS, SUMS

MOST_ENTRANCE = 400


@dataclass(frozen=True)
class Towering:
    """A tower with the steps that it was read from: its chains, its stages, its entrance, its last norm."""

    tower: Tower
    chains: tuple[Chain, ...]
    stagings: tuple[Staging, ...]
    entrance: frozenset[int]
    between: frozenset[int]
    final: FoundNorm | None

    @property
    def end(self) -> int:
        """The step that ends it, its last norm included."""
        return self.chains[-1].end if self.final is None else self.final.end

    @property
    def nodes(self) -> set[int]:
        """Every step that belongs to it."""
        found = set(self.entrance | self.between) | (set() if self.final is None else set(self.final.nodes))
        for staging in self.stagings:
            found |= staging.nodes
        return found


def read_tower(flow: Flow, chains: Sequence[Chain], sites: Sequence[Site], names: Mapping[int, str]) -> Towering:
    """The tower of chains that follow one another, each on the result of the one before; it has no name yet.

    `names` has the towers before it by the steps that end them.
    """
    groups: list[Group] = []
    stagings: list[Staging] = []
    final: FoundNorm | None = None
    opening: list[Staging] = []
    for chain in chains:
        own = read_stagings(flow, chain, sites, names)
        while (
            len(own) > 1
            and not stagings
            and own[0].stage.branches[0].part == "convolution"
            and not all(one.stage.branches[0].part == "convolution" for one in own)
        ):
            opening.append(own.pop(0))
        layers = cut_layers(own)
        groups += group_layers(flow, chain, layers, sum(group.count for group in groups))
        stagings += own
        final = last_norm(flow, chain)
    between = frozenset().union(*(list_between(flow, one, other) for one, other in pairwise(chains)))
    entrance, reads, parts, vocab = read_entrance(flow, chains[0].start, set(names))
    if opening:
        parts = (*parts, EntrancePart("convolution"))
        for one in opening:
            entrance |= one.nodes
    widths = {group.d_model for group in groups}
    tower = Tower(
        name="",
        reads=reads,
        causal=tell_causal(groups),
        d_model=widths.pop() if len(widths) == 1 else None,
        vocab=vocab,
        entrance=parts,
        groups=tuple(groups),
        final_norm=None if final is None else name_norm(flow, final),
    )
    return Towering(tower, tuple(chains), tuple(stagings), frozenset(entrance), between, final)


def list_between(flow: Flow, chain: Chain, following: Chain) -> frozenset[int]:
    """The steps from the end of one chain to the beginning of the next: patches merged, places pooled."""
    if following.start is None:
        return frozenset()
    region = find_region(flow, chain.end, following.start)
    return frozenset() if region is None else region.inner | region.beside


def read_stagings(flow: Flow, chain: Chain, sites: Sequence[Site], names: Mapping[int, str]) -> list[Staging]:
    """The stages of a chain: sums whose branches began at one point of the stream are one stage."""
    found: list[Staging] = []
    place = 0
    while place < len(chain.joints):
        together = [chain.joints[place]]
        while place + 1 < len(chain.joints) and chain.joints[place + 1].stream == together[0].stream:
            place += 1
            together.append(chain.joints[place])
        following = chain.joints[place + 1] if place + 1 < len(chain.joints) else None
        after = stream_norm(flow, together[-1], following)
        if following is None and found and found[-1].stage.norm.on == "stream":
            after = last_norm(flow, chain)
        found.append(read_stage(flow, together, after, sites, names))
        place += 1
    return found


def last_norm(flow: Flow, chain: Chain) -> FoundNorm | None:
    """The norm that reads a chain's last sum."""
    todo = [chain.end]
    for _ in range(40):
        if not todo:
            return None
        here = todo.pop(0)
        for reader in flow.readers.get(here, ()):
            norm = closing_norm(flow, reader, chain.end)
            if norm is not None:
                return norm
            if flow.op(reader) in CARRYING | DROPOUTS:
                todo.append(reader)
    return None


def closing_norm(flow: Flow, reader: int, end: int) -> FoundNorm | None:
    """The longest norm of a step's output that goes through one of its readers."""
    found: FoundNorm | None = None
    todo = [reader]
    seen: set[int] = set()
    while todo and len(seen) < 20:
        here = todo.pop(0)
        if here in seen:
            continue
        seen.add(here)
        norm = find_any_norm(flow, here)
        if norm is not None and norm.origin is not None and strip_plain(flow, norm.origin) == end:
            if found is None or len(norm.nodes) >= len(found.nodes):
                found = norm
        elif found is not None:
            continue
        if is_linear(flow, here):
            continue
        todo += flow.readers.get(here, ())
    return found


def tell_causal(groups: Sequence[Group]) -> bool | None:
    """Whether every place sees only what stands before it; None where one attention does not tell."""
    verdicts = [
        branch.causal
        for group in groups
        for stage in group.stages
        for branch in stage.branches
        if isinstance(branch, Attention) and branch.source == "self"
    ]
    if not verdicts or any(one is None for one in verdicts):
        return None
    return True if all(verdicts) else False if not any(verdicts) else None


def read_entrance(
    flow: Flow, start: int | None, ends: Collection[int]
) -> tuple[set[int], Reads | None, tuple[EntrancePart, ...], int | None]:
    """The steps before the first layer, what they read, what they are, and how many words the table has."""
    if start is None:
        return set(), "vectors", (), None
    nodes: list[int] = []
    seen: set[int] = set()
    todo = [start]
    while todo and len(seen) < MOST_ENTRANCE:
        here = todo.pop()
        if here in seen or here in ends:
            continue
        seen.add(here)
        nodes.append(here)
        if flow.op(here) in LOOKUPS:
            continue
        todo += [
            maker
            for record, maker in flow.given(here)
            if maker is not None and (record.dtype.startswith(("float", "bfloat", "complex")))
        ]
    words = [node for node in nodes if flow.op(node) in LOOKUPS and has_length(flow, node)]
    given = [node for node in words if not is_counted_out(flow, flow.makers[node][-1] if flow.makers[node] else None)]
    finders = [node for node in nodes if flow.op(node) in FINDINGS]
    parts: list[EntrancePart] = []
    vocab: int | None = None
    reads: Reads | None = None
    if given and not finders:
        word = max(given, key=lambda node: table_rows(flow, node) or 0)
        vocab = table_rows(flow, word)
        reads = "ids"
        parts.append(EntrancePart("words", vocab, learned=True))
        parts += [
            EntrancePart("positions" if is_sliced(flow, node) else "table", table_rows(flow, node), learned=True)
            for node in sorted(given)
            if node != word
        ]
    elif finders:
        first = min(finders)
        outside = [record for record, maker in flow.given(first) if record.role != "parameter"]
        rank = source_rank(flow, first)
        reads = None if not outside or rank is None else "image" if rank >= 4 else "audio"
        parts.append(
            EntrancePart("patches", flow.output(first).shape[1] if len(flow.output(first).shape) > 1 else None)
        )
    elif any(is_linear(flow, node) for node in nodes) or reads_vectors(flow, nodes):
        reads = "vectors"
    parts += [
        EntrancePart("positions", table_rows(flow, node), learned=True)
        for node in sorted(words)
        if node not in given or (finders and is_sliced(flow, node))
    ]
    for node in sorted(nodes):
        if node in finders or flow.op(node) in LOOKUPS:
            continue
        if is_linear(flow, node):
            parts.append(EntrancePart("projection", width_out(flow, node), learned=True))
        elif flow.op(node) in SUMS and any(record.role == "parameter" for record in flow.steps[node].inputs):
            parts.append(EntrancePart("positions", positions_rows(flow, node), learned=True))
        elif flow.op(node) == "cat" and any(record.shape[1:2] == (1,) for record in flow.steps[node].inputs):
            parts.append(EntrancePart("class token", 1))
        elif is_scale(flow, node) and len(flow.output(node).shape) == 3:
            parts.append(EntrancePart("scale"))
    norm = find_any_norm(flow, stripped) if (stripped := strip_plain(flow, start)) is not None else None
    if norm is not None:
        parts.append(EntrancePart("norm", learned=None))
    return set(nodes), reads, tuple(parts), vocab


def has_length(flow: Flow, node: int) -> bool:
    """Whether a lookup makes a row for each of several places."""
    return len(flow.output(node).shape) >= 2


def table_rows(flow: Flow, node: int) -> int | None:
    """How many rows the table of a lookup has."""
    step = flow.steps[node]
    rows = step.settings.get("num_embeddings")
    if isinstance(rows, int):
        return rows
    tables = [
        record.shape[0]
        for record in step.inputs
        if len(record.shape) == 2 and record.dtype.startswith(("float", "bfloat"))
    ]
    return tables[0] if tables else None


def positions_rows(flow: Flow, node: int) -> int | None:
    shapes = [record.shape for record in flow.steps[node].inputs if record.role == "parameter"]
    return shapes[0][-2] if shapes and len(shapes[0]) >= 2 else None


def is_counted_out(flow: Flow, maker: int | None) -> bool:
    """Whether ids were counted and not given: places in a row."""
    for _ in range(16):
        if maker is None:
            return False
        if flow.op(maker) in ("arange", "cumsum"):
            return True
        onward = [one for one in flow.makers[maker] if one is not None]
        maker = onward[0] if onward else None
    return False


def is_sliced(flow: Flow, node: int) -> bool:
    """Whether the ids of a lookup are the first ones of a row that is as long as the table: a place each."""
    rows = table_rows(flow, node)
    record, maker = flow.steps[node].inputs[-1], flow.makers[node][-1]
    for record, maker in flow.given(node):  # noqa: B007  # the ids are what is read last
        if record.role == "ids":
            break
    while maker is not None and flow.makers[maker]:
        record, maker = flow.steps[maker].inputs[0], flow.makers[maker][0]
    return rows is not None and maker is None and record.shape[-1:] == (rows,) and record.shape[:1] == (1,)


def source_rank(flow: Flow, node: int) -> int | None:
    """How many axes that has which comes from outside and that a step's first input is made of."""
    record, maker = flow.steps[node].inputs[0], flow.makers[node][0]
    for _ in range(24):
        if maker is None or not flow.makers[maker]:
            return len(record.shape) if maker is None else None
        record, maker = flow.steps[maker].inputs[0], flow.makers[maker][0]
    return None


def reads_vectors(flow: Flow, nodes: Sequence[int]) -> bool:
    """Whether rows of numbers come from outside."""
    return any(
        maker is None
        and record.role == "activation"
        and len(record.shape) >= 3
        and record.dtype.startswith(("float", "bfloat"))
        for node in nodes
        for record, maker in flow.given(node)
    )
