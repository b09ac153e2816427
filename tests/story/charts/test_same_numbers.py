"""Numbers by which a layer multiplies: said of a layer that is drawn for several where all of them have them."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.charts.test_fused_heads import Fused
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Scaled(Fused):
    """A sublayer that is multiplied by a number before it is added (DiffLlama, Granite)."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x + self.attend(x) * self.factor


@pytest.mark.parametrize(
    ("factors", "told"), [((0.7, 0.7), {"× 0.7"}), ((0.7, 0.9), {"× A NUMBER OF EACH LAYER"}), ((1.5, 1.5), {"× 1.5"})]
)
def test_a_number_is_said_where_all_layers_have_it(factors, told):
    model = nn.Sequential(*(part for one in factors for part in (Scaled(one), FeedForwardPart())))
    (column,) = read_columns(xray.trace(model, torch.ones(2, 5, WIDTH)))

    labels = {node.label for frame in column.frames for panel in frame.panels for node in panel.chart.nodes}
    assert {label for label in labels if label.startswith(("× A", "× 0", "× 1"))} == told
