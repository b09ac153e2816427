"""How many places ask at once, and how many are asked: windows, pieces of a packed row, pooled and gathered places."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from math import prod

from xray.ir.flow.attention_sites import Site, count_pairs, lies_in_columns
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operand_ways import carrying_tail
from xray.ir.flow.operation_kinds import GRIDS, JOINS, SIDE_BY_SIDE, TURNS
from xray.ir.flow.projections import data_input, is_projection
from xray.ir.flow.regrouping import MAP, MOVES, run_along_axes
from xray.ir.flow.softmax_axis import read_equation
from xray.ir.kinds import PADDINGS
from xray.ir.turns import swaps_last_two
from xray.story.branches.heads import has_numbers_first
from xray.story.branches.operands.sides import Side, read_sides
from xray.story.branches.unfolded import find_stretch
from xray.story.passages.channels import find_channels, keeps_axes, lay_last, reads_places
from xray.story.passages.pools import read_kernel
from xray.story.recognition.between import Region, is_linear, makes_rows, projections_in, width_out
from xray.story.recognition.chosen_rows import picks_best
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.values.value_shapes import number, read_slices
from xray.story.streams.shortcuts import find_any_norm

POOLING = ("max", "amax", "avg_pool", "adaptive_", "conv")
"""What makes one row of several: the names of such steps begin so."""
HEADS_APART = range(3, 5)
"""How many axes scores have: heads are one with the sequences, or an axis behind them."""
CONFIGURED = "config.sliding_window"
WINDOWS = ("sliding_window", CONFIGURED)
CHUNKS = ("attention_chunk_size", "config.attention_chunk_size")
MOST_BEHIND_MASK, MOST_MOVES = 80, 16
NO_WINDOW = frozenset({"full_attention", "global_attention"})
"""How a library's settings name a window, and kinds of layers that have none."""


def count_cut_window(flow: Flow, site: Site, query: Side, key: Side, region: Region, heads: int | None) -> int | None:
    """How many places a query sees where the places were cut into windows before they attend; None if they were not.

    Both sides of the square are then as long as a window, and shorter than the stream; or queries alone were pooled, in
    each window as many. Every place of the stream asks: images that were packed into one row are no windows. Nor are
    pieces of rows that scored best for each piece that asks (BiFormer): it need not be among them.
    """
    square = flow.output(site.scores).shape[-2:]
    stream = lay_last(flow, region.end)
    if not key.is_own or len(square) != 2 or len(stream) < 3 or may_lie_across(flow, site, region, heads):
        return None
    if chooses_rows(flow, key):
        return None
    if has_numbers_first(flow, site) and square[0] == flow.output(region.end).shape[-1]:
        return None  # places stand last in the stream too, and all of a sequence ask
    places = prod(stream[1:-1])
    asking, rows = prod(flow.output(site.scores).shape[:-1]), prod(stream[:-1]) * (heads or 1)
    if square[0] >= places or asking < rows or (asking == rows and places % square[0]):
        return None  # the last are windows of rows of two sequences
    if square[0] != square[1] and count_pooled(flow, site, key, region) != square[1] // square[0]:
        return None
    if heads is None and any(takes_some_rows(flow, node) for node in query.nodes):
        return None
    several = places // square[0] > 1 or flow.output(site.scores).shape[0] > stream[0]  # the places may be padded
    return square[1] if several and prod(query.end.shape[:-1]) % square[0] == 0 else None


def runs_along(flow: Flow, site: Site, region: Region, moves: Sequence[int]) -> bool:
    """Whether all that moves lay in a row looks at each other, and that is whole axes of a stream."""
    stream = flow.output(region.end).shape
    square = flow.output(site.scores).shape
    if not moves:
        return len(stream) > MAP - 1 and (*stream[:-2], stream[-2]) == (*square[: len(stream) - 2], *square[-2:-1])
    rows = flow.output(moves[0]).shape[-2:-1]
    return rows == square[-2:-1] == square[-1:] and run_along_axes(flow, moves)


