"""Resamplers: a few learned rows that look at what another tower gives, before a stream takes them in."""

from collections.abc import Collection
from dataclasses import dataclass

from xray.ir.flow.attention_sites import Site, list_sites
from xray.ir.flow.dataflow import Flow
from xray.ir.flow.operand_ways import Way
from xray.ir.flow.operation_kinds import LOOKUPS
from xray.ir.flow.softmax_axis import read_equation
from xray.story.recognition.between import is_linear


@dataclass(frozen=True)
class Resampler:
    """An attention of learned rows: its steps, the last of them, how many rows ask, and how many are looked at.

    `heads` is None where these are not known. `linear` are the layers that make queries, keys and values of rows, and
    for which of these, where attention makes more of what they give (Aria).
    """

    nodes: tuple[int, ...]
    end: int
    rows: int
    seen: int
    trained: bool | None
    heads: int | None = None
    linear: tuple[tuple[int, str], ...] = ()


def find_resamplers(flow: Flow, nodes: Collection[int], stops: Collection[int]) -> tuple[Resampler, ...]:
    """The attentions in an entrance whose queries are made of parameters alone, and keys and values of other towers.

    `stops` are the steps that other towers end with.
    """
    found = []
    for site in list_sites(flow):
        if site.weighted_sum not in nodes or not all(
            comes_from(flow, way, nodes, stops) for way in (site.key, site.value)
        ):
            continue
        rows, seen = count_rows(flow, site, site.query), count_rows(flow, site, site.key)
        learned = read_learned(flow, site.query.nodes)
        if learned and rows is not None and seen is not None:
            inside = list_own(site) & {*nodes, *site.query.nodes}
            end = next(node for node in (site.output, *reversed(site.concat), site.weighted_sum) if node in inside)
            trained = None if None in learned else all(learned)
            heads, linear = count_heads_at(flow, site), list_made_before(flow, site, inside)
            found.append(Resampler(tuple(sorted(inside)), end, rows, seen, trained, heads, linear))
    return tuple(found)


def list_made_before(flow: Flow, site: Site, inside: Collection[int]) -> tuple[tuple[int, str], ...]:
    """The linear layers outside an attention by which queries, keys and values are made, each with their letters."""
    made: dict[int, list[str]] = {}
    for letter, way in (("Q", site.query), ("K", site.key), ("V", site.value)):
        origin = flow.carried_from(way.origin)
        if origin is not None and origin not in inside and is_linear(flow, origin):
            made.setdefault(origin, []).append(letter)
    return tuple((node, ", ".join(letters)) for node, letters in made.items())


def comes_from(flow: Flow, way: Way, nodes: Collection[int], stops: Collection[int]) -> bool:
    """Whether keys or values are made, by steps of an entrance, of what another tower ends with."""
    behind = flow.behind(*way.nodes, way.origin, within=nodes.__contains__)
    return way.origin in stops or any(maker in stops for node in behind for maker in flow.makers[node])


def list_own(site: Site) -> set[int]:
    """The steps that an attention is made of."""
    own = {site.scores, *site.scored, *site.weighed, site.weighted_sum, *site.concat}
    own = own.union(*(way.nodes for way in (site.query, site.key, site.value)))
    return own if site.output is None else own | {site.output}


def count_rows(flow: Flow, site: Site, way: Way) -> int | None:
    """How many queries or keys there are: along the axis of the product that is theirs alone; None if not known."""
    product, shape = flow.steps[site.scores], way.end.shape
    letters, is_first = read_equation(product), way.end is product.inputs[-2]
    if letters is not None:
        own, other = letters[:2] if is_first else letters[1::-1]
        alone = set(own) & set(letters[2]) - set(other)
        mine = [size for letter, size in zip(own[::-1], shape[::-1], strict=False) if letter in alone]
        return mine[0] if len(mine) == 1 else None
    return shape[-2 if is_first else -1] if len(shape) > 1 and flow.op(site.scores) != "einsum" else None


def count_heads_at(flow: Flow, site: Site) -> int | None:
    """How many heads an attention has, where what they find has an axis for them, or lies side by side behind it."""
    shape = flow.output(site.weighted_sum).shape
    if len(shape) == len(("batch", "heads", "places", "d_v")):
        return shape[1]
    if len(shape) != len(("batch and heads", "places", "d_v")) or not site.concat:
        return None
    heads, rest = divmod(flow.output(site.concat[-1]).shape[-1], shape[-1])
    return heads if heads > 1 and not rest and shape[0] % heads == 0 else None


def read_learned(flow: Flow, nodes: Collection[int]) -> set[bool | None]:
    """Whether each parameter that steps are made of is trained; nothing where they are made of anything else too."""
    found: set[bool | None] = set()
    for node in flow.behind(*nodes):
        if flow.op(node) in LOOKUPS:
            return set()
        for record, maker in flow.given(node):
            if record.role == "parameter":
                found.add(record.trained)
            elif maker is None:
                return set()
    return found
