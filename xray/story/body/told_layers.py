"""What layers are told once they are known: windows that no attention proves by itself, rows that go another way.

Others of the stream of such windows see more, or the stream was cut before them. Of a layer in which some sublayers
work on a part of the rows alone the others go a way of their own (InstructBLIP).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from math import prod
from typing import NamedTuple

from xray.ir.flow.attention_sites import Site
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING, DROPOUTS, FINDINGS, NORMS, SHAPING, SIDE_BY_SIDE, SUMS
from xray.ir.flow.regrouping import MAP, are_spread, count_laid_apart, follow, list_moves, mix_sequences
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Branch, FeedForward, StreamMixing, Unknown
from xray.story.anatomy.tree import Group
from xray.story.body.stages import Branching, Staging, change_branches, list_paths, read_branch
from xray.story.body.widths import end_of, learned_paths
from xray.story.branches.convolutions import describe_convolution
from xray.story.branches.lengths import list_moves_before, runs_along
from xray.story.cutting.patterns import Layer
from xray.story.facts.mask_names import name_mask
from xray.story.passages.bridges import list_between
from xray.story.passages.channels import lay_last
from xray.story.recognition.between import Region, is_linear, list_reading_data, strip_plain
from xray.story.recognition.scored_parts import read_scored
from xray.story.streams.rejoined_rows import RejoinedRows, find_added, find_rejoined, find_taken, takes_rows_alone

WAY = CARRYING | DROPOUTS | NORMS | SIDE_BY_SIDE | SUMS
"""What may stand between the places of an image and the stream that they become."""
MOST_TURNS = 8
"""More runs of stacks than that are not told apart."""
IMAGE_OR_SIGNAL = range(3, 5)
"""How many axes has what one sequence is made of: batch and channels, and one or two of places."""


def tell_windows(flow: Flow, stagings: Sequence[Staging]) -> list[Staging]:
    """Stages with the windows of attentions that see fewer places at once than others of the same stream do.

    Rows of several images are cut up for each image, so that a part by itself tells no window (Qwen2.5-VL). Windows may
    be sequences of their own, as they are between attentions to whole images (LW-DETR).
    """
    squares = {
        id(one): square for staging in stagings for one in staging.branches if (square := read_square(flow, one))
    }

    def tell(one: Branching) -> Branch:
        size, rows = squares.get(id(one), (0, ()))
        whole = max((other for other, stream in squares.values() if stream == rows), default=0)
        if size == whole or not isinstance(one.branch, Attention):
            return one.branch
        return replace(one.branch, window=size, rolled=False)

    return [change_branches(staging, tell) for staging in stagings]


def tell_by_layer(flow: Flow, layers: Sequence[Layer]) -> list[Layer]:
    """Layers with what their sublayers are by what stands beside them, and by those of other layers."""
    return [tell_convolved(flow, layer) for layer in tell_spread(flow, layers)]


def tell_convolved(flow: Flow, layer: Layer) -> Layer:
    """A layer that mixes places by a convolution between linear layers alone: that is what they serve (CAFormer).

    Behind an attention they are a feed-forward that a convolution helps (SegFormer).
    """
    if not all(isinstance(one.branch, FeedForward) for staging in layer for one in staging.branches):
        return layer

    def tell(one: Branching) -> Branch:
        convolved = getattr(one.branch, "kernel", None) and describe_convolution(flow, one.region.inner)
        return convolved or one.branch

    return tuple(change_branches(staging, tell) for staging in layer)


def tell_spread(flow: Flow, layers: Sequence[Layer]) -> list[Layer]:
    """Layers with the attentions of windows whose places lie spread over all (MaxViT); several sequences are none.

    Nor are whole axes of a stream that has others too: there each place sees all of its own (Toto's series and times).
    """
    streams = {joint.add: joint.stream for layer in layers for staging in layer for joint in staging.joints}

    def tell(one: Branching) -> Branch:
        branch, site = one.branch, one.site
        if site is None or not isinstance(branch, Attention) or not branch.window or branch.source != "self":
            return branch
        moves = list_moves_before(flow, one.region, streams)
        if mix_sequences(flow, moves):
            return replace(branch, window=None, rolled=None, partial=True)
        if branch.rolled is False and runs_along(flow, site, one.region, moves):
            size = branch.window if branch.causal is False and not joins_mask(flow, site) else None
            partial = branch.partial or branch.causal is False or None
            return replace(branch, window=None, rolled=None, partial=partial, together=size)
        return replace(branch, spread=True) if are_spread(flow, moves) else branch

    return [tuple(change_branches(staging, tell) for staging in layer) for layer in layers]


def fill_windows(flow: Flow, layers: Sequence[Layer]) -> list[Layer]:
    """Layers with the windows of attentions whose rows are made as many as another one has in each (Granite Speech 5).

    So fewer rows than have room in a window are one, as more are several. Where there are no more rows than in a window
    from the first on, it is told how many these are (MaxViT), unless windows are masks: others see on (Gemma 2).
    """
    told = [one for layer in layers for staging in layer for one in staging.branches]
    known = {one.branch.window for one in told if isinstance(one.branch, Attention) and one.branch.window}
    cut = known.intersection(flow.output(one.site.scores).shape[-1] for one in told if one.site is not None)

    def tell(one: Branching) -> Branch:
        branch, site = one.branch, one.site
        if site is None or not isinstance(branch, Attention) or branch.source != "self" or branch.window is not None:
            return branch
        square, stream = flow.output(site.scores).shape, flow.output(one.region.end).shape
        is_filled = prod(stream[:-1]) < square[0] * square[-1] and square[-1] == square[-2]
        if is_filled and square[-1] in known:
            return replace(branch, window=square[-1], rolled=False)
        is_whole = square[-1] == square[-2] == prod(lay_last(flow, one.region.end)[1:-1]) and not branch.partial
        return replace(branch, all_places=square[-1]) if is_whole and square[-1] <= max(cut, default=0) else branch

    return [tuple(change_branches(staging, tell) for staging in layer) for layer in layers]


def read_square(flow: Flow, found: Branching) -> tuple[int, tuple[int, ...]] | None:
    """How many places an attention puts side by side, and the shape of the stream; None where it asks other ones.

    The numbers of each place stand last in that shape, be they first in a map.
    """
    branch, site = found.branch, found.site
    if site is None or not isinstance(branch, Attention) or branch.source != "self" or branch.window is not None:
        return None
    square, stream = flow.output(site.scores).shape, lay_last(flow, found.region.end)
    sequences = count_sequences(branch, square)
    if not sequences or square[-1] != square[-2] or branch.causal is not False:
        return None
    is_part = sequences == 1 and prod(stream[:-1]) == stream[-2]
    return (square[-1], stream) if is_part or sequences * square[-1] == prod(stream[:-1]) else None


def count_sequences(branch: Attention, square: Sequence[int]) -> int:
    """How many sequences scores are of, their heads on an axis of their own or in the first one (RVT); 0 if unknown."""
    if len(square) == len(("batch", "heads", "row", "row")):
        return square[0]
    heads = branch.heads if len(square) == len(("batch*heads", "row", "row")) else None
    return square[0] // heads if heads and not square[0] % heads else 0


def tell_cut_stream(
    flow: Flow, reads: str | None, stagings: Sequence[Staging], end: int, before: Sequence[Staging] = ()
) -> list[Staging]:
    """Stages with windows where places were cut before the first layer, each window a sequence of its own (RF-DETR).

    Where the places of one image became several sequences in another way, it sees those of its own (MobileViT), unless
    they did so within a sublayer of maps: windows, or what not (VRT). How many images there are what stands `before`
    them in the tower tells, too (Latte), or the maps that a sublayer adds to (diffusers' TransformerTemporalModel).
    """
    start = find_beginning(flow, stagings)
    batch, window = (None, ()) if start is None else read_cut(flow, reads, stagings, range(start, end), before)
    ended = {one.region.end: flow.output(one.add).shape for staging in stagings for one in staging.joints}

    def tell(one: Branching, stream: tuple[int, ...]) -> Branch:
        size, _ = read_square(flow, one) or (0, ())
        many = batch or (stream[0] if len(stream) >= MAP else None)
        if not isinstance(one.branch, Attention) or not size or one.branch.pieces or not many or one.site is None:
            return one.branch
        sequences = count_sequences(one.branch, flow.output(one.site.scores).shape)
        if sequences <= many or (batch and sequences % batch):
            return one.branch
        if (size,) == window:
            return replace(one.branch, window=size, rolled=False)
        is_map = cuts_map(flow, one.region, ended.get(one.region.end, ()), sequences)
        is_cut = is_map or one.branch.partial or joins_mask(flow, one.site)
        return replace(one.branch, partial=True, together=None if is_cut else size)

    sums = [flow.output(staging.joints[-1].add).shape for staging in stagings]
    return [change_branches(one, partial(tell, stream=made)) for one, made in zip(stagings, sums, strict=True)]


def read_cut(
    flow: Flow, reads: str | None, stagings: Sequence[Staging], within: range, before: Sequence[Staging]
) -> tuple[int | None, tuple[int, ...]]:
    """How many images are before some stages, the fewest that is known, and into which windows they were cut."""
    start = within.start
    way = list(walk_back(flow, start))
    window = flow.output(start).shape[-2:-1] if is_cut(flow, way) else ()
    first = find_beginning(flow, before)
    ways = [way] if first is None else [way, [*walk_back(flow, first)]]
    known = min((many for one in ways if (many := count_batch(flow, one, reads))), default=None)
    batch, cut = count_laid_apart(flow, within, known), read_blocks(flow, way)
    if cut is not None:
        batch, window = flow.output(start).shape[0] // cut.blocks, (cut.places,) if cut.are_whole else ()
    return batch or count_merged(flow, stagings), window


def cuts_map(flow: Flow, region: Region, end: Sequence[int], sequences: int) -> bool:
    """Whether a map becomes sequences within a sublayer, none at its `end`; places may stand first (DPTNet)."""
    began = () if region.start is None else flow.output(region.start).shape
    axes = end[:-1] if len(end) == len(("row", "sequence", "width")) else end[:1]
    return len(began) >= MAP and sequences not in (began[0], *axes)


def count_merged(flow: Flow, stagings: Sequence[Staging]) -> int | None:
    """How few sequences some attention has: others have its rows in more (SAINT), or rows beside (FasterViT)."""
    sites = (one.site for staging in stagings for one in staging.branches if read_square(flow, one))
    return min((flow.output(site.scores).shape[0] for site in sites if site), default=None)


def joins_mask(flow: Flow, site: Site) -> bool:
    """Whether something joins the scores that may hide some places, as what keeps shifted ones apart (SwinIR)."""
    hiding = [part.operand for part in read_scored(flow, site.scored) if part.kind in ("mask", "mixed_mask", "kept")]
    return any(one is None or one.record.mask is None or name_mask(one.record.mask) != "none" for one in hiding)


def find_beginning(flow: Flow, stagings: Sequence[Staging]) -> int | None:
    """The step behind which the first sum's stream begins, cut and laid out as the sum reads it."""
    if not stagings:
        return None
    first = stagings[0].joints[0]
    makers = (maker for maker in flow.makers[first.add] if maker is not None)
    return next((maker for maker in makers if strip_plain(flow, maker) == first.stream), first.stream)


def walk_back(flow: Flow, start: int) -> Iterator[int]:
    """The steps on the way to a stream, the last first, as far as what comes from outside: its largest rows alone.

    Learned rows are none of these, be there more of them (CoTracker's virtual tracks).
    """
    data = list_reading_data(flow)
    here: int | None = start
    while here is not None:
        yield here
        given = [(record.shape, maker) for record, maker in flow.given(here) if maker is not None]
        here = max(given, key=lambda one: (one[1] in data, prod(one[0])))[1] if given else None


def count_batch(flow: Flow, way: Sequence[int], reads: str | None) -> int | None:
    """How many images or signals there are before their places become sequences; None where that is not known.

    Tiles of an image are images that the model was given (LLaVA), pictures of a video are not.
    """
    root = next((place for place in way if flow.op(place) not in WAY), None)
    if root is None or not (is_linear(flow, root) or flow.op(root) in FINDINGS):
        return None
    batch, first = flow.output(root).shape[0], way[-1]
    outer = (record for record, maker in flow.given(first) if maker is None and record.role != "parameter")
    given = max((record.shape for record in outer), key=prod, default=())
    is_whole = len(given) in IMAGE_OR_SIGNAL or (reads == "video" and len(given) == max(IMAGE_OR_SIGNAL) + 1)
    return min(batch, given[0]) if is_whole else batch


class Blocks(NamedTuple):
    """Into how many blocks moves cut each map, how many places each has, and whether these lie side by side in it."""

    blocks: int
    places: int
    are_whole: bool


def read_blocks(flow: Flow, way: Sequence[int]) -> Blocks | None:
    """The blocks of maps, channels first, that become sequences on the way to a stream; None where none do (NesT)."""
    near = takewhile(lambda place: flow.op(place) in WAY, way)
    node = next((place for place in near if flow.op(place) in SHAPING), None)
    before, after = ([], []) if node is None else follow(flow, list_moves(flow, node))
    if len(before) != MAP or len(after) != MAP or before[1] != after[1]:
        return None
    cut = [axis for axis in before[2:] if len(axis) > 1]
    inner = [piece for axis in after[2:] for piece in axis]
    outer = [piece for axis in cut for piece in axis if piece not in inner]
    if not outer or after[0] != [*before[0], *outer]:
        return None
    are_whole = all(axis[0] in outer and len(axis) == len(("block", "place")) for axis in cut)
    return Blocks(prod(one.size for one in outer), prod(one.size for one in inner), are_whole)


def is_cut(flow: Flow, way: Sequence[int]) -> bool:
    """Whether an axis of places is cut in two on a way, and one of the two then laid into one with the batch."""
    merged = False
    for place in way:
        if flow.op(place) not in WAY or not flow.steps[place].inputs:
            return False
        before, after = flow.steps[place].inputs[0].shape, flow.output(place).shape
        if flow.op(place) not in SHAPING or not before or prod(before) != prod(after) or before[-1:] != after[-1:]:
            continue
        axes = (prod(before[:count]) for count in range(2, len(before) - 1))
        merged = merged or (len(before) > len(after) and before[0] < after[0] in axes)
        if merged and before[0] == after[0] and len(after) > len(before) > 2 and {*after} != {*before, 1}:
            return True
    return False


def tell_rejoined(flow: Flow, layer: Layer, sites: Sequence[Site], towers: Mapping[int, str]) -> Layer:
    """A layer, its stages told where rows are taken and where they are put end to end again; as it is where none are.

    Where the other rows look at anything, they are a tower of their own.
    """
    for place, staging in enumerate(layer):
        cut = staging.joints[0].stream
        if cut is None or not takes_rows_alone(flow, cut) or reads_whole(flow, staging, cut):
            continue
        rows = find_rejoined(flow, end_of(layer), cut)
        if rows is None or any(site.softmax in rows.nodes for site in sites):
            continue
        told = [*layer[:place], *map(tell_apart, layer[place:])]
        told[place] = replace(told[place], taken=cut)
        last = told[-1]
        stage = replace(last.stage, others=read_others(flow, rows, sites, towers))
        told[-1] = replace(last, stage=stage, rejoined=rows)
        return tuple(told)
    return tell_taken(flow, layer)


def tell_apart(staging: Staging) -> Staging:
    """A stage that works on rows which were taken alone: they do not look at the others, which look at none."""

    def tell(one: Branching) -> Branch:
        branch = one.branch
        if not isinstance(branch, Attention) or branch.source != "self" or branch.causal is not False:
            return branch
        return branch if branch.window else replace(branch, partial=True)

    return change_branches(staging, tell)


def read_turns(flow: Flow, layers: Sequence[Layer]) -> tuple[int, ...]:
    """The layers with which stacks begin that run several times, where rows that were kept are added before each (HRM).

    Each stack is of several layers, all of which run again with the very same weights; none where one of them does not.
    """
    between = list_between(flow, layers)
    begins = tuple(number for number, before, _, region in between if adds_kept(flow, before, region))
    cuts = [0, *begins, len(layers)]
    runs = [tuple(learned_paths(flow, one) for one in layers[first:end]) for first, end in pairwise(cuts)]
    return begins if len(set(runs)) < len(runs) <= MOST_TURNS and all(len(one) > 1 and all(one) for one in runs) else ()


def tell_again(flow: Flow, layers: Sequence[Layer], groups: Sequence[Group]) -> list[Group]:
    """Groups of layers, of those that are a stack that ran before which one that was."""
    first: dict[tuple[frozenset[str], ...], tuple[int, ...]] = {}
    told: list[Group] = []
    for group in groups:
        held = tuple(learned_paths(flow, layers[number]) for number in group.layers)
        before = first.setdefault(held, group.layers)
        told.append(group if before == group.layers else replace(group, weights_of=before))
    return told


def adds_kept(flow: Flow, before: int, region: Region) -> bool:
    """Whether a step between layers adds rows of data that were there before, as many, to what became of the stream."""
    shape = flow.output(before).shape
    data = list_reading_data(flow)
    for node in region.inner:
        makers = flow.makers[node] if flow.op(node) in SUMS else []
        own = [maker in region.inner or maker == before for maker in makers]
        are_rows = [record.shape for record in flow.steps[node].inputs] == [shape, shape]
        if are_rows and own.count(True) == 1 and len(own) == 2 and makers[own.index(False)] in data:
            return True
    return False


def tell_taken(flow: Flow, layer: Layer) -> Layer:
    """A layer whose first sums are of some rows alone, the others put beside these behind the last of them as they are.

    So a class row goes by an attention of the same place at all times (TimeSformer).
    """
    for place, staging in enumerate(layer):
        cut = find_taken(flow, staging.joints[0]) if len(staging.joints) == 1 else None
        cut = None if cut is None or (place == len(layer) - 1 and takes_rows_alone(flow, cut)) else cut
        cut = None if cut is None or (cut == staging.joints[0].stream and reads_whole(flow, staging, cut)) else cut
        rows = None if cut is None else find_rejoined(flow, staging.joints[0].add, cut)
        if rows is not None and rows.way is None and staging.taken is None and staging.rejoined is None:
            own = tell_apart(staging)
            told = replace(own, stage=replace(own.stage, others=()), taken=cut, rejoined=rows)
            layer = (*layer[:place], told, *layer[place + 1 :])
    return layer


def reads_whole(flow: Flow, staging: Staging, cut: int) -> bool:
    """Whether a stage reads beside the rows that it works on all those that they were taken out of (VOLO)."""
    own = (node for joint in staging.joints for node in joint.region.inner | joint.region.beside)
    return any(flow.makers[cut][0] in flow.makers[node] for node in own)


def read_others(flow: Flow, rows: RejoinedRows, sites: Sequence[Site], towers: Mapping[int, str]) -> tuple[Branch, ...]:
    """What the other rows go through; nothing where they go by as they are."""
    if rows.way is None:
        return ()
    added = find_added(flow, rows)
    return (
        Unknown(list_paths(flow, rows.way.inner)) if added is None else read_branch(flow, added, sites, towers).branch,
    )


def count_mixed(stagings: Sequence[Staging]) -> int | None:
    """How many streams side by side are mixed by stages (AltUp); None where none are."""
    counts = {one.streams for staging in stagings for one in staging.stage.branches if isinstance(one, StreamMixing)}
    return counts.pop() if len(counts) == 1 else None
