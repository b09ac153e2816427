"""The narrow form of a chart, for a second pass beside the first: one lane, two where keys go another way than queries.

Rows keep their keys, so that both forms can stand on the same heights.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from xray.story.charts.chart import Chart, Edge, Node, Place

FULL: Place = (0.5, 1.0)
HALF_LEFT, HALF_RIGHT = (0.2465, 0.493), (0.7535, 0.493)
KEYS_SIDE, QUERIES_SIDE = frozenset("kv"), frozenset("q")
SHORT = {
    "input": "INPUT",
    "scores": "SCORES",
    "softmax": "SOFTMAX",
    "concat": "CONCAT",
    "turn_k": "K^T",
    "expand": "EXPAND",
    "contract": "CONTRACT",
}
"""Names that are shorter than those of the wide form, by key."""

Alike = Callable[[Node, Node], bool]
"""Whether two nodes of a row print the same shape."""


def narrow_chart(chart: Chart, alike: Alike) -> Chart:
    """The same chart in one lane."""
    heads: dict[str, str] = {}
    nodes: list[Node] = []
    split = False
    for row in range(chart.rows):
        groups = group_row(sorted(chart.in_row(row), key=lambda node: node.place[0]), alike)
        split = split or len(groups) > 1
        for number, group in enumerate(groups):
            merged = merge_nodes(group, number, len(groups), split)
            nodes.append(merged)
            heads |= {node.key: merged.key for node in group}
    edges = {(heads[edge.source], heads[edge.target]) for edge in chart.edges}
    edges = {(source, target) for source, target in edges if source != target}
    return Chart(
        tuple(nodes),
        tuple(Edge(*edge) for edge in sorted(thin_out(edges))),
        tuple(dict.fromkeys(heads[key] for key in chart.feet)),
        " ".join(dict.fromkeys(heads[key] for key in chart.heads)),
        tuple(dict.fromkeys(heads[key] for key in chart.memory)),
    )


def letters_of(node: Node) -> frozenset[str]:
    """Of which of queries, keys and values a node is; none of them where it is of their product."""
    tail = node.key.rpartition("_")[2]
    return frozenset(tail) if tail and set(tail) <= set("qkv") and "_" in node.key else frozenset()


def group_row(nodes: Sequence[Node], alike: Alike) -> list[list[Node]]:
    """Neighbours of a row that do the same to the same shape, together; keys and queries apart where those differ."""
    groups: list[list[Node]] = []
    for node in nodes:
        last = groups[-1][-1] if groups else None
        is_same = last is not None and letters_of(last) and letters_of(node) and last.surface == node.surface
        if is_same and last is not None and alike(last, node):
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def merge_nodes(group: Sequence[Node], number: int, count: int, split: bool) -> Node:
    """Nodes that do the same, as one."""
    first = group[0]
    letters = frozenset().union(*map(letters_of, group))
    place: Place = FULL
    is_part = bool(letters) and (letters <= KEYS_SIDE or letters <= QUERIES_SIDE)
    if (count == 1 and is_part) or (count == 2 and letters):
        place = HALF_LEFT if letters <= KEYS_SIDE else HALF_RIGHT
    elif count > 1:
        place = ((number + 0.5) / count, 0.98 / count)
    label = SHORT.get(first.key, first.label.replace("LAYER NORM", "NORM").removesuffix(" TO VOCABULARY"))
    if letters and first.key not in SHORT:
        told = ", ".join(letter.upper() for letter in "qkv" if letter in letters)
        name = first.label.rpartition(" ")[0] if first.label.endswith(first.key[-1].upper()) else first.label
        label = f"{name} {told}" if place == FULL else told if name in ("LINEAR", "HEADS") else f"+ {name}"
    steps = tuple({step.id: step for node in group for step in node.steps}.values())
    return replace(first, label=label, place=place, steps=steps, remark="", extra="")


def thin_out(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges without those that lead past nodes which lead there too; what asks in scores stays."""
    after: dict[str, set[str]] = {}
    for source, target in edges:
        after.setdefault(source, set()).add(target)

    def reaches(start: str, end: str, seen: set[str]) -> bool:
        return any(
            one == end or (one not in seen and reaches(one, end, seen | {one})) for one in sorted(after.get(start, ()))
        )

    return {
        (source, target)
        for source, target in edges
        if target.endswith("scores") or not any(reaches(one, target, set()) for one in after[source] - {target})
    }


def align_rows(wide: Chart, narrow: Chart) -> tuple[Chart, Chart]:
    """Both charts with their rows renumbered so that nodes of one key stand in one row."""
    rows_of_wide, rows_of_narrow = (
        [{node.key for node in one.in_row(row)} for row in range(one.rows)] for one in (wide, narrow)
    )
    wide_at, narrow_at = {}, {}
    here = place = 0
    for number, keys in enumerate(rows_of_narrow):
        match = next((row for row in range(here, len(rows_of_wide)) if rows_of_wide[row] & keys), None)
        if match is not None:
            for row in range(here, match + 1):
                wide_at[row] = place
                place += 1
            here = match + 1
            narrow_at[number] = place - 1
        else:
            narrow_at[number] = place
            place += 1
    for row in range(here, len(rows_of_wide)):
        wide_at[row] = place
        place += 1
    return renumber(wide, wide_at), renumber(narrow, narrow_at)


def renumber(chart: Chart, rows: dict[int, int]) -> Chart:
    """A chart with its rows where they are told to be."""
    return replace(chart, nodes=tuple(replace(node, row=rows[node.row]) for node in chart.nodes))
