"""How many parameters the boxes of a chart say that they hold."""

import re

COUNT = re.compile(r"([\d,]+) parameters?\b(?! outside)")


def count_in_boxes(chart) -> int:
    """What all counts in the boxes of a chart come to, but for those that are said to stand outside of it."""
    texts = (text for node in chart.nodes for text in (node.extra, node.value, *node.told))
    return sum(int(found.replace(",", "")) for text in texts for found in COUNT.findall(text))
