"""A stream whose attention has the keys of another tower beside its own: where they come from, and what is hidden."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, READ, SAID, WORDS = 15, 7, 5, 31


class Joined(nn.Module):
    """Attention of a stream to itself and to rows from elsewhere, by the same weights (T5Gemma 2)."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, memory, mask):
        keys = torch.cat([self.heads(self.k(x)), self.heads(self.k(memory))], dim=2)
        values = torch.cat([self.heads(self.v(x)), self.heads(self.v(memory))], dim=2)
        scores = (self.heads(self.q(x)) @ keys.mT / 5**0.5).masked_fill(mask, -torch.inf)
        return self.o((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))

    def heads(self, x):
        return x.unflatten(-1, (3, -1)).transpose(1, 2)


class Rms(nn.Module):
    """A norm that is written out, and brought to the type of its rows at the end."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)).type_as(x)


class Says(nn.Module):
    """A layer whose attention has keys from elsewhere beside its own."""

    def __init__(self):
        super().__init__()
        self.before, self.look, self.after = nn.LayerNorm(WIDTH), Joined(), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 41), nn.GELU(), nn.Linear(41, WIDTH))

    def forward(self, x, memory, mask):
        x = x + self.look(self.before(x), memory, mask)
        return x + self.think(self.after(x))


class ReadsAndSays(nn.Module):
    """An encoder with a last norm, and a decoder that looks at both by one softmax.

    `hide` says which of its own places are hidden.
    """

    def __init__(self, hide):
        super().__init__()
        self.hide = hide
        self.words, self.said, self.norm = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH), Rms()
        self.reader = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.layers = nn.ModuleList(Says() for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, said):
        x, y = self.words(ids), self.said(said)
        for layer in self.reader:
            x = layer(x)
        memory = self.norm(x)
        own = self.hide(torch.ones(SAID, SAID, dtype=torch.bool))
        mask = torch.cat([own, torch.zeros(SAID, READ, dtype=torch.bool)], dim=-1)
        for layer in self.layers:
            y = layer(y, memory, mask)
        return self.head(y)


def draw(hide):
    torch.manual_seed(0)
    trace = xray.trace(ReadsAndSays(hide), torch.arange(14).view(2, READ), torch.arange(10).view(2, SAID))
    return compose_poster(trace, text_width)


def list_texts(layout):
    return ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]


@pytest.mark.parametrize(
    ("hide", "told"),
    [
        (lambda every: every.triu(1), "Places look back, never ahead, and at those of "),
        (lambda every: every.triu(9), "Places look at each other, and at those of "),
    ],
)
def test_a_station_says_whether_its_own_places_look_ahead(hide, told):
    assert any(text.startswith(told) for text in list_texts(draw(hide)))


def test_memory_leaves_from_the_last_norm_be_it_brought_to_another_type():
    layout = draw(lambda every: every.triu(1))

    (norm, *_) = [box for box in layout.boxes if any(run.text == "LAST NORM" for line in box.lines for run in line)]
    starts = {curve.points[0] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert starts == {(norm.x, norm.top)}
