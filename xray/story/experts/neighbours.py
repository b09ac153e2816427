"""What experts give, mixed with that of neighbouring places before it is added to the stream."""

from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.kinds import PADDINGS
from xray.story.branches.convolutions import lets_neighbours_in, looks_back
from xray.story.experts.choice import find_choice
from xray.story.recognition.between import Region


def find_mixed_behind(flow: Flow, region: Region) -> tuple[int, frozenset[int]] | None:
    """What a convolution of neighbouring places reads behind experts, and the steps from there on (Inkling).

    None where there is none.
    """
    nodes = region.inner
    choice = find_choice(flow, nodes)
    for node in sorted(nodes) if choice is not None else ():
        if lets_neighbours_in(flow, node):
            begin = flow.carried_from(flow.makers[node][0], CARRYING | PADDINGS)
            if begin in nodes and choice is not None and choice[0] in flow.behind(begin, within=nodes.__contains__):
                behind = flow.ahead(*flow.readers.get(begin, ()), within=nodes.__contains__)
                return begin, frozenset(one for one in behind if one in nodes)
    return None


def mixes_back(flow: Flow, mixed: tuple[int, frozenset[int]] | None) -> bool:
    """Whether no step behind experts lets in what stands behind a place."""
    return mixed is not None and all(looks_back(flow, node) for node in mixed[1] if lets_neighbours_in(flow, node))
