"""What one step does, for whoever touches it: its formula, what became of the shape, and why it is done."""

from dataclasses import dataclass
from math import prod

from xray.ir.records import TensorRecord
from xray.ir.trace import Step
from xray.story.walk.scene import name_sizes

FORMULAS = {
    "tokenize": "word → id",
    "padding_mask": "visible = id ≠ <pad>",
    "causal_mask": "visible = key ≤ query",
    "and": "visible = padding mask and causal mask",
    "embedding": "row number id of the table",
    "positions": "sin and cos of place / 10000^(i / d_model)",
    "add": "x + other",
    "linear": "x · Wᵀ + b",
    "transpose": "two axes change places",
    "view": "the same numbers, cut differently",
    "flatten": "the first axes laid out in one row",
    "matmul": "left · right",
    "mask_scores": "score, or the hiding value where the mask says so",
    "softmax": "eˣ / sum of eˣ along the axis",
    "dropout": "in training some values become 0, the rest grow by 1 / (1 − p)",
    "layer_norm": "(x − mean) / √(variance + ε) · weight + bias",
    "relu": "max(0, x)",
    "gelu": "x · Φ(x)",
    "cross_entropy_loss": "−log softmax(scores)[target], mean over the places that count",
    "shift": "input = all but the last, target = all but the first",
    "last_row": "x[:, −1]",
    "argmax": "the place of the largest value",
    "append": "answer followed by word",
    "backward": "∂loss / ∂weight, for every weight",
    "multi_head_attention": "softmax(Q · Kᵀ / √d_k + mask) · V, in every head",
    "feed_forward": "W₂ · max(0, W₁ · x + b₁) + b₂",
}
"""The formula of an operation, by its one word."""

MOVES = frozenset(
    [
        "view",
        "transpose",
        "flatten",
        "reshape",
        "permute",
        "split_heads",
        "concat_heads",
        "unsqueeze",
        "squeeze",
        "contiguous",
    ]
)
"""Operations that compute nothing: the numbers that go in come out."""

REASONS = {
    "tokenize": "A model computes with numbers; the vocabulary gives every word one.",
    "padding_mask": "Filler must not be listened to; only here can it still be told from words.",
    "causal_mask": "No place may see the words that it is to predict.",
    "and": "A key is visible only if both masks allow it.",
    "embedding": "A word becomes a vector that training can move; similar words end up near each other.",
    "positions": "Attention does not know the order of words; every place gets a pattern of its own.",
    "dropout": "Whatever may be missing cannot be relied on alone. At inference it does nothing.",
    "layer_norm": "Every vector is brought to mean 0 and variance 1, so that layers can be stacked.",
    "relu": "Without a bend between them two linear layers would be one.",
    "gelu": "Without a bend between them two linear layers would be one.",
    "softmax": "Scores of any size become shares that are positive and sum to 1.",
    "cross_entropy_loss": "One number says how surprised the model was by the right words; padding is left out.",
    "shift": "At every place the model is to say the next word.",
    "last_row": "Only the newest place asks for a word that is not there yet.",
    "argmax": "Greedy decoding says the likeliest word.",
    "append": "The next turn reads its own word.",
    "backward": "The weights are moved a little against these.",
    "mask_scores": "After softmax a hidden score is worth nothing.",
    "flatten": "The loss compares one row of scores with one target, whichever sentence it is from.",
}
REASONS_AT = {
    "query": "What each word looks for.",
    "key": "What each word offers.",
    "value": "What each word passes on.",
    "transpose_key": "So that every query can be multiplied with every key.",
    "scores": "How well each query meets each key: a row asks, a column is asked.",
    "weighted_sum": "The values, mixed in the shares that attention has dealt out.",
    "output": "The heads have worked apart; here what they found is mixed.",
    "view": "The width is cut into heads, or put together again.",
    "expand": "More room to work in, for each word alone.",
    "contract": "Back to the width of the layers, so that the sum is possible.",
    "head": "A score for every word of the vocabulary.",
    "self_attention_add": "What came in is kept; the sublayer only adds to it.",
    "cross_attention_add": "What came in is kept; the sublayer only adds to it.",
    "feed_forward_add": "What came in is kept; the sublayer only adds to it.",
    "embedding.add": "Words and their places in one vector.",
    "embedding.scale": "The table's small numbers are made as large as the place patterns.",
    "attention.scale": "A sum of d_k products has d_k times the variance; this takes it back to 1.",
    "split_query.transpose": "Heads go before words, so that each head has its own table.",
    "split_key.transpose": "Heads go before words, so that each head has its own table.",
    "split_value.transpose": "Heads go before words, so that each head has its own table.",
    "concat.transpose": "Words go before heads again, so that a word's slices lie side by side.",
}
"""Reasons that hold at a place of our model, by the end of the path; they go before those of the operation."""


