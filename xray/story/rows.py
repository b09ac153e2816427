"""Which rows a poster needs: a row for every part that was recorded, in the order in which data passes them."""

from collections.abc import Iterable, Mapping

from xray.story.journey import Journey, Side, Tale

ATTENTION = {
    "qkv": ("query", "key", "value"),
    "heads": ("split_query", "split_key", "split_value"),
    "rotate": ("rotate_query", "rotate_key"),
    "cache": ("cache_key", "cache_value"),
    "repeat": ("repeat_key", "repeat_value"),
    "kt": ("transpose_key",),
    "scores": ("scores",),
    "bias": ("bias",),
    "mask": ("mask",),
    "softmax": ("softmax",),
    "values": ("weighted_sum",),
    "concat": ("concat",),
    "output": ("output",),
}
"""The rows of an attention from the bottom up, and the steps of which each needs at least one."""

SUBLAYERS: dict[Side, tuple[str, ...]] = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
LAST_ROWS = ("last_row", "softmax", "argmax")
"""The rows above the head: the way to the next word, or the loss across all of them."""


def rows_of_side(tale: Tale, side: Side) -> Mapping[str, tuple[str, ...]]:
    """The rows of each sublayer of a side."""
    journeys = tale.journeys(side)
    found = [name for name in SUBLAYERS[side] if has_sublayer(journeys, name)]
    return {name: rows_of_sublayer(journeys, name, first=name == found[0]) for name in found}


def has_sublayer(journeys: Iterable[Journey], name: str) -> bool:
    part = "contract" if name == "feed_forward" else "scores"
    return any(journey.output(f"{journey.layer}.{name}.{part}") for journey in journeys)


def rows_of_sublayer(journeys: tuple[Journey, ...], name: str, *, first: bool) -> tuple[str, ...]:
    """The rows of one sublayer, from its title up."""

    def ran(*parts: str) -> bool:
        return any(journey.steps(f"{journey.layer}.{part}") for journey in journeys for part in parts)

    opening = ["title", "input"] if first else ["title"]
    if stands_norm_first(journeys, name):
        opening.append("norm")
    if name == "feed_forward":
        middle = ["gates"] if ran("feed_forward.gate") else ["expand"]
        if ran("feed_forward.multiply"):
            middle.append("multiply")
        return (*opening, *middle, "contract", "add")
    if name == "cross_attention":
        opening.append("ribbon")
    if any(is_fused(journey, f"{journey.layer}.{name}") for journey in journeys):
        opening.append("fused")
    middle = [row for row, parts in ATTENTION.items() if ran(*(f"{name}.{part}" for part in parts))]
    return (*opening, *middle, "add")


def is_fused(journey: Journey, path: str) -> bool:
    """Whether queries and keys are cut out of what one and the same recorded step made."""
    query, key, told = journey.recorded(f"{path}.query"), journey.recorded(f"{path}.key"), journey.step(f"{path}.query")
    if query is None or key is None or told is None or query.id != key.id:
        return False
    return bool(query.outputs and told.outputs) and query.outputs[0].shape[-1:] > told.outputs[0].shape[-1:]


def stands_norm_first(journeys: Iterable[Journey], name: str) -> bool:
    """Whether a sublayer's norm comes before it; False where there is none."""
    part = "contract" if name == "feed_forward" else "scores"
    for journey in journeys:
        order = {step.id: place for place, step in enumerate(journey.first.steps)}
        norm, inner = (order.get(f"{journey.layer}.{name}{end}#0") for end in ("_norm", f".{part}"))
        if norm is not None and inner is not None:
            return norm < inner
    return False


def rows_of_entry(tale: Tale) -> tuple[str, ...]:
    """The rows from what goes in to the first layer; of words and ids in full, those only above them."""
    if not is_bare(tale):
        return ("embed", "plus")
    parts = {"patches": ("patches",), "embed": ("words",), "plus": ("positions", "add")}
    journeys = [journey for side in tale.sides for journey in tale.journeys(side)]
    ran = {
        row
        for row, names in parts.items()
        for journey in journeys
        for name in names
        if journey.steps(f"{journey.side}.embedding.{name}")
    }
    return ("input", *(row for row in parts if row in ran))


def is_bare(tale: Tale) -> bool:
    """Whether what goes in is known by its shape only: of another model's words nothing is recorded."""
    return tale.is_retold


def rows_of_exit(tale: Tale) -> tuple[str, ...]:
    """The rows above the last layer."""
    journeys = tale.journeys(tale.sides[-1])

    def ran(*paths: str) -> bool:
        return any(journey.steps(path) for journey in journeys for path in paths)

    opening = [name for name, path in (("norm", f"{tale.sides[-1]}.norm"), ("head", "head")) if ran(path)]
    if not tale.is_retold or ran("loss.cross_entropy"):
        return (*(row for row in opening if row != "head"), "head", *LAST_ROWS)
    return (*opening, *(row for row in LAST_ROWS if ran(f"next_word.{row}")))
