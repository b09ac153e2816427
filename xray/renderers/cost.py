"""What a model costs, as text: a few tables in plain words."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from xray.ir.cost import Cost, LayerCache, Memory

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
KINDS = {
    "full": "every word of every input",
    "sliding": "the last words, no more than its window",
    "fixed": "a state that does not grow",
}


def print_cost(cost: Cost, at: Sequence[int] = ()) -> str:
    """What a model costs at the lengths where it was measured, and by its laws at others."""
    return "\n".join(list_lines(cost, at))


def list_lines(cost: Cost, at: Sequence[int]) -> Iterator[str]:
    types = ", ".join(f"{write_bytes(size)} of {name}" for name, size in cost.param_bytes.items())
    active = cost.active_params
    met = f", of which one word meets {active:,}" if active is not None and active != cost.params else ""
    yield f"{cost.title}  {cost.params:,} parameters{met}  ({types})"
    yield ""
    yield f"{'length':>9}  {'inference':>11}  {'FLOPs':>9}  {'kept':>11}  {'training':>11}  {'FLOPs':>9}"
    for run in cost.runs:
        training = write_bytes(run.training.bytes) if run.training is not None else "-"
        yield (
            f"{run.length:>9,}  {write_bytes(run.inference.bytes):>11}  {write_count(run.inference_flops):>9}  "
            f"{write_bytes(run.cache_bytes):>11}  {training:>11}  {write_count(run.training_flops):>9}"
        )
    for length in at:
        yield f"{length:>9,}  " + "  ".join(
            f"{project(cost, name, length):>{width}}"
            for name, width in (
                ("inference_bytes", 11),
                ("inference_flops", 9),
                ("cache_bytes", 11),
                ("training_bytes", 11),
                ("training_flops", 9),
            )
        )
    if at:
        checked = next(iter(cost.laws.values())).checked_at if cost.laws else 0
        yield f"Longer than measured: by a law through the others that proved true at {checked:,}; - where none does."
    last = cost.runs[-1]
    yield ""
    yield f"At length {last.length:,}, batch {last.batch}:"
    yield f"  inference  {write_memory(last.inference)}"
    if last.training is not None:
        yield f"  training   {write_memory(last.training)}  (AdamW, all in the type of the weights)"
    if cost.cache:
        yield ""
        yield f"Kept from word to word: {sum(one.bytes_per_word for one in cost.cache):,} bytes for one more word"
        for alike, group in groupby(cost.cache, key=describe_layer):
            layers = list(group)
            yield f"  {write_layers(layers)}  {alike}"


def project(cost: Cost, name: str, length: int) -> str:
    """A quantity at another length, by its law; "-" where it has none."""
    law = cost.laws.get(name)
    if law is None:
        return "-"
    return write_count(law.at(length)) if name.endswith("flops") else write_bytes(law.at(length))


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
    """Bytes in the largest unit of which there is one: "15.3 GiB"."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{size} bytes" if unit == 0 else f"{number:,.1f} {UNITS[unit]}"


def write_count(count: int | None) -> str:
    """A number of operations: "16.0 T"."""
    if count is None:
        return "-"
    number, unit = float(count), 0
    while number >= 1000 and unit < 6:
        number, unit = number / 1000, unit + 1
    return f"{number:.1f} {('', 'K', 'M', 'G', 'T', 'P', 'E')[unit]}".rstrip()
