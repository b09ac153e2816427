"""The walk on a page: nine stations with their chapters where words were recorded, else those of the sheet."""

from collections.abc import Mapping, Sequence
from typing import Any

from xray.ir.trace import Pass, Trace
from xray.story.walk.chapters import Chapter, Text
from xray.story.walk.parts import find_parts
from xray.story.walk.stations import STATIONS
from xray.story.walk.telling import list_chapters
from xray.story.walk.tour import Stop, list_stops

Packed = dict[str, Any]
Walk = tuple[list[Packed], list[Packed], list[dict[str, int]]]


def pack_walk(trace: Trace, *, ours: bool) -> Walk:
    """The stations, their chapters, and for each pass the station of every step that has one."""
    if ours:
        stations = [{"number": one.number, "title": one.title} for one in STATIONS]
        return (
            stations,
            [pack_chapter(chapter) for chapter in list_chapters(trace)],
            [find_parts(one_pass).stations for one_pass in trace.passes],
        )
    stops = list_stops(trace)
    stations = [{"number": one.chapter.station, "title": one.chapter.title} for one in stops]
    chapters = [pack_stop(trace, stop) for stop in stops]
    return stations, chapters, [{} if not stops else find_stations(one_pass, stops) for one_pass in trace.passes]


def find_stations(one_pass: Pass, stops: Sequence[Stop]) -> dict[str, int]:
    """The stations of the steps that a tour looks at; later passes go the way of the one that it is told of."""
    return {
        step.id: stop.chapter.station for stop in reversed(stops) for step in stop.steps if step.id in one_pass.by_id
    }


def pack_stop(trace: Trace, stop: Stop) -> Packed:
    place = next(at for at, one_pass in enumerate(trace.passes) if one_pass is stop.one_pass)
    return pack_chapter(stop.chapter) | {"phase": scene_phase(stop.one_pass), "turn": place + 1}


def scene_phase(one_pass: Pass) -> str:
    """What the switch calls a pass of a model that is not X-Ray's own."""
    return one_pass.kind if one_pass.kind == "training" else "forward"


def pack_chapter(chapter: Chapter) -> Packed:
    """A chapter; a shape in its text becomes sizes and axes."""
    return {
        "station": chapter.station,
        "title": chapter.title,
        "phase": chapter.phase,
        "turn": chapter.turn,
        "text": [pack_text(text) for text in chapter.text],
        "answers": [[answer.question, pack_text(answer.text)] for answer in chapter.answers],
        "debates": [
            {
                "topic": debate.topic,
                "opinions": [[one.who, one.says, one.example, one.is_used] for one in debate.opinions],
                "remark": debate.remark,
            }
            for debate in chapter.debates
        ],
        "steps": list(chapter.steps),
    }


def pack_text(text: Text) -> list[str | Mapping[str, Sequence[Any]]]:
    return [
        part if isinstance(part, str) else {"shape": list(part.shape), "axes": list(part.axes)} for part in text if part
    ]
