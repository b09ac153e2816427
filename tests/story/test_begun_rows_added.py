"""Sums before an attention that add what a tower began with say so (SAM's tokens, which each layer adds again)."""

import pytest
import torch
from story.test_two_way import POINTS, Segments
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

OWN = "Q + WHAT CAME BEFORE THE LAYERS"
OTHERS = "+ WHAT THE DECODER BEGINS WITH"


class Again(Segments):
    """The same, where rows that ask and are asked have what they were at first added once more, or other rows."""

    def __init__(self, way):
        super().__init__()
        self.way, self.change = way, nn.Linear(self.points.out_features, self.points.out_features)

    def forward(self, image, points, known):
        seen, _ = self.see(self.patches(image).flatten(2).mT)
        rows = (self.neck(seen) + self.begun).flatten(2).mT
        few = first = torch.where(known, self.none, self.points(points))
        again = first if self.way == "as it was" else self.change(first)
        for there, think, back in zip(self.there, self.thinks, self.back, strict=True):
            few = think(there.norm(few + there.look(few + again, rows)))
            rows = back.norm(rows + back.look(rows, few + again))
        return self.last(few, rows), rows


def list_sums(way):
    torch.manual_seed(0)
    known = torch.tensor([[[False], [True], [False], [False]]] * 2)
    trace = xray.trace(Again(way).eval(), torch.rand(2, 3, 8, 8), torch.rand(2, POINTS, 2), known)
    frames = [frame for column in read_columns(trace) for frame in column.frames]
    nodes = [node for frame in frames for panel in frame.panels for node in panel.chart.nodes]
    return {node.label for node in nodes if node.label.startswith("ADDED UP") or "+ WHAT" in node.label}


@pytest.mark.parametrize(("way", "is_told"), [("as it was", True), ("changed", False)])
def test_sums_say_that_they_add_what_a_tower_began_with(way, is_told):
    labels = list_sums(way)

    assert ({OWN, OTHERS} <= labels) == is_told
    assert is_told or not any("WHAT" in one for one in labels)
