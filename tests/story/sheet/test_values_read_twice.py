"""What makes an attention's values is counted with it, be it that a convolution beside it reads these too."""

import torch
from story.parameter_bars import bars_of, poster_of
from torch import nn
from torch.nn import functional

HEADS, WIDTH, WIDE = 3, 21, 35
LINEAR = WIDTH * WIDTH + WIDTH


def attend(query, key, value):
    heads = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, key, value))
    return functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)


class BesideConvolution(nn.Module):
    """Attention, and a convolution of its values, added together (Fun-ASR)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.back = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.near = nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH, bias=False)

    def forward(self, x):
        read = self.norm(x)
        value = self.value(read)
        near = self.near(value.transpose(1, 2)).transpose(1, 2) + value
        return x + (self.back(attend(self.query(read), self.key(read), value)) + near)


class OneLinear(nn.Module):
    """One linear layer that makes queries, keys and values, and the wide rows of a feed-forward beside them."""

    def __init__(self):
        super().__init__()
        self.norm, self.all = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH + WIDE)
        self.back, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDE, WIDTH)

    def forward(self, x):
        query, key, value, wide = self.all(self.norm(x)).split([WIDTH, WIDTH, WIDTH, WIDE], -1)
        return x + (self.back(attend(query, key, value)) + self.down(functional.gelu(wide)))


def bars(layer):
    torch.manual_seed(0)
    return bars_of(
        poster_of(nn.Sequential(nn.Embedding(11, WIDTH), layer(), layer()), torch.arange(14).view(2, 7) % 11)
    )


def test_the_layer_of_the_values_is_counted_with_the_attention():
    found = bars(BesideConvolution)

    assert found["self-attention × 2"] == 2 * (4 * LINEAR + 2 * WIDTH)
    assert found["convolution × 2"] == 2 * 5 * WIDTH
    assert not [name for name in found if name.startswith("around")]


def test_a_layer_that_makes_more_than_queries_keys_and_values_is_of_no_branch():
    found = bars(OneLinear)

    assert found["self-attention × 2"] == 2 * LINEAR
    assert found["around sublayers × 2"] == 2 * (WIDTH + 1) * (3 * WIDTH + WIDE)
