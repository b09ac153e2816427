"""How what the heads of windows found is laid back: windows joined, padding off, heads and others side by side."""

from math import prod

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.index_spans import read_span
from xray.ir.flow.operation_kinds import SIDE_BY_SIDE, SUMS
from xray.story.anatomy.attentions import Attention
from xray.story.attention.twins import find_twin, name_half
from xray.story.attention.ways.lanes import Part
from xray.story.attention.ways.runs import pads
from xray.story.branches.convolutions import convolves, list_way_beside
from xray.story.branches.rows import cuts_across_places
from xray.story.branches.weighed import list_found
from xray.story.charts.steps.operation_labels import label_step
from xray.story.recognition.between import Region


def name_joined_windows(flow: Flow, part: Part, branch: Attention, region: Region) -> str:
    """What a move is called that lays windows one behind the other, or side by side as a map; "" for any other one.

    What was put around the rows of the branch before it was cut into windows may be left away with it (SAM), and of
    each window one query of several may have been made by then (SAM 2).
    """
    pooled = branch.pooled or 1
    window = (branch.window or 0) // pooled
    given = flow.steps[part.nodes[0]].inputs
    before, after = (given[0].shape if given else ()), part.record.shape
    is_of_windows = len(before) >= 3 and prod(before[1:-1]) == window and before[-1:] == after[-1:]
    if not window or not is_of_windows or before[0] <= after[0]:
        return ""
    if prod(before) == prod(after):
        return "WINDOWS JOINED"
    padded = (flow.steps[node].inputs[0].shape for node in region.inner if pads(flow, node))
    are_all = prod(after[:-1]) * pooled in (prod(shape[:-1]) for shape in padded)
    return "WINDOWS JOINED, PADDING OFF" if are_all else ""


def cuts_padding(flow: Flow, part: Part, region: Region) -> bool:
    """Whether a part takes off what the branch put behind its rows, of which it leaves as many as there were.

    They may be rolled and rolled back before that (MONAI's Swin).
    """
    cut = next((node for node in part.nodes if flow.op(node) == "index"), None)
    if cut is None:
        return False
    whole, left = flow.steps[cut].inputs[0].shape, part.record.shape
    index = str(flow.steps[cut].settings.get("index", ""))
    spans = [read_span(index, whole, axis) or (0, size) for axis, size in enumerate(whole)]
    begun = [flow.steps[node] for node in region.inner if pads(flow, node)]
    behind = [one for one in begun if {*str(one.settings.get("pad", "")).split("x")[::2]} == {"0"}]
    pads_alike = any((one.inputs[0].shape, one.outputs[0].shape) == (left, whole) for one in behind)
    return pads_alike and spans == [(0, size) for size in left]


def joins_heads(flow: Flow, part: Part, branch: Attention) -> bool:
    """Whether moves lay side by side in one row what the heads found for a place, each as wide as its values."""
    given = flow.steps[part.nodes[0]].inputs
    before, after = (given[0].shape if given else ()), part.record.shape
    if not before or prod(before) != prod(after) or before[-1] != branch.d_v:
        return False
    if any(cuts_across_places(flow, node) for node in part.nodes):
        return False
    return after[-1] == branch.heads * before[-1] if branch.heads else after[-1] > before[-1]


def name_join(flow: Flow, site: Site, branch: Attention, part: Part, region: Region) -> str:
    """What a part is called that puts something beside what the heads found, or pieces of it end to end."""
    if branch.pieces:
        return f"{branch.pieces} PIECES END TO END"
    twin, many = find_twin(flow, site, part), count_others(flow, site, part, region)
    if twin is not None:
        return f"WITH THE SAME WEIGHTS · OTHER {name_half(flow, twin)} BESIDE IT"
    join = next(node for node in part.nodes if flow.op(node) in SIDE_BY_SIDE)
    if many and not label_step(flow, join).startswith("END TO END"):
        return f"WITH {f'{many} OTHER ATTENTIONS' if many > 1 else 'ANOTHER ATTENTION'} BESIDE IT"
    others = [one for one in flow.makers[join] if site.weighted_sum not in flow.behind(one)]
    return "WITH A CONVOLUTION BESIDE IT" if all(convolves(flow, one) for one in others) else label_step(flow, join)


def count_others(flow: Flow, site: Site, part: Part, region: Region) -> int:
    """How many other attentions have found all that a part puts beside the rows that its own found; else 0."""
    joined = [found for node in part.nodes if flow.op(node) in SIDE_BY_SIDE for found in list_found(flow, node)]
    others = set[int]().union(*joined) - {site.weighted_sum}
    is_each = all(len(one) == 1 for one in joined) and len(joined) == len(others) + 1
    return len(others) if is_each and others <= list_way_beside(flow, region, site) else 0


def list_added_found(flow: Flow, site: Site, node: int, region: Region) -> list[int]:
    """All that makes what another attention found where a step adds that to what its own did, the last first.

    It may be scaled before (Lumina Next: the words, by a gate of each head).
    """
    makers = [maker for maker in flow.makers[node] if maker is not None] if flow.op(node) in SUMS else []
    inside = region.inner | region.beside
    ways = [[maker, *flow.behind(maker, within=inside.__contains__)] for maker in makers]
    own = {site.weighted_sum, *flow.behind(site.weighted_sum, within=inside.__contains__)}
    found = {one.weighted_sum for one in list_sites(flow)} - own
    others = [way for way in ways if site.weighted_sum not in way and not found.isdisjoint(way)]
    return [one for one in others[0] if one not in own] if len(ways) == len(others) + 1 == 2 else []
