"""Learned places that are made as large as the picture: resized, or repeated side by side (SAM 2)."""

import pytest
import torch
from story.entrances import WIDTH, labels_of, make_layers, read
from torch import nn
from torch.nn import functional

import xray

SIDE = 12


class Fitted(nn.Module):
    """Patches of a picture, with a table for the whole of it and one for each of its windows."""

    def __init__(self, *tables, always=False):
        super().__init__()
        self.always = always
        self.patches, self.layers = nn.Conv2d(3, WIDTH, 2, stride=2), make_layers(WIDTH, 3)
        self.places = nn.ParameterList(torch.rand(1, WIDTH, side, side) for side in tables)

    def fit(self, table):
        side = table.shape[-1]
        if SIDE % side or self.always:
            return functional.interpolate(table, size=(SIDE, SIDE))
        return table.tile(1, 1, SIDE // side, SIDE // side)

    def forward(self, picture):
        first, *others = (self.fit(table).flatten(2).mT for table in self.places)
        x = self.patches(picture).flatten(2).mT + sum(others, first)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ((5, 4), "+ LEARNED PLACES: 5×5 RESIZED, 4×4 REPEATED"),
        ((5,), "+ LEARNED PLACES: 5×5 RESIZED"),
        ((4,), "+ LEARNED PLACES: 4×4 REPEATED"),
        ((SIDE,), "+ LEARNED PLACES"),
    ],
)
def test_it_is_told_how_tables_are_made_as_large_as_the_picture(tables, told):
    _, chart = read(lambda: Fitted(*tables), torch.rand(2, 3, 2 * SIDE, 2 * SIDE))

    assert [label for label in labels_of(chart) if "PLACES" in label] == [told]


def test_a_table_that_is_resized_to_the_size_that_it_has_says_so():
    _, chart = read(lambda: Fitted(SIDE, always=True), torch.rand(2, 3, 2 * SIDE, 2 * SIDE))

    assert [label for label in labels_of(chart) if "PLACES" in label] == ["+ LEARNED PLACES: 12×12 RESIZED × 1"]


class Cut(nn.Module):
    """Patches with a table of places whose first row is for a class, be it read by itself, and the others resized."""

    def __init__(self, *, classed=False, pictures=1, twice=False, first=1):
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, WIDTH, 2, stride=2), make_layers(WIDTH, 3)
        self.places, self.first = nn.Parameter(torch.rand(first + 25, WIDTH)), first
        self.classed, self.pictures = classed, pictures
        self.mark = nn.Parameter(torch.rand(1, 1, WIDTH))
        self.other_places = nn.Parameter(torch.rand(1 + 25, WIDTH)) if twice else None

    def fit(self, table, sizes):
        grid = table[self.first :].reshape(1, 5, 5, WIDTH).permute(0, 3, 1, 2)
        return functional.interpolate(grid, size=tuple(sizes)).flatten(2).mT

    def forward(self, picture, sizes=None):
        sizes = torch.tensor([[SIDE, SIDE // self.pictures]] * self.pictures) if sizes is None else sizes
        x = self.patches(picture).flatten(2).mT
        x = x + torch.cat([self.fit(self.places, one) for one in sizes], dim=1)
        if self.other_places is not None:
            x = x + self.fit(self.other_places, sizes[0])
        if self.classed:
            x = torch.cat([(self.mark + self.places[:1]).expand(len(x), -1, -1), x], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


def read_places(**options):
    _, chart = read(lambda: Cut(**options), torch.rand(2, 3, 2 * SIDE, 2 * SIDE))
    return [(node.label, node.extra) for node in chart.nodes if "+ LEARNED PLACES" in node.label]


@pytest.mark.parametrize("pictures", [1, 2])
def test_a_table_that_is_cut_and_resized_is_counted_whole_and_once(pictures):
    whole = f"{26 * WIDTH:,} parameters"

    assert read_places(pictures=pictures) == [("+ LEARNED PLACES: 5×5 RESIZED", whole)]


@pytest.mark.parametrize("first", [1, 3])
def test_rows_of_a_table_that_no_step_reads_are_told(first):
    _, chart = read(lambda: Cut(first=first), torch.rand(2, 3, 2 * SIDE, 2 * SIDE))

    (told,) = (node.told for node in chart.nodes if "+ LEARNED PLACES" in node.label)

    assert told == (f"of {25 + first} rows, the first {'row' if first == 1 else '3 rows'} not read",)


@pytest.mark.parametrize(("first", "unread"), [(0, 0), (3, 3 * WIDTH)])
def test_rows_of_a_table_that_no_step_reads_are_not_among_the_parameters_that_are_used(first, unread):
    told = xray.anatomy(xray.trace(Cut(first=first), torch.rand(2, 3, 2 * SIDE, 2 * SIDE)))
    unused = sum(one.params for one in told.unused)

    assert told.params - told.active_params == unused + unread


def test_places_of_each_picture_that_are_put_together_have_one_box():
    sizes = torch.tensor([[SIDE, SIDE // 2]] * 2)
    _, chart = read(lambda: Cut(pictures=2), torch.rand(2, 3, 2 * SIDE, 2 * SIDE), sizes)

    assert not [label for label in labels_of(chart) if "END TO END" in label]


def test_a_table_whose_first_row_stands_elsewhere_is_not_counted_whole():
    (_, told), *_ = read_places(classed=True)

    assert told != f"{26 * WIDTH:,} parameters"


def test_two_tables_of_a_size_that_a_block_holds_are_each_counted():
    assert [told for _, told in read_places(twice=True)].count(f"{26 * WIDTH:,} parameters") == 2


class Sampled(nn.Module):
    """Patches with places that are read between the rows of a table, where each stands in its own picture."""

    def __init__(self, mode):
        super().__init__()
        self.patches, self.layers, self.mode = nn.Conv2d(3, WIDTH, 2, stride=2), make_layers(WIDTH, 3), mode
        self.places = nn.Parameter(torch.rand(5 * 7, WIDTH))

    def forward(self, picture):
        table = self.places.view(5, 7, WIDTH).permute(2, 0, 1)[None]
        at = torch.arange(SIDE**2)
        grid = torch.stack([at % SIDE, at // SIDE], dim=-1).float()[None, :, None] / SIDE * 2 - 1
        places = functional.grid_sample(table, grid, mode=self.mode, align_corners=False)
        x = self.patches(picture).flatten(2).mT + places.squeeze(0).squeeze(-1).mT
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("mode", "how"), [("bicubic", " BICUBICALLY"), ("bilinear", " BILINEARLY"), ("nearest", "")])
def test_a_table_that_is_sampled_where_each_place_stands_says_so(mode, how):
    _, chart = read(lambda: Sampled(mode), torch.rand(2, 3, 2 * SIDE, 2 * SIDE))

    assert [label for label in labels_of(chart) if "PLACES" in label] == [f"+ LEARNED PLACES: 5×7 SAMPLED{how}"]
