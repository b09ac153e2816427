"""Where rows of one tower meet those of another, or what was worked out before: a box of its own, and told once."""

import torch
from handwritten import Attention, Layer
from story.layered import list_arrows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

WIDTH = 12


def make_layers(count=2):
    return nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(count))


def read_exit(make, *inputs):
    torch.manual_seed(0)
    return read_columns(xray.trace(make().eval(), *inputs))[-1].exit


class Siamese(nn.Module):
    """Two pictures by the same layers, compared by how far apart their means are."""

    def __init__(self):
        super().__init__()
        self.patches, self.layers, self.head = nn.Conv2d(3, WIDTH, 4, 4), make_layers(), nn.Linear(WIDTH, 1)

    def see(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)

    def forward(self, first, second):
        return self.head((self.see(first) - self.see(second)).abs())


def test_what_takes_off_another_towers_rows_has_a_box():
    arrows = list_arrows(read_exit(Siamese, torch.rand(2, 3, 8, 8), torch.rand(2, 3, 8, 8)))

    assert {("MEAN OF 4", "SUBTRACTED"), ("SUBTRACTED", "ABS")} <= arrows
    assert ("MEAN OF 4", "ABS") not in arrows


class Pointer(nn.Module):
    """Scores of places that a bend holds between −10 and 10."""

    def __init__(self):
        super().__init__()
        self.see, self.layers = nn.Linear(2, WIDTH), make_layers()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, points):
        x = self.see(points)
        for layer in self.layers:
            x = layer(x)
        asked = self.query(x.mean(1, keepdim=True))
        return 10 * torch.tanh(asked @ self.key(x).transpose(1, 2) / WIDTH**0.5)


def test_a_number_by_which_a_bend_is_multiplied_is_told_once():
    labels = [node.label for node in read_exit(Pointer, torch.rand(2, 5, 2)).nodes]

    assert [label for label in labels if "10" in label] == ["× 10"]
    assert "TANH" in labels


class Conditioned(nn.Module):
    """What each of three layers gives is scaled and shifted by numbers that are looked up once."""

    def __init__(self):
        super().__init__()
        self.see, self.layers, self.out = nn.Linear(5, WIDTH), make_layers(3), nn.Linear(WIDTH, 2)
        self.kinds, self.ways = nn.Embedding(4, 8), nn.ModuleList(nn.Linear(8, 2 * WIDTH) for _ in range(3))

    def forward(self, rows, kinds):
        x, told = self.see(rows), self.kinds(kinds).relu()
        for layer, way in zip(self.layers, self.ways, strict=True):
            scale, shift = way(told)[:, None].chunk(2, dim=-1)
            x = layer(x) * (1 + scale) + shift
        return self.out(x)


def test_layers_of_one_list_are_one_tower_where_a_condition_stands_between_them():
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(Conditioned(), torch.rand(2, 7, 5), torch.tensor([1, 3]))).towers

    assert sum(group.count for group in tower.groups) == 3


class Preconditioned(nn.Module):
    """A picture that is multiplied by what is worked out of how much noise is in it (EDM)."""

    def __init__(self):
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, WIDTH, 4, 4), make_layers()

    def forward(self, image, noise):
        x = self.patches(image * (0.25 + noise[:, None, None, None] ** 2).rsqrt())
        x = x.flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_scales_a_picture_that_comes_in_has_a_box():
    torch.manual_seed(0)
    trace = xray.trace(Preconditioned().eval(), torch.rand(2, 3, 8, 8), torch.rand(2))
    arrows = list_arrows(read_columns(trace)[0].entrance)

    assert ("MULTIPLIED", "PATCHES 4×4") in arrows
