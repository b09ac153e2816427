"""Flex attention: the mask that its functions stand for, asked while they are there, and the blocks that it runs by."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from xray.capture.calls import NOWHERE, Known, Seen
from xray.capture.masks.facts import MAX_CELLS, look_at_mask
from xray.capture.values import is_readable
from xray.ir.records import HIDDEN, PARTIAL, VISIBLE, MaskBlocks

FLEX = "flex_attention"
MOST_ASKED = 1 << 24
"""So many cells are asked at most; flex attention itself works out as many scores without a compiler."""
SAMPLE = 32
"""So many queries and keys are enough to see what score_mod does."""


def see_flex_mask(args: tuple[Any, ...]) -> tuple[bool, Seen | None]:
    """Whether mask_mod and score_mod could be asked, and what they hide; None if that is nothing.

    They cannot be asked where they depend on what is not there, or where there are too many cells.

    Shapes:
        out: (batch, heads, queries, keys)    1 where all are alike
    """
    visible = ask_functions(args)
    if visible is None or bool(visible.all()):
        return visible is not None, None
    for axis in (0, 1):
        first = visible.narrow(axis, 0, 1)
        visible = first if bool((visible == first).all()) else visible
    mask = look_at_mask(visible, None)
    mask = None if mask is None else mask._replace(blocks=read_blocks(args[4], visible.shape[-2], visible.shape[-1]))
    return True, ("block_mask", Known(NOWHERE, 0, visible.shape, "bool", visible.device, "mask", None, mask), None)


def ask_functions(args: tuple[Any, ...]) -> Tensor | None:
    """For each query and key, whether mask_mod shows the key, and score_mod leaves its score above -inf."""
    if len(args) < 5 or not isinstance(args[0], Tensor) or not isinstance(args[4], tuple) or not is_readable(args[0]):
        return None
    query, key, score_mod, mask_mod = args[0], args[1], args[3], args[4][-1]
    batch, heads = query.shape[:2]
    blocks = args[4][2]  # of a mask that does not ask for sequence or head there is one
    first = tuple(blocks.shape[:2]) if isinstance(blocks, Tensor) else (batch, heads)
    asked = [(mask_mod, *first)] + ([(score_mod, batch, heads)] if changes_scores(args) else [])
    square = query.shape[-2] * key.shape[-2]
    if any(square * sequences * each > MOST_ASKED for _, sequences, each in asked):
        return None
    try:
        from torch.nn.attention.flex_attention import create_mask

        parts = [
            create_mask(one, sequences, each, query.shape[-2], key.shape[-2], device=str(query.device))
            for one, sequences, each in asked
        ]
        return torch.as_tensor(parts[0] if len(parts) == 1 else parts[0] & parts[1])
    except Exception:  # whatever a user's function raises when it is asked out of its turn
        return None


def changes_scores(args: tuple[Any, ...]) -> bool:
    """Whether score_mod does more than to hand scores on."""
    return len(args) > 3 and getattr(args[3], "__name__", "") != "_identity"


def describe_score_mod(args: tuple[Any, ...]) -> str:
    """What score_mod does, seen from what it makes of scores of 0, 1 and 2: "adds", "scales", "bends", "hides".

    Nothing where it cannot be asked.
    """
    query, key = args[0], args[1]
    if not is_readable(query):
        return ""
    places = [torch.arange(min(SAMPLE, size)) for size in (*query.shape[:3], key.shape[-2])]
    try:
        made = [spread(args[3], torch.tensor(score), places) for score in (0.0, 1.0, 2.0)]
    except Exception:  # whatever a user's function raises when it is asked out of its turn
        return ""
    hidden = torch.isneginf(made[0])
    zero, one, two = (one.masked_fill(hidden, score) for score, one in enumerate(made))
    bends = not torch.allclose(two - one, one - zero, atol=1e-4)
    scales = not bends and not torch.allclose(one - zero, torch.ones(()), atol=1e-4)
    said = {"adds": bool(zero.any()), "scales": scales, "bends": bends, "hides": bool(hidden.any())}
    return ", ".join(word for word, is_so in said.items() if is_so)


def spread(score_mod: Callable[..., Tensor], score: Tensor, places: list[Tensor]) -> Tensor:
    """What score_mod makes of one score at many places."""
    asked = score_mod
    for axis in reversed(range(4)):
        asked = torch.vmap(asked, in_dims=(None, *(0 if one == axis else None for one in range(4))), out_dims=0)
    return asked(score, *places).float().cpu()


def read_blocks(told: tuple[Any, ...], queries: int, keys: int) -> MaskBlocks | None:
    """The blocks of a BlockMask, as flex attention is handed them; None for one that stands for no mask at all.

    It is told, for each row of blocks, how many are partial and which, and the same of the full ones.
    """
    partial, full = told[2:4], told[4:6]
    heights = [one for one in told[:-1] if isinstance(one, int)][-2:]
    if len(heights) != 2 or not all(isinstance(one, Tensor) and is_readable(one) for one in partial):
        return None
    rows, columns = -(-queries // heights[0]), -(-keys // heights[1])
    leading = partial[0].shape[:-1]
    if partial[0].shape[-1] < rows or rows * columns * leading.numel() > MAX_CELLS or rows * columns < 1:
        return None
    matrices = []
    for place in product(*map(range, leading)):
        cells = [[HIDDEN] * columns for _ in range(rows)]
        for counts, which, letter in ((*partial, PARTIAL), (*full, VISIBLE)):
            for row, column in list_blocks(counts, which, place):
                if row < rows and column < columns:
                    cells[row][column] = letter
        matrices.append(tuple("".join(row) for row in cells))
    alike = matrices[:1] if len(set(matrices)) == 1 else matrices
    return MaskBlocks(heights[0], heights[1], tuple(alike))


def list_blocks(counts: Any, which: Any, place: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The row and the column of each block that is counted; none where nothing is told."""
    if isinstance(counts, Tensor) and isinstance(which, Tensor):
        for row, (count, columns) in enumerate(zip(counts[place].tolist(), which[place].tolist(), strict=True)):
            for column in columns[:count]:
                yield row, column
