"""What a network reads where no words are looked up: an image, a film, sound, noise, or rows of numbers."""

import re
from collections.abc import Collection
from math import prod

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import (
    CASTING,
    CHANCE,
    FINDINGS,
    LOOKUPS,
    ONES,
    PLACING,
    SIDE_BY_SIDE,
    WRITES,
    ZEROS,
)
from xray.ir.flow.regrouping import LAYING, MAP, find_patches
from xray.ir.flow.remembering import once
from xray.ir.kinds import PADDINGS
from xray.ir.records import TensorRecord
from xray.story.anatomy.tree import Reads
from xray.story.branches.scored.visible import FILLED
from xray.story.entrance.tables import are_ids, looks_up_counted
from xray.story.passages.added_places import is_given
from xray.story.passages.pools import is_deep, lays_neighbours
from xray.story.recognition.between import is_linear, list_reading_data, read_sizes
from xray.story.recognition.chosen_rows import is_drawn
from xray.story.recognition.scored_parts import is_nothing

SOUND = frozenset({"mels", "frames", "ticks", "samples"})
PICTURED = frozenset({"height", "width"})
SOUNDING = re.compile(r"audio|sound|(^|_)mels?(_|$)|spec(_|$)|spectr|wav|speech|input_(features|values)")
"""What the name of an argument holds by which sound comes in."""
PICTURES = "pixel_values.*|pixels?|images?|imgs?|pictures?|photos?|patches|rgbs?"
PICTURED_LAST = re.compile(rf"(.*[_.])?({PICTURES})(_(left|right|center|front|rear))?_?\d*")
"""The name of an argument by which pictures come in: they are what it says last."""
UNTOLD = "[a-z]{0,2}|arg|inp|inputs?|input_tensor|tensor|data|samples?|source|target|template|search|left|right|given"
SERIES = "signal|series|mix|mixture"
NEUTRAL = re.compile(rf"(.*[_.])?({UNTOLD}|{SERIES})_?\d*")
"""The name of an argument that says nothing of what comes in."""
COLOURS = 3
FILMING = ("video", "clip", "frames")
"""What the name of an argument holds by which films come in."""
CODED = ("latent", "hidden", "embed", "feats", "mask")
"""What the name of an argument holds that takes what a model has made of something, or what hides some of it."""
OWN = "THE MODEL'S OWN NUMBERS"
MOST_CHANNELS = 2
"""So many channels a signal has at most: left and right."""
MOST_BEHIND = 12


def before_pads(flow: Flow, reader: int, record: TensorRecord) -> TensorRecord:
    """What a convolution reads, as it was before numbers were put around it (ViNT's pictures)."""
    before = (flow.before_moves(one, maker, PADDINGS)[0] for one, maker in flow.given(reader) if one is record)
    return next(before, record) if flow.op(reader) in FINDINGS else record


def reads_vectors(flow: Flow, node: int) -> bool:
    """Whether a step works on rows of numbers that come from outside, and of which the model holds none inside."""
    return any(
        maker is None and record.role == "activation" and len(record.shape) >= 3 and record.is_float
        for record, maker in [*flow.taken(node)][: 1 if flow.op(node) in CASTING else None]
        if not is_held_inside(flow, record, node)
    )


