"""Fused attention opened: the scores and the mask that one kernel never stores, derived from what it was given."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from xray.capture.calls import OpenCall, SeenTensor
from xray.capture.mask_facts import imply_causal, look_at_mask
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
    }
)


def derive_attention(call: OpenCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[OpenCall]:
    """The stages inside a call of fused attention, as steps of which the call is the block; all are marked "derived".

    Shapes:
        query: (batch, heads, queries, d_k)
        key:   (batch, key_heads, keys, d_k)    repeated for grouped queries
        value: (batch, key_heads, keys, d_v)
    """
    given = {seen.name: seen for seen in call.inputs}
    if not {"query", "key", "value"} <= set(given):
        return []
    query, key, value = given["query"], given["key"], given["value"]
    if len(query.shape) < 2 or len(key.shape) != len(query.shape):
        return []
    stages = Stages(call, query)
    if len(query.shape) > 2 and key.shape[-3] != query.shape[-3]:
        wide = query.shape[:-2]
        key = stages.add("repeat_key", "repeat", (key,), (*wide, *key.shape[-2:]))
        value = stages.add("repeat_value", "repeat", (value,), (*wide, *value.shape[-2:]))
    turned = stages.add("transpose_key", "transpose", (key,), (*key.shape[:-2], key.shape[-1], key.shape[-2]))
    scores_shape = (*query.shape[:-1], key.shape[-2])
    scores = stages.add("scores", "matmul", (query, turned), scores_shape)
    scale = kwargs.get("scale")
    scores = stages.add("scale", "scale", (scores,), scores_shape, factor=scale or query.shape[-1] ** -0.5)
    mask = find_mask(given, args, kwargs, scores_shape)
    if mask is not None:
        scores = stages.add("mask", "mask_scores", (scores, mask), scores_shape)
    weights = stages.add("softmax", "softmax", (scores,), scores_shape, dim=-1)
    stages.add("weighted_sum", "matmul", (weights, value), (*query.shape[:-1], value.shape[-1]))
    return stages.calls


class Stages:
    """Derived steps, one after the other."""

    def __init__(self, block: OpenCall, like: SeenTensor) -> None:
        self.block = block
        self.like = like
        self.calls: list[OpenCall] = []

    def add(
        self, name: str, op: str, inputs: tuple[SeenTensor, ...], shape: tuple[int, ...], **settings: Setting
    ) -> SeenTensor:
        """One more stage, and what it would have made."""
        path = f"{self.block.path}.{name}"
        made = self.like._replace(name="out", shape=shape, role="activation", source=f"{path}#{self.block.call}")
        self.calls.append(
            OpenCall(
                id=f"{path}#{self.block.call}",
                path=path,
                call=self.block.call,
                op=op,
                kind="",
                parent=self.block.id,
                depth=self.block.depth + 1,
                params=0,
                location=self.block.location,
                settings={**settings, "derived": True},
                inputs=inputs,
                outputs=(made,),
            )
        )
        return made


def find_mask(
    given: Mapping[str, SeenTensor], args: tuple[Any, ...], kwargs: Mapping[str, Any], scores: tuple[int, ...]
) -> SeenTensor | None:
    """The mask of the call: the one given, or the one that `is_causal` implies; None without either."""
    explicit = kwargs.get("attn_mask", args[3] if len(args) > 3 and isinstance(args[3], Tensor) else None)
    if isinstance(explicit, Tensor):
        seen = given.get("attn_mask")
        if seen is not None:
            return seen._replace(role="mask", mask=seen.mask or look_at_mask(explicit, None))
    is_causal = kwargs.get("is_causal", next((value for value in args[3:] if value is True), False))
    if is_causal is not True:
        return None
    queries, keys = scores[-2:]
    like = given["query"]
    return SeenTensor(
        "mask",
        (*(1 for _ in scores[:-2]), queries, keys),
        "bool",
        like.device,
        "mask",
        None,
        imply_causal(queries, keys),
    )
