"""The attentions of a recording, each with its tower, its layer, and what it looks at."""

from collections.abc import Iterator
from dataclasses import dataclass

from xray.ir.flow.attention_sites import Site, lies_in_columns
from xray.ir.trace import Pass, Trace
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import Reading, read_pass
from xray.story.body.together import name_towers
from xray.story.body.towers import Towering
from xray.story.weights.picture import Kind

ALONE = "attention"
"""The kind of attentions that stand on no residual stream."""


@dataclass(frozen=True)
class FoundAttention:
    """An attention of a pass; `tower` is None where it stands on no residual stream."""

    kind: Kind
    layer: int
    nth: int
    site: Site
    heads: int | None
    tower: Towering | None


def list_kinds(trace: Trace) -> tuple[Kind, ...]:
    """The kinds of attention in a recording, in order."""
    found = (one.kind for one_pass in trace.passes for one in list_attentions(trace, one_pass))
    return tuple(dict.fromkeys(found))


def list_attentions(trace: Trace, one_pass: Pass) -> tuple[FoundAttention, ...]:
    """Every attention of a pass whose weights are a row for each query and a column for each key, tower by tower.

    Not so where weights lie in columns, one for each distance (Longformer): they are told in no picture of words.
    """
    reading, names = read_pass(one_pass), name_towers(trace)
    towers = set(names.values())
    crossing = {name for name in towers if any(crosses(one) for one in reading.towers if names[id(one)] == name)}
    found: list[FoundAttention] = []
    for towering in reading.towers:
        name = names[id(towering)]
        crossed = "cross" if len(crossing) < 2 else f"{name}-cross"
        found += list_of_tower(towering, name, crossed, towers)
    inside = {one.site for one in found}
    alone = (site for site in reading.sites if site not in inside and not is_in_tower(reading, site))
    kind, flow = Kind(ALONE, ALONE, "self"), reading.flow
    found = [one for one in found if not lies_in_columns(flow, one.site)]
    alone = (site for site in alone if not lies_in_columns(flow, site))
    found += [FoundAttention(kind, number, 0, site, None, None) for number, site in enumerate(alone)]
    return tuple(found)


def crosses(towering: Towering) -> bool:
    """Whether a tower looks at anything but itself."""
    return any(isinstance(branch, Attention) and branch.leaves_stream for branch in towering.tower.branches)


def list_of_tower(towering: Towering, name: str, crossed: str, towers: set[str]) -> Iterator[FoundAttention]:
    """The attentions of one tower."""
    for number, layer in enumerate(towering.layers):
        used: dict[Kind, int] = {}
        for one in (one for staging in layer for one in staging.branches):
            branch, site = one.branch, one.site
            if site is None or not isinstance(branch, Attention):
                continue
            others = sorted(towers - {name})
            source = branch.source or (others[0] if len(others) == 1 else "memory")
            kind = Kind(name if source == "self" else crossed, name, source)
            yield FoundAttention(kind, number, used.get(kind, 0), site, branch.heads, towering)
            used[kind] = used.get(kind, 0) + 1


def is_in_tower(reading: Reading, site: Site) -> bool:
    """Whether an attention stands in a branch of a tower, be it that another one gives the branch its name."""
    return any(
        site.softmax in one.region.inner
        for tower in reading.towers
        for staging in tower.stagings
        for one in staging.branches
        if one.site is not None
    )
