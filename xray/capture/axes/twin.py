"""Axis words for X-Ray's own transformer: a twin whose sizes are all different tells which axis is which."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from xray.capture.axes.reruns import set_aside
from xray.capture.targets.passes import Words, record_inference, record_training
from xray.config import ModelConfig
from xray.errors import TraceError
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, PassKind, Step
from xray.model.cache import AttentionCache, LayerCache
from xray.model.transformer import Transformer

BATCH, HEADS, D_K, SRC_LEN, TGT_LEN, D_FF, SRC_VOCAB, TGT_VOCAB = 2, 3, 5, 7, 11, 13, 17, 19
TWIN_WORDS = {
    1: "1",
    BATCH: "batch",
    HEADS: "heads",
    D_K: "d_k",
    HEADS * D_K: "d_model",
    SRC_LEN: "src_len",
    TGT_LEN - 1: "tgt_len-1",
    TGT_LEN: "tgt_len",
    TGT_LEN + 1: "tgt_len+1",
    BATCH * TGT_LEN: "batch*tgt_len",
    D_FF: "d_ff",
    SRC_VOCAB: "src_vocab",
    TGT_VOCAB: "tgt_vocab",
}
"""What each size of the twin means; no two of them are equal, and no other size occurs in it."""

AxisWords = Mapping[str, Mapping[tuple[str, str], tuple[str, ...]]]
"""For each step id, the axis words of its tensors, by ("in" or "out", name)."""

Change = Callable[[Transformer], Transformer]


def keep(model: Transformer) -> Transformer:
    """The model as it is."""
    return model


def name_axes(
    passes: tuple[Pass, ...], config: ModelConfig, *, kv_cache: bool = False, change: Change = keep
) -> tuple[Pass, ...]:
    """The same passes, every axis with its word; sizes play no part, so equal sizes keep their own names.

    `change` is what was done to the model before it was recorded.

    Raises:
        TraceError: a recorded shape contradicts the configuration, or one word stands for two sizes in a pass.
    """
    words = trace_twin(config, kv_cache=kv_cache, change=change)
    return tuple(name_pass(one_pass, words[one_pass.kind]) for one_pass in passes)


def trace_twin(config: ModelConfig, *, kv_cache: bool = False, change: Change = keep) -> Mapping[PassKind, AxisWords]:
    """The axis words of every step of every kind of pass, read off a twin.

    The twin computes: it is small, and what torch loads to run without storage takes longer.
    """
    shared = config.sharing == "all"
    twin_config = replace(
        config,
        d_model=HEADS * D_K,
        heads=HEADS,
        d_ff=D_FF,
        src_vocab=TGT_VOCAB if shared else SRC_VOCAB,
        tgt_vocab=TGT_VOCAB,
        max_len=TGT_LEN + 1,
    )
    with set_aside():
        twin = change(Transformer(twin_config))
        src = torch.zeros(BATCH, SRC_LEN, dtype=torch.long)
        tgt = torch.zeros(BATCH, TGT_LEN + 1, dtype=torch.long)
        passes = list(record_training(twin, src, tgt, src_words=(), tgt_words=(), label_smoothing=0.0).passes)
        for cache in (fill_cache(twin, with_memory=False), fill_cache(twin, with_memory=True)) if kv_cache else (None,):
            answered = record_inference(
                twin, src, src_words=(), spell=no_words, max_turns=1, start_len=TGT_LEN, cache=cache
            )
            passes += answered.passes
    words: dict[PassKind, dict[str, dict[tuple[str, str], tuple[str, ...]]]] = {}
    for one in passes:
        for step in one.steps:
            words.setdefault(one.kind, {}).setdefault(step.id, {}).update(read_words(step))
    return words


def fill_cache(twin: Transformer, *, with_memory: bool) -> tuple[LayerCache, ...]:
    """The twin's cache as it is before its last word, in the first turn that sees the memory, or in a later one."""
    cache = twin.make_cache()
    for layer in cache:
        fill_attention_cache(layer.self_attention, TGT_LEN - 1)
        if with_memory:
            fill_attention_cache(layer.cross_attention, SRC_LEN)
    return cache


def fill_attention_cache(cache: AttentionCache, length: int) -> None:
    cache.key = torch.zeros(BATCH, HEADS, length, D_K)
    cache.value = torch.zeros(BATCH, HEADS, length, D_K)


def no_words(_: torch.Tensor) -> Words:
    return ()


def read_words(step: Step) -> dict[tuple[str, str], tuple[str, ...]]:
    sides = (("in", step.inputs), ("out", step.outputs))
    return {
        (side, record.name): tuple(TWIN_WORDS[size] for size in record.shape)
        for side, records in sides
        for record in records
    }


def name_pass(one_pass: Pass, words: AxisWords) -> Pass:
    sizes: dict[str, int] = {}
    ops = {step.id: step.op for step in one_pass.steps}
    steps = []
    for step in one_pass.steps:
        axes = words[step.id]
        named = replace(
            step,
            inputs=tuple(name_record(record, axes["in", record.name], ops) for record in step.inputs),
            outputs=tuple(name_record(record, axes["out", record.name], ops) for record in step.outputs),
        )
        for record in (*named.inputs, *named.outputs):
            check_sizes(named, record, sizes)
        steps.append(named)
    return replace(one_pass, steps=tuple(steps))


def name_record(record: TensorRecord, axes: tuple[str, ...], ops: Mapping[str, str]) -> TensorRecord:
    """The record with its axis words; scores over the vocabulary are logits until softmax makes them probabilities."""
    over_words = axes[-1:] == ("tgt_vocab",) and record.role == "activation"
    is_logits = over_words and (record.source is None or ops.get(record.source) != "softmax")
    return replace(record, axes=axes, role="logits" if is_logits else record.role)


def check_sizes(step: Step, record: TensorRecord, sizes: dict[str, int]) -> None:
    """Hold a record to the sizes that its words had in the steps before it."""
    for axis, size in zip(record.axes, record.shape, strict=True):
        expected = 1 if axis == "1" else sizes.setdefault(axis, size)
        if size != expected:
            wanted = ", ".join(axis if axis == "1" else f"{axis}={sizes.get(axis, '?')}" for axis in record.axes)
            raise TraceError(
                f"{step.path} expected ({wanted}), got {tuple(record.shape)}. "
                "The checkpoint was trained with another config; pass the run folder it came from."
            )
