"""What nodes are called: the operation in words, as it was recorded."""

from math import isclose, sqrt

from xray.ir.trace import Step
from xray.story.column import Column, count_heads
from xray.story.journey import Journey
from xray.story.rows import is_fused
from xray.story.shapes import ShapeText

DERIVED = "derived"
"""What is said beside a step that one fused kernel hides: its shape follows from what goes into the kernel."""


def norm_label(journey: Journey, path: str) -> str:
    """Which norm a step is: "LAYER NORM", "RMS NORM"; "NORM" where its name does not tell."""
    step = journey.step(path)
    name = f"{step.op} {step.module}".lower().replace("_", "") if step is not None else ""
    for told, label in (("rms", "RMS NORM"), ("layernorm", "LAYER NORM"), ("batchnorm", "BATCH NORM")):
        if told in name:
            return label
    return "NORM"


def add_label(journey: Journey, norm: str, *, short: bool = False) -> str:
    """The residual sum with the norm that follows it; `norm` is the norm's path, "" where the sum stands alone."""
    if not norm:
        return "ADD"
    return "ADD + NORM" if short else f"ADD + {norm_label(journey, norm)}"


def linear_label(journey: Journey, path: str, letter: str) -> str:
    """The linear layer of queries, keys or values; a slice, where one layer makes all three."""
    return f"SLICE {letter}" if is_fused(journey, path) else f"LINEAR {letter}"


def scores_label(journey: Journey, path: str) -> str:
    """Queries times keys, and what the product, or one of the two before it, is multiplied with."""
    scores, formulas = journey.step(f"{path}.scores"), []
    if scores is not None and "alpha" in scores.settings:
        formulas.append(name_factor(scores.settings["alpha"], scores))
    for part in ("scale", "scale_key"):
        scale = journey.step(f"{path}.{part}")
        if scale is None or scores is None:
            continue
        factor = read_factor(scale, journey.recorded(f"{path}.{part}"))
        formulas.append(str(scale.settings.get("formula", "")) or name_factor(factor, scores))
    formula = " · ".join(formula for formula in formulas if formula)
    return "SCORES Q·K^T" + (" ÷ √d_k" if formula == "1/sqrt(d_k)" else f" · {formula}" if formula else "")


def read_factor(scale: Step, recorded: Step | None) -> object:
    """What a scaling multiplies by, from its settings or the number that it was given; None where that is a tensor."""
    other = scale.settings.get("other")
    if "factor" in scale.settings or recorded is None or isinstance(other, bool) or not isinstance(other, int | float):
        return scale.settings.get("factor")
    return (1 / other if other else None) if "div" in recorded.op else other


def name_factor(factor: object, scores: Step) -> str:
    """A factor as a formula where it is the usual one, else a number; "" where it does nothing, "s" where unknown."""
    if factor == 1:
        return ""
    if not isinstance(factor, int | float) or isinstance(factor, bool):
        return "s"
    width = scores.inputs[0].shape[-1] if scores.inputs and scores.inputs[0].shape else 0
    return "1/sqrt(d_k)" if width and isclose(factor, 1 / sqrt(width), rel_tol=1e-3) else f"{factor:.4g}"


def softmax_label(softmax: Step | None) -> str:
    """The softmax, and the axis that it sums to 1 over."""
    dim = softmax.settings.get("dim") if softmax else None
    return f"SOFTMAX dim {dim}".replace("-", "−") if dim is not None else "SOFTMAX"


LOSSES = {
    "nll_loss": "NEGATIVE LOG LIKELIHOOD",
    "mse_loss": "MEAN SQUARED ERROR",
    "l1_loss": "MEAN ABSOLUTE ERROR",
    "binary_cross_entropy_with_logits": "BINARY CROSS ENTROPY",
    "bce_with_logits_loss": "BINARY CROSS ENTROPY",
    "kl_div": "KULLBACK-LEIBLER DIVERGENCE",
    "ctc_loss": "CTC LOSS",
}


def loss_label(journey: Journey) -> str:
    """Which loss was worked out."""
    step = journey.recorded("loss.cross_entropy")
    op = step.op if step is not None else ""
    return "CROSS ENTROPY" if "cross_entropy" in op and op not in LOSSES else LOSSES.get(op, "LOSS")


def repeat_label(journey: Journey, path: str, part: str) -> str:
    """How often each key head is repeated: "REPEAT K ×16"."""
    letter, times = part[0].upper(), repeats(journey, path)
    return f"REPEAT {letter} ×{times}" if times else f"REPEAT {letter}"


def repeats(journey: Journey, path: str) -> int:
    """How many query heads each key head serves; 0 where they are not counted, or equal."""
    query, key = journey.output(f"{path}.split_query"), journey.output(f"{path}.split_key")
    asked, offered = count_heads(query), count_heads(key)
    return asked // offered if offered and asked > offered and asked % offered == 0 else 0


def say_derived(journey: Journey, path: str, extra: str = "") -> str:
    """What is said beside a node: that it is derived, where it is, before anything else."""
    step = journey.step(path)
    is_derived = step is not None and bool(step.settings.get("derived"))
    return ", ".join(part for part in (DERIVED if is_derived else "", extra) if part)


def mask_remark(column: Column, path: str) -> str:
    """The shape of the mask itself, where it is smaller than what it is spread over."""
    mask = mask_shape(column.main, path)
    scores = column.main.output(f"{path}.scores")
    if mask is None:
        return ""
    return f"{mask.plain} broadcast" if scores is None or mask.sizes != scores.sizes else mask.plain


def mask_shape(journey: Journey, path: str) -> ShapeText | None:
    """The shape of the mask that an attention reads."""
    named = journey.input(f"{path}.mask", "mask")
    if named is not None:
        return named
    step = journey.step(f"{path}.mask")
    name = next((record.name for record in step.inputs if record.role == "mask"), "") if step is not None else ""
    return journey.input(f"{path}.mask", name) if name else None
