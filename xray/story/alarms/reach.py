"""Which attention a mask reaches: none of them, or some layers only."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from xray.ir.flow.attention_sites import Site, count_pairs
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operation_kinds import PLACING
from xray.ir.trace import Step
from xray.story.alarms.arguments import Mask, given_masks, given_values, hides_nothing
from xray.story.alarms.bench import Bench, mark_hidden
from xray.story.alarms.kinds import Alarm, alarm_at

MOST_NAMED = 4


def follow_mask(flow: Flow, mask: Mask) -> set[int]:
    """The steps that work a mask out on its way to scores; where it puts rows among others they are no mask."""
    masking = [reader for reader in mask.readers if flow.op(reader) not in PLACING]
    return {*mask.readers, *flow.ahead(*masking, within=lambda place: flow.op(place) not in PLACING)}


def is_masked_by(flow: Flow, site: Site, tainted: set[int], mask: Mask) -> bool:
    """Whether a mask joins the scores of an attention."""
    spine = set(site.scored)
    for place in site.scored:
        if place in mask.readers and place not in mask.places:
            return True
        if any(maker in tainted and maker not in spine for maker in list_side_makers(flow, site, place)):
            return True
    return False


def list_side_makers(flow: Flow, site: Site, place: int) -> tuple[int | None, ...]:
    """The steps whose results join the scores at a place: queries and keys are none."""
    if place != site.scores:
        return flow.makers[place]
    return flow.makers[place][:1] if flow.op(place) == "baddbmm" else ()


def is_touched_by(site: Site, tainted: set[int], mask: Mask) -> bool:
    """Whether anything of an attention depends on a mask, be it through its queries, keys or values."""
    places = {*site.scored, *site.weighed, site.weighted_sum}
    return any(place in tainted or place in mask.readers for place in places)


def check_reach(flow: Flow, sites: Sequence[Site], mask: Mask) -> Iterator[Alarm]:
    """The alarms of a mask that reaches no attention, or not every layer."""
    tainted, masking = set(flow.ahead(*mask.readers)), follow_mask(flow, mask)
    fitting = [site for site in sites if fits(flow, site, mask)]
    if not fitting or hides_nothing(mask):
        return
    if not any(is_touched_by(site, tainted, mask) for site in sites):
        is_elsewhere = bool(mask.places) or counts_in_loss(flow, fitting, tainted)
        if not is_elsewhere and not any(hides_the_same(flow, site, mask) for site in fitting):
            step = last_holder(flow, mask)
            text = (
                f"{mask.label} is given to {step.path} and read by no attention: {count(fitting)} {see(fitting)} "
                "every key "
                "as if there were no mask."
            )
            yield alarm_at(flow.one_pass, step, "unreached", text, mask.name)
        return
    groups: dict[tuple[str, str], list[Site]] = defaultdict(list)
    for site in fitting:
        groups[(shape_of_path(flow, site), site.kind)].append(site)
    for alike in groups.values():
        reached = [site for site in alike if is_masked_by(flow, site, masking, mask)]
        missed = [site for site in alike if not is_touched_by(site, tainted, mask)]
        untouched = [site for site in alike if not is_masked_by(flow, site, masking, mask)]
        missed = missed or (untouched if len(reached) > 0 else [])
        missed = [site for site in missed if not obeys_another(flow, site, reached)]
        if reached and missed:
            first = flow.steps[missed[0].softmax]
            names = ", ".join(block_of(flow, site).path for site in missed[:MOST_NAMED])
            more = f" and {len(missed) - MOST_NAMED} more" if len(missed) > MOST_NAMED else ""
            text = (
                f"{mask.label} reaches {len(reached)} of {len(alike)} attentions that are alike, and not "
                f"{names}{more}, "
                f"whose scores are {flow.output(missed[0].scores).shape}."
            )
            yield alarm_at(flow.one_pass, first, "some layers", text, mask.name)
    yield from check_memory(flow, fitting, mask, masking)


def counts_in_loss(flow: Flow, sites: Sequence[Site], tainted: set[int]) -> bool:
    """Whether a mask tells which places count in one number that all of them end in, as a loss is."""
    ends = (node for node in tainted.intersection(flow.ahead(sites[-1].weighted_sum)) if flow.is_leaf(node))
    return any(flow.steps[node].outputs and not flow.output(node).shape for node in ends)


def obeys_another(flow: Flow, site: Site, others: Sequence[Site]) -> bool:
    """Whether an argument for queries and keys joins an attention that joins none of some others: that of a window."""
    for mask in given_masks(flow, lambda name: name.endswith("mask")):
        if mask.shape[-2:] == count_pairs(flow, site):
            masking = follow_mask(flow, mask)
            if is_masked_by(flow, site, masking, mask):
                return not any(is_masked_by(flow, one, masking, mask) for one in others)
    return False


def hides_the_same(flow: Flow, site: Site, mask: Mask) -> bool:
    """Whether what was made inside hides all that a mask of queries and keys does, or may.

    torch asks a mask whether it is causal, and makes it anew for each attention if it is.
    """
    if mask.shape[-2:] != count_pairs(flow, site):
        return False
    scores = Bench(flow, given_values(flow)).add_to_scores(site)
    if scores is None:
        return is_joined(flow, site)
    seen = (mark_hidden(scores) == 0).reshape(-1, *mask.shape[-2:]).any(axis=0)
    if mask.values is None:
        return not seen.all()
    hidden = mark_hidden(mask.values) == 1
    ways = (hidden,) if hidden.any() else (mask.values == 0, mask.values != 0)
    return any(not (seen & way.reshape(-1, *seen.shape).any(axis=0)).any() for way in ways)


def is_joined(flow: Flow, site: Site) -> bool:
    """Whether anything with rows of its own joins the scores of an attention."""
    spine, first = set(site.scored), 0 if flow.op(site.scores) == "baddbmm" else 1
    asked = (place for place in site.scored[first:] if place not in site.mixed)
    joining = (record for place in asked for record, maker in flow.given(place) if maker not in spine)
    return any(len(record.shape) > 1 for record in joining)


def check_memory(flow: Flow, sites: Sequence[Site], mask: Mask, tainted: set[int]) -> Iterator[Alarm]:
    """The alarm of a mask of keys that an encoder obeys, and that cross-attention over what it made does not."""
    if not mask.is_for_keys:
        return
    masked = [site for site in sites if site.kind == "self" and is_masked_by(flow, site, tainted, mask)]
    crossing = [site for site in sites if site.kind == "cross"]
    if not masked or not crossing or any(is_masked_by(flow, site, tainted, mask) for site in crossing):
        return
    made = set(flow.ahead(*(site.weighted_sum for site in masked)))
    first = crossing[0]
    if site_reads(first, made) and all(site.key.origin == first.key.origin for site in crossing):
        text = (
            f"{mask.label} reaches {len(masked)} attentions, and not {block_of(flow, first).path}, which reads what "
            f"they made: its scores {flow.output(first.scores).shape} show every key."
        )
        yield alarm_at(flow.one_pass, flow.steps[first.softmax], "some layers", text, mask.name)


def site_reads(site: Site, made: set[int]) -> bool:
    """Whether an attention looks from elsewhere at what was made by certain steps."""
    return site.key.origin in made and site.query.origin not in made


def fits(flow: Flow, site: Site, mask: Mask) -> bool:
    """Whether a mask is as long as the keys of an attention."""
    return len(flow.output(site.scores).shape) > 1 and mask.shape[-1] == count_pairs(flow, site)[1]


def last_holder(flow: Flow, mask: Mask) -> Step:
    """The innermost step that was still given a mask that nobody reads."""
    given = [place for place, step in enumerate(flow.steps) if any(record.given == mask.name for record in step.inputs)]
    deepest = max(given, key=lambda place: (flow.steps[place].depth, -place))
    return flow.steps[deepest]


def block_of(flow: Flow, site: Site) -> Step:
    """The module that an attention stands in."""
    step = flow.steps[site.softmax]
    while step.parent is not None and not step.module:
        step = flow.one_pass.by_id[step.parent]
    return step


def shape_of_path(flow: Flow, site: Site) -> str:
    """The path of the module without the numbers of its layers."""
    return re.sub(r"\d+", "*", block_of(flow, site).path)


def name_alike(flow: Flow, site: Site) -> tuple[str, str, int]:
    """What attentions have in common that are alike: path and class of their modules, and how many places they look at.

    Those that look along another axis, as over the series of one time, need not hide what those along time do (Toto).
    """
    return shape_of_path(flow, site), block_of(flow, site).module, flow.output(site.scores).shape[-1]


def count(sites: Sequence[Site]) -> str:
    return "the one attention" if len(sites) == 1 else f"all {len(sites)} attentions"


def see(sites: Sequence[Site]) -> str:
    return "sees" if len(sites) == 1 else "see"
