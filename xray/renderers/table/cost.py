"""What a model costs, as text: a few tables in plain words."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from xray.ir.cost import Cost, LayerCache, Memory, Quantity
from xray.ir.laws import Law, Size
from xray.text import say_short

KINDS = {
    "full": "every word of every input",
    "latent": "of every word what its keys and values are made of again",
    "sliding": "the last words, no more than its window",
    "static": "what the other tower said, the same for every word",
    "state": "a state that does not grow",
}
NARROWEST = 78
"""So wide are the tables themselves."""
COLUMNS: tuple[tuple[Quantity, str, int], ...] = (
    ("inference_bytes", "inference", 11),
    ("inference_flops", "FLOPs", 9),
    ("cache_bytes", "kept", 11),
    ("training_bytes", "training", 11),
    ("training_flops", "FLOPs", 9),
)
NAMES: dict[Quantity, str] = {
    "inference_bytes": "memory of inference",
    "training_bytes": "memory of training",
    "cache_bytes": "what is kept",
    "inference_flops": "FLOPs of inference",
    "training_flops": "FLOPs of training",
}


def print_cost(cost: Cost, sizes: Sequence[Size], width: int = 100) -> str:
    """What a model costs at these sizes, measured there or by its laws, and what it keeps from word to word."""
    return "\n".join(line for told in list_lines(cost, sizes) for line in break_line(told, max(width, NARROWEST)))


def break_line(line: str, width: int) -> list[str]:
    """A line as it fits the width, what goes on below further in."""
    inner = len(line) - len(line.lstrip()) + 4
    return wrap(line, width, subsequent_indent=" " * inner, break_long_words=False) if len(line) > width else [line]


def list_lines(cost: Cost, sizes: Sequence[Size]) -> Iterator[str]:
    types = ", ".join(f"{write_bytes(size)} of {name}" for name, size in cost.param_bytes.items())
    active = cost.active_params
    met = ""
    if active is not None and active != cost.params:
        bare = f" ({active - cost.passed_rows:,} less the rows of tables that it passes by)" if cost.passed_rows else ""
        met = f", of which one word meets {active:,}{bare}"
    yield f"{cost.title}  {cost.params:,} parameters{met}  ({types})"
    yield ""
    yield f"{'batch':>5}  {'length':>9}  " + "  ".join(f"{name:>{width}}" for _, name, width in COLUMNS)
    for size in sizes:
        yield write_row(cost, size)
    yield from list_notes(cost, sizes)
    shown = [run for size in sizes if (run := cost.find_run(size)) is not None]
    if shown:
        last = max(shown, key=lambda run: run.size)
        yield ""
        yield f"The most at batch {last.batch}, length {last.length:,}:"
        yield f"  inference  {write_memory(last.inference)}"
        if last.training is not None:
            yield f"  training   {write_memory(last.training)}  (AdamW, all in the type of the weights)"
    if cost.laws:
        yield ""
        yield "How it grows with n words" + (" and b inputs:" if any(map(has_batches, cost.laws.values())) else ":")
        for quantity, law in cost.laws.items():
            yield f"  {NAMES[quantity]:19}  {law.write()}  ({describe_test(law)})"
    if cost.cache:
        yield ""
        yield f"Kept from word to word: {cost.bytes_per_word:,} bytes for one more word"
        for alike, group in groupby(cost.cache, key=describe_layer):
            layers = list(group)
            yield f"  {write_layers(layers)}  {alike}"


def write_row(cost: Cost, size: Size) -> str:
    """The counts at a size; one that no run and no law gives is a dash, one by a law has a sign."""
    batch, length = size
    sign = " " if cost.find_run(size) is not None else "*"
    cells = "  ".join(f"{tell(cost, quantity, size):>{width}}" for quantity, _, width in COLUMNS)
    return f"{batch:>5}  {length:>8,}{sign}  {cells}"


def list_notes(cost: Cost, sizes: Sequence[Size]) -> Iterator[str]:
    """What has to be said of some of the rows."""
    if any(cost.find_run(size) is None and any(cost.tell(one, size) is not None for one in NAMES) for size in sizes):
        yield "* not run: by laws through other sizes, which proved true beyond those that they were made from."
    if any(cost.tell("inference_bytes", size) is None for size in sizes):
        yield f"- nothing that was run bears out a number there. {cost.untold}".rstrip()
    elif cost.untold:
        yield cost.untold
    if cost.most_words is not None and any(length > cost.most_words for _, length in sizes):
        yield f"Its settings name {cost.most_words:,} places; it is not made for more words."


def tell(cost: Cost, quantity: Quantity, size: Size) -> str:
    """A count at a size; "-" where nothing gives it."""
    value = cost.tell(quantity, size)
    if value is None:
        return "-"
    return say_short(value) if quantity.endswith("flops") else write_bytes(value)


def has_batches(law: Law) -> bool:
    """Whether a law is one of the batch, too."""
    return any(by for by, _ in law.terms)


def describe_test(law: Law) -> str:
    """At what a law was tested."""
    batch, length = max(law.tested_at, key=lambda size: (size[1], size[0]))
    where = f"batch {batch}, length {length:,}" if has_batches(law) else f"length {length:,}"
    more = f" and {len(law.tested_at) - 1} more" if len(law.tested_at) > 1 else ""
    least = min(one for _, one in (*law.made_from, *law.tested_at))
    return f"true at {where}{more}; from {least:,} words on"


def write_memory(memory: Memory) -> str:
    parts = sorted(memory.kinds.items(), key=lambda one: -one[1])
    return f"{write_bytes(memory.bytes)} at {memory.place}: " + ", ".join(
        f"{kind} {write_bytes(size)}" for kind, size in parts
    )


def describe_layer(layer: LayerCache) -> str:
    shapes = " and ".join("×".join(map(str, shape)) for shape in layer.shapes)
    return f"{shapes}: {KINDS[layer.kind]}, {layer.bytes_per_word:,} bytes a word"


def write_layers(layers: Sequence[LayerCache]) -> str:
    first, last = (one.layer.rpartition(".")[2] for one in (layers[0], layers[-1]))
    return f"layer {first}" if len(layers) == 1 else f"layers {first} to {last}"


def write_bytes(size: int) -> str:
    """Bytes in short: "16.1 GB"."""
    return say_short(size, "B")
