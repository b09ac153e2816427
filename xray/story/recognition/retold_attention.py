"""An attention under canonical paths."""

from collections.abc import Sequence

from xray.ir.records import TensorRecord
from xray.story.recognition.attention_sites import Site
from xray.story.recognition.retold_moves import (
    add_linear,
    add_moves,
    flattening_moves,
    keeps_last_two,
    moves_in,
    name_operands,
)
from xray.story.recognition.retold_scores import add_scores
from xray.story.recognition.retold_steps import Block, Named, Retold
from xray.story.recognition.retold_ways import add_part, add_projection
from xray.story.recognition.scored_parts import read_scored
from xray.story.recognition.way_parts import cut_way


def retell_attention(
    told: Retold, path: str, site: Site, trailing: Sequence[int], inside: Block | None, apart: Sequence[int]
) -> None:
    """The block of one attention with all its parts; `trailing` are moves behind its output projection."""
    flow = told.flow
    nodes = nodes_of(site)
    block = told.open(path, "multi_head_attention", nodes, inside, apart=apart)
    ways = {"query": site.query, "key": site.key, "value": site.value}
    projections = [way.projection for way in ways.values()]
    cut = {
        name: cut_way(
            flow,
            way,
            shared=projections.count(way.projection) > 1,
            is_key=name == "key",
            d_k=site.query.end.shape[-1],
        )
        for name, way in ways.items()
    }
    previous: dict[str, tuple[TensorRecord, str | None]] = {}
    for name, parts in cut.items():
        if parts and parts[0].kind == "project":
            users = projections.count(ways[name].projection)
            add_projection(told, f"{path}.{name}", ways[name], parts[0], users, block)
            previous[name] = (parts[0].output, f"{path}.{name}#0")
    rest = {name: [part for part in parts if part.kind != "project"] for name, parts in cut.items()}
    for name, parts in rest.items():
        until = next((place for place, part in enumerate(parts) if part.kind == "split"), -1) + 1
        for part in parts[:until]:
            add_part(told, path, name, part, ways[name], previous, block)
        del parts[:until]
    for name, parts in rest.items():
        for part in parts:
            add_part(told, path, name, part, ways[name], previous, block)
    add_scores(told, path, site, previous, block)
    add_result(told, path, site, trailing, previous, block)
    mask = next((part for part in read_scored(flow, site.scored) if part.kind == "mask"), None)
    given: list[Named] = []
    for name, way in ways.items():
        if way.entry is not None:
            given.append((name, way.entry, way.origin))
    if mask is not None and mask.operand is not None:
        given.append(("mask", mask.operand.record, mask.operand.maker))
    told.close(block, given)
    if mask is not None and mask.operand is not None:
        told.link_mask(block, told.mask_of(path, mask.operand.record))


def nodes_of(site: Site) -> tuple[int, ...]:
    """All steps of an attention, in order."""
    output = () if site.output is None else (site.output,)
    ways = (*site.query.nodes, *site.key.nodes, *site.value.nodes)
    return tuple(sorted({*ways, *site.scored, *site.weighed, site.weighted_sum, *site.concat, *output}))


def add_result(
    told: Retold,
    path: str,
    site: Site,
    trailing: Sequence[int],
    previous: dict[str, tuple[TensorRecord, str | None]],
    block: Block,
) -> None:
    """The weighted sum, the heads side by side again, and the output projection."""
    flow = told.flow
    given = list(flow.given(site.weighted_sum))
    weights, maker = next(pair for pair in reversed(given) if pair[0] is not site.value.end)
    value_maker = next((before for record, before in given if record is site.value.end), None)
    weights_source = told.steps[-1].outputs[0].source
    flattening = set() if site.output is None else set(flattening_moves(flow, site.output))
    concat = [node for node in site.concat if node not in flattening]
    nodes = [site.weighted_sum]
    while concat and keeps_last_two(flow, nodes[-1], concat[0]):
        nodes.append(concat.pop(0))
    told.add(
        f"{path}.weighted_sum",
        "matmul",
        nodes,
        [("left", weights, maker), ("right", site.value.end, value_maker)],
        [flow.output(nodes[-1])],
        inside=block,
        params=0,
    )
    name_operands(told, {"left": (weights, weights_source), "right": previous.get("value")})
    if concat:
        entry: Named = ("x", flow.output(nodes[-1]), nodes[-1])
        joined = flow.output(concat[-1])
        if len(moves_in(flow, concat)) > 1:
            add_moves(told, f"{path}.concat", "concat_heads", concat, entry, joined, block)
        else:
            told.add(f"{path}.concat", "concat_heads", concat, [entry], [joined], inside=block, params=0)
    if site.output is not None:
        add_linear(told, f"{path}.output", site.output, trailing, block)
