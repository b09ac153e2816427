"""Keys and values of the rows that a stream had before they became fewer: a query alone is pooled (Funnel)."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xray.story.anatomy.branches import Attention
from xray.story.charts.chart import Node
from xray.story.sentences.of_parts import LONGER


def reads_longer(branch: Attention, nodes: Sequence[Node], brought: Collection[str]) -> bool:
    """Whether boxes that read what was made before a layer work on more rows of its own stream than ask there."""
    asking = next((node.record for node in nodes if node.key == "linear0_q"), None)
    offered = [node.record for node in nodes if node.key in brought]
    if branch.source != "self" or branch.other_rows or asking is None or not offered:
        return False
    return all(one is not None and one.shape[1:2] > asking.shape[1:2] for one in offered)


def has_longer(nodes: Sequence[Node]) -> bool:
    """Whether keys and values of the stream itself have more rows than its queries, so that boxes tell of it."""
    rows = {node.key: node.record.shape[1:2] for node in nodes if node.record is not None and node.surface == "own"}
    asking = rows.get("linear0_q")
    return asking is not None and all(rows.get(f"linear0_{letter}", ()) > asking for letter in "kv")


def tell_longer(nodes: Sequence[Node], brought: Collection[str]) -> list[Node]:
    """The boxes as those of the stream itself; the first ones tell of how many rows they are."""
    found = []
    for node in nodes:
        node = replace(node, surface="own") if node.surface == "memory" else node
        rows = node.record.shape[1] if node.key in brought and node.record else 0
        found.append(replace(node, told=(*node.told, LONGER.format(rows=rows))) if rows else node)
    return found
