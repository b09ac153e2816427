"""What stands between layers or before all of them is no layer, and counted with none."""

import torch
from torch import nn

import xray
from xray import anatomy
from xray.story.sheet.columns import read_columns

WIDTH, LAYERS = 15, 4


class Timed(nn.Module):
    """A sublayer whose norm is scaled by what a condition says of each place."""

    def __init__(self, *inner):
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(WIDTH), nn.Linear(6, WIDTH)
        self.inner = nn.Sequential(*inner)

    def forward(self, x, time):
        return self.inner(self.norm(x) * (self.scale(time) + 1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.all_three, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (3, -1)).transpose(1, 2) for one in self.all_three(x).chunk(3, dim=-1))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Mirrored(nn.Module):
    """Layers, the later ones of which an earlier one's rows are mixed into, by a linear layer (Transfusion)."""

    def __init__(self):
        super().__init__()
        self.time = nn.Linear(1, 6)
        self.looks = nn.ModuleList(Timed(Attention()) for _ in range(LAYERS))
        self.thinks = nn.ModuleList(Timed(nn.Linear(WIDTH, 40), nn.GELU(), nn.Linear(40, WIDTH)) for _ in range(LAYERS))
        self.mixes = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH, bias=False) for _ in range(LAYERS // 2))

    def forward(self, x, time):
        time, kept = self.time(time[..., None]), []
        for number in range(LAYERS):
            if number < LAYERS // 2:
                kept.append(x)
            else:
                x = self.mixes[number - LAYERS // 2](torch.cat((x, kept.pop()), dim=-1)) + x
            x = self.looks[number](x, time) + x
            x = self.thinks[number](x, time) + x
        return x


def record():
    return xray.trace(Mirrored(), torch.rand(2, 7, WIDTH), torch.rand(2, 7))


def test_a_linear_layer_that_mixes_an_earlier_stream_in_is_no_layer():
    (tower,) = anatomy(record()).towers

    assert [group.layers for group in tower.groups] == [(0, 1), (2,), (3,)]
    assert {branch.part for branch in tower.branches} == {"attention", "feed_forward"}


def test_what_is_worked_out_before_all_layers_for_several_is_counted_with_none():
    (column,) = read_columns(record())
    model = Mirrored()

    assert sum(frame.params * len(frame.group.layers) for frame in column.frames) == sum(
        one.numel() for one in (*model.looks.parameters(), *model.thinks.parameters())
    )
    assert not any(any(frame.more) for frame in column.frames)