@dataclass(frozen=True)
class Explanation:
    """Three short answers about a step; an empty one is not known."""

    formula: str
    change: str
    reason: str


def explain_step(step: Step) -> Explanation:
    """Formula, change of shape and reason of a step."""
    formula = FORMULAS.get(step.op, "")
    if step.op == "scale":
        formula = f"x · {step.settings.get('formula', 'factor')} = x · {say_number(step.settings.get('factor'))}"
    if step.op == "softmax" and "dim" in step.settings:
        formula += f" {step.settings['dim']}"
    return Explanation(formula, describe_change(step), find_reason(step))


def find_reason(step: Step) -> str:
    """Why a step is there: what is known of its place, else of its operation."""
    known = [reason for end, reason in REASONS_AT.items() if is_at(step.path, end)]
    return known[-1] if known else REASONS.get(step.op, "")


def is_at(path: str, end: str) -> bool:
    """Whether a path ends so; an end of several parts may begin in the middle of a name."""
    return path == end or path.endswith(f".{end}") or ("." in end and path.endswith(end))


def describe_change(step: Step) -> str:
    """What became of the shape on the way through a step, from its axes and sizes alone."""
    if step.error is not None:
        return f"The call did not return: {step.error}"
    if not step.outputs:
        return "Nothing came out."
    if not step.inputs:
        return f"Made here: {name_sizes(step.outputs[0])}."
    if step.op == "matmul" and len(step.inputs) == 2:
        return describe_product(step.inputs[0], step.inputs[1], step.outputs[0])
    if step.op == "backward":
        return "Each gradient has the shape of its weights."
    return describe_difference(step.inputs[0], step.outputs[0], moves=step.op in MOVES)


def describe_product(left: TensorRecord, right: TensorRecord, out: TensorRecord) -> str:
    if min(len(left.shape), len(right.shape)) < 2:
        return describe_difference(left, out)
    inner = left.axes[-1] or "the last axis"
    return (
        f"{inner} ({left.shape[-1]}) is summed over: {left.shape[-2]}×{left.shape[-1]} times {right.shape[-2]}×"
        f"{right.shape[-1]} leaves {out.shape[-2]}×{out.shape[-1]}; the axes before are carried along."
    )


def describe_difference(before: TensorRecord, after: TensorRecord, *, moves: bool = False) -> str:
    """What became of a shape; `moves` says that the numbers themselves are the same."""
    old, new = name_sizes(before), name_sizes(after)
    if before.shape == after.shape and before.axes == after.axes:
        return f"The shape stays {old}."
    kept = f"the same {prod(after.shape):,} numbers"
    if moves and sorted(before.shape) == sorted(after.shape):
        return f"{old} becomes {new}: {kept}, their axes in another order."
    if moves and prod(before.shape) == prod(after.shape):
        return f"{old} becomes {new}: {kept}, grouped differently.{name_axes(before, after)}"
    return f"{old} becomes {new}.{name_axes(before, after)}"


def name_axes(before: TensorRecord, after: TensorRecord) -> str:
    """Which axis words went and which came."""
    gone = list_axes(before, after)
    come = list_axes(after, before)
    if gone and come:
        return f" {verb(gone, 'goes', 'go')}, {verb(come, 'comes', 'come')}."
    if come:
        return f" {verb(come, 'is', 'are')} new."
    return f" {verb(gone, 'is', 'are')} gone." if gone else ""


def list_axes(one: TensorRecord, other: TensorRecord) -> list[str]:
    return [f"{axis} ({size})" for axis, size in one.sizes.items() if axis not in other.sizes]


def verb(names: list[str], one: str, many: str) -> str:
    """Names and their verb: "heads (4) and d_k (8) come"."""
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[:-1] else names)
    return f"{listed} {one if len(names) == 1 else many}"


def say_number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "factor"
