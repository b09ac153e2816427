"""Rows that go into a linear layer as they lay, but for an axis of 1."""

import pytest
from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, draw, rows
from torch import nn
from torch.nn import functional


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

    assert ("AN AXIS OF 1 TAKEN OFF Q" in labels) is alone
    assert "LAID OUT FOR Q" not in labels