def name_input(flow: Flow, finders: Collection[int], nodes: Collection[int], stops: Collection[int]) -> Reads | None:
    """What is read where no words are: by its axes, or by how many it has; rows of numbers else."""
    if finders:
        source = source_of(flow, min(finders), stops)
        if source is None:
            return "noise" if is_drawn(flow, flow.makers[min(finders)][0]) else None
        if are_ids(flow, source, min(finders)):
            return "ids"
        read = flow.steps[min(finders)].inputs[0].shape  # patches may come as flat rows, and are laid out just before
        axes = len(read) if len(source.shape) == 2 and len(read) >= 4 and read[1] > 1 else len(source.shape)
        if is_video(source):
            return "video"
        if axes == len(source.shape) > len(("batch", "channels", "height", "width")) and is_deep(flow, min(finders)):
            return None  # a film, or a body in space (Wan)
        if axes < MAP == len(read) and read[1] > 1:
            return None  # maps of several channels, laid out of rows of numbers (Decision Transformer's frames)
        name = name_argument(flow, source)
        if axes >= MAP and not is_sound(source, name):
            # several sets of points, say, are no maps, nor what no neighbours are read of along both axes
            is_map = len(read) >= MAP and min(read_sizes(flow, min(finders), "kernel_size")[-2:], default=1) > 1
            return name_picture(source, name, read[1]) if is_map or is_named_picture(name) else None
        if axes >= MAP or is_sound(source, name):
            return "audio"
        return "vectors" if source.shape[1] > MOST_CHANNELS and len(source.shape) > len(("batch", "row")) else None
    linear = [node for node in sorted(nodes) if is_linear(flow, node)]
    sources = [source for node in linear if (source := source_of(flow, node, stops)) is not None]
    if any(flow.op(node) == "one_hot" for node in flow.behind(*linear)):
        sources = [source for source in sources if source.is_float]
    if not sources and any(is_drawn(flow, flow.carried_from(flow.makers[node][0])) for node in linear):
        return "noise"
    if sources and set(sources[0].axes) >= PICTURED:  # cut into patches by moves alone (RADIO)
        return "video" if is_video(sources[0]) else "image"
    if sources and is_named_picture(name_argument(flow, sources[0])):  # a list of patches
        return "image"
    if laid_out := name_laid_out(flow, nodes, stops):
        return laid_out
    if sources and SOUND & set(sources[0].axes):
        return "audio"
    reads = any(reads_vectors(flow, node) for node in nodes)
    follows = any(maker in stops for node in nodes for maker in flow.makers[node])
    looks = any(flow.op(node) in LOOKUPS and not looks_up_counted(flow, node) for node in nodes)
    are_rows = any(len(one.shape) > len(("batch", "width")) for one in sources) or any(
        flow.steps[node].inputs[0].shape[-1:] == one.shape[-1:] for node in linear for one in sources
    )
    return "vectors" if reads or (not follows and not looks and are_rows) else None


def name_laid_out(flow: Flow, nodes: Collection[int], stops: Collection[int]) -> Reads | None:
    """What comes in that moves cut into patches (ViTs whose patches are laid out in rows), or lay side by side (PiT).

    With a height and a width it is an image or a map; cut along a third axis too, a film, where it is called so.
    """
    for node in sorted(nodes):
        cut = find_patches(flow, node) if flow.op(node) in LAYING else None
        is_laid = cut is not None or (flow.op(node) == "unfold" and lays_neighbours(flow, node))
        source = source_of(flow, node, stops) if is_laid else None
        name = "" if source is None else name_argument(flow, source)
        if source is None or is_sound(source, name):
            continue
        if len(source.shape) == MAP:
            return name_picture(source, name, COLOURS)
        is_deep = cut is not None and len(cut.sizes) == len(source.shape[2:]) == len(("time", "height", "width"))
        if is_deep and any(word in name for word in FILMING):
            return "video"
    return None


def name_argument(flow: Flow, source: TensorRecord) -> str:
    """What the argument of the model is called that something from outside is; nothing where two may be it."""
    if source.argument is not None:
        return source.argument.lower()
    names = {
        one.name.lower() for one in flow.one_pass.arguments if (one.shape, one.dtype) == (source.shape, source.dtype)
    }
    return names.pop() if len(names) == 1 else ""


def may_be_same(flow: Flow, one: TensorRecord, other: TensorRecord) -> bool:
    """Whether two tensors of one shape are one argument of the model, be one made of it, as far as can be told."""
    if one.source is not None or other.source is not None:
        return count_alike(flow, one) < 2
    return one.argument == other.argument and count_arguments(flow, one) == 1


def count_arguments(flow: Flow, record: TensorRecord) -> int:
    """How many arguments of the whole pass a tensor may be: one where that is known, else all like it.

    Where some are known, one without a name is none of them, or was given under several.
    """
    if record.argument is not None:
        return 1
    alike = count_alike(flow, record)
    return 0 if alike == 1 and record.source is None and are_named(flow) else alike


def count_alike(flow: Flow, record: TensorRecord) -> int:
    """How many arguments of the whole pass are like a tensor."""
    like = (record.shape, record.role, record.dtype)
    return sum((one.shape, one.role, one.dtype) == like for one in flow.one_pass.arguments)


@once
def are_named(flow: Flow) -> bool:
    """Whether it was noted which arguments of the whole pass its steps read."""
    return any(one.argument for place, step in enumerate(flow.steps) if flow.is_leaf(place) for one in step.inputs)


