"""What went into layers, added behind all of them to some of their rows: a way past them, and no sublayer around."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.whole import anatomy
from xray.story.sheet.arrows.proof import keep_proven
from xray.story.sheet.columns import read_columns

WIDTH, MOMENTS, WORDS = 22, 4, 5


class Frames(nn.Module):
    """Pictures of several moments beside what is asked, as vectors; each moment has a row of its own (Hiveformer)."""

    def __init__(self):
        super().__init__()
        self.cut, self.lead = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Linear(WIDTH, WIDTH)
        self.asked, self.moments = nn.Linear(13, WIDTH), nn.Embedding(20, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 31, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, 7)

    def forward(self, pictures, asked, moments):
        asked = self.asked(asked)
        maps = self.cut(pictures.flatten(0, 1)).relu().flatten(2).transpose(1, 2)
        maps = self.lead(maps).unflatten(0, (2, MOMENTS))
        before = self.lay(maps)
        rows = (maps + self.moments(moments).unsqueeze(2)).flatten(1, 2)
        found = self.layers(torch.cat([asked, rows], dim=1))[:, WORDS:]
        whole = self.lay(found.reshape(maps.shape)) + before
        made = self.out(whole.mean((2, 3)))
        return made.reshape(2, MOMENTS, 7)[..., :3]

    def lay(self, rows):
        return rows.transpose(2, 3).reshape(2 * MOMENTS, WIDTH, 3, 3)


@pytest.fixture(scope="module")
def frames():
    given = torch.rand(2, MOMENTS, 3, 12, 12), torch.rand(2, WORDS, 13), torch.arange(MOMENTS).expand(2, -1)
    with torch.no_grad():
        return xray.trace(Frames().train(), *given)


def test_layers_are_a_tower_where_a_sum_around_them_adds_no_more_than_they_made(frames):
    (tower,) = anatomy(frames).towers

    assert [(tower.layers, stage.norm.is_behind_sum) for stage in tower.groups[0].stages] == [(1, True)] * 2
    assert keep_proven(read_columns(frames))


def test_a_row_of_each_moment_is_no_word(frames):
    (tower,) = anatomy(frames).towers

    assert (tower.vocab, tower.also) == (None, None)


def test_numbers_of_moments_are_not_said_to_come_out_for_each_place(frames):
    assert anatomy(frames).head is None


class Convolving(nn.Module):
    """A map, and two convolutions of it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return (x + self.second(self.first(x).relu())).relu()


class Fusing(nn.Module):
    """Two maps whose places look at each other as one row; to each is added what became of its own (TransFuser)."""

    def __init__(self):
        super().__init__()
        blocks = (nn.ModuleList(Convolving() for _ in range(4)) for _ in range(2))
        self.begin, self.ends = nn.ModuleList(nn.Conv2d(3, WIDTH, 1) for _ in range(2)), nn.ModuleList(blocks)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 2), norm="before") for _ in range(3))

    def forward(self, pictures, depths):
        maps = [begin(one) for begin, one in zip(self.begin, (pictures, depths), strict=True)]
        maps = [blocks[1](blocks[0](one)) for blocks, one in zip(self.ends, maps, strict=True)]
        rows = torch.cat([functional.avg_pool2d(one, 2).flatten(2) for one in maps], 2).mT
        for layer in self.layers:
            rows = layer(rows)
        found = [one.mT.unflatten(2, (2, 2)) for one in rows.chunk(2, 1)]
        maps = [one + functional.interpolate(more, scale_factor=2) for one, more in zip(maps, found, strict=True)]
        return [blocks[3](blocks[2](one)) for blocks, one in zip(self.ends, maps, strict=True)]


def test_no_map_to_which_layers_of_rows_give_something_goes_on_as_their_stream():
    with torch.no_grad():
        found = anatomy(xray.trace(Fusing().eval(), torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 4)))

    parts = [{branch.part for branch in tower.branches} for tower in found.towers]
    assert [tower.layers for tower, own in zip(found.towers, parts, strict=True) if "attention" in own] == [3]
    assert all(own in ({"convolution"}, {"attention", "feed_forward"}) for own in parts)


class Weighed(nn.Module):
    """Places are convolved, and weighed by what layers of a few rows of them made; that is added (CSATv2)."""

    def __init__(self):
        super().__init__()
        self.near, self.out = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 1)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 2), norm="before") for _ in range(2))

    def forward(self, x):
        made = self.out(self.near(x).relu())
        rows = functional.avg_pool2d(made, 2).flatten(2).mT
        for layer in self.layers:
            rows = layer(rows)
        return x + made * functional.interpolate(rows.mT.unflatten(2, (2, 2)), scale_factor=2)


def read_stages(*layers):
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 1), *layers, nn.Conv2d(WIDTH, 7, 1)).eval()
    with torch.no_grad():
        (tower,) = anatomy(xray.trace(model, torch.rand(2, 3, 4, 4))).towers
    return tower.layers, [len(group.stages) for group in tower.groups]


def test_layers_that_weigh_what_a_branch_made_are_part_of_it():
    assert read_stages(*(Weighed() for _ in range(3))) == (3, [1])


class Turned(nn.Module):
    """A map whose places are weighed by a product of places, in no way that is known; and one of places that think."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(2))

    def forward(self, x):
        rows = self.first(x).flatten(2)
        return x + self.second((rows.mT @ rows @ rows.mT).mT.reshape(x.shape))


class MapLayer(nn.Module):
    """A layer of the places of a map."""

    def __init__(self):
        super().__init__()
        self.layer = Layer(WIDTH, Attention(WIDTH, 2), norm="before")

    def forward(self, x):
        return self.layer(x.flatten(2).mT).mT.unflatten(2, x.shape[2:])


def test_blocks_that_are_not_known_and_others_behind_them_are_layers_of_a_stage():
    stages = [
        nn.Sequential(*(Turned() for _ in range(2))),
        nn.Sequential(*[Turned(), Turned(), MapLayer(), MapLayer()]),
    ]

    assert read_stages(nn.Sequential(*stages)) == (6, [1, 2])