def list_moves_before(flow: Flow, region: Region, streams: Mapping[int, int | None]) -> list[int]:
    """The moves, the last first, of the rows that a branch's first linear layer reads: before its norm and sums too.

    `streams` are what was there before each sum: the rows stay where they are (MobileViT).
    """
    moves: list[int] = []
    first = next((node for node in sorted(region.inner) if is_linear(flow, node)), None)
    here = None if first is None else flow.makers[first][0]
    while here is not None and len(moves) < MOST_MOVES:
        if flow.op(here) in MOVES and flow.steps[here].inputs:
            moves.append(here)
            here = flow.makers[here][0]
        elif here in streams:
            stream = flow.carried_from(streams[here])
            here = next((one for one in flow.makers[here] if flow.carried_from(one) == stream), None)
        else:
            norm = find_any_norm(flow, here)
            here = None if norm is None else norm.origin
    return moves


def takes_some_rows(flow: Flow, node: int) -> bool:
    """Whether a step takes some rows of what it is given, and leaves the others (DALL-E's words before its image)."""
    if flow.op(node) in PADDINGS or not keeps_axes(flow, node):
        return False
    before, after = flow.steps[node].inputs[0].shape, flow.output(node).shape
    return before[-1:] == after[-1:] and 0 < prod(after) < prod(before)


def may_lie_across(flow: Flow, site: Site, region: Region, heads: int | None) -> bool:
    """Whether each place of a stream may ask all others, where these may stand before the sequences: none are named."""
    stream, scores = flow.output(region.end), flow.output(site.scores).shape
    is_named = "batch" in stream.axes or len(stream.shape) != len(("places", "batch", "width"))
    return not is_named and scores[-2] == stream.shape[0] and prod(scores[:-2]) == stream.shape[1] * (heads or 1)


