"""Attention whose keys are picked between places of its own map, where a branch of queries says (deformable)."""

import torch
from printed import words_of
from torch import nn
from torch.nn.functional import grid_sample

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, SIDE, HEADS = 12, 6, 3


class Laid(nn.LayerNorm):
    """A norm of the channels of a map."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Deformable(nn.Module):
    """`norm` stands among what makes the places that are picked."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(4))
        self.spread, self.norm, self.offset = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), Laid(WIDTH), nn.Conv2d(WIDTH, 2, 1)

    def forward(self, x):
        q = self.query(x)
        where = self.offset(self.norm(self.spread(q)).relu()).tanh().permute(0, 2, 3, 1)
        sampled = grid_sample(x, where, align_corners=True)
        q, k, v = (one.reshape(len(x) * HEADS, -1, SIDE**2) for one in (q, self.key(sampled), self.value(sampled)))
        weights = (torch.einsum("bcm,bcn->bmn", q, k) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return self.out(torch.einsum("bmn,bcn->bcm", weights, v).reshape(x.shape))


class Rolled(nn.Module):
    """Each row of a rolled map attends by itself."""

    def __init__(self):
        super().__init__()
        self.all, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        rows = x.roll((-1, -1), (2, 3)).permute(0, 2, 3, 1).flatten(0, 1)
        q, k, v = self.all(rows).view(*rows.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        made = self.out((weights @ v).transpose(1, 2).flatten(2))
        return made.reshape(-1, SIDE, SIDE, WIDTH).permute(0, 3, 1, 2).roll((1, 1), (2, 3))


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.first, self.second, self.attention = Laid(WIDTH), Laid(WIDTH), attention
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        rows = self.narrow(self.wide(self.second(x).flatten(2).transpose(1, 2)).relu())
        return x + rows.transpose(1, 2).reshape(x.shape)


class Net(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, WIDTH, 4, 4), nn.Linear(WIDTH, 5)
        self.blocks = nn.Sequential(*(Block(make()) for _ in range(2)))

    def forward(self, image):
        return self.head(self.blocks(self.patches(image)).mean((2, 3)))


def record(make):
    torch.manual_seed(0)
    return xray.trace(Net(make).eval(), torch.rand(1, 3, 4 * SIDE, 4 * SIDE))


def test_a_norm_among_what_says_where_keys_are_picked_is_none_of_keys():
    words = words_of(compose_poster(record(Deformable), text_width))

    assert "PICKED BETWEEN PLACES" in words
    assert "NORM OF K, V" not in words


def test_no_place_is_said_to_look_at_every_other_where_keys_are_picked_between_places():
    assert "Every place looks at every other." not in words_of(compose_poster(record(Deformable), text_width))


def test_the_width_of_a_map_is_that_of_its_channels_be_it_rolled():
    assert xray.anatomy(record(Rolled)).towers[0].d_model == WIDTH
