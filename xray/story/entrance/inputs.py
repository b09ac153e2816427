"""What a network reads where no words are looked up: an image, a film, sound, noise, or rows of numbers."""

from collections.abc import Collection

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CHANCE, LOOKUPS, PLACING, SIDE_BY_SIDE, ZEROS
from xray.ir.records import TensorRecord
from xray.story.anatomy.tree import Reads
from xray.story.branches.visible import FILLED
from xray.story.entrance.tables import looks_up_places
from xray.story.passages.added_places import is_given
from xray.story.recognition.between import ONES, is_linear
from xray.story.recognition.chosen_rows import is_drawn

SOUND = frozenset({"mels", "frames", "ticks", "samples"})
PICTURED = frozenset({"height", "width"})
SOUNDING = ("audio", "feature", "mel", "spec", "wave", "speech")
PICTURING = ("pixel", "patch", "image")
"""What the name of an argument holds by which sound comes in, and by which pictures do."""
MADE = ("embed", "feat", "hidden")
"""What the name of an argument holds that takes what another model has made of something."""
CODED = ("latent", "hidden", "embed")
"""What the name of an argument holds that takes what an encoder has made of a signal."""
MOST_CHANNELS = 2
"""So many channels a signal has at most: left and right."""


def reads_vectors(flow: Flow, node: int) -> bool:
    """Whether a step works on rows of numbers that come from outside."""
    return any(
        maker is None and record.role == "activation" and len(record.shape) >= 3 and record.is_float
        for record, maker in flow.taken(node)
    )


def name_input(flow: Flow, finders: Collection[int], nodes: Collection[int], stops: Collection[int]) -> Reads | None:
    """What is read where no words are: by its axes, or by how many it has; rows of numbers else."""
    if finders:
        source = source_of(flow, min(finders), stops)
        if source is None:
            return "noise" if is_drawn(flow, flow.makers[min(finders)][0]) else None
        if is_code(source, name_argument(flow, source)):
            return "vectors"
        read = flow.steps[min(finders)].inputs[0].shape  # patches may come as flat rows, and are laid out just before
        axes = len(read) if len(source.shape) == 2 and len(read) >= 4 and read[1] > 1 else len(source.shape)
        if is_video(source):
            return "video"
        if axes == len(source.shape) > len(("batch", "channels", "height", "width")) and is_deep(flow, min(finders)):
            return None  # a film, or a body in space (Wan)
        return "image" if axes >= 4 and not is_sound(source) else "audio"
    linear = [node for node in sorted(nodes) if is_linear(flow, node)]
    sources = [source for node in linear if (source := source_of(flow, node, stops)) is not None]
    if sources and set(sources[0].axes) >= PICTURED:  # cut into patches by moves alone (RADIO)
        return "video" if is_video(sources[0]) else "image"
    if sources and is_named_picture(name_argument(flow, sources[0])):  # a list of patches
        return "image"
    if sources and SOUND & set(sources[0].axes):
        return "audio"
    reads = any(reads_vectors(flow, node) for node in nodes)
    follows = any(maker in stops for node in nodes for maker in flow.makers[node])
    looks = any(flow.op(node) in LOOKUPS and not looks_up_places(flow, node) for node in nodes)
    return "vectors" if reads or (not follows and not looks and sources) else None


def name_argument(flow: Flow, source: TensorRecord) -> str:
    """What the argument of the model is called that something from outside is; nothing where two are alike."""
    names = {
        one.name.lower() for one in flow.one_pass.arguments if (one.shape, one.dtype) == (source.shape, source.dtype)
    }
    return names.pop() if len(names) == 1 else ""


def is_named_picture(name: str) -> bool:
    """Whether an argument is called after a picture, and not after what a model has made of one (`image_embeds`)."""
    return any(word in name for word in PICTURING) and not any(word in name for word in MADE)


def find_put_in(flow: Flow, nodes: Collection[int]) -> Reads | None:
    """What rows are made of, by the name of its argument, that steps put in the place of others (Fuyu, NeoMME)."""
    makers = [
        made for node in nodes if flow.op(node) in PLACING for one, made in [*flow.given(node)][1:] if one.is_float
    ]
    behind = flow.behind(*makers, within=lambda here: here in nodes and flow.op(here) not in LOOKUPS)
    taken = [one for here in behind for one, made in flow.taken(here) if made is None and one.role != "parameter"]
    names = {name_argument(flow, one) for one in taken if one.is_float} - {""}
    if len(names) != 1:
        return None
    (name,) = names
    sounds = any(word in name for word in SOUNDING) and not any(word in name for word in MADE)
    return "image" if is_named_picture(name) else "audio" if sounds else "vectors"


def is_code(source: TensorRecord, name: str) -> bool:
    """Whether rows of several channels are called after what a model has made, and not after a signal."""
    has_channels = len(source.shape) == len(("batch", "channels", "row")) and source.shape[1] > MOST_CHANNELS
    return has_channels and any(word in name for word in CODED)


def is_deep(flow: Flow, finder: int) -> bool:
    """Whether a convolution moves along three axes."""
    return len(flow.output(finder).shape) == len(("batch", "channels", "depth", "height", "width"))


def is_video(source: TensorRecord) -> bool:
    """Whether frames come in of which each is a picture, with a height and a width of its own."""
    return "frames" in source.axes and set(source.axes) >= PICTURED


def is_sound(source: TensorRecord) -> bool:
    """Whether a picture is one of sound: by its axes, or its only channel and what it is called."""
    return bool(SOUND & set(source.axes)) or (
        source.shape[1] == 1 and any(word in source.name.lower() for word in SOUNDING)
    )


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


def list_worked_out(flow: Flow, place: int) -> list[tuple[TensorRecord, int | None]]:
    """What a step works on, each with its maker, but for parameters and what stands beside it and is made of nothing.

    Where no sound went before there are zeros (the convolutions of Voxtral Realtime).
    """
    given = [(one, maker) for one, maker in flow.taken(place) if one.role != "parameter"]
    return [one for one in given if flow.op(place) not in SIDE_BY_SIDE or not is_made_of_nothing(flow, one[1])]


def are_own_numbers(flow: Flow, nodes: Collection[int]) -> bool:
    """Whether some steps work on nothing that comes in, nor on chance: all is held by the model, or made anew alike."""
    behind = list(flow.behind(*nodes))
    return bool(behind) and not any(
        flow.op(here) in CHANCE
        or any(maker is None and not is_held_inside(flow, record, here) for record, maker in flow.taken(here))
        for here in behind
    )


def is_held_inside(flow: Flow, record: TensorRecord, reader: int) -> bool:
    """Whether numbers that no step made are the model's own: parameters, or what the module that reads them holds.

    Nothing of their shape was handed to that module, or to the model, and they are of no batch.
    """
    holder = next(flow.parents(reader), None)
    handed = () if holder is None else flow.steps[holder].inputs
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
    if flow.op(root) in ONES or filled == 1:
        return "ONES"
    return "THE MODEL'S OWN NUMBERS" if are_own_numbers(flow, [root]) else ""


def is_made_of_nothing(flow: Flow, maker: int | None) -> bool:
    """Whether a step only moves numbers that are the same in every run, as zeros are."""
    root = flow.carried_from(maker)
    return root is not None and flow.op(root) in ZEROS
