"""Where the parameters are: what of them each part holds, and what took no part."""

from collections.abc import Iterator, Mapping, Sequence

from xray.ir.flow.dataflow import Flow
from xray.story.anatomy.branches import Attention, DeformableAttention
from xray.story.body.reading import Reading
from xray.story.body.stages import Staging
from xray.story.branches.others import list_other_way
from xray.story.charts.stage_names import name_branch
from xray.story.facts.totals import paths_above
from xray.story.facts.unused import join_alike
from xray.story.passages.added_places import list_layouts
from xray.story.sheet.columns import Column
from xray.story.sheet.counting import Count

MOST_UNUSED = 3


def list_shares(columns: Sequence[Column], params: int, unused: Mapping[str, int]) -> tuple[tuple[str, str, int], ...]:
    """The parameters by part, over all layers, each counted once; what is left is named as what it is: the rest.

    Of what took no part the largest are named.
    """
    found: list[tuple[str, str, int]] = []
    seen: set[str] = set()
    several = sum(column.is_first for column in columns) > 1

    def add(count: Count, name: str, role: str, groups: list[set[int]]) -> None:
        found_now = count.fresh(groups)
        known = {*seen, *found_now}
        fresh = {path: n for path, n in found_now.items() if path not in seen and known.isdisjoint(paths_above(path))}
        seen.update(fresh)
        if sum(fresh.values()):
            found.append((name, role, sum(fresh.values())))

    for column in (column for column in columns if column.is_first):
        own, name = column.look.own, f"{column.towering.tower.name} " if several else ""
        count = Count(column.reading.flow)
        add(count, f"{name}entrance", own, [set(column.towering.entrance)])
        inside = set().union(*(staging.nodes for staging in column.towering.stagings))
        add(count, f"{name}places", own, [{*list_layouts(column.reading.flow, inside)}])
        condition = column.towering.condition
        add(count, f"{name}conditions", own, [set() if condition is None else set(condition.nodes)])
        beside = nodes_beside(columns, column.reading)
        kinds: dict[str, list[set[int]]] = {}
        for staging in column.towering.stagings:
            for kind, nodes in split_nodes(column.reading.flow, staging):
                kinds.setdefault(kind, []).append(nodes - beside)
        for kind, groups in kinds.items():
            add(count, f"{name}{kind.lower()} × {len(groups)}", own, groups)
        between = [set(bridge.nodes) for bridge in column.towering.bridges]
        add(count, f"{name}between layers × {len(between)}", own, between)
        leaving = next((one.exit for one in columns if one.towering is column.towering and one.exit), None)
        if leaving is not None:
            places = {column.reading.flow.places[step.id] for node in leaving.nodes for step in node.steps} - beside
            final = column.towering.final
            learned = {place for place in places if count.is_learned(place)}
            add(count, f"{name}{'last norm' if final and learned <= set(final.nodes) else 'head'}", own, [places])
    rest = params - sum(n for _, _, n in found)
    within = {path: n for path, n in unused.items() if not seen.isdisjoint((path, *paths_above(path)))}
    apart = {path: n for path, n in unused.items() if path not in within}
    found += [*list_idle("of these unused", within), *list_idle("unused", apart)]
    rest -= sum(apart.values())
    if rest > 0:
        found.append(("norms and what is not placed", "card", rest))
    return tuple(found)


def list_idle(what: str, unused: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """The rows of what took no part: the largest by their names."""
    parts = join_alike(unused)
    for one in parts[:MOST_UNUSED]:
        yield f"{what}: {'.'.join(one.path.split('.')[-2:])}", "card", one.params
    rest = parts[MOST_UNUSED:]
    if rest:
        yield f"{what}: {len(rest)} more", "card", sum(one.params for one in rest)


def nodes_beside(columns: Sequence[Column], reading: Reading) -> frozenset[int]:
    """The steps that work out what scales, shifts and gates any tower of a pass."""
    conditions = [column.towering.condition for column in columns if column.reading is reading]
    return frozenset[int]().union(*(one.nodes for one in conditions if one is not None))


def split_nodes(flow: Flow, staging: Staging) -> list[tuple[str, set[int]]]:
    """A stage's steps by branch; what branches side by side both begin with, a norm, belongs to neither."""
    mixed = {node for joint in staging.joints if joint.mixing is not None for node in joint.mixing.nodes}
    found = [("mixing", mixed)] if mixed else []
    gates = {node for joint in staging.joints if joint.weighing is not None for node in joint.weighing.nodes}
    found += [("gates", gates)] if gates else []
    apart = staging.branches if staging.stage.parallel else ()
    inner = [one.region.inner for one in apart]
    common = {node for nodes in inner for node in nodes if all(node in other for other in inner)}
    for one in staging.branches:
        name = name_branch(one.branch)
        if isinstance(one.branch, Attention) and (one.branch.window or one.branch.pooled or one.branch.pieces):
            name = "SELF-ATTENTION"
        name = "DEFORMABLE ATTENTION" if isinstance(one.branch, DeformableAttention) else name
        other = list_other_way(flow, one.region, one.site) if one.site is not None else frozenset[int]()
        found.append((name, set(one.region.inner | one.region.beside) - common - mixed - gates - other))
        found += [("CONVOLUTION BESIDE ATTENTION", set(other))] if other else []
    return found
