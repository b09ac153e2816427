"""What two towers begin with alike has its parameters at the first (Informer)."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH, KINDS = 15, 2


class Forecast(nn.Module):
    """The past and the future, each with the same rows of a kind beside it, in layers of their own."""

    def __init__(self):
        super().__init__()
        self.kinds, self.past, self.future = nn.Embedding(5, KINDS), nn.Linear(3 + KINDS, WIDTH), nn.Linear(5, WIDTH)
        self.first, self.second = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3)) for _ in range(2)
        )

    def forward(self, rows, kind):
        kinds = self.kinds(kind)[:, None].expand(-1, rows.shape[1], -1)
        both = torch.cat([rows, kinds], dim=-1)
        x, y = self.past(both[:, :6]), self.future(both[:, 6:])
        for layer in self.first:
            x = layer(x)
        for layer in self.second:
            y = layer(y)
        return x, y


def test_a_table_that_both_towers_begin_with_counts_at_the_first():
    trace = xray.trace(Forecast().eval(), torch.rand(2, 11, 3), torch.tensor([1, 3]))

    found = [node.extra for one in read_columns(trace) for node in one.entrance.nodes if "LOOKUP" in node.label]
    assert found == [f"{5 * KINDS} parameters", "same weights"]
