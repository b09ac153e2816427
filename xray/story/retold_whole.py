"""Whether what was recognised of another model is whole enough, and plain enough, to be drawn as the poster."""

from collections.abc import Iterator

from xray.ir.trace import Step
from xray.story.journey import Journey, Tale
from xray.story.rows import SUBLAYERS, has_sublayer

ATTENTION = ("query", "key", "value", "scores", "softmax", "weighted_sum")


def is_whole(tale: Tale) -> bool:
    """Whether every side has all that the poster shows it by, and nothing is told that was otherwise.

    A layer needs its attention and its feed-forward one after the other: where both read the same stream and are added
    at once, the poster would tell something false.
    """
    crossed = len(tale.sides) == 2
    journeys = [journey for side in tale.sides for journey in tale.journeys(side)]
    return all(has_parts(journey, crossed=crossed) and follows_stream(journey) for journey in journeys)


def has_parts(journey: Journey, *, crossed: bool) -> bool:
    """Whether the layer that is shown has every sublayer, and each of them what it cannot do without."""
    needed = ["feed_forward.expand", "feed_forward.contract", "feed_forward_add"]
    for name in SUBLAYERS[journey.side]:
        wanted = name == "self_attention" or (name == "cross_attention" and crossed)
        if name != "feed_forward" and (wanted or has_sublayer((journey,), name)):
            needed += [*(f"{name}.{part}" for part in ATTENTION), f"{name}_add"]
    return all(journey.output(f"{journey.layer}.{part}") is not None for part in needed)


def follows_stream(journey: Journey) -> bool:
    """Whether each attention reads the stream that it is added to, or a norm of it."""
    return all(
        reads_stream(query, add, norm)
        for one_pass in journey.passes
        for query, add, norm in list_attentions(journey, {step.path: step for step in one_pass.steps})
    )


def list_attentions(journey: Journey, steps: dict[str, Step]) -> Iterator[tuple[Step, Step, Step | None]]:
    """Queries, residual sum and norm of every attention of the side in one pass."""
    for layer in journey.layers:
        for name in SUBLAYERS[journey.side]:
            path = f"{journey.side}.layers.{layer}.{name}"
            query, add = steps.get(f"{path}.query"), steps.get(f"{path}_add")
            if query is not None and add is not None:
                yield query, add, steps.get(f"{path}_norm")


def reads_stream(query: Step, add: Step, norm: Step | None) -> bool:
    """Whether queries are made of what a sum adds to, or of the norm of it."""
    read, stream = query.inputs[0].source, add.inputs[0].source
    return read == stream or (norm is not None and read == norm.id)
