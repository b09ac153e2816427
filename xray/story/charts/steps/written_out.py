"""What several steps write out that is one thing: rounding, 1 at the highest, flags, rows divided by their sum."""

from collections.abc import Sequence
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CASTING,
    DIFFERENCES,
    DIVISIONS,
    SCALINGS,
    SUMS,
    ZEROS,
)
from xray.story.charts.steps.noise import list_noise_sum
from xray.story.passages.ordered_rows import ROUNDING
from xray.story.passages.pools import (
    list_means,
    list_root_mean,
)
from xray.story.recognition.between import list_reading_data

LEAST_ADDED = 0.01
COMPARED = {"gt": "ABOVE {}", "ge": "FROM {} UP", "lt": "BELOW {}", "le": "UP TO {}"}
"""Where numbers are compared with one: what those are like that become 1, as others become 0."""
SCATTERING = frozenset({"scatter", "scatter_"})
HIGHEST = frozenset({"max", "argmax"})


def list_written_out(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that one box stands for as they do one thing together: round, divide by a sum, take a mean of a map."""
    return (
        list_rounding(flow, node)
        or list_own_sum(flow, node)
        or list_flags(flow, node)
        or list_means(flow, node)
        or list_root_mean(flow, node)
        or list_noise_sum(flow, node)
    )


def list_rounding(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps of a sum x + (round(x) - x), itself last: whole numbers, and on the way back as if not rounded (FSQ).

    Or of one with 1 at the highest of x and 0 elsewhere for round(x) (GroupViT). Empty for any other step.
    """
    makers = [maker for maker in flow.makers[node] if maker is not None] if flow.op(node) in SUMS else []
    for plain, change in (makers, makers[::-1]) if len(makers) == 2 else ():
        less = flow.carried_from(change)
        if less is None or flow.op(less) not in DIFFERENCES or len(flow.makers[less]) != 2:
            continue
        whole, taken = map(flow.carried_from, flow.makers[less])
        own = () if whole is None else (whole,) if flow.op(whole) in ROUNDING else list_highest(flow, whole)
        if whole is not None and own:
            made_of = flow.makers[min(own) if len(own) == 1 else own[1]][0]
            is_one = flow.carried_from(plain) == taken == flow.carried_from(made_of)
            return (*sorted(flow.behind(change, within=min(own).__le__)), node) if is_one else ()
    return ()


def list_highest(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that put 1 into zeros where what they read is highest along an axis: the zeros, the highest, the last.

    Empty for any other step.
    """
    step = flow.steps[node]
    if flow.op(node) not in SCATTERING or len(flow.makers[node]) != len(("zeros", "places")):
        return ()
    zeros, highest = flow.carried_from(flow.makers[node][0]), flow.carried_from(flow.makers[node][1])
    value = next((step.settings[name] for name in ("value", "src", "arg3") if name in step.settings), None)
    if zeros is None or highest is None or flow.op(zeros) not in ZEROS or flow.op(highest) not in HIGHEST or value != 1:
        return ()
    along = {read_axis(flow, one) for one in (node, highest)}
    return (zeros, highest, node) if len(along) == 1 and None not in along else ()


def read_axis(flow: Flow, node: int) -> int | None:
    """The axis along which a step looks for the highest, or puts numbers in, from the first one."""
    settings, axes = flow.steps[node].settings, len(flow.steps[node].inputs[0].shape)
    axis = next((settings[name] for name in ("dim", "other", "arg1") if isinstance(settings.get(name), int)), None)
    return axis % axes if isinstance(axis, int) and axes else None


def list_flags(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that make 1 of what is above a number, or below it, and 0 of all else, and numbers of these; or none.

    The last is the cast, or the comparison itself, where rows are multiplied with it as it is.
    """
    here = flow.carried_from(node) if flow.op(node) in CASTING else node
    if here is None or flow.op(here) not in COMPARED or not reads_as_numbers(flow, here, node):
        return ()
    others = [flow.steps[here].settings.get(name) for name in ("other", "arg1")]
    is_known = len(flow.steps[here].inputs) == 1 and any(isinstance(one, int | float) for one in others)
    return tuple(sorted({here, *flow.behind(node, within=here.__le__)})) if is_known else ()


def reads_as_numbers(flow: Flow, compared: int, last: int) -> bool:
    """Whether a step compares numbers worked out of data, and makes numbers of that: itself, or by a cast behind it."""
    given, out = flow.steps[compared].inputs, flow.output(last)
    is_of_data = bool(given) and given[0].is_float and compared in list_reading_data(flow)
    if not is_of_data or prod(out.shape) <= 1 or flow.output(compared).dtype != "bool":
        return False
    readers = flow.leaf_readers(last)
    return bool(readers) and (out.is_float or any(flow.op(one) in SCALINGS for one in readers))


def label_flags(flow: Flow, node: int) -> str:
    """What the making of 1 and 0 is called, by what becomes 1."""
    compared = list_flags(flow, node)[0]
    settings = flow.steps[compared].settings
    bound = settings.get("other", settings.get("arg1"))
    return f"1 {COMPARED[flow.op(compared)].format(f'{bound:g}')}, ELSE 0"


def label_forced(flow: Flow, forced: Sequence[int]) -> str:
    """What a sum is called that gives what is whole of something: rounded numbers, or 1 at the highest."""
    put = next((node for node in forced if flow.op(node) in SCATTERING), None)
    axis = None if put is None else read_axis(flow, put)
    if put is None or axis is None:
        return "ROUNDED"
    return f"1 AT THE HIGHEST dim −{len(flow.output(put).shape) - axis}, ELSE 0"


def list_own_sum(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps that divide rows by their own sum along an axis, be a number added to it; empty for any other step."""
    makers = flow.makers[node] if flow.op(node) in DIVISIONS else ()
    if len(makers) != 2 or makers[0] is None or makers[1] is None:
        return ()
    own, here = [node], makers[1]
    if flow.op(here) in SUMS and len(flow.steps[here].inputs) == 1:
        own.insert(0, here)
        here = flow.makers[here][0] or here
    is_own = flow.op(here) == "sum" and flow.makers[here][:1] == (makers[0],) and flow.output(here).shape[-1:] == (1,)
    is_whole = len(flow.output(here).shape) == len(flow.output(node).shape)
    return (here, *own) if is_own and is_whole else ()


def label_more(flow: Flow, node: int) -> str:
    """What number is added to the sum by which rows are divided, if it is one that tells: no least one, as 1e-6."""
    _, *more, _ = list_own_sum(flow, node)
    number = next((flow.steps[one].settings.get("other") for one in more), None)
    return f" + {number:g}" if isinstance(number, int | float) and number >= LEAST_ADDED else ""
