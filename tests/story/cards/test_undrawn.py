"""What the box of a closed stage says stands in a box: nothing of it is told as not drawn."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, SIDE = 24, 3


def list_texts(model, *given):
    boxes = compose_poster(xray.trace(model.eval(), *given), text_width).boxes
    return ["".join(run.text for run in line) for box in boxes for line in box.lines]


class EndsBare(nn.Module):
    """Two layers, and a feed-forward of other names behind them that no norm stands before (IPT)."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.last = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x + self.last(x)


def test_a_feed_forward_without_a_norm_is_drawn_by_one_that_has_one():
    texts = list_texts(EndsBare(), torch.arange(14).view(2, 7))

    assert any(text.endswith("without LAYER NORM") for text in texts)
    assert not any(text.startswith("Not drawn") for text in texts)


class Placed(nn.Module):
    """Attention on a map, with a bias that two linear layers make of how far apart places are."""

    def __init__(self, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.far = nn.Sequential(nn.Linear(2, 11), nn.ReLU(), nn.Linear(11, heads, bias=False))
        steps = torch.arange(SIDE)
        places = torch.stack(torch.meshgrid(steps, steps, indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None]).permute(1, 2, 0) + SIDE - 1
        self.register_buffer("ids", apart[..., 0] * (2 * SIDE - 1) + apart[..., 1])
        around = torch.arange(1.0 - SIDE, SIDE)
        self.register_buffer("table", torch.stack(torch.meshgrid(around, around, indexing="ij"), -1).flatten(0, 1))

    def forward(self, x, _memory=None, _mask=None):
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = self.far(self.table)[self.ids.view(-1)].view(*self.ids.shape, -1).permute(2, 0, 1)
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Kept(nn.Module):
    """Such an attention within another block."""

    def __init__(self, heads):
        super().__init__()
        self.near = Placed(heads)

    def forward(self, x, _memory, _mask):
        return self.near(x)


class TwoKinds(nn.Module):
    """Two layers of three heads, and two of four within others."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        kinds = [Placed(3), Placed(3), Kept(4), Kept(4)]
        self.layers = nn.ModuleList(Layer(WIDTH, one, norm="before") for one in kinds)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_makes_a_bias_is_drawn_where_the_box_of_a_closed_attention_says_it():
    texts = list_texts(TwoKinds(), torch.randn(1, 3, 12, 12))

    assert any("added to scores: 77 parameters" in text for text in texts)
    assert not any(text.startswith("Not drawn") for text in texts)
