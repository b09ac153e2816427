"""The walk through any network: a chapter for each station of its sheet, told with its own shapes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from xray.ir.flow.attention_sites import lies_in_columns
from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import FeedForward
from xray.story.body.stages import Staging
from xray.story.body.whole import anatomy
from xray.story.cards.stations import what_leaves
from xray.story.charts.chart import Chart, Node
from xray.story.charts.stage_names import name_stage
from xray.story.roles.attention_roles import is_scaled_by_root
from xray.story.sentences.of_ends import describe_entrance, describe_exit
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.stations.of_stations import describe_station
from xray.story.sheet.columns import Column, read_columns
from xray.story.walk.chapters import Answer, Chapter, Text
from xray.story.walk.facts import TOOLS
from xray.story.walk.prose import fill_in
from xray.story.walk.quiz import Question, ask


@dataclass(frozen=True)
class Stop:
    """A chapter, the steps that it looks at, and the pass that they are of."""

    chapter: Chapter
    steps: tuple[Step, ...]
    one_pass: Pass


def list_stops(trace: Trace) -> tuple[Stop, ...]:
    """Every station of a trace's sheet, in order; none for a network without a residual stream."""
    stops = [stop for column in read_columns(trace) for stop in list_stops_of(trace, column)]
    return tuple(ask_once(sorted(stops, key=lambda stop: stop.chapter.station)))


def ask_once(stops: Iterable[Stop]) -> Iterator[Stop]:
    """The same stops, each question at the first of them that raises it."""
    asked: set[str] = set()
    for stop in stops:
        fresh = tuple(answer for answer in stop.chapter.answers if answer.question not in asked)
        asked |= {answer.question for answer in fresh}
        yield replace(stop, chapter=replace(stop.chapter, answers=fresh))


def ask_tour(trace: Trace) -> tuple[Question, ...]:
    """A question for every step of the tour that gives its tensor another shape."""
    found: list[Question] = []
    for stop in list_stops(trace):
        for step in stop.steps:
            shapes = {record.shape for record in step.inputs}
            if step.inputs and step.outputs and step.outputs[0].shape not in shapes:
                found.append(ask(step, stop.chapter.station, stop.chapter.title))
    return tuple(found)


def list_stops_of(trace: Trace, column: Column) -> Iterator[Stop]:
    """The stations of one tower, from what it reads to what leaves it."""
    tower = column.towering.tower
    whole = anatomy(trace)
    if column.entrance is not None:
        opening: list[Text] = [(describe_entrance(tower),)]
        if column.first_station == 1:
            opening += [(sentence,) for sentence in list_sentences(whole)]
        yield make_stop(column, column.first_station, f"{tower.name}: what goes in", opening, column.entrance)
    for frame in column.frames:
        for panel in frame.panels:
            if not panel.is_open:
                continue
            told = [(describe_station(tower, branch),) for branch in panel.staging.stage.branches]
            times = f", in {frame.group.count} layers" if frame.group.count > 1 else ""
            title = f"{tower.name}: {name_stage(panel.staging).lower()}{times}"
            yield make_stop(column, panel.station, title, list(told), panel.chart, list_answers(column, panel.staging))
    if column.exit is not None and column.last_station:
        text: list[Text] = [(describe_exit(what_leaves(whole, column)),)]
        yield make_stop(column, column.last_station, f"{tower.name}: what comes out", text, column.exit)


def list_answers(column: Column, staging: Staging) -> tuple[Answer, ...]:
    """The questions that a stage raises in any model."""
    flow, width = column.reading.flow, column.towering.tower.d_model
    found: list[Answer] = []
    for one in staging.branches:
        branch, site = one.branch, one.site
        if isinstance(branch, Attention) and site is not None:
            facts = {
                "d_k": branch.d_k,
                "is_rooted": branch.d_k is not None and is_scaled_by_root(flow, site),
                "is_causal": branch.causal and branch.source == "self",
                "scores": flow.output(site.softmax if lies_in_columns(flow, site) else site.scores),
            }
            found += fill_in("any_attention", {**TOOLS, **facts}).answers
        elif isinstance(branch, FeedForward) and branch.kernel is None:
            found += fill_in("any_feed_forward", {**TOOLS, "whole": 0, "inner": 0}).answers
    norm = {"has_layer_norm": staging.stage.norm.kind == "layer", "width": width or 0}
    return (*found, *fill_in("any_stage", {**TOOLS, **norm}).answers)


def make_stop(
    column: Column, station: int, title: str, text: list[Text], chart: Chart, answers: tuple[Answer, ...] = ()
) -> Stop:
    """A station with a line for everything that is drawn there."""
    nodes = [node for row in range(chart.rows) for node in chart.in_row(row) if node.steps and node.record is not None]
    lines = tuple(describe_row(row) for row in group_rows(nodes))
    steps = tuple(dict.fromkeys(node.steps[0].id for node in nodes))
    chapter = Chapter(station, title, "forward", 0, (*text, *lines), answers, (), steps)
    by_id = {node.steps[0].id: node.steps[0] for node in nodes}
    return Stop(chapter, tuple(by_id.values()), column.reading.flow.one_pass)


def group_rows(nodes: Sequence[Node]) -> list[list[Node]]:
    """The nodes of which something is said, those together that stand in one row and do the same."""
    rows: dict[tuple[int, str], list[Node]] = {}
    for node in nodes:
        if node.remark:
            rows.setdefault((node.row, node.remark), []).append(node)
    return list(rows.values())


def describe_row(nodes: Sequence[Node]) -> Text:
    """What happens in a row, with the shapes that come out."""
    told: list[str | TensorRecord] = []
    for node in nodes:
        told += [f"{', ' if told else ''}{node.label.replace('^T', 'ᵀ')} ", node.record] if node.record else []
    return (*told, f": {nodes[0].remark}.")
