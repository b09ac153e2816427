"""How many places ask at once, and how many are asked: windows, pieces of a packed row, pooled and gathered places."""

from collections.abc import Sequence
from math import prod

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import JOINS, SIDE_BY_SIDE
from xray.story.branches.operands import Side
from xray.story.passages.channels import find_channels
from xray.story.recognition.between import Region, projections_in, width_out
from xray.story.recognition.value_shapes import read_slices

POOLING = ("max", "amax", "avg_pool", "adaptive_", "conv")
"""What makes one row of several: the names of such steps begin so."""
CONFIGURED = "config.sliding_window"
WINDOWS = ("sliding_window", CONFIGURED)
NO_WINDOW = frozenset({"full_attention", "global_attention"})
"""How a library's settings name a window, and kinds of layers that have none."""


def count_cut_window(flow: Flow, site: Site, query: Side, key: Side, region: Region, heads: int | None) -> int | None:
    """How many places a query sees where the places were cut into windows before they attend; None if they were not.

    Both sides of the square are then as long as a window, and shorter than the stream; or queries alone were pooled, in
    each window as many. Every place of the stream asks: images that were packed into one row are no windows.
    """
    square = flow.output(site.scores).shape[-2:]
    stream = lay_last(flow, region.end)
    if not key.is_own or len(square) != 2 or len(stream) < 3:
        return None
    places = prod(stream[1:-1])
    if square[0] >= places or prod(flow.output(site.scores).shape[:-1]) < prod(stream[:-1]) * (heads or 1):
        return None
    if square[0] != square[1] and count_pooled(flow, site, key, region) != square[1] // square[0]:
        return None
    several = places // square[0] > 1 or flow.output(site.scores).shape[0] > stream[0]  # the places may be padded
    return square[1] if several and prod(query.end.shape[:-1]) % square[0] == 0 else None


def read_set_window(flow: Flow, site: Site) -> int | None:
    """The window that the settings of an attention's own block name, if a row has fewer keys than that.

    Where it has more, its mask shows a window, or there is none; where it has as many, a cache may keep no others. A
    block may know of one that its layer does not use. One more than the configuration of a block around it names is how
    a kernel is told of that one (UltraBERT).
    """
    block = next((one for one in flow.parents(site.scores) if flow.steps[one].module), None)
    if block is None:
        return None
    settings = flow.steps[block].settings
    if settings.get("is_sliding") is False or NO_WINDOW.intersection(map(str, settings.values())):
        return None
    window = next((settings[name] for name in WINDOWS if name in settings), None)
    around = (flow.steps[one].settings.get(CONFIGURED) for one in flow.parents(block))
    named = next((one for one in around if type(one) is int), None)
    window = named if named is not None and window == named + 1 else window
    seen = flow.output(site.scores).shape[-1]
    return window if type(window) is int and window > seen > 0 else None


def count_kept_last(flow: Flow, site: Site) -> int | None:
    """Of how many places a cache keeps keys, the last ones, where it leaves off those before them; None else.

    So it is told what no row of this pass may be long enough to show: a later place looks at no more of those before.
    """
    for join in (node for node in site.key.nodes if flow.op(node) in JOINS):
        for node in flow.readers.get(join, ()):
            index = read_slices(flow.steps[node], len(flow.output(join).shape)) if flow.op(node) == "index" else None
            if index is None or len(index) < len(("batch", "places", "width")) or flow.readers.get(node):
                continue  # what is read again in this pass is not put aside for a later one
            *others, places, width = index
            first: int | None = places.start
            is_last = first is not None and first < 0 and (places.stop, places.step) == (None, None)
            if first is not None and is_last and all(one == slice(None) for one in (*others, width)):
                return -first
    return None


def count_pooled(flow: Flow, site: Site, key: Side, region: Region) -> int | None:
    """How many places of the stream become one query, all of them being asked; None where each is its own."""
    if not key.is_own or region.start is None:
        return None
    before, after = lay_last(flow, region.start), lay_last(flow, region.end)
    asking, asked = flow.output(site.scores).shape[-2:]
    if not 3 <= len(before) == len(after) or not prod(after[1:-1]) or not asking:
        return None
    times, rest = divmod(prod(before[1:-1]), prod(after[1:-1]))
    if times < 2 or rest or asked != times * asking:
        return None
    return times if is_pooled(flow, site, region) else None  # or one row asks alone


