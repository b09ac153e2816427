"""What stands under the step tables: the sums of the trace, its work and memory, and how its cache grew."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from xray.ir.trace import Trace
from xray.renderers.table.heads import PASS_TITLES, draw_band
from xray.renderers.table.words import Words, flow
from xray.story.facts.exchanges import Exchange, add_exchanges, bytes_by_layer
from xray.story.facts.kept_keys import Growth, Kept, measure_growth
from xray.story.facts.pipeline import list_cuts, list_stages
from xray.story.facts.totals import Totals, Work, add_up, count_work
from xray.story.wording import plural
from xray.text import say_short

MOST_TURNS = 7
"""More turns of a growing cache than this are told by the first ones and the last."""


def draw_totals(trace: Trace, words: Words, width: int) -> Iterator[RenderableType]:
    """The sums under everything."""
    totals, work = add_up(trace), count_work(trace)
    yield draw_band(Text(" TOTALS"), Text(), "card", words, width, strong=True)
    yield from flow([words.plain(word) for word in say_totals(totals).split()], width)
    yield from flow([words.plain(word) for line in list_work(work) for word in line.split()], width)
    if work.not_counted:
        counted = ", ".join(f"{op} ({count:,})" for op, count in work.not_counted)
        yield from flow([words.accent(word, "warning") for word in f"FLOPs not counted: {counted}.".split()], width)
    if work.with_backward:
        yield from flow(words.sentence("Back-propagation is not in the sum: about twice the FLOPs of its pass."), width)
    for line in (*list_exchanges(trace), *describe_cuts(trace)):
        yield from flow([words.accent(word, "boundary") for word in line.split()], width)
    growth = measure_growth(trace)
    if growth is not None:
        yield from draw_growth(growth, words, width)


def say_totals(totals: Totals) -> str:
    """How many there are of everything that can be counted one by one."""
    parts = (
        plural(totals.passes, "pass", "passes"),
        plural(totals.steps, "step", "steps"),
        plural(totals.tensors, "tensor made", "tensors made"),
        plural(totals.masks, "of them a mask", "of them masks"),
        plural(totals.params, "parameter", "parameters") + ", each counted once.",
    )
    return ", ".join(parts)


def list_work(work: Work) -> Iterator[str]:
    """The work and the memory of a trace in sentences."""
    yield (
        f"{say_count(work.flops)} FLOPs in matrix products and the like, a multiplication and its addition counted "
        f"as 2; {say_count(work.elements)} elements in element-wise steps."
    )
    weights = f"Parameters take {say_bytes(work.param_bytes)}; " if work.param_bytes or not work.params else ""
    yield f"{weights}{say_bytes(work.activation_bytes)} were newly stored on the way, views excepted."


def list_exchanges(trace: Trace) -> Iterator[str]:
    """What ranks tell each other, by operation and group, and in which layer most."""
    sums = add_exchanges(trace)
    if not sums:
        return
    mesh = trace.config.get("mesh")
    who = f"Rank {trace.config.get('rank', '')} of the mesh {mesh}" if mesh else "This rank"
    there, back = ([one for one in sums if one.is_back == is_back] for is_back in (False, True))
    if back:
        yield f"{who} exchanges {say_bytes(sum_bytes(sums))} with others."
        if there:
            yield f"On the way, {say_bytes(sum_bytes(there))}: {'; '.join(map(say_exchange, there))}."
        yield f"On the way back, {say_bytes(sum_bytes(back))}: {'; '.join(map(say_exchange, back))}."
    else:
        yield f"{who} exchanges {say_bytes(sum_bytes(sums))} with others: {'; '.join(map(say_exchange, sums))}."
    layers = {layer: size for layer, size in bytes_by_layer(trace).items() if layer is not None}
    if len(layers) > 1 and len(set(layers.values())) == 1:
        yield f"In each of {len(layers):,} layers it is {say_bytes(next(iter(layers.values())))}."
    elif layers:
        layer, most = max(layers.items(), key=lambda item: item[1])
        yield f"The most in one layer: {say_bytes(most)}, in layer {layer}."


def sum_bytes(exchanges: Iterable[Exchange]) -> int:
    """The bytes of all of them."""
    return sum(one.bytes for one in exchanges)


def say_exchange(one: Exchange) -> str:
    """Exchanges of a kind: which, how many, among whom, and their bytes."""
    of = f" of {one.of}" if one.of else ""
    return f"{one.times:,} {one.op}{of} along {one.group} ({one.ranks}), {say_bytes(one.bytes)}"


def describe_cuts(trace: Trace) -> Iterator[str]:
    """Which layers each stage of a pipeline has, and what crosses each cut."""
    stages = list_stages(trace)
    if stages:
        told = ", ".join(f"{one[0]}" if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in stages)
        yield f"{len(stages)} stages of a pipeline have the layers {told}."
    for cut in list_cuts(trace):
        shapes = ", ".join("x".join(map(str, one.local or one.shape)) for one in cut.tensors)
        yield f"Behind layer {cut.after} each rank sends {shapes}: {say_bytes(cut.bytes)}."


def draw_growth(growth: Growth, words: Words, width: int) -> Iterator[RenderableType]:
    """How a key-value cache grew from pass to pass, and what each further word costs."""
    yield Text()
    yield draw_band(Text(" KEY-VALUE CACHE"), Text(), "card", words, width, strong=True)
    yield from flow([words.plain(word) for word in say_price(growth).split()], width)
    turns = growth.turns
    shown = turns if len(turns) <= MOST_TURNS else (*turns[: MOST_TURNS - 2], None, turns[-1])
    for turn in shown:
        yield words.quiet(words.signs.more) if turn is None else words.plain(say_turn(turn))


def say_turn(turn: Kept) -> str:
    """What was kept after one pass."""
    name = f"{PASS_TITLES[turn.kind]} {turn.number}".removeprefix("inference: ")
    return f"{name}: {plural(turn.words, 'word', 'words')}, {say_short(turn.bytes, 'B')}"


def say_price(growth: Growth) -> str:
    """What one more word of one sequence costs, with the factors where all layers are alike."""
    price = f"{growth.per_word:,} bytes"
    if growth.layers:
        layers = plural(growth.layers, "layer", "layers")
        heads = plural(growth.heads, "head", "heads")
        price = f"{layers} x 2 x {heads} x {growth.width} x {growth.element_bytes} bytes = {price}"
    if growth.is_kept:
        return f"Each word of a sequence keeps its keys and values: {price}."
    return f"Nothing is kept here; a cache would keep for each word of a sequence {price}."


def say_count(count: int) -> str:
    """A number in full, and in short where it is long: 382,368 (382 k)."""
    return f"{count:,}" if count < 100_000 else f"{count:,} ({say_short(count)})"


def say_bytes(count: int) -> str:
    """Bytes in full, and in short where they are many."""
    return f"{count:,} bytes" if count < 100_000 else f"{count:,} bytes ({say_short(count, 'B')})"
