"""The nine stations of the journey, and which of them a step of X-Ray's transformer belongs to."""

from dataclasses import dataclass

from xray.ir.trace import Pass, Step


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

ENTRY_STATIONS = {
    "tokenize.src": 1,
    "src_mask": 1,
    "encoder.embedding": 1,
    "encoder.norm": 3,
    "tokenize.tgt": 4,
    "shift": 4,
    "tgt_mask": 4,
    "decoder.embedding": 4,
    "decoder.norm": 7,
    "head": 8,
    "loss": 8,
    "next_word": 8,
    "append": 9,
    "backward": 9,
}
LAYER_STATIONS = {
    ("encoder", "self_attention"): 2,
    ("encoder", "feed_forward"): 3,
    ("decoder", "self_attention"): 5,
    ("decoder", "cross_attention"): 6,
    ("decoder", "feed_forward"): 7,
}


def has_stations(one_pass: Pass) -> bool:
    """Whether a pass makes the journey: a model that only shares a few names with ours (a "head", say) does not."""
    return len({station_of(step) for step in one_pass.steps} - {None}) > 2


def station_of(step: Step) -> Station | None:
    """The station a step belongs to; None for what spans several (encoder, a whole layer) or is not ours."""
    number = station_number(step.path)
    return None if number is None else STATIONS[number - 1]


def station_number(path: str) -> int | None:
    for entry, number in ENTRY_STATIONS.items():
        if path == entry or path.startswith(entry + "."):
            return number
    parts = path.split(".")
    if len(parts) > 3 and parts[1] == "layers":
        for (side, sublayer), number in LAYER_STATIONS.items():
            if parts[0] == side and parts[3].startswith(sublayer):
                return number
    return None
