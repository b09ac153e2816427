"""What a head reads of tensors that were laid on a stack, as what each layer gives is."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class OfOneLayer(Reader):
    """What each layer gives is laid on a stack, of which a head reads one (ACT)."""

    def __init__(self, *layers, place=0, norm=None):
        super().__init__(*layers)
        self.head, self.place, self.norm = nn.Linear(WIDTH, 5), place, norm

    def forward(self, x, kind=None):
        x, given = self.project(x), []
        for layer in self.layers:
            x = layer(x)
            given.append(self.norm(x) if self.norm else x)
        return self.head(torch.stack(given).transpose(1, 2)[self.place])


@pytest.mark.parametrize(("place", "told"), [(0, "THE FIRST"), (1, "NUMBER 2"), (-1, "THE LAST")])
@pytest.mark.parametrize("norm", [None, nn.LayerNorm(WIDTH)])
def test_which_of_stacked_tensors_a_head_reads_is_told(place, told, norm):
    model = OfOneLayer(*(FeedForwardPart() for _ in range(3)), place=place, norm=norm).eval()
    (column,) = read_columns(xray.trace(model, rows()))

    assert f"LINEAR OF {told} OF 3 STACKED" in [node.label for node in column.exit.nodes]
