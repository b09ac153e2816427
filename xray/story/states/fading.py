"""Whether what a state held fades: it is multiplied by no more than 1, and by how much is worked out of rows."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DIFFERENCES, REPEATS, SCALINGS, SOFTMAXES, SUMS
from xray.ir.records import TensorRecord
from xray.story.passages.held_factors import list_fed
from xray.story.recognition.between import list_reading_data
from xray.story.recognition.values.value_shapes import number

MOVING = CARRYING | REPEATS | {"index"}
KEEPING = MOVING | {"cumsum", "sum", "mean", "pad"}
"""What makes of numbers of one sign none of another; what is laid beside them is 0."""
NEVER_BELOW_0 = SOFTMAXES | {"exp", "softplus", "sigmoid", "sigmoid_", "relu", "relu_", "square", "abs"}
NEVER_ABOVE_0 = frozenset({"logsigmoid", "log_sigmoid"})
MAXIMA = frozenset({"max", "maximum"})
DEEPEST = 24
OF_HEADS = len(("batch", "heads", "d_k", "d_v"))


def weakens_first(flow: Flow, change: int) -> bool:
    """Whether a step adds to what was multiplied by exp of numbers, never above 0, that rows give (Gated DeltaNet)."""
    factors = (flow.carried_from(maker, MOVING) for _, maker in list_factors(flow, change))
    data = list_reading_data(flow)
    powers = (one for one in factors if one is not None and flow.op(one) == "exp" and one in data)
    return any(read_sign(flow, flow.makers[one][0]) == -1 for one in powers)


def scales_heads(flow: Flow, change: int) -> bool:
    """Whether a step adds to what was multiplied by one number for each head, which no row changes (MiniMax)."""
    made = flow.output(change).shape
    of_heads = {(made[1], 1, 1), (1, made[1], 1, 1)} if len(made) == OF_HEADS else set()
    fed = list_fed(flow)
    return any(record.shape in of_heads and maker not in fed for record, maker in list_factors(flow, change))


def list_factors(flow: Flow, change: int) -> list[tuple[TensorRecord, int | None]]:
    """What multiplies anything that a step adds to, each with its maker."""
    scaled = [maker for maker in flow.makers[change] if maker is not None and flow.op(maker) in SCALINGS]
    return [given for one in scaled for given in flow.given(one)]


def read_sign(flow: Flow, node: int | None, left: int = DEEPEST) -> int:
    """1 where nothing that a step makes is below 0, -1 where nothing is above it, and 0 where neither is proven."""
    if node is None or left == 0:
        return 0
    op, value = flow.op(node), number(flow.steps[node])
    if op in NEVER_BELOW_0 or is_log_above_1(flow, node, left):
        return 1
    if op in NEVER_ABOVE_0 or takes_off_more(flow, node):
        return -1
    makers = flow.makers[node]
    if op in KEEPING:
        return 0 if number(flow.steps[node], "value") else read_sign(flow, next(iter(makers), None), left - 1)
    if op == "where" and len(makers) == len(("asked", "one", "other")):
        signs = [1 if is_asked_above_0(flow, *makers[:2]) else read_sign(flow, makers[1], left - 1)]
        return signs[0] if read_sign(flow, makers[2], left - 1) == signs[0] else 0
    signs = [read_sign(flow, maker, left - 1) for maker in makers] if op in SCALINGS | SUMS | {"neg"} else []
    signs += [] if value is None else [(value > 0) - (value < 0)]
    if op == "neg":
        return -prod(signs)
    if len(signs) < 2 or (number(flow.steps[node], "alpha") or 0) < 0:
        return 0
    return prod(signs) if op in SCALINGS else signs[0] if len({*signs}) == 1 else 0


def is_log_above_1(flow: Flow, node: int, left: int) -> bool:
    """Whether a step is the log of 1 and something that is never below 0: softplus, written out (Kimi Linear)."""
    maker = next(iter(flow.makers[node]), None)
    if flow.op(node) == "log1p":
        return read_sign(flow, maker, left - 1) == 1
    if flow.op(node) != "log" or maker is None or flow.op(maker) not in SUMS:
        return False
    more = number(flow.steps[maker])
    return more is not None and more >= 1 and read_sign(flow, flow.makers[maker][0], left - 1) == 1


def takes_off_more(flow: Flow, node: int) -> bool:
    """Whether numbers have the larger of themselves and others taken off them (xLSTM's gates)."""
    if flow.op(node) not in DIFFERENCES or len(flow.makers[node]) != 2 or number(flow.steps[node], "alpha") is not None:
        return False
    less, more = flow.makers[node]
    if more is None or flow.op(more) not in MAXIMA or len(flow.makers[more]) != 2:
        return False
    return less is not None and any(one is not None and is_same(flow, less, one) for one in flow.makers[more])


def is_same(flow: Flow, one: int, other: int) -> bool:
    """Whether two sums are of the same numbers: they are one step, or take what the same steps made."""
    return one == other or (
        flow.op(one) == flow.op(other)
        and flow.op(one) in SUMS
        and flow.steps[one].settings == flow.steps[other].settings
        and None not in flow.makers[one]
        and flow.makers[one] == flow.makers[other]
    )


def is_asked_above_0(flow: Flow, asked: int | None, numbers: int | None) -> bool:
    """Whether numbers are taken where they are above one that is not below 0."""
    if asked is None or numbers is None or flow.op(asked) not in ("gt", "ge") or flow.makers[asked][0] != numbers:
        return False
    least = number(flow.steps[asked])
    return least is not None and least >= 0
