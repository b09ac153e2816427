"""A tower that looks at rows from outside is a decoder only where it hides the future."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray


class Asking(nn.Module):
    """An attention to its own rows, before which the future is hidden or not, and one to rows from outside."""

    def __init__(self, *, causal):
        super().__init__()
        self.causal = causal
        self.ways = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))

    def forward(self, x, outside):
        x = x + self.look(x, x, self.ways[:4], causal=self.causal)
        return x + self.look(x, outside, self.ways[4:], causal=False)

    def look(self, x, asked, ways, *, causal):
        query, key, value = (
            way(y).unflatten(-1, (3, -1)).transpose(1, 2) for way, y in zip(ways[:3], (x, asked, asked), strict=True)
        )
        looked = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return ways[3](looked.transpose(1, 2).flatten(2))


class Network(nn.Module):
    def __init__(self, *, causal):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        self.layers = nn.ModuleList(part for _ in range(2) for part in (Asking(causal=causal), FeedForwardPart()))

    def forward(self, x, outside):
        x = self.given(x)
        for layer in self.layers:
            x = layer(x, outside) if isinstance(layer, Asking) else layer(x)
        return x


@pytest.mark.parametrize(("causal", "name"), [(True, "decoder"), (False, "stack")])
def test_what_asks_rows_from_outside_is_a_decoder_where_it_hides_the_future(causal, name):
    model = Network(causal=causal).eval()
    (tower,) = xray.anatomy(xray.trace(model, torch.randn(2, 5, 7), torch.randn(2, 11, WIDTH))).towers

    assert tower.name == name


class Chain(nn.Module):
    """A stack, a second one that asks it, and a third one that asks the second (SAM 3)."""

    def __init__(self):
        super().__init__()
        self.given, self.other, self.last = (nn.Linear(7, WIDTH) for _ in range(3))
        self.first = nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        self.second, self.third = (nn.ModuleList(Asking(causal=False) for _ in range(2)) for _ in range(2))

    def forward(self, x, y, z):
        memory, y, z = self.first(self.given(x)), self.other(y), self.last(z)
        for layer in self.second:
            y = layer(y, memory)
        for layer in self.third:
            z = layer(z, y)
        return z


def test_a_tower_that_asks_and_is_asked_by_another_encodes_for_that():
    given = (torch.randn(2, places, 7) for places in (5, 11, 3))
    found = xray.anatomy(xray.trace(Chain().eval(), *given))

    asked = {link.target: link.source for link in found.links}
    assert [tower.name for tower in found.towers] == ["encoder", "encoder 2", "decoder"]
    assert asked == {"encoder 2": "encoder", "decoder": "encoder 2"}
