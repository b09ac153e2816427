"""Which rows a poster needs: a row for every part that was recorded, in the order in which data passes them."""

from collections.abc import Mapping

from xray.story.journey import Journey, Side, Tale

ATTENTION = {
    "qkv": "query",
    "heads": "split_query",
    "kt": "transpose_key",
    "scores": "scores",
    "mask": "mask",
    "softmax": "softmax",
    "values": "weighted_sum",
    "concat": "concat",
    "output": "output",
}
"""The rows of an attention from the bottom up, and the step that each needs."""

SUBLAYERS: dict[Side, tuple[str, ...]] = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
LAST_ROWS = ("head", "last_row", "softmax", "argmax")
"""The rows above the last layer: the way to the next word, or the loss across all of them."""


def rows_of_side(tale: Tale, side: Side) -> Mapping[str, tuple[str, ...]]:
    """The rows of each sublayer of a side."""
    names = SUBLAYERS[side]
    return {name: rows_of_sublayer(tale.journeys(side), name, first=name == names[0]) for name in names}


def rows_of_sublayer(journeys: tuple[Journey, ...], name: str, *, first: bool) -> tuple[str, ...]:
    """The rows of one sublayer, from its title up."""
    opening = ["title", "input"] if first else ["title"]
    if stands_norm_first(journeys[0], name):
        opening.append("norm")
    if name == "feed_forward":
        return (*opening, "expand", "contract", "add")
    if name == "cross_attention":
        opening.append("ribbon")
    ran = {
        row
        for row, part in ATTENTION.items()
        for journey in journeys
        if journey.steps(f"{journey.layer}.{name}.{part}")
    }
    return (*opening, *(row for row in ATTENTION if row in ran), "add")


def stands_norm_first(journey: Journey, name: str) -> bool:
    """Whether a sublayer's norm comes before it; False where there is none."""
    part = "contract" if name == "feed_forward" else "scores"
    order = {step.id: place for place, step in enumerate(journey.first.steps)}
    norm, inner = (order.get(f"{journey.layer}.{name}{end}#0") for end in ("_norm", f".{part}"))
    return norm is not None and inner is not None and norm < inner


def rows_of_exit(tale: Tale) -> tuple[str, ...]:
    """The rows above the last layer, with the last norm where there is one."""
    has_norm = any(journey.steps("decoder.norm") for journey in tale.decoder)
    return ("norm", *LAST_ROWS) if has_norm else LAST_ROWS
