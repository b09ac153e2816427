"""What nodes are called: the operation in words, as it was recorded."""

from xray.ir.trace import Step
from xray.story.column import Column
from xray.story.journey import Journey
from xray.story.shapes import ShapeText


def scores_label(journey: Journey, path: str) -> str:
    """Queries times keys, and what the product is divided by."""
    scale = journey.step(f"{path}.scale")
    formula = scale.settings.get("formula") if scale is not None else None
    return "SCORES Q·K^T" + (" ÷ √d_k" if formula == "1/sqrt(d_k)" else "")


def softmax_label(softmax: Step | None) -> str:
    """The softmax, and the axis that it sums to 1 over."""
    dim = softmax.settings.get("dim") if softmax else None
    return f"SOFTMAX dim {dim}".replace("-", "−") if dim is not None else "SOFTMAX"


def mask_remark(column: Column, path: str) -> str:
    """The shape of the mask itself, where it is smaller than what it is spread over."""
    mask = mask_shape(column.main, path)
    scores = column.main.output(f"{path}.scores")
    if mask is None:
        return ""
    return f"{mask.plain} broadcast" if scores is None or mask.sizes != scores.sizes else mask.plain


def mask_shape(journey: Journey, path: str) -> ShapeText | None:
    """The shape of the mask that an attention reads."""
    return journey.input(f"{path}.mask", "mask")
