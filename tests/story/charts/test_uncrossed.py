"""The boxes of a row stand in the places between which the fewest lines cross."""

import pytest

from xray.story.charts.chart import Edge, Node, count_crossed, uncross
from xray.story.charts.steps.operations_chart import spread


def make_rows(*rows):
    return [
        Node(key, key.upper(), row, spread(place, len(keys)))
        for row, keys in enumerate(rows)
        for place, key in enumerate(keys)
    ]


def lead(*ways):
    return [Edge(*way) for way in ways]


def place_all(nodes):
    return {node.key: node.place for node in nodes}


CROSSED = lead("ad", "bc")


def test_boxes_whose_lines_cross_change_places():
    nodes = make_rows("ab", "cd")
    found = place_all(uncross(nodes, CROSSED))

    assert {found["a"] == found["d"], found["b"] == found["c"]} == {True}
    assert count_crossed({node.key: node for node in nodes}, CROSSED) == 1


def test_the_boxes_stay_in_their_order_wherever_they_stand():
    assert [node.key for node in uncross(make_rows("ab", "cd"), CROSSED)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("edges", [lead("ac", "bd"), lead("ac", "ad", "bd"), lead("ad"), lead("ac", "ad", "bc", "bd")])
def test_boxes_whose_lines_cross_no_less_anywhere_else_stay(edges):
    nodes = make_rows("ab", "cd")

    assert uncross(nodes, edges) == nodes


@pytest.mark.parametrize("order", ["def", "dfe", "edf", "efd", "fde", "fed"])
def test_three_boxes_stand_in_the_order_of_those_that_they_lead_to(order):
    nodes, edges = (
        make_rows("abc", "def"),
        lead(*(f"{below}{above}" for below, above in zip("abc", order, strict=True))),
    )
    found = uncross(nodes, edges)

    assert count_crossed({node.key: node for node in found}, edges) == 0
    assert sorted(node.place for node in found) == sorted(node.place for node in nodes)


def test_boxes_that_are_held_stay():
    found = place_all(uncross(make_rows("ab", "cd"), CROSSED, {"a", "c"}))

    assert found == place_all(make_rows("ab", "cd"))


def test_lines_to_different_rows_are_not_taken_for_crossed():
    nodes = {node.key: node for node in make_rows("ab", "c", "d")}

    assert count_crossed(nodes, lead("ad", "bc")) == 0
