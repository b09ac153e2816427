"""Two streams that attend together: what ends the attention of each."""

import torch
from printed import words_of
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.body.test_streams_apart import CutInTwo, Joint
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

TAKEN = 3


class PutBack(Joint):
    """Only some rows of the second stream attend; zeros are put behind what they found (Mochi's words)."""

    def __init__(self):
        super().__init__()
        self.other_out, self.other_think = nn.Linear(WIDTH, WIDTH), FeedForwardPart()

    def forward(self, one, other):
        rows = torch.cat([self.norm(one), self.norm(other[:, :TAKEN])], dim=1)
        q, k, v = (layer(rows).unflatten(-1, (3, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        found = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        own, others = found.tensor_split((one.shape[1],), dim=1)
        others = functional.pad(others, (0, 0, 0, other.shape[1] - TAKEN))
        return self.think(one + self.out(own)), self.other_think(other + self.other_out(others))


def test_what_leads_rows_back_that_were_padded_before_is_drawn_for_each_stream():
    trace = xray.trace(CutInTwo(PutBack).eval(), torch.randn(2, 5, 7), torch.randn(2, 3, 4, 4))
    words = words_of(compose_poster(trace, text_width))

    assert words.count("LINEAR O") == 2
    assert "other_out" not in words
