"""Two tables of places, repeated for each sequence and cut: each is counted in one box (RAR)."""

import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class TwoTables(nn.Module):
    """Words and places; the places that are aimed at, between two rows of zeros, are added then."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, 12)
        self.own_places, self.aimed_places = (nn.Parameter(torch.rand(1, 20, 12)) for _ in range(2))
        layer = nn.TransformerEncoderLayer(12, 2, 37, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids):
        x = self.words(ids)
        own, aimed = (table.repeat(len(ids), 1, 1) for table in (self.own_places, self.aimed_places))
        x = x + torch.cat([own[:, :1], own[:, 2:7]], dim=1)
        edge = torch.zeros_like(x[:, :1])
        return self.layers(x + torch.cat([edge, aimed[:, 2:6], edge], dim=1))


def test_each_table_of_places_is_counted_once_where_it_stands():
    (column,) = read_columns(xray.trace(TwoTables().eval(), torch.arange(12).view(2, 6)))
    boxes = [(node.label, node.extra) for node in column.entrance.nodes]

    counted = sorted(label for label, extra in boxes if extra == "240 parameters")
    assert counted == ["+ LEARNED PLACES", "END TO END: 1 + 4 LEARNED + 1"]
    assert sum("LEARNED PLACES" in label for label, _ in boxes) == 2
