"""What is done behind the last of several branches in a row, before the sum that they have in common (DreamLite)."""

import torch
from story.cards.test_masks_of_one_branch import Reads

import xray
from xray.story.sheet.columns import read_columns


def test_each_of_the_sums_inside_of_a_sublayer_and_what_follows_the_last_have_boxes():
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    (column,) = read_columns(xray.trace(Reads(), torch.rand(2, 12, 3, 7), torch.rand(2, 5, 12), mask))
    chart = column.frames[0].panels[0].chart
    labels = {node.key: node.label for node in chart.nodes}

    assert [node.label for node in chart.nodes][-3:] == ["ADDED UP", "CONVOLUTION 1×1", "ADD"]
    sums = [key for key, label in labels.items() if label == "ADDED UP"]
    assert [sum(edge.target == one for edge in chart.edges) for one in sums] == [2, 2, 2]
