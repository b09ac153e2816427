"""What enters the first layer is the stream, and nothing that a norm of several steps makes on its way."""

import torch
from story.body.test_mistaken import HEADS, WIDTH
from torch import nn
from torch.nn.functional import normalize, scaled_dot_product_attention

import xray
from xray.story.sheet.columns import read_columns


class Norm(nn.Module):
    """The length of each row is made 1, and numbers multiply that (x-transformers)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        weight = self.weight + 1
        return normalize(x, dim=-1) * WIDTH**0.5 * weight


class Normed(nn.Module):
    """Attention behind such a norm."""

    def __init__(self):
        super().__init__()
        self.norm = Norm()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        normed = self.norm(x)
        query, key, value = (
            way(normed).unflatten(-1, (HEADS, -1)).transpose(1, 2) for way in (self.query, self.key, self.value)
        )
        return x + self.out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


def test_what_enters_a_layer_is_the_stream_where_its_norm_has_several_steps():
    model = nn.Sequential(nn.Embedding(11, WIDTH), *(Normed() for _ in range(2)))
    (column,) = read_columns(xray.trace(model.eval(), torch.arange(5).repeat(2, 1)))

    (panel, *_) = column.frames[0].panels
    assert any(step.op == "normalize" for step in panel.chart.nodes[0].steps)
    assert panel.entering is not None
    assert panel.entering.op == "embedding"
