"""What places alone make, by a layer and weighed by a softmax, beside what rows make of each other."""

import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn
from unsaid import list_unsaid

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Gated(nn.Module):
    """Two attentions added up, each through a gate: of rows, and of places alone that a layer weighs (ConViT)."""

    def __init__(self, heads=4):
        super().__init__()
        self.norm, self.qk, self.v = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.places: nn.Module = nn.Linear(2, heads)
        self.out, self.heads = nn.Linear(WIDTH, WIDTH), heads
        self.gate = nn.Parameter(torch.ones(heads))

    def forward(self, x):
        rows, places = self.norm(x), torch.arange(x.shape[1], dtype=x.dtype)
        query, key = self.qk(rows).reshape(*x.shape[:2], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        apart = places[None] - places[:, None]
        near = self.places(torch.stack([apart, apart**2], dim=-1)).permute(2, 0, 1)[None]
        gate = torch.sigmoid(self.gate.view(1, -1, 1, 1))
        weights = (1 - gate) * (query @ key.mT / 2).softmax(-1) + gate * near.softmax(-1)
        weights = weights / weights.sum(-1, keepdim=True)
        value = self.v(rows).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


def test_what_places_alone_make_by_a_layer_and_in_no_box_is_said():
    parts = (part for _ in range(3) for part in (Gated(), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Embedding(12, WIDTH), *parts).eval(), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    ((_, counts),) = list_unsaid(read_columns(trace))
    lines = [line for box in compose_poster(trace, text_width).boxes for line in box.lines]
    text = " ".join("".join(run.text for run in line) for line in lines)

    assert (counts["linear"], counts["softmax"]) == (3, 3)
    assert "Not drawn, with parameters: 1.places (12), 3.places (12), and 1 more (12)." in text


class Placed(Gated):
    """The same, with a norm before the layer that weighs places (LightSANs)."""

    def __init__(self):
        super().__init__()
        self.places = nn.Sequential(nn.LayerNorm(2), self.places)


def test_a_norm_before_what_places_alone_make_is_said_to_be_in_no_box_too():
    parts = (part for _ in range(3) for part in (Placed(), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Embedding(12, WIDTH), *parts).eval(), torch.tensor([[1, 2, 3], [4, 5, 6]]))
    ((_, counts),) = list_unsaid(read_columns(trace))

    assert (counts["linear"], counts["layer_norm"]) == (3, 3)