def is_named_picture(name: str) -> bool:
    """Whether an argument is called a picture, and not something of one, or made of one (`image_embeds`)."""
    return PICTURED_LAST.fullmatch(name) is not None and not any(word in name for word in CODED)


def name_picture(source: TensorRecord, name: str, channels: int) -> Reads:
    """Whether what comes in with a height and a width is an image, by its name, its axes, or its three colours.

    The model does not put colours together itself, and no name says that they are something else. Several images of
    each sequence may be a film, where they are called so.
    """
    are_colours = channels == COLOURS and (len(source.shape) < MAP or COLOURS in source.shape[1:])
    if are_colours and len(source.shape) > MAP and any(word in name for word in FILMING):
        return "video"
    is_open = NEUTRAL.fullmatch(name) is not None or {*source.axes} >= PICTURED or "patches" in source.axes
    return "image" if is_named_picture(name) or (are_colours and is_open) else "map"


def find_put_in(flow: Flow, nodes: Collection[int]) -> Reads | None:
    """What rows are made of, by the name of its argument, that steps put in the place of others (Fuyu, NeoMME).

    Not where these others went into them: then they are changed, and still there. Nor where they are no rows of a
    table, but a tensor that is empty until then (SAINT).
    """
    placing = [node for node in nodes if flow.op(node) in PLACING and puts_over_rows(flow, node, nodes)]
    written = [(node, one, made) for node in placing for one, made in [*flow.given(node)][1:]]
    makers = [made for node, one, made in written if one.is_float and not is_made_of(flow, made, flow.makers[node][0])]
    behind = flow.behind(*makers, within=lambda here: here in nodes and flow.op(here) not in LOOKUPS)
    taken = [one for here in behind for one, made in flow.taken(here) if made is None and one.role != "parameter"]
    names = {name_argument(flow, one) for one in taken if one.is_float} - {""}
    if len(names) != 1:
        return None
    (name,) = names
    return "image" if is_named_picture(name) else "audio" if is_named_sound(name) else "vectors"


def takes_some_put_in(flow: Flow, start: int, nodes: Collection[int]) -> bool:
    """Whether a stream begins as some of the rows of a tensor in which there was nothing before rows were put into it.

    Which of these they are is not known: they were put where other numbers said (Cosmos 3).
    """
    before, after = next((one.shape for one in flow.steps[start].inputs), ()), flow.output(start).shape
    is_part = len(before) == len(after) and before[-1:] == after[-1:] and 0 < prod(after) < prod(before)
    put = flow.carried_from(next(iter(flow.makers[start]), None))
    is_put = put is not None and flow.op(put) in PLACING and len(flow.makers[put]) > len(("rows", "others"))
    return is_part and put is not None and is_put and not puts_over_rows(flow, put, nodes)


def puts_over_rows(flow: Flow, node: int, nodes: Collection[int]) -> bool:
    """Whether what steps write into, the last of them this one, is made of rows that were looked up."""
    held: int | None = node
    while held is not None and flow.op(held) in PLACING:
        held = flow.carried_from(flow.makers[held][0])
    return held is not None and any(flow.op(one) in LOOKUPS for one in flow.behind(held, within=nodes.__contains__))


def is_made_of(flow: Flow, made: int | None, other: int | None) -> bool:
    """Whether one step's numbers are worked out of what another made, or are the same."""
    return other is not None and made is not None and flow.carried_from(other) in {made, *flow.behind(made)}


def is_video(source: TensorRecord) -> bool:
    """Whether frames come in of which each is a picture, with a height and a width of its own."""
    return "frames" in source.axes and set(source.axes) >= PICTURED


def is_sound(source: TensorRecord, name: str) -> bool:
    """Whether what comes in is sound by its axes, or a signal by its name, as an argument too.

    One series that nothing is known of may be one too, and one of left and right, as it is convolved; of several
    channels a map is none.
    """
    channels = source.shape[1] if len(source.shape) > len(("batch", "row")) else 1
    if any(word in name for word in CODED):
        return False
    if SOUND & {*source.axes}:
        return True
    if len(source.shape) >= MAP:
        return channels == 1 and (is_named_sound(name) or is_named_sound(source.name.lower()))
    is_open = channels <= MOST_CHANNELS and NEUTRAL.fullmatch(name) is not None
    return is_named_sound(name) or is_open


def is_named_sound(name: str) -> bool:
    """Whether an argument is called sound, or a signal, and not what a model has made of one."""
    return SOUNDING.search(name) is not None and not any(word in name for word in CODED)


