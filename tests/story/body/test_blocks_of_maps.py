"""Maps that are cut into blocks, each with an attention of its own: what a place sees of the whole map is told."""

import torch
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.cards.stations import list_stations
from xray.story.sentences.stations.of_stages import describe_stage
from xray.story.sheet.columns import read_columns

BATCH, WIDTH, SIDE, HEADS = 5, 14, 6, 2


class MapNorm(nn.Module):
    """A layer norm over the channels of a map, written out."""

    def __init__(self):
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(1, WIDTH, 1, 1)), nn.Parameter(torch.zeros(1, WIDTH, 1, 1))

    def forward(self, x):
        spread = torch.var(x, dim=1, unbiased=False, keepdim=True) + 1e-5
        return (x - torch.mean(x, dim=1, keepdim=True)) / spread.sqrt() * self.g + self.b


class MapAttention(nn.Module):
    """Attention among all places of a map, whose channels stand first."""

    def __init__(self):
        super().__init__()
        self.norm, self.ask, self.back = MapNorm(), nn.Conv2d(WIDTH, 3 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x):
        return x + self.look(self.norm(x))

    def look(self, x):
        _, _, lines, columns = x.shape
        query, key, value = (
            one.reshape(-1, HEADS, WIDTH // HEADS, lines, columns)
            .permute(0, 1, 3, 4, 2)
            .reshape(-1, HEADS, lines * columns, WIDTH // HEADS)
            for one in self.ask(x).chunk(3, dim=1)
        )
        found = (query @ key.mT * (WIDTH // HEADS) ** -0.5).softmax(dim=-1) @ value
        laid = found.reshape(-1, HEADS, lines, columns, WIDTH // HEADS).permute(0, 1, 4, 2, 3)
        return self.back(laid.reshape(-1, WIDTH, lines, columns))


class MapForward(nn.Module):
    """Each place of a map alone."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(MapNorm(), nn.Conv2d(WIDTH, 3 * WIDTH, 1), nn.GELU(), nn.Conv2d(3 * WIDTH, WIDTH, 1))

    def forward(self, x):
        return x + self.net(x)


class Blocks(nn.Module):
    """A layer that looks within blocks of a map, cut before it, and one that looks at a whole map (NesT)."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, WIDTH, 2, 2), MapNorm()
        self.places = nn.ParameterList(nn.Parameter(torch.rand(SIDE // 2, SIDE // 2)) for _ in range(2))
        self.first, self.last = (nn.Sequential(MapAttention(), MapForward()) for _ in range(2))
        self.fewer = nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), MapNorm(), nn.MaxPool2d(3, 2, 1))

    def forward(self, image):
        x = self.first(self.cut(self.norm(self.patches(image))) + self.places[0])
        return self.last(self.fewer(self.put_back(x)) + self.places[1])

    def cut(self, x):
        half = SIDE // 2
        grid = x.reshape(-1, WIDTH, 2, half, 2, half).permute(0, 2, 4, 1, 3, 5)
        return grid.reshape(-1, WIDTH, half, half)

    def put_back(self, x):
        half = SIDE // 2
        grid = x.reshape(-1, 2, 2, WIDTH, half, half).permute(0, 3, 1, 4, 2, 5)
        return grid.reshape(-1, WIDTH, SIDE, SIDE)


class EveryOtherPlace(Blocks):
    """Every other place of a map, in both directions, stands in one block."""

    def cut(self, x):
        half = SIDE // 2
        grid = x.reshape(-1, WIDTH, half, 2, half, 2).permute(0, 3, 5, 1, 2, 4)
        return grid.reshape(-1, WIDTH, half, half)


def read_stations(model):
    found = xray.anatomy(xray.trace(model, torch.rand(BATCH, 3, 2 * SIDE, 2 * SIDE)))
    (tower,) = found.towers
    stages = [stage for group in tower.groups for stage in group.stages]
    return [describe_stage(tower, one) for one in stages if isinstance(one.branches[0], Attention)]


def test_places_of_a_block_of_a_map_see_no_more_than_that_nor_those_of_a_map_of_one_block():
    assert read_stations(Blocks()) == [
        "Every place looks at no more than 9 places.",
        "Every place looks at every other.",
    ]


def test_places_of_a_block_that_lie_apart_in_the_map_look_at_those_of_their_sequence():
    first, last = read_stations(EveryOtherPlace())

    assert first.startswith("Every place looks at every other of the 9 in its sequence, in 1 of 2 layers; in the other")
    assert last == "Every place looks at every other."


class Twice(EveryOtherPlace):
    """Places of a smaller map stand in blocks, too."""

    def forward(self, image):
        x = self.put_back(self.first(self.cut(self.norm(self.patches(image)))))
        return self.last(self.cut(self.fewer(x)))

    def cut(self, x):
        half = x.shape[-1] // 2
        grid = x.reshape(-1, WIDTH, half, 2, half, 2).permute(0, 3, 5, 1, 2, 4)
        return grid.reshape(-1, WIDTH, half, half)

    def put_back(self, x):
        half = x.shape[-1]
        grid = x.reshape(-1, 2, 2, WIDTH, half, half).permute(0, 3, 1, 4, 2, 5)
        return grid.reshape(-1, WIDTH, 2 * half, 2 * half)


def test_how_many_places_are_in_a_sequence_is_told_of_some_layers_where_others_have_boxes_as_at_their_station():
    trace = xray.trace(Twice(), torch.rand(BATCH, 3, 8 * SIDE, 8 * SIDE))

    told = [text for _, text in list_stations(trace, read_columns(trace), xray.anatomy(trace))]
    assert "Every place looks at every other of the 144 in its sequence, in 1 of 2 layers" in told[1]


class CutInside(MapAttention):
    """Attention that cuts a map into blocks of so many places a side itself, and puts them back (CrossFormer)."""

    size, apart = 3, False

    def look(self, x):
        number = SIDE // self.size
        if self.apart:
            grid = x.reshape(-1, WIDTH, self.size, number, self.size, number).permute(0, 3, 5, 1, 2, 4)
        else:
            grid = x.reshape(-1, WIDTH, number, self.size, number, self.size).permute(0, 2, 4, 1, 3, 5)
        found = super().look(grid.reshape(-1, WIDTH, self.size, self.size))
        laid = found.reshape(-1, number, number, WIDTH, self.size, self.size)
        laid = laid.permute(0, 3, 4, 1, 5, 2) if self.apart else laid.permute(0, 3, 1, 4, 2, 5)
        return laid.reshape(-1, WIDTH, SIDE, SIDE)


class CutApart(CutInside):
    """Its blocks are of places that lie apart."""

    size, apart = 2, True


class Alone(CutInside):
    """Each of its blocks is of one place."""

    size = 1


def test_places_of_a_map_that_is_cut_inside_a_sublayer_see_no_more_than_a_block():
    kinds = (CutInside, CutApart, Alone, MapAttention)
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 2, 2), *(make() for kind in kinds for make in (kind, MapForward)))

    assert read_stations(model) == [
        "Every place looks at no more than 9 places, in 3 of 4 layers; at fewer in 2 of these.",
        "Every place looks at no more than 4 places, spread over all, in 2 of 4 layers; at fewer in 1 of these.",
        "Every place looks at itself alone, in 1 of 4 layers.",
        "Every place looks at every other.",
    ]
