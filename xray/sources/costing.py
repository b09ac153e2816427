"""What a model costs, measured by running it without storage: every size at once is as cheap as a small one."""

import inspect
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from xray.capture.caches import find_kept
from xray.capture.inputs import Target
from xray.capture.lifetimes import Lifetimes, enter_all
from xray.errors import TraceError, UsageError
from xray.ir.cost import CacheKind, Cost, LayerCache, Polynomial, RunCost, fit_polynomial
from xray.sources.family_inputs import propose_inputs
from xray.sources.fused import fused_attention
from xray.sources.loading import load_source
from xray.sources.request import Request
from xray.sources.spelling import is_settings
from xray.text import show_controls

LENGTHS = (512, 1024, 1536, 2048)
"""Where a model is measured: the first three make the law, the last one tests it."""
LAWS = ("inference_flops", "training_flops", "cache_bytes", "inference_bytes", "training_bytes")
Rows = Mapping[int, tuple[int, int, int]]
"""For each stack of experts: how many rows met it, how many experts it has, and their numbers."""


def cost_by_name(source: str, request: Request, lengths: Sequence[int] = LENGTHS) -> Cost:
    """What a model of the transformers library costs at these lengths, by its name; nothing is run with numbers.

    Raises:
        UsageError: the source is no model whose inputs X-Ray makes.
        TraceError: there is no such model, or it cannot run without storage.
    """
    if not (source.startswith("hf:") or is_settings(source)):
        raise UsageError(
            f"{show_controls(source)} has inputs of one size. Name a model whose length can change, as hf:owner/model."
        )
    first = load_source(source, replace(request, meta=True, wishes=replace(request.wishes, seq_len=lengths[0])))
    config = first.model.config
    targets = [first]
    for length in lengths[1:]:
        with first.around():
            wishes = replace(request.wishes, seq_len=length)
            made = next(propose_inputs(first.model, config, wishes, has_storage=False))
        targets.append(replace(first, kwargs=made.values))
    return measure_cost(targets, lengths)


def measure_cost(targets: Sequence[Target], lengths: Sequence[int]) -> Cost:
    """What a model costs at these lengths, and by which law of the length, where one holds at the last of them too."""
    model, runs, caches = targets[0].model, [], []
    rows: Rows = {}
    for length, target in zip(lengths, targets, strict=True):
        run, cache, rows = measure_run(target, length)
        runs.append(run)
        caches.append(cache)
    return Cost(
        title=type(model).__name__,
        params=sum(one.numel() for one in model.parameters()),
        active_params=count_active(model, rows, runs[-1]),
        param_bytes=count_by_type(model.parameters()),
        runs=tuple(runs),
        cache=tell_growth(caches, runs),
        laws=find_laws(runs),
    )


def measure_run(target: Target, length: int) -> tuple[RunCost, Mapping[str, list[Tensor]], Rows]:
    """One run at one length.

    Raises:
        TraceError: the model cannot run so.
    """
    model = target.model
    batch = next((one.shape[0] for one in tree_leaves(dict(target.kwargs)) if isinstance(one, Tensor)), 1)
    ledger = start(model, target)
    try:
        with target.around(), fused_attention(), torch.no_grad(), ledger.watching(model):
            answer = model(**target.kwargs)
    except Exception as error:  # whatever a model raises
        reason = show_controls(" ".join(str(error).split())[:200]).rstrip(".")
        raise TraceError(
            f"{type(model).__name__} cannot run without storage at length {length}: {reason}. Choose another --as."
        ) from error
    kept = dict(group_layers(answer))
    enter_all(ledger, (one for tensors in kept.values() for one in tensors), "cache")
    trained = measure_training(target)
    run = RunCost(
        batch=batch,
        length=length,
        inference=ledger.peak(),
        inference_flops=ledger.flops,
        training=trained.peak() if trained is not None else None,
        training_flops=trained.flops if trained is not None else None,
        cache_bytes=sum(map(count_bytes, (one for tensors in kept.values() for one in tensors))),
    )
    return run, kept, ledger.rows


def start(model: nn.Module, target: Target) -> Lifetimes:
    """A ledger with all that is there before a run."""
    ledger = Lifetimes()
    enter_all(ledger, (*model.parameters(), *model.buffers()), "parameters")
    enter_all(ledger, (one for one in tree_leaves(dict(target.kwargs)) if isinstance(one, Tensor)), "inputs")
    return ledger


