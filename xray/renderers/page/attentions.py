"""What a page knows of the attentions of a pass: which they are, their steps, the words beside their weights."""

from itertools import takewhile
from typing import Any

from xray.ir.flow.operand_ways import Way
from xray.ir.trace import Pass, Trace
from xray.story.body.reading import read_pass
from xray.story.weights.found import FoundAttention, list_attentions
from xray.story.weights.picture import Picture
from xray.story.weights.reading import draw_heads

Packed = dict[str, Any]


def pack_attentions(trace: Trace, one_pass: Pass) -> list[Packed]:
    """Every attention of a pass as plain JSON values, in order."""
    return [pack_attention(trace, one_pass, found) for found in list_attentions(trace, one_pass)]


def pack_attention(trace: Trace, one_pass: Pass, found: FoundAttention) -> Packed:
    """One attention; words and hidden cells stand for each sequence whose weights were kept."""
    steps, site = read_pass(one_pass).flow.steps, found.site
    first_head = list(takewhile(lambda one: one.head == 0, draw_heads(trace, one_pass, found)))

    def project(way: Way) -> str | None:
        return None if way.projection is None else steps[way.projection].id

    return {
        "kind": found.kind.name,
        "title": found.kind.title,
        "crosses": found.kind.crosses,
        "layer": found.layer,
        "nth": found.nth,
        "softmax": steps[site.softmax].id,
        "scored": [steps[place].id for place in site.scored if place != site.softmax],
        "mixed": steps[site.weighted_sum].id,
        "projections": [project(way) for way in (site.query, site.key, site.value)],
        "queries": [list(one.queries) for one in first_head],
        "keys": [list(one.keys) for one in first_head],
        "hidden": [spell_cells(one) for one in first_head],
    }


def spell_cells(picture: Picture) -> list[str] | None:
    """The hidden cells, a letter each; None where all may be seen."""
    if not any(any(row) for row in picture.hidden):
        return None
    return ["".join("x" if cell else "." for cell in row) for row in picture.hidden]
