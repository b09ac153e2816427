"""The first sublayer of a stage, and the last one: each layer has all of its own."""

import pytest
import torch
from handwritten import Attention
from torch import nn

import xray

WIDE, OTHER = 12, 18


class Local(nn.Module):
    """Attention, a convolution that changes the stream by itself, and a feed-forward of rows (TinyViT)."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.look = nn.LayerNorm(width), Attention(width, 3)
        self.local = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width))
        self.think = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, height, width, channels = x.shape
        read = self.norm(x.reshape(batch, height * width, channels))
        x = x + self.look(read, read).view(batch, height, width, channels)
        x = self.local(x.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
        return (x + self.think(x)).view(batch, height, width, channels)


class Locals(nn.Module):
    """Two stages of such layers, the map made smaller between them."""

    def __init__(self):
        super().__init__()
        self.stem, self.down = nn.Conv2d(3, WIDE, 2, 2), nn.Conv2d(WIDE, OTHER, 2, 2)
        self.stages = nn.ModuleList(nn.Sequential(*(Local(width) for _ in range(2))) for width in (WIDE, OTHER))
        self.head = nn.Linear(OTHER, 5)

    def forward(self, x):
        x = self.stages[0](self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.head(self.stages[1](self.down(x).permute(0, 2, 3, 1)).mean((1, 2)))


class Fewer(nn.Module):
    """Attention of a map whose keys and values a convolution makes of a square of places each (SegFormer)."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.ask, self.last = (nn.Conv2d(width, width, 1, bias=False) for _ in range(2))
        self.answer = nn.Conv2d(width, 2 * width, 2, 2, bias=False)

    def forward(self, x):
        read = self.norm(x)
        keys, values = self.answer(read).flatten(2).chunk(2, dim=1)
        scores = self.ask(read).flatten(2).mT @ keys / x.shape[1] ** 0.5
        return self.last((scores.softmax(-1) @ values.mT).mT.reshape(x.shape))


class Overlapping(nn.Module):
    """Two stages, each begun with a linear layer of a map, of layers whose attention gives rows by another one."""

    def __init__(self):
        super().__init__()
        self.stems = nn.ModuleList((nn.Conv2d(3 * 16, WIDE, 1), nn.Conv2d(WIDE * 4, OTHER, 1)))
        self.looks, self.thinks = (
            nn.ModuleList(make(width) for width in (WIDE, WIDE, OTHER, OTHER)) for make in (Fewer, self.think)
        )

    @staticmethod
    def think(width):
        return nn.Sequential(nn.GroupNorm(1, width), nn.Conv2d(width, 50, 1), nn.GELU(), nn.Conv2d(50, width, 1))

    def forward(self, x):
        for stage, (stem, side) in enumerate(zip(self.stems, (4, 2), strict=True)):
            rows = nn.functional.unfold(x, side, stride=side)
            x = stem(rows.view(*rows.shape[:2], x.shape[2] // side, x.shape[3] // side))
            for number in (2 * stage, 2 * stage + 1):
                x = self.looks[number](x) + x
                x = self.thinks[number](x) + x
        return x


@pytest.mark.parametrize(
    ("make", "layer"),
    [(Locals, ["attention", "convolution", "feed_forward"]), (Overlapping, ["attention", "feed_forward"])],
)
def test_each_layer_of_each_stage_has_its_attention_and_its_feed_forward(make, layer):
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(make().eval(), torch.rand(2, 3, 32, 32))).towers

    parts = [[branch.part for stage in group.stages for branch in stage.branches] for group in tower.groups]
    assert [group.count for group in tower.groups] == [2, 2]
    assert parts == [layer] * 2
