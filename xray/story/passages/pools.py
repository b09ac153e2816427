"""Pools: steps that make one number of several neighbours or rows, or lay them side by side."""

from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import LENGTHS, SCALINGS
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import list_reading_data, read_sizes
from xray.story.recognition.lengths import is_of_squares
from xray.story.recognition.norms import find_norm
from xray.story.recognition.statistics import MAP
from xray.story.recognition.values.value_shapes import numbers
from xray.story.wording import spell_steps

HALF = 0.5
WAYS = (("avg_pool", "MEAN"), ("max_pool", "MAX"))
GIVEN_IN_ORDER = {"kernel_size": ("arg1", "other"), "stride": ("arg2",), "padding": ("arg3",), "dilation": ("arg4",)}
"""What the settings of a pool are called where they are given without their names."""


def is_pool(flow: Flow, node: int) -> bool:
    """Whether a step is a pool, or takes the mean of rows, or of all places of a map, of more than one."""
    if not flow.steps[node].outputs or not flow.steps[node].inputs or prod(flow.output(node).shape) < 2:
        return False
    is_mean = flow.op(node) == "mean" and prod(flow.output(node).shape) < prod(flow.steps[node].inputs[0].shape)
    return bool(name_way(flow, node)) or (is_mean and (takes_rows_together(flow, node) or bool(list_means(flow, node))))


def list_means(flow: Flow, node: int) -> tuple[int, ...]:
    """The two means, one behind the other, that make one number of all places of a map; none for any other step."""
    before = flow.makers[node][0] if flow.op(node) == "mean" and flow.makers[node] else None
    if before is None or flow.op(before) != "mean" or list(flow.readers.get(before, ())) != [node]:
        return ()
    axes = [read_axes(flow, before), read_axes(flow, node)]
    is_map = all(len(flow.steps[one].inputs[0].shape) == MAP for one in (before, node))
    is_whole = is_map and axes in ([{MAP - 2}, {MAP - 1}], [{MAP - 1}, {MAP - 2}])
    return (before, node) if is_whole and before in list_reading_data(flow) else ()


def is_mean_of_map(flow: Flow, node: int) -> bool:
    """Whether a step makes one number of all places of a map, at once or as the second of two means."""
    if flow.op(node) != "mean" or not flow.makers[node]:
        return False
    is_whole = len(flow.steps[node].inputs[0].shape) == MAP and read_axes(flow, node) == {MAP - 2, MAP - 1}
    return (is_whole and node in list_reading_data(flow)) or bool(list_means(flow, node))


def adds_up_rows(flow: Flow, node: int) -> bool:
    """Whether a step adds up rows along an axis that it is told, and leaves each sum as wide as they were."""
    if flow.op(node) != "sum" or not flow.steps[node].outputs or prod(flow.output(node).shape) < 2:
        return False
    before, maker = next(flow.given(node))
    axes, channels = read_axes(flow, node), None if maker is None else find_channels(flow, maker)
    is_data = flow.output(node).is_float and node in list_reading_data(flow)
    return is_data and channels is not None and len(axes) == 1 and not axes & {0, channels} and before.shape != ()


def takes_last_mean(flow: Flow, node: int) -> bool:
    """Whether a step takes the mean along the last axis, and leaves that with the one number (Gemma 3n's streams)."""
    if flow.op(node) != "mean" or prod(flow.output(node).shape) < 2 or node not in list_reading_data(flow):
        return False
    before, made = flow.steps[node].inputs[0].shape, flow.output(node).shape
    return len(before) > 2 and made == (*before[:-1], 1) and before[-1] > 1 and not is_pool(flow, node)


def list_root_mean(flow: Flow, node: int) -> tuple[int, ...]:
    """The steps of a root of a mean of squares along the last axis, itself last, that is no norm's; else none."""
    is_root = flow.op(node) == "sqrt" or read_power(flow, node) == HALF
    mean = flow.makers[node][0] if is_root and flow.makers[node] else None
    squares = flow.makers[mean][0] if mean is not None and takes_last_mean(flow, mean) else None
    if mean is None or squares is None or (flow.op(squares) != "square" and read_power(flow, squares) != 2):
        return ()
    norms = (find_norm(flow, reader) for reader in flow.readers.get(node, ()))
    return () if any(norm is not None and node in norm.nodes for norm in norms) else (squares, mean, node)


def read_power(flow: Flow, node: int) -> float | None:
    """The power to which a step raises numbers; None for any other step."""
    settings = flow.steps[node].settings
    power = settings.get("arg1", settings.get("other", settings.get("exponent")))
    return power if flow.op(node) in ("pow", "pow_") and isinstance(power, int | float) else None


def weighs_rows(flow: Flow, maker: int | None) -> bool:
    """Whether a step multiplies each row by one number of its own (the attention of SwiftFormer)."""
    if maker is None or flow.op(maker) not in SCALINGS:
        return False
    rows = flow.output(maker).shape
    return rows[-1] > 1 and (*rows[:-1], 1) in [record.shape for record in flow.steps[maker].inputs]


