"""What a pass ends with above its head: a loss, or the next word."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, CHANCE, DIFFERENCES, LOSSES, SUMS
from xray.ir.flow.weights import gather_weights
from xray.ir.flow.written_softmaxes import read_axis_of
from xray.ir.trace import Step
from xray.story.charts.chart import (
    Chart,
    Edge,
    Node,
    steps_at,
)
from xray.story.facts.totals import is_backward
from xray.story.sentences.of_runs import list_remarks_of_loss

PICKS = frozenset({"argmax", "multinomial"})
COMPARED = {"targets": (0.08, 0.36), "predictions": (0.64, 0.72)}
"""What a loss compares, and where each stands."""
OF_TARGETS = frozenset({"cross_entropy", "cross_entropy_loss", "nll_loss", "ctc_loss"})
"""What compares scores with ids: these are the targets, be they what they may."""
ONE_NUMBER = "WORKED OUT TO ONE NUMBER"


def find_predicted(flow: Flow, loss: int, end: int) -> int:
    """Which input of a loss is worked out of a stream that ends so: the first one, or the second one alone (Pi0)."""
    reached = set(flow.ahead(end, within=lambda place: place <= loss))
    worked_out = [maker in reached for _, maker in flow.given(loss)]
    return 1 if worked_out[:2] == [False, True] else 0


def add_loss(flow: Flow, chart: Chart, loss: int, predicted: int = 0) -> Chart:
    """What is compared, and the one number that comes out; `predicted` is which input the stream was worked out to."""
    step, row = flow.steps[loss], chart.rows
    pair = list_compared(flow, loss, predicted, row)
    out = step.outputs[0] if step.outputs else None
    box = Node(
        "loss",
        name_loss(step),
        row + bool(pair),
        (0.45, 1.1),
        (step,),
        out,
        "the loss" if is_whole_loss(flow, loss) else "",
        surface="phase",
        value="" if out is not None and out.shape else spell_value(step),
        told=list_remarks_of_loss(step, flow.one_pass.tokens.get("targets", ())),
    )
    begun = "predictions" if pair else "loss"
    edges = (*chart.edges, Edge(chart.head, begun), *(Edge(one.key, "loss") for one in reversed(pair)))
    return Chart((*chart.nodes, *pair, box), edges, chart.feet, "loss")


def list_compared(flow: Flow, loss: int, predicted: int, row: int) -> list[Node]:
    """The boxes of targets and predictions; none where learned weights make both, as it is not known which is which."""
    given = list(flow.given(loss))[:2]
    compared = given if predicted else given[::-1]
    if flow.op(loss) not in OF_TARGETS and is_learned(flow, compared[0][1]):
        return []
    pair = []
    for (key, place), (record, maker) in zip(COMPARED.items(), compared, strict=True):
        told = tell_difference(flow, maker) or ("where a mask says so",) * is_of_a_mask(flow, maker)
        is_own = maker is not None and (bool(told) or flow.op(maker) in CARRYING)
        steps = steps_at(flow, maker) if is_own and maker is not None else (flow.steps[loss],)
        pair.append(Node(key, key.upper(), row, place, steps, record, surface="phase", told=told))
    return pair


def is_learned(flow: Flow, maker: int | None) -> bool:
    """Whether parameters work on what a loss compares with: another network makes it, or this one (a teacher)."""
    behind = () if maker is None else (maker, *flow.behind(maker))
    return bool(gather_weights(flow, behind))


def is_whole_loss(flow: Flow, loss: int) -> bool:
    """Whether the one number that a step works out is what the pass gives or what is sent back, and no part of it.

    Nor of a sum that the pass gives besides.
    """
    moved = {loss, *flow.ahead(loss, within=lambda one: one == loss or flow.op(one) in CARRYING)}
    made = {flow.steps[one].id for one in moved}
    is_back = any(is_backward(flow.steps[one]) for one in moved)
    summed = [one for one in flow.ahead(loss) if flow.op(one) in SUMS and flow.steps[one].id in flow.one_pass.results]
    return not flow.output(loss).shape and (is_back or (not made.isdisjoint(flow.one_pass.results) and not summed))


def list_loss(flow: Flow, top: int, others: Collection[int]) -> list[tuple[str, tuple[int, ...]]]:
    """The steps from what one gives to the one number that a pass gives, that number first, with the words for them.

    Nothing learned works there, and no known loss: it is written out (x-transformers' cross-entropy). None where a pass
    gives more.
    """
    ends = [place for place, step in enumerate(flow.steps) if step.id in flow.one_pass.results and flow.is_leaf(place)]
    if len(flow.one_pass.results) != 1 or len(ends) != 1 or flow.output(ends[0]).shape:
        return []
    way = set(flow.ahead(top)).intersection(flow.behind(*ends)) - {top}
    learned = any(record.role == "parameter" for node in way for record in flow.steps[node].inputs)
    is_known = learned or any(is_loss(flow, node) or flow.steps[node].params for node in way)
    only_moves = all(flow.op(node) in CARRYING for node in way)
    return [] if is_known or only_moves or not way.isdisjoint(others) else [(ONE_NUMBER, tuple(sorted(way))[::-1])]


def tell_difference(flow: Flow, maker: int | None) -> tuple[str, ...]:
    """That what came in was taken from what chance drew: the way of a flow from one to the other (π0)."""
    if maker is None or flow.op(maker) not in DIFFERENCES or len(flow.makers[maker]) != 2:
        return ()
    (_, drawn), (given, made) = flow.given(maker)
    is_so = drawn is not None and flow.op(drawn) in CHANCE and made is None and given.role == "activation"
    return ("noise less what came in",) if is_so else ()


def is_of_a_mask(flow: Flow, maker: int | None) -> bool:
    """Whether what is compared is what a mask names alone (the masked frames of a masked acoustic model)."""
    picks = maker is not None and flow.op(maker) in ("index", "masked_select")
    return picks and maker is not None and [one.dtype == "bool" for one in flow.steps[maker].inputs[1:]] == [True]


def name_loss(step: Step) -> str:
    """What a loss is called."""
    return step.op.removesuffix("_loss").replace("_", "-").upper()


def spell_value(step: Step) -> str:
    """The number that a loss came to, where it was kept."""
    preview = step.outputs[0].preview if step.outputs else None
    if not step.outputs:
        return "failed"
    if preview is None or not preview.values:
        return "one number"
    value = preview.values[0]
    return value if isinstance(value, str) else f"{value:.4f}"


def is_loss(flow: Flow, node: int) -> bool:
    """Whether a step works out a loss."""
    return flow.op(node) in LOSSES or flow.output(node).role == "loss"


def list_picks(flow: Flow, head: int, others: Collection[int]) -> list[int]:
    """The steps from the scores of all words to the ids of chosen ones, if that was recorded before `others` begin.

    Steps of other towers may choose what is no word: experts (Switch Transformers). So do those that choose a place.
    """
    found: list[int] = []
    reached = {head}
    for place in range(head + 1, len(flow.steps)):
        if flow.is_leaf(place) and any(maker in reached for maker in flow.makers[place]):
            if place in others or chooses_no_word(flow, place):
                return []
            reached.add(place)
            found += [place] if flow.op(place) not in CARRYING else []
            if flow.output(place).role == "ids" and flow.op(place) in PICKS:
                return found
    return []


def chooses_no_word(flow: Flow, place: int) -> bool:
    """Whether a softmax, or what takes the best, works along another axis than the last one, or all: that of words."""
    step, shape = flow.steps[place], flow.steps[place].inputs[0].shape
    if step.op not in ("softmax", "argmax"):
        return False
    is_of_all = step.op == "argmax" and len(step.outputs[0].shape) < len(shape) - 1
    return is_of_all or read_axis_of(step, len(shape)) not in (-1, None)


def name_pick(flow: Flow, node: int) -> str:
    """What a step on the way to the next word is called."""
    op = flow.op(node)
    return "LAST ROW ONLY" if op == "last_row" else op.strip("_").replace("_", " ").upper()
