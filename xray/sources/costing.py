"""What a model costs, measured by running it without storage: every size at once is as cheap as a small one."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import get_args

from torch import Tensor, nn

from xray.capture.targets.inputs import Target
from xray.errors import TraceError, UsageError
from xray.ir.cost import CacheKind, Cost, LayerCache, Quantity, RunCost
from xray.ir.laws import Law, Size, find_law
from xray.sources.family_inputs import propose_inputs
from xray.sources.loading import load_source
from xray.sources.measuring import Met, count_bytes, measure_run
from xray.sources.request import Request
from xray.sources.sizes import find_setting
from xray.sources.spelling import check_there, names_settings
from xray.text import show_controls

USUAL = (1024, 8192, 32_768, 131_072)
"""The lengths that are told where none are asked for, as far as the model has places."""
LEAST_TOP = 64
MOST_APART = 8
"""So many of the sizes asked for are run by themselves, where no law tells of them."""
SHORT = 16
"""A length shorter than any window."""
PROBES, PATIENCE_S = (16, 16, 144), 1.0
"""Lengths that tell whether words are taken one after the other, and how long the longest of such runs may take."""
COMMON = 256
"""Recurrences take words in blocks of so many, and what fills them up is paid for."""
LONGEST_KNOWN = 2048
"""Up to here masks are worked out, and a model may ask what is in them."""
PLACES = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")
LATENTS = ("kv_lora_rank",)
"""Settings that name the width of what keys and values are made of again."""


def cost_by_name(source: str, request: Request, lengths: Sequence[int] = (), batches: Sequence[int] = (1,)) -> Cost:
    """What a model of the transformers library costs at these sizes, by its name; nothing is run with numbers.

    Raises:
        UsageError: the source is no model whose inputs X-Ray makes.
        TraceError: there is no such model, or it cannot run without storage.
    """
    if not names_settings(source):
        check_there(source)
        raise UsageError(
            f"{show_controls(source)} has inputs of one size. Name a model whose length can change, as hf:owner/model."
        )
    target = load_source(source, replace(request, meta=True))
    return measure_cost(target, request, lengths, batches)


def measure_cost(target: Target, request: Request, lengths: Sequence[int], batches: Sequence[int]) -> Cost:
    """What a model costs: run at the sizes that its laws need, at those that test them, and at some that are asked for.

    Where the longest of them does not run, none is longer than what surely does.
    """
    config = target.model.config
    places = find_setting(config, PLACES)
    asked = sorted(set(lengths or [one for one in USUAL if one <= (places or USUAL[-1])] or [places]))
    measured = Measured(target, request)
    asked, untold = cut_long(asked, measured.tell_seconds_a_word() if max(asked) > PROBES[-1] else 0.0)
    try:
        measured.run((1, max(asked)))
    except TraceError as error:
        if max(asked) <= LONGEST_KNOWN:
            raise
        untold = str(error)
        asked = [one for one in asked if one < LONGEST_KNOWN] + [LONGEST_KNOWN]
    for size in list_sizes(asked, batches):
        measured.run(size)
    measured.run((1, min(SHORT, *asked)), trains=False)
    laws = find_laws(measured.sorted_runs())
    for size in [size for size in product(batches, asked) if not is_told(laws, size)][:MOST_APART]:
        measured.run(size)
    runs = measured.sorted_runs()
    model = target.model
    return Cost(
        title=type(model).__name__,
        params=sum(one.numel() for one in model.parameters()),
        active_params=count_active(model, measured.met, runs[-1]),
        passed_rows=count_passed(measured.met, runs[-1]),
        param_bytes=count_by_type(model.parameters()),
        runs=runs,
        cache=list_growth(measured.kept, find_setting(config, LATENTS)),
        laws=laws,
        most_words=places if isinstance(places, int) else None,
        untold=untold,
    )


def cut_long(asked: Sequence[int], seconds_a_word: float) -> tuple[list[int], str]:
    """The lengths that can be run within reason, and why no longer ones are; a loop over words takes time for each."""
    most = int(PATIENCE_S / seconds_a_word) if seconds_a_word > 0 else max(asked)
    if most >= max(asked):
        return list(asked), ""
    longest = max(PROBES[-1], 1 << most.bit_length() - 1)
    shorter = [one for one in asked if one < longest]
    return [*shorter, longest], f"It takes its words one after the other; no more than {longest:,} were run."


def is_told(laws: Mapping[Quantity, Law], size: Size) -> bool:
    """Whether every count of a size follows from a law."""
    return all(quantity in laws and laws[quantity].covers(size) for quantity in get_args(Quantity))


def list_sizes(asked: Sequence[int], batches: Sequence[int]) -> list[Size]:
    """The sizes to run: four lengths for the law and its test, another batch for those, the corners."""
    top = max(*asked, LEAST_TOP)
    ladder = [max(1, round_down(top * part // 8)) for part in (2, 4, 6)] + [top]
    sizes = [(1, length) for length in sorted({*ladder, *asked})]
    if max(batches) > 1:
        sizes += [(2, length) for length in ladder[:3]]
        sizes += product(sorted({3, max(batches)}), {top, min(asked)})
    return sizes


def round_down(length: int) -> int:
    """A length that no block of words leaves a rest of, where it is long enough."""
    return length // COMMON * COMMON if length >= 2 * COMMON else length


class Measured:
    """The runs of one model, by their sizes: each of them runs once."""

    def __init__(self, target: Target, request: Request) -> None:
        self.target = target
        self.request = request
        self.runs: dict[Size, RunCost] = {}
        self.kept: dict[int, Mapping[str, list[Tensor]]] = {}
        self.met = Met()

    def sorted_runs(self) -> tuple[RunCost, ...]:
        """All runs by their sizes."""
        return tuple(self.runs[size] for size in sorted(self.runs))

    def tell_seconds_a_word(self) -> float:
        """How many seconds of the processor one more word takes in a forward pass; the first of the probes warms up."""
        ended = [time.process_time()]
        for length in PROBES:
            measure_run(self.feed((1, length)), (1, length), trains=False)
            ended.append(time.process_time())
        _, short, long = (end - begin for begin, end in pairwise(ended))
        return (long - short) / (PROBES[-1] - PROBES[-2])

    def feed(self, size: Size) -> Target:
        """The target with inputs of a size."""
        model, (batch, length) = self.target.model, size
        wishes = replace(self.request.wishes, batch=batch, seq_len=length)
        with self.target.around():
            made = next(propose_inputs(model, model.config, wishes, has_storage=False))
        return replace(self.target, kwargs=made.values)

    def run(self, size: Size, *, trains: bool = True) -> None:
        """Measure a size, unless it was; with a step of training where the model `trains`.

        Raises:
            TraceError: the model cannot run so.
        """
        if size in self.runs:
            return
        batch, length = size
        run, kept, met = measure_run(self.feed(size), size, trains=trains)
        self.runs[size] = run
        if batch == 1:
            self.kept[length] = kept
        if max(self.runs) == size:
            self.met = met


def list_growth(kept: Mapping[int, Mapping[str, list[Tensor]]], latent: object) -> tuple[LayerCache, ...]:
    """What each layer keeps of one input at the greatest length, and what one more word adds to it there."""
    told = []
    *shorter, top = sorted(kept)
    for layer, tensors in kept[top].items():
        sizes = {length: sum(map(count_bytes, kept[length].get(layer, []))) for length in kept}
        before = shorter[-1] if shorter else 0
        growth = (sizes[top] - sizes.get(before, 0)) // max(1, top - before)
        widths = {one.shape[-1] for one in tensors}
        kind: CacheKind = "state"
        if "cross" in layer.split("."):
            kind, growth = "static", 0
        elif growth:
            kind = "latent" if latent in widths else "full"
        elif sizes[min(kept)] < sizes[top]:
            kind = "sliding"
        told.append(LayerCache(layer, tuple(tuple(one.shape) for one in tensors), sizes[top], growth, kind))
    return tuple(told)


def count_active(model: nn.Module, met: Met, run: RunCost) -> int | None:
    """The parameters that one word meets, tables as a whole: of experts, as many as a word's rows are of all.

    None where nothing can tell.
    """
    total = sum(one.numel() for one in model.parameters())
    if not met.experts and any("experts" in type(module).__name__.lower() for module in model.modules()):
        return None
    words = run.batch * run.length
    if not words or any(multiplied % words for multiplied, _, _ in met.experts.values()):
        return None
    idle = sum(size - size * multiplied // (words * experts) for multiplied, experts, size in met.experts.values())
    return total - idle


def count_passed(met: Met, run: RunCost) -> int:
    """The parameters in rows of tables that one word does not look up; a table that is the head as well has none."""
    words = run.batch * run.length
    return sum(
        size - size // rows * min(rows, max(1, looked_up // words)) for looked_up, rows, size in met.tables.values()
    )


def count_by_type(parameters: Iterable[Tensor]) -> Mapping[str, int]:
    """The bytes of parameters by their type."""
    found = Counter[str]()
    for one in parameters:
        found[str(one.dtype).removeprefix("torch.")] += count_bytes(one)
    return dict(found)


def find_laws(runs: Sequence[RunCost]) -> Mapping[Quantity, Law]:
    """Every count that follows a polynomial of batch and length, or at least of the length of one input."""
    laws: dict[Quantity, Law] = {}
    for quantity in get_args(Quantity):
        values = {run.size: value for run in runs if (value := run.read(quantity)) is not None}
        law = find_law(values) or find_law({size: one for size, one in values.items() if size[0] == 1})
        if law is not None:
            laws[quantity] = law
    return laws