def source_of(flow: Flow, node: int, stops: Collection[int]) -> TensorRecord | None:
    """What comes from outside and a step's first input is made of; None if another tower made it."""
    record, maker = flow.steps[node].inputs[0], flow.makers[node][0]
    for _ in range(40):
        if maker in stops:
            return None
        if maker is None or not flow.makers[maker]:
            return record if maker is None else None
        given = list_worked_out(flow, maker)
        if not given:
            return None
        record, maker = given[0]
    return None


def is_beside_picture(flow: Flow, node: int, maker: int | None) -> bool:
    """Whether a step works on a mask (Cosmos), looks up ids, or works on what is looked up or made of no data.

    The last two are conditions (FractalGen).
    """
    before = {node} if maker is None else {node, *flow.behind(maker)}
    source = source_of(flow, node, ())
    is_made = maker is not None and maker not in list_reading_data(flow)
    is_mask = source is not None and "mask" in name_argument(flow, source)
    return is_mask or is_made or any(flow.op(one) in LOOKUPS for one in before)


def list_worked_out(flow: Flow, place: int) -> list[tuple[TensorRecord, int | None]]:
    """What a step works on, each with its maker, but for parameters and what stands beside it and is made of nothing.

    Where no sound went before there are zeros (the convolutions of Voxtral Realtime).
    """
    given = [(one, maker) for one, maker in flow.taken(place) if one.role != "parameter"]
    return [one for one in given if flow.op(place) not in SIDE_BY_SIDE | WRITES or not is_nothing(flow, one[1])]


def are_own_numbers(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether some steps work on nothing that comes in, nor on chance: all is held by the model, or made anew alike."""
    behind = list(flow.behind(*nodes))
    return bool(behind) and not any(
        flow.op(here) in CHANCE
        or any(maker is None and not is_held_inside(flow, record, here) for record, maker in flow.taken(here))
        for here in behind
    )


def hold_numbers(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether any of some steps, or behind them, works on numbers that no step made, and not on zeros or ones alone."""
    filled = ZEROS | ONES
    behind = flow.behind(*nodes, ends=lambda here: flow.op(here) in filled)
    return any(None in flow.makers[here] for here in behind if flow.op(here) not in filled)


def meets_given(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether layers work, beside what they begin with, on rows that come in, or are made of these with no weights."""
    behind = flow.behind(*nodes, within=lambda one: one in nodes or not flow.steps[one].params)
    return any(flow.is_leaf(one) and reads_vectors(flow, one) for one in behind)


def is_held_inside(flow: Flow, record: TensorRecord, reader: int) -> bool:
    """Whether numbers that no step made are the model's own: parameters, or what the module that reads them holds.

    Nothing of their shape was handed to that module, but zeros, or to the model, and they are of no batch.
    """
    holder = next(flow.parents(reader), None)
    handed = (one for one, maker in flow.given(holder or 0) if not is_nothing(flow, maker))
    is_own = record.is_float and "batch" not in record.axes and not is_given(flow, record)
    return record.role == "parameter" or (is_own and all(one.shape != record.shape for one in handed))


def name_own(flow: Flow, maker: int | None) -> str:
    """What numbers are called that do not come in, be they all 0, all 1 or any others; "" for those that do."""
    root = flow.carried_from(maker)
    if root is None:
        return ""
    filled = flow.steps[root].settings.get("other") if flow.op(root) in FILLED else None
    if flow.op(root) in ZEROS or filled == 0:
        return "ZEROS"
    own = OWN if are_own_numbers(flow, [root]) else ""
    return "ONES" if flow.op(root) in ONES or filled == 1 else own


def adds_given(flow: Flow, node: int) -> bool:
    """Whether a step adds what was made of other arguments to rows as they come in (SuperGlue's places).

    Or what was looked up, as the row of each place.
    """
    whole = flow.output(node).shape
    ends = [record for record, maker in flow.given(node) if maker is None]
    if not any(one.argument is not None and one.is_float and one.shape == whole for one in ends):
        return False
    others = list(flow.behind(*flow.makers[node]))
    if any(flow.op(here) in LOOKUPS for here in others):
        return True
    given = [record for here in others for record, maker in flow.taken(here) if maker is None and record.shape]
    read = [one for one in given if one.role != "parameter"]
    return bool(read) and all(one.argument is not None for one in read)
