"""What comes in stands at the foot in the order of the boxes that read it."""

import torch
from story.layered import Layered, read
from torch import nn

WIDTH, OTHER = 15, 12


class Prefixed(Layered):
    """Rows that two linear layers lead to the width, in front of words that are looked up first (UniDiffuser)."""

    def __init__(self):
        super().__init__()
        self.lead, self.back = nn.Linear(OTHER, 5), nn.Linear(5, WIDTH)
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Embedding(64, WIDTH)

    def enter(self, rows, ids):
        words = self.words(ids)
        x = torch.cat([self.back(self.lead(rows)), words], dim=1)
        return x + self.places(torch.arange(x.shape[1]).unsqueeze(0))


def test_inputs_beside_each_other_stand_so_that_no_arrow_from_one_crosses_another():
    chart = read(Prefixed, torch.rand(2, 4, OTHER), torch.arange(14).view(2, 7)).entrance

    given = sorted((node for node in chart.nodes if node.row == 0), key=lambda node: node.place)
    ends = [chart.node(edge.target).place for node in given for edge in chart.edges if edge.source == node.key]
    assert [node.label for node in given] == ["TOKEN IDS", "VECTORS"]
    assert ends == sorted(ends)
