"""How wide the columns of a poster have to be for what stands in them."""

from xray.story.journey import Journey, Tale
from xray.story.layout import Measure, line_width
from xray.story.plan import DIGIT, SYMBOL
from xray.story.shapes import ShapeText, digits, symbols

WIDEST_TRIPLE, WIDEST_DETAIL, WIDEST_BRIEF = 106.0, 334.0, 94.0
"""Longer shapes than these hold are set in smaller type."""

HALVES, HALF, WIDEST_HALF = ("query", "key"), 14, 66.0
"""What may stand in half the brief column, in which type, and how wide half of it may become for that."""


def measure_tale(tale: Tale, measure: Measure) -> tuple[float, float, float]:
    """How wide the three nodes side by side, the detailed column and the brief column have to be."""
    triple = detail = brief = half = 0.0
    for place, journeys in enumerate(zip(tale.encoder, tale.decoder, strict=True)):
        for journey in journeys:
            for path in paths_to_measure(journey):
                shape = journey.output(path)
                if shape is None:
                    continue
                number = line_width(digits(shape, DIGIT), measure)
                if place or len(tale.phases) == 1:
                    brief = max(brief, number)
                if place and path.endswith(HALVES):
                    half = max(half, min(line_width(digits(shape, HALF), measure) + 8, WIDEST_HALF))
                if place == 0:
                    if "split" in path or path.endswith(("query", "key", "value")):
                        triple = max(triple, number, half_symbols(shape, measure))
                    elif "layers" in path:
                        detail = max(detail, number + 8 + line_width(symbols(shape, SYMBOL), measure))
    triple = min(triple + 14, WIDEST_TRIPLE)
    return (
        triple,
        min(max(detail + 24 + 26, 3 * triple + 16), WIDEST_DETAIL),
        max(min(brief, WIDEST_BRIEF), 2 * half - 20),
    )


def half_symbols(shape: ShapeText, measure: Measure) -> float:
    half = (len(shape.axes) + 1) // 2
    halves = (ShapeText((), (*shape.axes[:half], "")), ShapeText((), shape.axes[half:]))
    return max(line_width(symbols(part, SYMBOL), measure) for part in halves)


def paths_to_measure(journey: Journey) -> list[str]:
    parts = ("query", "key", "value", "split_query", "split_key", "split_value", "transpose_key", "scores")
    upper = ("softmax", "weighted_sum", "concat")
    attentions = ("self_attention", "cross_attention") if journey.side == "decoder" else ("self_attention",)
    found = [f"{journey.layer}.{attention}.{part}" for attention in attentions for part in (*parts, *upper)]
    return [*found, f"{journey.layer}.feed_forward.expand", "head", "next_word.last_row"]
