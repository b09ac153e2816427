"""Rows that are taken in the order that a row of numbers says, as eyes do that look within windows, and back."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, PLACES = 12, 16


class Eye(nn.Module):
    """Patches whose rows are taken in an order, or some of them alone, before the layers."""

    def __init__(self, order):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.register_buffer("order", order, persistent=False)

    def forward(self, image):
        x = self.patches(image).flatten(2).mT[:, self.order]
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("count", "told"), [(PLACES, ["ROWS IN A GIVEN ORDER"]), (PLACES - 4, [])])
def test_rows_that_are_taken_in_another_order_have_a_box(count, told):
    (column,) = read_columns(xray.trace(Eye(torch.arange(PLACES).flip(0)[:count]), torch.rand(2, 3, 16, 16)))

    assert [node.label for node in column.entrance.nodes if "ORDER" in node.label] == told


def test_rows_in_another_order_are_what_the_first_layer_reads():
    (column,) = read_columns(xray.trace(Eye(torch.arange(PLACES).flip(0)), torch.rand(2, 3, 16, 16)))

    assert column.entrance.node(column.entrance.head).label == "ROWS IN A GIVEN ORDER"


class Sorted(nn.Module):
    """Rows sorted by numbers of their own before the layers, and put back behind these (V-JEPA 2)."""

    def __init__(self, *, part=False, back=True):
        super().__init__()
        self.given, self.norm, self.last = nn.Linear(7, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 7)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.part, self.back = part, back

    def forward(self, x, places):
        order = places.argsort(1)[:, : 3 if self.part else None]
        x = self.given(x).gather(1, order[..., None].expand(-1, -1, WIDTH))
        for layer in self.layers:
            x = layer(x)
        back = (order if self.back else places).argsort(1)
        return self.last(self.norm(x).gather(1, back[..., None].expand(-1, -1, WIDTH)))


@pytest.mark.parametrize(
    ("settings", "before", "behind"),
    [
        ({}, ["ROWS SORTED"], ["ROWS PUT BACK IN THEIR ORDER"]),
        ({"back": False}, ["ROWS SORTED"], ["ROWS SORTED"]),
        ({"part": True}, [], ["ROWS SORTED"]),
    ],
)
def test_rows_that_are_sorted_and_put_back_have_boxes(settings, before, behind):
    given = torch.rand(2, 5, 7), torch.tensor([[3, 0, 4, 1, 2], [1, 4, 2, 0, 3]])
    (column,) = read_columns(xray.trace(Sorted(**settings).eval(), *given))

    entrance, leaving = ([one.label for one in chart.nodes] for chart in (column.entrance, column.exit))
    assert [one for one in entrance if one.startswith("ROWS")] == before
    assert [one for one in leaving if one.startswith("ROWS")] == behind


class Masked(Eye):
    """Packed rows of all images of which a mask keeps some, or all, be it that they are turned round behind it."""

    def __init__(self, kept, *, turned=False):
        super().__init__(torch.arange(1))
        self.kept, self.turned = kept, turned

    def forward(self, image):
        x = self.patches(image).flatten(2).mT.flatten(0, 1)
        places = (torch.arange(len(x)) < self.kept).nonzero().squeeze(-1)
        x = x.index_select(0, places.flip(0) if self.turned else places)[None]
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("kept", "turned", "told"),
    [
        (2 * PLACES, False, ["ROWS THAT A MASK KEEPS"]),
        (2 * PLACES, True, ["ROWS IN A GIVEN ORDER"]),
        (PLACES, False, [f"{PLACES} OF {2 * PLACES} ROWS"]),
    ],
)
def test_rows_that_a_mask_keeps_are_in_no_other_order(kept, turned, told):
    (column,) = read_columns(xray.trace(Masked(kept, turned=turned), torch.rand(2, 3, 16, 16)))

    assert [node.label for node in column.entrance.nodes if "ROWS" in node.label] == told


def order_by_windows(*, across=2, edge=0, turned=False):
    """The numbers of a map of 6 by 4 places, by windows 3 high, with those of an edge around it left away again."""
    places = nn.functional.pad(torch.arange(24).reshape(1, 6, 4), (0, edge), value=-1)
    places = places.reshape(1, 2, 3, (4 + edge) // across, across)
    places = places.permute((0, 3, 1, 2, 4) if turned else (0, 1, 3, 2, 4)).reshape(-1)
    return places[places.ne(-1)]


class Windowed(nn.Module):
    """A map whose rows are taken by windows, before all layers or in the first of them, and put back behind."""

    def __init__(self, *, inside=False, past=True, **options):
        super().__init__()
        self.patches, self.last = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Linear(WIDTH, 7)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)
        self.inside, self.past, self.options = inside, past, options

    def forward(self, image):
        x = self.patches(image).flatten(2).mT
        order = order_by_windows(**self.options)
        if self.inside:
            x = (x[:, order] if self.past else x) + self.attention(rows := self.norm(x)[:, order], rows)
        else:
            x = x[:, order]
        for layer in self.layers:
            x = layer(x)
        return self.last(x[:, order.argsort()])


def list_orders(**settings):
    boxes = compose_poster(xray.trace(Windowed(**settings), torch.rand(1, 3, 24, 16)), text_width).boxes
    lines = ["".join(one.text for one in line) for box in boxes for line in box.lines]
    return [line for line in lines if "WINDOWS OF" in line or "ORDER" in line or "comes by" in line]


BACK = "ROWS PUT BACK IN THEIR ORDER"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, ["ROWS BY WINDOWS OF 3×2", BACK]),
        ({"across": 3, "edge": 2}, ["ROWS BY WINDOWS OF 3×3", BACK]),
        ({"turned": True}, ["ROWS IN A GIVEN ORDER", BACK]),  # the windows of a column before those of the next one
        ({"inside": True}, ["ROWS BY WINDOWS OF 3×2", "the stream comes by through rows by windows of 3×2", BACK]),
        ({"inside": True, "past": False}, ["ROWS BY WINDOWS OF 3×2", BACK]),
    ],
)
def test_rows_by_windows_are_told_with_their_size_before_layers_and_in_them(settings, told):
    assert list_orders(**settings) == told
