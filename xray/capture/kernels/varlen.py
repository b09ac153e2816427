"""Varlen attention: sequences that lie end to end, told apart by where each one ends (`cu_seqlens`)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from xray.capture.calls import NOWHERE, Known, OpenCall, Seen
from xray.capture.masks.facts import MAX_CELLS, SeenMask, look_at_mask
from xray.capture.values import MAX_VALUES, is_readable, take_preview
from xray.ir.records import Preview

ENDS = ("cu_seq", "cum_seq")
"""How the arguments begin that say where sequences end."""
PAGED = ("block_table", "page_table", "seqused_k", "leftpad_k", "kv_batch_idx")
"""What a kernel is told that looks its keys up elsewhere, or uses a part of them: such a call stays closed."""
FEWEST = 4
"""Queries, keys, values and one tensor of ends."""


class Kernel(NamedTuple):
    """What a varlen kernel was told, whatever it calls its arguments."""

    query: Seen
    key: Seen
    value: Seen
    query_ends: Seen
    key_ends: Seen
    scale: float | None
    is_causal: bool
    left: int
    right: int
    adds: bool


def tells_ends(inputs: Sequence[Seen]) -> bool:
    """Whether a call is told where sequences end."""
    return len(inputs) >= FEWEST and any(seen[0].startswith(ENDS) for seen in inputs)


def note_ends(inputs: list[Seen]) -> list[Seen]:
    """The inputs of a call, the values noted of those that say where sequences end."""
    return [note_values(seen) if seen[0].startswith(ENDS) else seen for seen in inputs]


def note_values(seen: Seen) -> Seen:
    name, known, preview = seen
    tensor = known.tensor()
    if preview is not None or tensor is None or tensor.numel() > MAX_VALUES or not is_readable(tensor):
        return seen
    return (name, known, take_preview(tensor, tuple(tensor.shape)))


def read_kernel(call: OpenCall) -> Kernel | None:
    """A call of a kernel for sequences that lie end to end; None for every other one.

    Shapes:
        query: (queries, heads, d_k)
        key:   (keys, key_heads, d_k)
        value: (keys, key_heads, d_v)
    """
    if not tells_ends(call.inputs):
        return None
    given = {seen[0]: seen for seen in call.inputs}
    operands = [given.get(name) or given.get(name[0]) for name in ("query", "key", "value")]
    ends = [seen for seen in call.inputs if seen[0].startswith(ENDS)]
    query_ends = next((seen for seen in ends if seen[0].endswith("_q")), ends[0])
    key_ends = next((seen for seen in ends if seen[0].endswith(("_k", "_kv"))), query_ends)
    query, key, value = operands
    if query is None or key is None or value is None or any(name in given for name in PAGED):
        return None
    if any(len(seen[1].shape) != 3 for seen in (query, key, value)):
        return None
    options = dict(call.options)
    left, right = read_window(options)
    is_causal = options.get("is_causal") is True or options.get("causal") is True or right == 0
    scale = options.get("scale", options.get("softmax_scale"))
    adds = "alibi_slopes" in given or "bias" in given or bool(options.get("softcap"))
    return Kernel(query, key, value, query_ends, key_ends, scale, is_causal, left, right, adds)


def read_window(options: Mapping[str, Any]) -> tuple[int, int]:
    """How many keys a query sees before and behind it; -1 for all of them."""
    both = options.get("window_size")
    if isinstance(both, tuple) and len(both) == 2:
        return int(both[0]), int(both[1])
    left, right = options.get("window_size_left"), options.get("window_size_right")
    return (left if isinstance(left, int) else -1, right if isinstance(right, int) else -1)


def imply_sequences(kernel: Kernel) -> SeenMask | None:
    """The mask that a varlen kernel stands for: each query sees keys of its own sequence; None if the ends are unknown.

    With is_causal, and in windows, the last query of a sequence stands beside its last key.
    """
    ends = [read_ends(seen) for seen in (kernel.query_ends, kernel.key_ends)]
    if ends[0] is None or ends[1] is None:
        return None
    queries, keys = kernel.query[1].shape[0], kernel.key[1].shape[0]
    if not 0 < queries * keys <= MAX_CELLS:
        return None
    rows = [bytes(keys)] * queries
    for (first, last), (begin, end) in zip(pairwise(ends[0]), pairwise(ends[1]), strict=False):
        for query in range(max(0, first), min(last, queries)):
            place = end - last + query
            low = begin if kernel.left < 0 else max(begin, place - kernel.left)
            right = 0 if kernel.is_causal else kernel.right
            high = end if right < 0 else min(end, place + right + 1)
            low, high = max(0, low), max(0, min(high, keys))
            rows[query] = bytes(low) + b"\x01" * max(0, high - low) + bytes(keys - max(low, high))
    cells = b"".join(row[:keys] for row in rows)
    share = round(1 - cells.count(1) / len(cells), 6)
    return SeenMask(None, "true_is_visible", (1, queries, keys), cells, share)


def read_ends(seen: Seen) -> list[int] | None:
    """Where sequences begin and end, as far as it was noted."""
    preview: Preview | None = seen[2]
    if preview is None or len(preview.shape) != 1 or any(preview.start):
        return None
    return [int(value) for value in preview.values]


def see_ragged_mask(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Seen | None:
    """Which keys of a nested tensor are there at all, one sequence being longer than another; None for a plain tensor.

    Shapes:
        out: (batch, 1, 1, keys), or (batch, 1, queries, keys) with is_causal
    """
    query, key = (args[place] if len(args) > place else kwargs.get(name) for place, name in enumerate(("query", "key")))
    if not isinstance(query, Tensor) or not isinstance(key, Tensor) or not (query.is_nested and key.is_nested):
        return None
    lengths, queries = read_lengths(key), read_lengths(query)
    if lengths is None or queries is None:
        return None
    places = torch.arange(int(lengths.max()))
    visible = places[None, None, None, :] < lengths[:, None, None, None]
    if kwargs.get("is_causal", args[5] if len(args) > 5 else False) is True:
        visible = visible & (places[None, None, None, :] <= torch.arange(int(queries.max()))[None, None, :, None])
    mask = look_at_mask(visible, None if visible.shape[-2] > 1 else "padding")
    return "ragged_mask", Known(NOWHERE, 0, tuple(visible.shape), "bool", query.device, "mask", None, mask), None


def read_lengths(nested: Tensor) -> Tensor | None:
    """How long each part of a nested tensor is; None where that has no values."""
    if nested.layout == torch.jagged:
        jagged: Any = nested
        found: Tensor = jagged.offsets().diff() if jagged.lengths() is None else jagged.lengths()
    else:
        found = nested._nested_tensor_size()[:, -2]
    return found.cpu() if is_readable(found) and found.numel() else None
