"""The nine stations of the journey through a pair of towers with words, and which of them a step belongs to."""

from dataclasses import dataclass

from xray.ir.trace import Pass, Step
from xray.story.walk.parts import find_parts


@dataclass(frozen=True)
class Station:
    """A stop on the reading path; `number` is the one in its pink circle."""

    number: int
    title: str
    side: str


STATIONS = (
    Station(1, "question in", "encoder"),
    Station(2, "encoder self-attention", "encoder"),
    Station(3, "feed-forward", "encoder"),
    Station(4, "answer in", "decoder"),
    Station(5, "decoder self-attention", "decoder"),
    Station(6, "cross-attention", "decoder"),
    Station(7, "feed-forward", "decoder"),
    Station(8, "out", "decoder"),
    Station(9, "again", "decoder"),
)


def has_stations(one_pass: Pass) -> bool:
    """Whether a pass makes the journey: it was recorded with its words, through a pair of towers or one of them."""
    return len(set(find_parts(one_pass).stations.values())) > 2


def station_of(one_pass: Pass, step: Step) -> Station | None:
    """The station a step belongs to; None for what spans several (a tower, a whole layer) or stands at none."""
    number = find_parts(one_pass).stations.get(step.id)
    return None if number is None else STATIONS[number - 1]
