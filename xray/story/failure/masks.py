"""Attention that failed: a mask of another size than the scores, or queries, keys and values that do not meet."""

from xray.ir.trace import Step
from xray.story.failure.operands import Misfit, Operand, describe_width, find, mark, mark_differing, write

MATRIX = "a row for each query and a column for each key"

KEY_PADDING = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")


def check_attention(step: Step, operands: tuple[Operand, ...]) -> Misfit | None:
    """One call of torch's attention: the masks first, which are most often wrong, then what is multiplied."""
    query, key, value = (find(operands, name) for name in ("query", "key", "value"))
    if query is None or key is None or value is None or min(map(len, (query.sizes, key.sizes))) < 2:
        return None
    if "scaled_dot_product" in step.op:
        return check_scores(query, key, value, find(operands, "attn_mask"))
    # the functional has the sequence first, whatever the module has
    first = 0 if step.op == "multi_head_attention_forward" or step.settings.get("batch_first") is False else 1
    batched = len(query.sizes) == 3
    batch = query.sizes[1 - first] if batched else 1
    lengths = [one.sizes[first if batched else 0] for one in (query, key)]
    return (
        check_padding(find(operands, *KEY_PADDING), batch, lengths[1], batched)
        or check_mask(find(operands, "attn_mask", "mask"), query, key, lengths, batch, step)
        or check_widths(step, query, key, value)
    )


def check_padding(mask: Operand | None, batch: int, length: int, batched: bool) -> Misfit | None:
    wanted = (batch, length) if batched else (length,)
    if mask is None or mask.sizes == wanted:
        return None
    form = "a row for each sequence and a column for each key"
    rule = f"{mask.name} has to have {form}: {write(wanted)}, not {write(mask.sizes)}"
    return Misfit((mark_differing(mask, wanted), Operand("has to be", wanted)), rule)


def check_mask(
    mask: Operand | None, query: Operand, key: Operand, lengths: list[int], batch: int, step: Step
) -> Misfit | None:
    """A mask of all scores: one matrix of queries and keys, or one for each head of each sequence."""
    if mask is None:
        return None
    if step.op == "_native_multi_head_attention" and step.settings.get("mask_type") == 1:
        return check_padding(mask, batch, lengths[1], batched=True)
    heads = step.settings.get("num_heads", step.settings.get("num_head", step.settings.get("arg4")))
    whole = (batch * heads, *lengths) if isinstance(heads, int) and not isinstance(heads, bool) else ()
    if mask.sizes in (tuple(lengths), whole) or (len(mask.sizes) == 3 and not whole and mask.sizes[1:] == (*lengths,)):
        return None
    wanted = whole if len(mask.sizes) == 3 and whole else tuple(lengths)
    form = "be one matrix for each head of each sequence" if wanted == whole else f"have {MATRIX}"
    rule = f"{mask.name} has to {form}: {write(wanted)}, not {write(mask.sizes)}"
    return Misfit((mark_differing(mask, wanted), Operand("has to be", wanted), query, key), rule)


def check_scores(query: Operand, key: Operand, value: Operand, mask: Operand | None) -> Misfit | None:
    """Scaled dot-product attention: widths, lengths, and a mask that can be laid over the scores."""
    if query.sizes[-1] != key.sizes[-1]:
        rule = f"queries and keys have to be equally wide: {query.sizes[-1]} and {key.sizes[-1]}"
        return Misfit((mark(query, -1), mark(key, -1), value), rule)
    if key.sizes[-2] != value.sizes[-2]:
        rule = f"there has to be a value for each key: {key.sizes[-2]} keys and {value.sizes[-2]} values"
        return Misfit((query, mark(key, -2), mark(value, -2)), rule)
    scores = (*query.sizes[:-1], key.sizes[-2])
    if mask is None:
        return None
    there = list(zip(reversed(mask.sizes), reversed(scores), strict=False))
    wrong = [-1 - back for back, (size, wanted) in enumerate(there) if size not in (1, wanted)]
    if not wrong and len(mask.sizes) <= len(scores):
        return None
    rule = f"the mask is laid over scores of {write(scores)}, {MATRIX}: {write(mask.sizes)} does not fit"
    return Misfit((mark(mask, *wrong), Operand("scores", scores), query, key), rule)


def check_widths(step: Step, query: Operand, key: Operand, value: Operand) -> Misfit | None:
    """What goes into nn.MultiheadAttention: as wide as its weights are for, and a value for each key."""
    if key.sizes[:-1] != value.sizes[:-1]:
        rule = f"there has to be a value for each key: {write(key.sizes)} and {write(value.sizes)}"
        like_value, like_key = (*value.sizes[:-1], key.sizes[-1]), (*key.sizes[:-1], value.sizes[-1])
        return Misfit((query, mark_differing(key, like_value), mark_differing(value, like_key)), rule)
    weights = next((one for one in step.inputs if one.name in ("in_proj_weight", "qkv_weight", "q_proj_weight")), None)
    wide = weights.shape[-1] if weights is not None else step.settings.get("embed_dim")
    if not isinstance(wide, int) or query.sizes[-1] == wide:
        return None
    return Misfit((mark(query, -1), key, value), describe_width(query.sizes[-1], wide))