def count_gathered(flow: Flow, site: Site, key: Side, region: Region) -> int | None:
    """How many places of the stream become one key, by a convolution or a pool; None where each has its own.

    Rows that are beside those on both sides, as a class token, stay as they are (CvT).
    """
    square, places = flow.output(site.scores).shape, count_places(flow, site, region)
    if not key.is_own or places is None or len(square) != 4 or not square[-1] or places != square[0] * square[-2]:
        return None
    aside = count_aside(flow, site)
    times, rest = divmod(square[-2] - aside, square[-1] - aside) if square[-1] > aside else (0, 0)
    return times if times > 1 and not rest and is_pooled(flow, site, region) else None


def count_aside(flow: Flow, site: Site) -> int:
    """How many rows are put beside those that ask, and beside those that are asked: the same ones."""
    asking, asked = (
        {
            (maker, record.name.rpartition(".")[2], record.shape[-2])
            for node in {*way.nodes, way.origin}
            if node is not None and flow.op(node) in SIDE_BY_SIDE
            for record, maker in flow.given(node)
            if len(record.shape) == len(("batch", "row", "width"))
        }
        for way in (site.query, site.key)
    )
    return sum(count for _, _, count in asking & asked)


def count_pieces(flow: Flow, sites: Sequence[Site], region: Region) -> int | None:
    """Into how many pieces the places of a stream are cut of which each attends by itself; None if they are not.

    So it is where several images, or stretches of sound, lie end to end in one row (Qwen2.5-Omni).
    """
    squares = [flow.output(site.scores).shape for site in sites]
    stream = flow.output(region.end).shape
    if len(sites) < 2 or not stream or any(len(one) < 3 or one[-1] != one[-2] for one in squares):
        return None
    if len({one[:-2] for one in squares}) != 1 or len({site.query.projection for site in sites}) != 1:
        return None
    batch = squares[0][0] if len(squares[0]) == len(("batch", "head", "query", "key")) else 1
    return len(sites) if batch * sum(one[-1] for one in squares) == prod(stream[:-1]) else None


def count_coarse(flow: Flow, site: Site, region: Region) -> int | None:
    """How many places of the stream become one row before they ask, the stream being as long behind as before.

    What the rows find is spread over the places again (EfficientLoFTR). Not so where a few rows ask alone.
    """
    square, places = flow.output(site.scores).shape, count_places(flow, site, region)
    if places is None or len(square) != 4 or not square[-2]:
        return None
    times, rest = divmod(places, square[0] * square[-2])
    return times if times > 1 and not rest and is_pooled(flow, site, region) else None


def count_places(flow: Flow, site: Site, region: Region) -> int | None:
    """How many places the stream has in all sequences; None if it changes, or it is not known how wide each is."""
    if region.start is None:
        return None
    begun, stream = flow.output(region.start).shape, flow.output(region.end).shape
    axis = find_channels(flow, region.end)
    outputs = (node for node in projections_in(flow, region.inner) if node > site.weighted_sum)
    output = next(outputs, None) if site.output is None else site.output
    width = stream[axis] if axis is not None else 0 if output is None else width_out(flow, output)
    is_same = prod(begun) == prod(stream) or begun[1:] == stream[1:]  # of pairs, one half may be picked
    return prod(stream) // width if is_same and width and width in stream[1:] else None


def lay_last(flow: Flow, place: int) -> tuple[int, ...]:
    """The shape of a stream, the numbers of each place last: in a map they may stand before the places."""
    shape = flow.output(place).shape
    is_map = len(shape) == len(("batch", "channels", "height", "width")) and find_channels(flow, place) == 1
    return (shape[0], *shape[2:], shape[1]) if is_map else shape


def is_pooled(flow: Flow, site: Site, region: Region) -> bool:
    """Whether several places of a branch become one row on the way to the scores."""
    behind = flow.behind(site.scores, within=region.inner.__contains__)
    return any(flow.op(node).startswith(POOLING) for node in behind)
