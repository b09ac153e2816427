"""An attention under canonical paths."""

from collections.abc import Sequence

from xray.story.recognition.attention_sites import Site
from xray.story.recognition.retold_moves import (
    add_linear,
    add_moves,
    flattening_moves,
    keeps_last_two,
    moves_in,
)
from xray.story.recognition.retold_scores import add_scores
from xray.story.recognition.retold_steps import Retold
from xray.story.recognition.retold_ways import add_part, add_projection
from xray.story.recognition.way_parts import cut_way


def retell_attention(told: Retold, path: str, site: Site, trailing: Sequence[int], apart: Sequence[int]) -> None:
    """The block of one attention with all its parts; `trailing` are moves behind its output projection."""
    told.open(path, nodes_of(site), apart=apart)
    ways = {"query": site.query, "key": site.key, "value": site.value}
    projections = [way.projection for way in ways.values()]
    cut = {
        name: cut_way(
            told.flow,
            way,
            shared=projections.count(way.projection) > 1,
            is_key=name == "key",
            d_k=site.query.end.shape[-1],
        )
        for name, way in ways.items()
    }
    for name, parts in cut.items():
        way = ways[name]
        if parts and parts[0].kind == "project" and way.entry is not None and way.projection is not None:
            add_projection(told, f"{path}.{name}", parts[0])
    rest = {name: [part for part in parts if part.kind != "project"] for name, parts in cut.items()}
    for name, parts in rest.items():
        until = next((place for place, part in enumerate(parts) if part.kind == "split"), -1) + 1
        for part in parts[:until]:
            add_part(told, path, name, part)
        del parts[:until]
    for name, parts in rest.items():
        for part in parts:
            add_part(told, path, name, part)
    add_scores(told, path, site)
    add_result(told, path, site, trailing)


def nodes_of(site: Site) -> tuple[int, ...]:
    """All steps of an attention, in order."""
    output = () if site.output is None else (site.output,)
    ways = (*site.query.nodes, *site.key.nodes, *site.value.nodes)
    return tuple(sorted({*ways, *site.scored, *site.weighed, site.weighted_sum, *site.concat, *output}))


def add_result(told: Retold, path: str, site: Site, trailing: Sequence[int]) -> None:
    """The weighted sum, the heads side by side again, and the output projection."""
    flow = told.flow
    flattening = set() if site.output is None else set(flattening_moves(flow, site.output))
    concat = [node for node in site.concat if node not in flattening]
    nodes = [site.weighted_sum]
    while concat and keeps_last_two(flow, nodes[-1], concat[0]):
        nodes.append(concat.pop(0))
    told.add(f"{path}.weighted_sum", nodes)
    if len(moves_in(flow, concat)) > 1:
        add_moves(told, f"{path}.concat", concat)
    elif concat:
        told.add(f"{path}.concat", concat)
    if site.output is not None:
        add_linear(told, f"{path}.output", site.output, trailing)
