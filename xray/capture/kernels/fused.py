"""Fused attention opened: the scores and the mask that one kernel never stores, derived from what it was given."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor

from xray.capture.calls import NOWHERE, Known, OpenCall, Seen
from xray.capture.kernels.varlen import Kernel, imply_sequences, read_kernel
from xray.capture.masks.facts import imply_causal
from xray.capture.values import is_readable
from xray.ir.records import Preview
from xray.ir.trace import Setting

ATTENTIONS = frozenset(
    {
        "scaled_dot_product_attention",
        "scaled_dot_product_flash_attention",
        "scaled_dot_product_flash_attention_for_cpu",
        "scaled_dot_product_efficient_attention",
        "scaled_dot_product_cudnn_attention",
        "scaled_dot_product_attention_math",
        "scaled_dot_product_fused_attention_overrideable",
        "flex_attention",
    }
)


STAGES = count(-1, -1)
"""The serial numbers of stages, which no call has."""


def derive_attention(call: OpenCall) -> list[OpenCall]:
    """The stages inside a call of fused attention, as steps of which the call is the block; all are marked "derived".

    A call of anything else has none.

    Shapes:
        query: (batch, heads, queries, d_k)
        key:   (batch, key_heads, keys, d_k)    repeated for grouped queries
        value: (batch, key_heads, keys, d_v)
    """
    kernel = read_kernel(call)
    if kernel is not None:
        return derive_varlen(call, kernel)
    given = {seen[0]: seen for seen in call.inputs}
    if call.op not in ATTENTIONS or not {"query", "key", "value"} <= set(given):
        return []
    query, key, value = given["query"], given["key"], given["value"]
    width = query[1].shape
    if len(width) < 2 or len(key[1].shape) != len(width):
        return []
    stages = Stages(call, query[1])
    if len(width) > 3 and width[0] == 1:
        width = (*key[1].shape[:1], *width[1:])  # one sequence of queries asks in all (BLIP-2)
    if len(width) > 2 and key[1].shape[-3] != width[-3]:
        key = stages.add("repeat_key", "repeat", (key,), (*width[:-2], *key[1].shape[-2:]))
        value = stages.add("repeat_value", "repeat", (value,), (*width[:-2], *value[1].shape[-2:]))
    length, d_k = key[1].shape[-2:]
    turned = stages.add("transpose_key", "transpose", (key,), (*key[1].shape[:-2], d_k, length))
    scores_shape = (*width[:-1], length)
    scores = stages.add("scores", "matmul", (query, turned), scores_shape)
    options = dict(call.options)
    scale = options.get("scale")
    scores = stages.add("scale", "scale", (scores,), scores_shape, factor=scale or (width[-1] or 1) ** -0.5)
    if options.get("score_mod") is True:  # what it adds is only known while it runs; what it hides is in the mask
        scores = stages.add("score_mod", "add", (scores,), scores_shape, asked=options.get("asked") is True)
    mask = find_mask(given, options, scores_shape)
    if mask is not None:
        scores = stages.add("mask", "mask_scores", (scores, mask), scores_shape)
    weights = stages.add("softmax", "softmax", (scores,), scores_shape, call.weighed, dim=-1)
    stages.add("weighted_sum", "matmul", (weights, value), (*width[:-1], value[1].shape[-1]))
    return stages.calls


def derive_varlen(call: OpenCall, kernel: Kernel) -> list[OpenCall]:
    """The stages inside a kernel for sequences that lie end to end: one square, in which each sees its own alone.

    Shapes:
        scores: (heads, queries, keys)
    """
    queries, heads, d_k = kernel.query[1].shape
    keys, key_heads, d_v = kernel.value[1].shape
    stages = Stages(call, kernel.query[1])
    turned = [
        stages.add(f"heads_{name}", "transpose", (seen,), (shape[1], shape[0], shape[2]), dim0=0, dim1=1)
        for name, seen in (("query", kernel.query), ("key", kernel.key), ("value", kernel.value))
        for shape in (seen[1].shape,)
    ]
    query, key, value = turned
    if key_heads != heads:
        key = stages.add("repeat_key", "repeat", (key,), (heads, keys, d_k))
        value = stages.add("repeat_value", "repeat", (value,), (heads, keys, d_v))
    across = stages.add("transpose_key", "transpose", (key,), (heads, d_k, keys))
    square = (heads, queries, keys)
    scores = stages.add("scores", "matmul", (query, across), square)
    scores = stages.add("scale", "scale", (scores,), square, factor=kernel.scale or (d_k or 1) ** -0.5)
    if kernel.adds:
        scores = stages.add("score_mod", "add", (scores,), square)
    apart = stages.add(
        "sequences",
        "same_sequence",
        (kernel.query_ends, kernel.key_ends),
        (1, queries, keys),
        is_causal=kernel.is_causal,
        left=kernel.left,
        right=kernel.right,
    )
    like = apart[1]._replace(dtype="bool", role="mask", mask=imply_sequences(kernel))
    stages.calls[-1].outputs = [("out", like, None)]
    scores = stages.add("mask", "mask_scores", (scores, ("mask", like, None)), square)
    weights = stages.add("softmax", "softmax", (scores,), square, call.weighed, dim=-1)
    mixed = stages.add("weighted_sum", "matmul", (weights, value), (heads, queries, d_v))
    stages.add("heads_joined", "transpose", (mixed,), (queries, heads, d_v), dim0=0, dim1=1)
    return stages.calls


class Stages:
    """Derived steps, one after the other."""

    def __init__(self, block: OpenCall, like: Known) -> None:
        self.block = block
        self.like = like._replace(tensor=NOWHERE, role="activation", mask=None, part=None)
        self.calls: list[OpenCall] = []

    def add(
        self,
        name: str,
        op: str,
        inputs: tuple[Seen, ...],
        shape: tuple[int, ...],
        preview: Preview | None = None,
        **settings: Setting,
    ) -> Seen:
        """One more stage, and what it would have made."""
        call = OpenCall(next(STAGES), f"{self.block.path}.{name}", op, self.block, self.block.line, self.block)
        made = ("out", self.like._replace(shape=shape, maker=call.serial), preview)
        call.settings = {**settings, "derived": True}
        call.inputs, call.outputs = list(inputs), [made]
        self.calls.append(call)
        return made


def weigh(call: OpenCall) -> Tensor | None:
    """The weights that a call of fused attention never stores, worked out anew while its inputs are still there.

    Shapes:
        out: (batch, heads, queries, keys)
    """
    given = {name: known.tensor() for name, known, _ in call.inputs}
    query, key, mask = given.get("query"), given.get("key"), given.get("attn_mask")
    if (
        call.op == "flex_attention"
        or query is None
        or key is None
        or not is_readable(query)
        or query.dim() < 2
        or key.dim() != query.dim()
    ):
        return None
    if query.dim() > 2 and key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    options = dict(call.options)
    scale = options.get("scale") or (query.shape[-1] or 1) ** -0.5
    scores = query.detach().float() @ key.detach().float().transpose(-2, -1) * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    elif options.get("is_causal") is True:
        scores = scores.masked_fill(
            ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril().to(scores.device), -torch.inf
        )
    weights: Tensor = scores.softmax(-1).nan_to_num(0.0)
    return weights


def find_mask(given: Mapping[str, Seen], options: Mapping[str, Any], scores: tuple[int, ...]) -> Seen | None:
    """The mask of the call: the one given, or the one that `is_causal` implies; None without either."""
    masks = [name for name in ("ragged_mask", "attn_mask", "block_mask") if name in given]
    if masks:
        name, known, preview = given[masks[0]]
        return name, known._replace(role="mask"), preview
    if options.get("is_causal") is not True:
        return None
    queries, keys = scores[-2:]
    shape = (*(1 for _ in scores[:-2]), queries, keys)
    implied = imply_causal(queries, keys)
    return "mask", Known(NOWHERE, 0, shape, "bool", given["query"][1].device, "mask", None, implied), None
