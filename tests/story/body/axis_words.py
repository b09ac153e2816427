"""Whether an axis that is called by a fact of its tower has the size that this fact says."""

from collections.abc import Iterator

FACTS = ("heads", "kv_heads", "d_k", "d_v", "d_ff")


def list_misnamed(columns) -> Iterator[tuple[str, str, int]]:
    """The words of axes in boxes of layers with the sizes that they cannot have, by the name of the box."""
    for column in columns:
        sizes = collect_sizes(column.towering.tower)
        charts = [panel.chart for frame in column.frames for panel in frame.panels if panel.chart is not None]
        for node in (node for chart in charts for node in chart.nodes if node.record is not None):
            for size, word in zip(node.record.shape, node.record.axes, strict=True):
                if sizes.get(word) and size not in sizes[word]:
                    yield node.label, word, size


def collect_sizes(tower) -> dict[str, set[int]]:
    """What sizes the facts of a tower allow for each word; none for a word of which nothing is known."""
    sizes = {fact: {getattr(one, fact, None) for one in tower.branches} - {None} for fact in FACTS}
    sizes["kv_heads"] |= sizes["heads"]
    sizes["d_v"] |= sizes["d_k"]
    return sizes | {"d_model": {tower.d_model, *(group.d_model for group in tower.groups)} - {None}}