def read_axes(flow: Flow, node: int) -> set[int]:
    """The axes along which a step makes one number of several, as it is told."""
    count = len(flow.steps[node].inputs[0].shape)
    return {one % count for one in numbers(flow.steps[node], "dim") if count}


def takes_rows_together(flow: Flow, node: int) -> bool:
    """Whether a mean leaves each row as wide as it was, or is one of all places of a map."""
    before, after = flow.steps[node].inputs[0], flow.output(node)
    axes = read_axes(flow, node)
    is_whole = len(before.shape) == MAP and axes == {MAP - 2, MAP - 1}
    is_data = after.is_float and after.role == "activation" and node in list_reading_data(flow)
    return is_data and bool(axes) and (is_whole or len(before.shape) - 1 not in axes)


def measures_channels(flow: Flow, node: int) -> bool:
    """Whether a step works out how long each channel of a map is, over all places (the norm of ConvNeXt V2)."""
    if flow.op(node) not in LENGTHS or not flow.steps[node].outputs or not is_of_squares(flow, node):
        return False
    maker, axes = flow.makers[node][0], len(flow.steps[node].inputs[0].shape)
    channels = None if maker is None else find_channels(flow, maker)
    return axes == MAP and channels is not None and read_axes(flow, node) == {*range(1, MAP)} - {channels}


def lays_neighbours(flow: Flow, node: int) -> bool:
    """Whether a step lays neighbours in a map side by side in one column, or such columns out as a map again."""
    return flow.op(node) in ("unfold", "fold") and prod(read_sizes(flow, node, "kernel_size")) > 1


def label_neighbours(flow: Flow, node: int) -> str:
    """What such a step is called: which neighbours, and by how many places it moves on if that is not their number.

    Where more of them lie in one column than there are columns, these are pieces of the map (Depth Pro's crops).
    """
    kernel, stride = (read_sizes(flow, node, name) for name in ("kernel_size", "stride"))
    sides = kernel * 2 if len(kernel) == 1 else kernel
    told, pieces = "×".join(map(str, sides)), flow.output(node).shape[-1]
    if flow.op(node) == "fold":
        return f"{told} NEIGHBOURS BACK IN A MAP{', OVERLAPS ADDED UP' if stride != kernel else ''}"
    told = f"{told} NEIGHBOURS SIDE BY SIDE" if prod(sides) <= pieces else f"{pieces:,} PIECES OF {told}"
    return told if set(stride) == set(kernel) else f"{told}, STEP {spell_steps(stride or (1,))}"


def name_way(flow: Flow, node: int) -> str:
    """What a pool makes of several numbers; "" for a step that is none, or is one of another kind."""
    return next((told for op, told in WAYS if op in flow.op(node)), "")


def label_pool(flow: Flow, node: int) -> str:
    """What a pool or a mean is called: of how many numbers one is made, and by how many places it moves on."""
    way = name_way(flow, node)
    if not way or "adaptive" in flow.op(node):
        first = next(iter(list_means(flow, node)), node)
        counted = count_pooled(flow.steps[first].inputs[0].shape, flow.output(node).shape)
        return f"{'HIGHEST' if way == 'MAX' else 'MEAN'} OF {counted}"
    kernel = read_kernel(flow, node)
    stride = read_setting(flow, node, "stride") or kernel
    told = f"{way} POOL {'×'.join(map(str, kernel))}".strip()
    return told if set(stride) == set(kernel) else f"{told}, STEP {spell_steps(stride)}"


def read_kernel(flow: Flow, node: int) -> tuple[int, ...]:
    """Of how many neighbours along each axis a pool makes one number; none where that is not recorded."""
    kernel = read_setting(flow, node, "kernel_size")
    axes = flow.op(node).partition("pool")[2][:1]
    return kernel * int(axes) if len(kernel) == 1 and axes.isdecimal() else kernel


def read_setting(flow: Flow, node: int, name: str) -> tuple[int, ...]:
    """A setting of a pool, which may be given without its name."""
    return next(filter(None, (read_sizes(flow, node, one) for one in (name, *GIVEN_IN_ORDER.get(name, ())))), ())


def count_pooled(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """How many numbers become one, in words: all places of a map, so many rows or places of one side, or neighbours."""
    if len(before) == MAP and min(before[2:]) > 1 and prod(after) == prod(before[:2]):
        return "ALL PLACES"
    many, rest = divmod(prod(before), prod(after))
    return "NEIGHBOURS" if rest else f"{many:,}"


def is_deep(flow: Flow, finder: int) -> bool:
    """Whether a convolution moves along three axes."""
    return len(flow.output(finder).shape) == len(("batch", "channels", "depth", "height", "width"))
