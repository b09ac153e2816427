"""Rows that go into a linear layer as they lay, but for an axis of 1."""

import pytest
import torch
from printed import lines_of
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, draw, rows
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster


class Pooled(AttentionPart):
    """Attention of fewer rows, pooled as a map of one channel, to all of them: queries alone lose that axis, or all.

    So does Funnel, whose way past the attention has lost it too.
    """

    def __init__(self, *, alone):
        super().__init__()
        self.alone = alone
        self.query, self.both = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        pooled = functional.avg_pool2d(x[:, None], (2, 1), ceil_mode=True)
        few = pooled[:, 0]
        query = self.query(few).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        key, value = self.both(x).unflatten(-1, (2, HEADS, WIDTH // HEADS)).movedim(-3, 0).transpose(2, 3)
        seen = self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return (pooled + seen[:, None])[:, 0] if self.alone else few + seen


@pytest.mark.parametrize("alone", [True, False])
def test_an_axis_of_one_that_rows_lose_lays_nothing_out(alone):
    model = Reader(AttentionPart(), FeedForwardPart(), Pooled(alone=alone), FeedForwardPart())

    labels = {node.label for node in draw(model, rows())}

    assert ("AN AXIS OF 1 TAKEN OFF" in labels) is alone
    assert "LAID OUT FOR Q" not in labels


class Turning(nn.Module):
    """Layers whose attention, torch's own, is to have places first, of one sequence; places are added to it alone."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.rand(1, 8, WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True) for _ in range(2)
        )

    def forward(self, x):
        for layer in self.layers:
            beside = x + self.places
            x = layer.norm1(x + layer.self_attn(beside, beside, x)[0])
            x = layer.norm2(x + layer.linear2(layer.linear1(x).relu()))
        return x


def test_an_axis_of_one_that_is_swapped_is_not_taken_off():
    trace = xray.trace(Turning().eval(), torch.rand(1, 8, WIDTH))

    lines = lines_of(compose_poster(trace, text_width))
    assert not any("TAKEN OFF" in line for line in lines)
    assert any("AXES SWAPPED" in line for line in lines)