def read_set_window(flow: Flow, site: Site, *, is_joint: bool = False) -> int | None:
    """The window that the settings of an attention's own block name, if a row has fewer keys than that.

    Where it has more, its mask shows a window, or there is none; where it has as many, a cache may keep no others. A
    block may know of one that its layer does not use: one that looks at keys of another stream too has it where its
    mask is worked out with that number (T5Gemma 2, not DiffusionGemma). One more than the configuration of a block
    around it names is how a kernel is told of that one (UltraBERT).
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
    if type(window) is not int or not window > seen > 0:
        return None
    return None if is_joint and not is_masked_with(flow, site, window) else window


def is_masked_with(flow: Flow, site: Site, window: int) -> bool:
    """Whether a number is counted with where the mask of an attention is worked out."""
    masks = [part.operand.maker for part in read_scored(flow, site.scored) if part.kind == "mask" and part.operand]
    return any(number(flow.steps[node]) == window for node in flow.behind(*masks, most=MOST_BEHIND_MASK))


def count_kept_last(flow: Flow, site: Site) -> int | None:
    """Of how many places a cache keeps keys and values, the last ones, where it leaves off those before; None else.

    So it is told what no row of this pass may be long enough to show: a later place looks at no more of those before.
    """
    keys, values = (list_put_aside(flow, way.nodes) for way in (site.key, site.value))
    return next((count for count in keys if count in values), None)


def read_chunk_size(flow: Flow, site: Site, kept: int | None) -> int | None:
    """Of how many places the pieces are that settings around an attention name, if a cache keeps one fewer of them."""
    settings = (flow.steps[one].settings for one in flow.parents(site.scores))
    sizes = [one[name] for one in settings for name in CHUNKS if name in one]
    return kept + 1 if kept is not None and kept + 1 in sizes and flow.output(site.scores).shape[-1] <= kept else None


def list_put_aside(flow: Flow, nodes: Collection[int]) -> list[int]:
    """How many of the last places are taken alone of what each join among some steps puts together, for later passes.

    What is read again in this pass is not put aside.
    """
    joins = [node for node in nodes if flow.op(node) in JOINS]
    cuts = [(join, one) for join in joins for one in flow.readers.get(join, ()) if not flow.readers.get(one)]
    found = (count_last_taken(flow, one, len(flow.output(join).shape)) for join, one in cuts)
    return [count for count in found if count is not None]


def count_last_taken(flow: Flow, node: int, rank: int) -> int | None:
    """How many of the last places a step takes of rows, all numbers of each; None for any other step."""
    index = read_slices(flow.steps[node], rank) if flow.op(node) == "index" else None
    if index is None or len(index) < len(("batch", "places", "width")):
        return None
    *others, places, width = index
    first: int | None = places.start
    is_last = first is not None and first < 0 and (places.stop, places.step) == (None, None)
    is_whole = all(one == slice(None) for one in (*others, width))
    return -first if first is not None and is_last and is_whole else None


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


def has_longer_keys(flow: Flow, site: Site, sides: Sequence[Side], region: Region) -> bool:
    """Whether keys and values are of the rows that a stream had before it became the shorter one that asks (Funnel)."""
    query, *others = sides
    stream, scores = flow.output(region.end).shape, flow.output(site.scores).shape
    if not query.is_own or region.start is None or any(one.is_own or len(one.projections) != 1 for one in others):
        return False
    read = {flow.carried_from(flow.makers[one.projections[0]][0]) for one in others}
    (rows, *more) = read
    if rows is None or more or len(scores) < 2 or len(stream) != len(("batch", "row", "width")):
        return False
    before = flow.output(rows).shape
    are_fewer = before[::2] == stream[::2] and (stream[1], before[1]) == scores[-2:] and stream[1] < before[1]
    return are_fewer and rows in flow.behind(region.start, within=rows.__le__)


def count_gathered(flow: Flow, sites: Sequence[Site], region: Region) -> int | None:
    """How many places of the stream become one key, by a convolution or a pool; None where each has its own.

    Nor where attentions beside each other have other counts (Shunted). Rows that are beside those on both sides, as a
    class token, stay as they are (CvT).
    """
    counts = {count_gathered_at(flow, one, read_sides(flow, one, region)[1], region) for one in sites}
    return counts.pop() if len(counts) == 1 else None


def count_gathered_at(flow: Flow, site: Site, key: Side, region: Region) -> int | None:
    """How many places become one key of one attention."""
    square, places = flow.output(site.scores).shape, count_places(flow, site, region)
    if not key.is_own or places is None or len(square) not in HEADS_APART or not square[-1]:
        return None
    sequences = square[0] if len(square) == max(HEADS_APART) else flow.output(region.end).shape[0]
    if not sequences or places != sequences * square[-2] or square[0] % sequences:
        return None
    aside = count_aside(flow, site)
    times, rest = divmod(square[-2] - aside, square[-1] - aside) if square[-1] > aside else (0, 0)
    return times if times > 1 and not rest and is_pooled(flow, site, region) else None


def read_mixing(flow: Flow, node: int) -> tuple[int, int] | None:
    """How many rows a step mixes by learned numbers, and to how many; None where it works on the numbers of each.

    Proven where a linear layer or a norm made the rows: what it does not sum over are the numbers that that gave each.
    """
    equation, number = read_equation(flow.steps[node]), data_input(flow, node)
    if equation is None or number is None or not is_projection(flow, node):
        return None
    before, after, made = equation[number], equation[2], flow.makers[node][number]
    begun, new = flow.carried_from(made), [letter for letter in after if letter not in before]
    is_turned = any(swaps_last_two(flow.steps[one]) for one in list_turns(flow, made))
    if not makes_rows(flow, begun) or is_turned or len(new) != 1 or len(before) < 2:
        return None
    given, shape = flow.steps[node].inputs[number].shape, flow.output(node).shape
    is_mixed = before[-2] not in after and before[-1] in after and len(after) == len(shape)
    return (given[-2], shape[after.index(new[0])]) if is_mixed else None


def list_turns(flow: Flow, made: int | None) -> list[int]:
    """The turns among the moves that end at a step."""
    return [node for node in carrying_tail(flow, made) if flow.op(node) in TURNS]


def count_fewer_keys(flow: Flow, sites: Sequence[Site], key: Side) -> int | None:
    """How many keys there are, each made of several of the more places that ask; None where that is not proven.

    A convolution, a pool or learned weights over places make these fewer on the way to the scores (Twins).
    """
    (asking, asked), *others = {count_pairs(flow, one) for one in sites}
    if others or not key.is_own or not 0 < asked < asking or lies_in_columns(flow, sites[0]):
        return None
    return asked if any(makes_fewer(flow, node, asking, asked) for node in key.nodes) else None


def makes_fewer(flow: Flow, node: int, before: int, after: int) -> bool:
    """Whether a step mixes rows, so that so many become so many fewer, and leaves all other axes as they are."""
    mixes = flow.op(node).startswith(POOLING) or is_projection(flow, node)
    number = data_input(flow, node) if mixes else None
    read, made = (() if number is None else flow.steps[node].inputs[number].shape), flow.output(node).shape
    changed = [pair for pair in zip(read, made, strict=False) if len(set(pair)) > 1]
    sizes = tuple(prod(one) for one in zip(*changed, strict=True))
    return len(read) == len(made) and sizes == (before, after)


def leaves_out_places(flow: Flow, site: Site, query: Side, key: Side, region: Region) -> bool:
    """Whether it is not proven that a place looks at all others: all of a stream ask, or as many as are asked do.

    More may be asked than ask where all places of a sequence do, as learned keys are beside theirs; not where some of
    the rows that are asked are taken to ask (TabPFN's class rows).
    """
    asking, asked = count_pairs(flow, site)
    if not key.is_own or lies_in_columns(flow, site):
        return False
    named, stream = flow.output(region.end), lay_last(flow, region.end)
    first = 1 if named.axes[:1] == ("batch",) else 0
    pairs = combinations(range(first, len(stream)), 2)
    is_of_all = asking in {prod(stream[1:-1]), prod(stream[:-1]), *stream[:1]}
    is_along = asking == asked and asking in {prod(stream[one:other]) for one, other in pairs}
    taken = (query.nodes & region.inner) - key.nodes
    is_taken = asking < asked and any(takes_some_rows(flow, node) for node in taken)
    return asked < asking or is_taken or not (is_of_all or is_along)


def chooses_rows(flow: Flow, side: Side) -> bool:
    """Whether of all queries some alone ask, since they scored best (Informer), or of keys some are asked.

    So it is where keys are of what is picked between places (deformable attention).
    """
    if any(flow.op(node) in GRIDS for node in side.nodes):
        return True
    given = ((flow.steps[node].inputs[0].shape, node) for node in side.nodes if picks_best(flow, node))
    return any(prod(flow.output(node).shape) < prod(shape) for shape, node in given)


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

    So it is where several images, or stretches of sound, lie end to end in one row (Qwen2.5-Omni). Proven where each
    attention takes the next stretch of the same three tensors, until nothing is left, and the same one of all three.
    """
    pairs = [(site, *count_pairs(flow, site)) for site in sites]
    ways = [
        [find_stretch(flow, site.query, asking, region), *(find_stretch(flow, one, asked, region) for one in kept)]
        for site, asking, asked in pairs
        for kept in [(site.key, site.value)]
    ]
    found = [[one for one in way if one is not None] for way in ways]
    if len(sites) < 2 or any(len({one[1:] for one in own}) != 1 or len(own) != len(ways[0]) for own in found):
        return None
    spans = [own[0][1:] for own in found]
    begins, ends = [first for first, _, _ in spans], [last for _, last, _ in spans]
    is_one = len({tuple(one[0] for one in own) for own in found}) == 1
    return len(sites) if is_one and begins == [0, *ends[:-1]] and ends[-1] == spans[-1][2] else None


def count_coarse(flow: Flow, site: Site, region: Region, heads: int | None) -> int | None:
    """How many places of the stream become one row before they ask, the stream being as long behind as before.

    What the rows find is spread over the places again (EfficientLoFTR). Not so where a few rows ask alone, or where the
    scores have no `heads` behind the batch: pieces of a sequence may stand there (ActionFormer).
    """
    square, places = flow.output(site.scores).shape, count_places(flow, site, region)
    if places is None or len(square) != 4 or not (square[0] and square[-2]) or square[-2] != square[-1]:
        return None
    if square[1] != heads:
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


def is_pooled(flow: Flow, site: Site, region: Region) -> bool:
    """Whether several places of a branch become one row on the way to the scores: not where one of them is picked."""
    behind = flow.behind(site.scores, within=region.inner.__contains__)
    pools = (node for node in behind if flow.op(node).startswith(POOLING) and set(read_kernel(flow, node)) != {1})
    return any(not reads_places(flow, node) for node in pools)
