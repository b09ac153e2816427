"""The roles of all steps of a recording."""

from collections.abc import Mapping

from xray.ir.flow.attention_sites import Site
from xray.ir.trace import Trace
from xray.story.anatomy.tree import Anatomy
from xray.story.body.reading import Reading, read_pass
from xray.story.body.stages import Branching, read_branch
from xray.story.body.together import name_towers
from xray.story.body.whole import anatomy
from xray.story.recognition.between import Region
from xray.story.roles.attention_roles import give_attention
from xray.story.roles.end_roles import give_entrance, give_exit
from xray.story.roles.giving import Given
from xray.story.roles.layer_roles import give_layers, name_branch
from xray.story.roles.mask_roles import give_masks
from xray.story.roles.operations import list_kernels, list_operations

SIDES = ("encoder", "decoder")


def list_roles(trace: Trace) -> Mapping[str, Mapping[str, str]]:
    """For each pass ("forward", "decode2") and each step id in it the step's role; empty where none is known."""
    whole = anatomy(trace)
    names = name_towers(trace)
    found: dict[str, Mapping[str, str]] = {}
    for one_pass in trace.passes:
        reading = read_pass(one_pass)
        sides = [names.get(id(one), one.tower.name) if len(whole.towers) > 1 else "" for one in reading.towers]
        told = list_parts(reading, sides, whole)
        flow = reading.flow
        found[one_pass.key] = dict(list_operations(flow)) | told | dict(list_kernels(flow))
    return found


def list_parts(reading: Reading, names: list[str], whole: Anatomy) -> dict[str, str]:
    """The roles that the steps of a pass have in its towers; `names` are theirs, empty where there is but one.

    Sums of nothing that is known are no layers, and no tower (PP-OCRv5).
    """
    given = Given(reading.flow)
    towers = reading.towers
    tops: list[int] = []
    for number, (towering, name) in enumerate(zip(towers, names, strict=True)):
        side = f"{name} " if name else ""
        others = set[int]().union(*(other.nodes for other in towers if other is not towering))
        is_last = number == len(towers) - 1
        first, last = towering.chains[0].joints[0].add, towering.chains[-1].joints[-1].add
        give_entrance(given, towering, side)
        if not whole.towers:
            continue
        give_layers(given, towering, side, others)
        tops += give_exit(given, towering, whole.head if is_last else None, name, others)
        tops += [first, last]
        called = name or towering.tower.name
        given.block({*towering.entrance, first, last}, called if called in SIDES else f"{called} tower", others)
    inside = {
        site
        for one in towers
        for staging in one.stagings
        for branch in staging.branches
        for site in list_inside(branch, reading.sites)
    }
    for site in reading.sites:
        if site.softmax not in inside:
            give_alone(given, site, reading.sites)
    give_masks(given, reading.sites)
    given.block(tops, "the whole model")
    return given.finish()


def list_inside(branch: Branching, sites: tuple[Site, ...]) -> set[int]:
    """The softmaxes of a branch whose parts are told."""
    return set() if branch.site is None else {site.softmax for site in sites if site.softmax in branch.region.inner}


def give_alone(given: Given, site: Site, sites: tuple[Site, ...]) -> None:
    """An attention that stands on no residual stream."""
    nodes = {*site.query.nodes, *site.key.nodes, *site.value.nodes, *site.scored, *site.weighed, *site.concat}
    region = Region(site.query.origin, site.last, frozenset({*nodes, site.weighted_sum, site.last}), frozenset())
    found = read_branch(given.flow, region, sites, {})
    name = name_branch(found.branch)
    give_attention(given, found, name if site.kind == "self" else name.replace("self-attention", "attention"))
