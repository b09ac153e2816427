"""Rows that go into a linear layer as they lay, but for an axis of 1."""

from story.body.test_mistaken import HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, draw, rows
from torch import nn
from torch.nn import functional


class Pooled(AttentionPart):
    """Attention of fewer rows, pooled as a picture of one channel, to all of them (Funnel)."""

    def __init__(self):
        super().__init__()
        self.query, self.both = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x):
        pooled = functional.avg_pool2d(x[:, None], (2, 1), ceil_mode=True)[:, 0]
        query = self.query(pooled).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        key, value = self.both(x).unflatten(-1, (2, HEADS, WIDTH // HEADS)).movedim(-3, 0).transpose(2, 3)
        return pooled + self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


def test_an_axis_of_one_that_rows_lose_lays_nothing_out():
    model = Reader(AttentionPart(), FeedForwardPart(), Pooled(), FeedForwardPart())

    labels = {node.label for node in draw(model, rows())}

    assert "AN AXIS OF 1 TAKEN OFF Q" in labels
    assert "LAID OUT Q" not in labels
