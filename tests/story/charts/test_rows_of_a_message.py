"""Rows that each layer works out of its stream and puts beside it before attention, as a message to it (X-CLIP)."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, WIDTH, AttentionPart, FeedForwardPart, Reader, draw
from torch import nn
from torch.nn import functional

PLACES = 5


class Message(AttentionPart):
    """Attention of all rows and those that a message is made of; behind its sum they are left off, or go on as rows."""

    def __init__(self, count):
        super().__init__()
        self.count, self.make, self.back = count, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        made = self.back(torch.tanh(self.make(x[:, : self.count])))
        rows = torch.cat([x, made], dim=1)
        q, k, v = self.qkv(self.norm(rows)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        return (rows + seen)[:, : x.shape[1]]


@pytest.mark.parametrize(
    ("count", "told"), [(1, "1 row beside it; this goes no further"), (2, "2 rows beside it; these go no further")]
)
def test_rows_beside_a_stream_that_are_left_off_behind_a_sum_are_told_to_go_no_further(count, told):
    model = Reader(*(part for _ in range(3) for part in (Message(count), FeedForwardPart())))

    said = {text for node in draw(model, torch.randn(BATCH, PLACES, 7)) for text in node.told}
    assert f"the stream comes by with {told}" in said
