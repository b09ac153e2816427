"""Which steps of a part bring tensors together so that they are worth a box: number by number, or side by side."""

from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CARRYING,
    DIFFERENCES,
    DIVISIONS,
    PLACING,
    REPEATS,
    SCALINGS,
    SIDE_BY_SIDE,
    SUMS,
)
from xray.story.branches.feed_forward import SPLITTERS
from xray.story.passages.added_places import learned_source
from xray.story.passages.channels import gates_channels, spreads_both
from xray.story.passages.held_factors import list_fed
from xray.story.recognition.addends import FILLINGS
from xray.story.recognition.between import is_linear, list_reading_data


def is_joint(
    flow: Flow, node: int, inside: Collection[int], whole: Collection[int], begins: Collection[int] = ()
) -> bool:
    """Whether a step brings two tensors of the part together, number by number or side by side.

    Number by number, one of them may be what the part begins with (PoolFormer); side by side, one may be from outside
    the `whole` part, or be learned.
    """
    if adds_layers(flow, node, inside):
        return True
    step = flow.steps[node]
    makers, begun = ({one for one in flow.makers[node] if one is not None and one in own} for own in (inside, begins))
    if flow.op(node) in PLACING:
        return puts_part(flow, node) if is_blank(flow, flow.makers[node][0]) else len(makers) > 1
    if flow.op(node) in SIDE_BY_SIDE | {"stack"}:
        makers = {maker for maker in makers | begun if not is_blank(flow, maker)}
        return len(makers) > 1 or (bool(makers) and lays_others_beside(flow, node, {*whole, *begins}))
    if chooses_rows(flow, node):
        return len({maker for maker in makers if flow.output(maker).is_float and not is_blank(flow, maker)}) == 2
    makers |= begun
    are_two = len(makers) == 2 or any(flow.op(one) in SPLITTERS for one in makers)  # two pieces of one tensor (LFM2)
    return (
        flow.op(node) in SUMS | DIFFERENCES | SCALINGS
        and are_two
        and (node in list_fed(flow) or all(flow.op(maker) in SIDE_BY_SIDE for maker in makers))  # of own ids (MarkupLM)
        and not any(is_blank(flow, maker) for maker in makers)
        and len(step.inputs) == 2
        and bool(step.outputs)
        and (
            all(len(record.shape) > 1 and record.shape[-1] == step.outputs[0].shape[-1] for record in step.inputs)
            or (gates_channels(flow, node) or spreads_both(flow, node))
        )
    )


def meets_elsewhere(flow: Flow, node: int, inside: Collection[int], whole: Collection[int]) -> bool:
    """Whether rows of a part meet as many that layers made outside of the `whole` part; none that it began with."""
    given = list(flow.given(node)) if flow.op(node) in SUMS | DIFFERENCES | SCALINGS | DIVISIONS else []
    makers = [maker for _, maker in given if maker is not None]
    others = [maker for maker in makers if maker not in whole]
    return (
        (len(makers), len(others)) == (2, 1)
        and {record.shape for record, _ in given} == {flow.output(node).shape}
        and prod(flow.output(node).shape) > 0
        and any(maker in inside for maker in makers)
        and set(makers) <= set(list_fed(flow))
        and not (flow.op(node) in SUMS and any(one in whole and one != node for one in flow.leaf_readers(others[0])))
        and any(flow.steps[one].params for one in (*others, *flow.behind(*others)))
    )


def puts_part(flow: Flow, node: int) -> bool:
    """Whether a step writes into a part of a tensor of nothing, and leaves the rest as it was, and does not fill it."""
    written = flow.steps[node].inputs[-1]
    return 1 < prod(written.shape) < prod(flow.output(node).shape)


def chooses_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes each row from one of two tensors, as a condition for each row says."""
    given = flow.steps[node].inputs
    return (
        flow.op(node) == "where" and len(given) == len(("condition", "rows", "others")) and given[0].shape[-1:] == (1,)
    )


def lays_others_beside(flow: Flow, node: int, whole: Collection[int]) -> bool:
    """Whether a step puts rows beside a part's own that the part did not make: learned ones, or from elsewhere."""
    others = [(record, maker) for record, maker in flow.given(node) if maker not in whole and prod(record.shape) > 0]
    return prod(flow.output(node).shape) > 1 and any(
        maker is None or not is_blank(flow, maker) or learned_source(flow, record, maker) is not None
        for record, maker in others
    )


def is_blank(flow: Flow, maker: int | None) -> bool:
    """Whether rows are made of nothing, and all alike: what they stand beside is padded, and no more."""
    begin = flow.carried_from(maker, CARRYING | REPEATS)
    return begin is not None and flow.op(begin) in FILLINGS


def adds_layers(flow: Flow, node: int, inside: Collection[int]) -> bool:
    """Whether a step adds up what two linear layers make, of rows that the model holds too (Gradium's conditions)."""
    if flow.op(node) not in SUMS or not flow.is_leaf(node) or len(flow.makers[node]) != 2:
        return False
    roots = [flow.carried_from(maker) for maker in flow.makers[node]]
    return all(
        root is not None and root in inside and (is_linear(flow, root) or adds_layers(flow, root, inside))
        for root in roots
    )


def meets_fixed(flow: Flow, node: int) -> bool:
    """Whether a step takes fixed numbers off what the model is given, or divides that by such (SuperGlue's places)."""
    is_either = flow.op(node) in DIFFERENCES | DIVISIONS and len(flow.steps[node].inputs) == 2
    given, data = (list(flow.given(node)) if is_either else []), list_reading_data(flow)
    if not given or any(not record.is_float or record.role == "parameter" for record, _ in given):
        return False
    (rows, maker), (_, fixed) = given
    return (
        fixed is not None and fixed not in data and len(rows.shape) > 1 and (maker is None or meets_fixed(flow, maker))
    )


def takes_given_off(flow: Flow, node: int) -> bool:
    """Whether a step takes what comes in off what was worked out of it (TranAD's second reading)."""
    given = list(flow.taken(node)) if flow.op(node) in DIFFERENCES else []
    comes_in = [maker is None and one.argument is not None for one, maker in given]
    return comes_in == [False, True] and given[0][1] in list_reading_data(flow)


def brings_to_scale(flow: Flow, node: int) -> bool:
    """Whether a step takes off rows, or divides them by, fewer numbers that were worked out of data too: a mean, say.

    So series are brought to one scale before they are read (PatchTST), and pictures by how noisy they are (EDM).
    """
    is_either = flow.op(node) in DIFFERENCES | DIVISIONS
    given, reading = list(flow.given(node)), list_reading_data(flow)
    if len(given) != 2 or any(record.role != "activation" or not record.is_float for record, _ in given):
        return False
    (rows, maker), (few, scale) = given if is_either else sorted(given, key=lambda one: -prod(one[0].shape))
    is_scaled = flow.op(node) in SCALINGS and maker is None and rows.argument is not None
    is_read = is_scaled or (is_either and (maker is None or maker in reading))
    return is_read and prod(few.shape) < prod(rows.shape) and scale in reading
