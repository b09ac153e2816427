"""Whether a layer that is drawn has parameters of another place: of what works before all layers, or for several."""

from collections import Counter

from xray.story.cutting.blocks import find_block


def list_beyond(columns):
    """The blocks that hold one layer each and have fewer parameters than the layer that is drawn of it."""
    for column in (one for one in columns if one.is_first):
        flow, layers = column.reading.flow, column.towering.layers
        held = [find_block(flow, layer[0].joints[0].add) for layer in layers]
        times = Counter(flow.steps[block].path for block in held if block is not None)
        for frame in column.frames:
            block = held[frame.group.layers[0]]
            step = None if block is None else flow.steps[block]
            if step is not None and times[step.path] == 1 and frame.params > step.params:
                yield step.path