def measure_training(target: Target) -> Lifetimes | None:
    """A step of AdamW in the same type as the weights; None for a model that gives nothing to go back from."""
    model = target.model
    given, names = dict(target.kwargs), list(inspect.signature(model.forward).parameters)
    words = given.get("decoder_input_ids", given.get("input_ids"))
    if "labels" in names and words is not None:
        given["labels"] = words
    if "use_cache" in names:
        given["use_cache"] = False
    ledger = start(model, target)
    trainable = [one for one in model.parameters() if one.requires_grad]
    moments = [torch.empty_like(one) for one in (*trainable, *trainable)]  # AdamW keeps two numbers for each
    enter_all(ledger, moments, "optimiser")
    was_training = model.training
    model.train()
    try:
        with target.around(), fused_attention(), ledger.watching(model):
            answer = model(**given)
            loss = getattr(answer, "loss", None)
            if loss is None:
                loss = next(one for one in tree_leaves(list(answer.values())) if one.requires_grad).sum()
            del answer
            loss.backward()
    except Exception:  # whatever a model raises where it is not made to be trained so
        return None
    finally:
        model.train(was_training)
        for one in trainable:
            one.grad = None
    return ledger


def group_layers(answer: Any) -> Mapping[str, list[Tensor]]:
    """The tensors that an answer keeps for the next word, by the layer that keeps them."""
    layers = defaultdict(list)
    for name, value in answer.items() if hasattr(answer, "items") else ():
        if "past" in name or "cache" in name or "state" in name:
            for path, tensor in find_kept([(name, value)]):
                parts = path.split(".")
                number = next((part for part in parts if part.isdigit()), "")
                layers[f"{parts[0]}.{number}"].append(tensor)
    return {layer: [one for one in found if one.is_floating_point() and one.numel()] for layer, found in layers.items()}


def tell_growth(caches: Sequence[Mapping[str, list[Tensor]]], runs: Sequence[RunCost]) -> tuple[LayerCache, ...]:
    """What each layer keeps at the last length, and what one more word of one input adds to it there."""
    told = []
    last, before = caches[-1], caches[-2] if len(caches) > 1 else {}
    for layer, tensors in last.items():
        size, earlier = sum(map(count_bytes, tensors)), sum(map(count_bytes, before.get(layer, [])))
        words = (runs[-1].length - runs[-2].length) * runs[-1].batch if len(runs) > 1 else 1
        growth = (size - earlier) // words
        first = sum(map(count_bytes, caches[0].get(layer, [])))
        kind: CacheKind = "full" if growth else "sliding" if first < size else "fixed"
        told.append(LayerCache(layer, tuple(tuple(one.shape) for one in tensors), size, growth, kind))
    return tuple(told)


def count_active(model: nn.Module, rows: Rows, run: RunCost) -> int | None:
    """The parameters that one word meets: of experts, as many as a word's rows are of all; None where none can tell."""
    total = sum(one.numel() for one in model.parameters())
    if not rows and any("experts" in type(module).__name__.lower() for module in model.modules()):
        return None
    words = run.batch * run.length
    if not words or any(multiplied % words for multiplied, _, _ in rows.values()):
        return None
    idle = sum(size - size * multiplied // (words * experts) for multiplied, experts, size in rows.values())
    return total - idle


def count_by_type(parameters: Iterable[Tensor]) -> Mapping[str, int]:
    """The bytes of parameters by their type."""
    found = Counter[str]()
    for one in parameters:
        found[str(one.dtype).removeprefix("torch.")] += count_bytes(one)
    return dict(found)


def count_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def find_laws(runs: Sequence[RunCost]) -> Mapping[str, Polynomial]:
    """Every quantity that follows a polynomial of the length: through all runs but the last, and found true there."""
    laws = {}
    for name in LAWS:
        values = [read_quantity(run, name) for run in runs]
        known = [(run.length, value) for run, value in zip(runs, values, strict=True) if value is not None]
        law = fit_polynomial(known) if len(known) == len(runs) else None
        if law is not None:
            laws[name] = law
    return laws


def read_quantity(run: RunCost, name: str) -> int | None:
    """One quantity of a run, by its name in LAWS."""
    if name.endswith("_bytes") and name != "cache_bytes":
        memory = run.inference if name.startswith("inference") else run.training
        return None if memory is None else memory.bytes
    value: int | None = getattr(run, name)
    return value
