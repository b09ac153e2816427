"""Images that moves alone cut into patches, and attentions whose windows' places lie spread over the whole (MaxViT)."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import words_of
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.regrouping import find_patches
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention as Looks
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, HEADS, SIDE, PATCH, PART = 12, 2, 24, 4, 3


def patches_of(image, size):
    """Patches as rows, all numbers of each side by side, their channels last."""
    batch, channels, high, wide = image.shape
    cut = image.reshape(batch, channels, high // size, size, wide // size, size)
    return cut.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, size * size * channels)


def lines_of_image(image, size):
    """Rows of as many numbers, each of a few lines of one channel: nothing of a patch."""
    return image.reshape(image.shape[0], -1, size * size * image.shape[1])


class Sees(nn.Module):
    """Rows that are cut from an image, and layers."""

    def __init__(self, cut=patches_of):
        super().__init__()
        self.cut, self.rows = cut, nn.Sequential(nn.LayerNorm(3 * PATCH**2), nn.Linear(3 * PATCH**2, WIDTH))
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, HEADS), norm="before") for _ in range(3))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = self.rows(self.cut(x, PATCH))
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def sees(cut=patches_of):
    return xray.trace(Sees(cut), torch.randn(2, 3, SIDE, SIDE))


def said_by(trace):
    return words_of(compose_poster(trace, text_width))


def test_patches_that_moves_cut_have_a_box_and_are_of_an_image():
    trace = sees()
    said = said_by(trace)

    assert xray.anatomy(trace).towers[0].reads == "image"
    assert f"CUT INTO PATCHES {PATCH}×{PATCH}" in said
    assert "An image becomes vectors" in said


class Padded(Sees):
    """A mask of padding is one more channel of each place (Cosmos)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(4 * PATCH**2, WIDTH))

    def forward(self, image, padding_mask):  # type: ignore[override]  # a mask comes in too
        whole = torch.cat([image, padding_mask.repeat(len(image), 1, 1, 1)], dim=1)
        return super().forward(whole)


def test_a_mask_beside_an_image_is_not_called_the_image_and_one_more_channel_is_no_row():
    trace = xray.trace(Padded(), torch.randn(2, 3, SIDE, SIDE), torch.ones(1, 1, SIDE, SIDE))
    boxes = compose_poster(trace, text_width).boxes
    said = [["".join(run.text for run in line) for line in one.lines] for one in boxes]

    assert [f"2×3×{SIDE}×{SIDE}  batch×3×{SIDE}×{SIDE}"] in [lines[1:] for lines in said if "IMAGE" in lines[0]]
    assert not any("ONE MORE ROW" in " ".join(lines) for lines in said)


class Filled(Padded):
    """The same behind channels of zeros: what the mask stands beside is made (Cosmos' control branch)."""

    def forward(self, image, padding_mask):  # type: ignore[override]  # as before
        return super().forward(torch.cat([image[:, :-1], torch.zeros_like(image[:, :1])], dim=1), padding_mask)


def test_one_more_channel_of_a_map_that_was_made_is_no_row_either():
    trace = xray.trace(Filled(), torch.randn(2, 3, SIDE, SIDE), torch.ones(1, 1, SIDE, SIDE))
    said = [" ".join(run.text for line in one.lines for run in line) for one in compose_poster(trace, text_width).boxes]

    assert any("SIDE BY SIDE" in words for words in said)
    assert not any("ONE MORE ROW" in words for words in said)


class Guided(Sees):
    """A picture and what guides it, each with two masks beside it, in two joins, and their rows added up (Cosmos)."""

    def __init__(self):
        super().__init__()
        self.rows, self.guide = (nn.Sequential(nn.Linear(5 * PATCH**2, WIDTH)) for _ in range(2))

    def forward(self, controls, latents, mask, padding):  # type: ignore[override]  # more comes in too
        beside = padding.repeat(len(mask), 1, 1, 1)
        own, other = (torch.cat([torch.cat([one, mask], dim=1), beside], dim=1) for one in (latents, controls))
        rows = self.rows(patches_of(own, PATCH)) + self.guide(patches_of(other, PATCH))
        for layer in self.layers:
            rows = layer(rows)
        return self.head(rows.mean(1))


def test_all_that_joins_in_no_box_lay_beside_each_other_is_led_to_the_box_that_lays_the_last_of_it_there():
    maps = [torch.randn(2, 3, SIDE, SIDE), torch.randn(2, 3, SIDE, SIDE), torch.ones(2, 1, SIDE, SIDE)]
    (column,) = read_columns(xray.trace(Guided(), *maps, torch.ones(1, 1, SIDE, SIDE)))
    chart = column.entrance

    names = {node.key: node.record.argument for node in chart.nodes if node.row == 0}
    joins = [node.key for node in chart.nodes if node.label == "SIDE BY SIDE"]
    led = [{names[edge.source] for edge in chart.edges if edge.target == one} for one in joins]
    assert {"controls", "latents"} <= {name for one in led for name in one}
    assert all({"mask", "padding"} <= one for one in led)


class Controlled(Sees):
    """A map, and another that guides it, whose patches the same weights make rows of (SD 3's control branch)."""

    def __init__(self):
        super().__init__()
        self.patches, self.lead = nn.Conv2d(3, WIDTH, PATCH, PATCH), nn.Linear(WIDTH, WIDTH)

    def forward(self, latents, guide):  # type: ignore[override]  # more comes in too
        rows, guiding = (self.patches(one).flatten(2).mT for one in (latents, guide))
        rows = rows + self.lead(guiding)
        for layer in self.layers:
            rows = layer(rows)
        return self.head(rows.mean(1))


def test_a_second_map_that_is_cut_into_patches_has_a_box_and_both_have_their_names():
    (column,) = read_columns(xray.trace(Controlled(), torch.randn(2, 3, SIDE, SIDE), torch.randn(2, 3, SIDE, SIDE)))
    chart = column.entrance

    given = {node.key: node.extra for node in chart.nodes if node.row == 0}
    led = {(given[edge.source], chart.node(edge.target).label) for edge in chart.edges if edge.source in given}
    assert led == {(name, f"PATCHES {PATCH}×{PATCH}") for name in ("latents", "guide")}


class OfAClass(Sees):
    """The same behind the row of a class, which is looked up first (FractalGen)."""

    def __init__(self):
        super().__init__()
        self.classes = nn.Embedding(7, WIDTH)

    def forward(self, x, of):  # type: ignore[override]  # a class comes in too
        of = self.classes(of)[:, None]
        x = torch.cat([of, self.rows(self.cut(x, PATCH))], 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def test_the_class_of_an_image_is_not_called_the_image():
    (column,) = read_columns(xray.trace(OfAClass(), torch.randn(2, 3, SIDE, SIDE), torch.tensor([5, 3])))

    given = {node.label: node.record.shape for node in column.entrance.nodes if node.label in ("IMAGE", "IDS")}
    assert given == {"IMAGE": (2, 3, SIDE, SIDE), "IDS": (2,)}


def test_rows_of_lines_of_an_image_are_no_patches():
    trace = sees(lines_of_image)
    said = said_by(trace)

    assert xray.anatomy(trace).towers[0].reads != "image"
    assert "PATCHES" not in said


@pytest.mark.parametrize(
    ("shape", "axes", "rows", "sizes"),
    [
        ((2, 3, 4, 5, 6, 7), (0, 2, 4, 1, 3, 5), (2, 24, 105), (5, 7)),
        ((2, 3, 4, 5, 6, 7), (0, 2, 4, 5, 3, 1), (2, 24, 105), (5, 7)),
        ((2, 4, 5, 6, 7, 3), (0, 1, 3, 2, 4, 5), (2, 4, 6, 105), (5, 7)),
        ((2, 3, 4, 5, 6, 7), (0, 4, 2, 3, 5, 1), (2, 24, 105), None),  # columns before lines
        ((2, 3, 4, 5, 6, 7), (0, 2, 4, 1, 3, 5), (2, 72, 35), None),  # each channel a row
        ((2, 3, 4, 5, 6, 7), (0, 3, 5, 1, 2, 4), (2, 35, 72), None),  # places that lie apart
        ((2, 3, 4, 5, 6, 7), (0, 2, 3, 4, 1, 5), (2, 120, 21), None),  # pieces of lines
    ],
)
def test_patches_are_the_inner_parts_of_lines_and_columns_with_all_channels(shape, axes, rows, sizes):
    map_shape = (2, 3, 20, 42) if shape[1] == 3 else (2, 20, 42, 3)

    class Cuts(nn.Module):
        def forward(self, x):
            return x.reshape(shape).permute(axes).reshape(rows) * 2

    flow = read_flow(xray.trace(Cuts(), torch.randn(map_shape)).passes[0])
    (last,) = (
        node for node in range(len(flow.steps)) if flow.op(node) == "reshape" and flow.output(node).shape == rows
    )
    found = find_patches(flow, last)

    assert (None if found is None else found.sizes) == sizes


class Within(Attention):
    """Attention of rows that are laid out in as many sequences beside each other."""

    def forward(self, x, memory, mask=None):
        rows = x.flatten(0, 1)
        return super().forward(rows, rows).unflatten(0, x.shape[:2])


class Turns(nn.Module):
    """Layers of a map: attention within windows of it, or to places that lie spread over it, then the other."""

    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.layers = nn.ModuleList(Layer(WIDTH, Within(WIDTH, HEADS), norm="before") for _ in kinds)

    def forward(self, image):
        x = self.patches(image)
        batch, _, high, wide = x.shape
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            if kind == "window":
                x = x.reshape(batch, WIDTH, high // PART, PART, wide // PART, PART).permute(0, 2, 4, 3, 5, 1)
            else:
                x = x.reshape(batch, WIDTH, PART, high // PART, PART, wide // PART).permute(0, 3, 5, 2, 4, 1)
            x = layer(x.reshape(batch, -1, PART * PART, WIDTH))
            x = x.reshape(batch, high // PART, wide // PART, PART, PART, WIDTH)
            x = x.permute(0, 5, 1, 3, 2, 4) if kind == "window" else x.permute(0, 5, 3, 1, 4, 2)
            x = x.reshape(batch, WIDTH, high, wide)
        return x


def turned(*kinds):
    return xray.trace(Turns(kinds), torch.randn(2, 3, SIDE, SIDE))


def test_windows_whose_places_lie_spread_are_told_so_and_others_are_not():
    trace = turned("window", "grid", "window", "grid")
    (tower,) = xray.anatomy(trace).towers
    looks = [branch for branch in tower.branches if isinstance(branch, Looks)]

    assert {(branch.window, branch.spread) for branch in looks} == {(PART**2, None), (PART**2, True)}
    said = said_by(trace)
    assert f"WINDOWS OF {PART**2}" in said
    assert f"GRIDS OF {PART**2}" in said
    assert "lie spread over all" in said


def test_nothing_is_said_of_spread_places_where_windows_alone_are_cut():
    said = said_by(turned("window", "window"))

    assert "GRIDS" not in said
    assert "spread" not in said


def test_places_lie_spread_in_every_layer_that_moves_nothing_between():
    class Once(Turns):
        """The places are laid out once, before several layers (MobileViT)."""

        def forward(self, image):
            x = self.patches(image)
            batch, _, high, wide = x.shape
            x = self.layers[0](x.flatten(2).mT[:, None]).squeeze(1).mT.unflatten(2, (high, wide))
            x = x.reshape(batch, WIDTH, PART, high // PART, PART, wide // PART).permute(0, 3, 5, 2, 4, 1)
            x = x.reshape(batch, -1, PART * PART, WIDTH)
            for layer in self.layers[1:]:
                x = layer(x)
            return x

    (tower,) = xray.anatomy(xray.trace(Once(["grid"] * 4), torch.randn(2, 3, SIDE, SIDE))).towers
    looks = [branch for branch in tower.branches if isinstance(branch, Looks)]

    assert {(branch.window, branch.spread) for branch in looks} == {(None, None), (PART**2, True)}


class Cut(nn.Module):
    """Layers that look within rows of words that `cut` lays out anew, and `back` lays as they were."""

    def __init__(self, cut, back):
        super().__init__()
        self.cut, self.back, self.words = cut, back, nn.Embedding(11, WIDTH)
        self.norms, self.looks = (
            nn.ModuleList(made(WIDTH) for _ in range(2)) for made in (nn.LayerNorm, lambda _: Attention(WIDTH, HEADS))
        )

    def forward(self, ids):
        x = self.words(ids)
        for norm, look in zip(self.norms, self.looks, strict=True):
            rows = self.cut(norm(x))
            x = x + self.back(look(rows, rows))
        return x


@pytest.mark.parametrize(
    ("cut", "back", "window"),
    [
        (lambda x: x.reshape(6, 4, WIDTH), lambda x: x.reshape(2, 12, WIDTH), 4),
        (lambda x: x.unflatten(1, (3, 4)).flatten(0, 1), lambda x: x.reshape(2, 12, WIDTH), 4),
        (lambda x: x.mT.reshape(2, WIDTH, 3, 4).flatten(0, 0).permute(0, 2, 3, 1).flatten(0, 1), None, 4),
        (lambda x: x.transpose(0, 1).reshape(6, 4, WIDTH), lambda x: x.reshape(12, 2, WIDTH).transpose(0, 1), None),
        (lambda x: x.reshape(3, 8, WIDTH), lambda x: x.reshape(2, 12, WIDTH), None),
    ],
    ids=["a view", "an axis more", "channels first", "of both sequences", "across their end"],
)
def test_windows_are_told_of_one_sequence_alone(cut, back, window):
    model = Cut(cut, back or (lambda x: x.reshape(2, 12, WIDTH)))
    trace = xray.trace(model.eval(), torch.arange(24).view(2, 12) % 11)
    (tower,) = xray.anatomy(trace).towers
    looks = [branch for branch in tower.branches if isinstance(branch, Looks)]

    assert {branch.window for branch in looks} == {window}
    assert ("WINDOWS" in said_by(trace)) == (window is not None)


class Falls(Turns):
    """A map cut into windows, and then a smaller one of which `side`² places are left that are one window."""

    def __init__(self, side):
        super().__init__(("window",) * 4)
        self.side, self.fall = side, nn.Conv2d(WIDTH, WIDTH, 6 // side, stride=6 // side)

    def forward(self, image):
        x, layers = self.patches(image), self.layers
        batch, _, high, wide = x.shape
        x = x.reshape(batch, WIDTH, high // PART, PART, wide // PART, PART).permute(0, 2, 4, 3, 5, 1)
        x = layers[1](layers[0](x.reshape(batch, -1, PART * PART, WIDTH)))
        x = x.reshape(batch, high // PART, wide // PART, PART, PART, WIDTH).permute(0, 5, 1, 3, 2, 4)
        x = self.fall(x.reshape(batch, WIDTH, high, wide)).flatten(2).mT[:, None]
        return layers[3](layers[2](x))


@pytest.mark.parametrize(
    ("side", "whole", "told"),
    [
        (3, 9, "looks at no more than 9 places."),
        (2, 4, "looks at no more than 9 places, in 4 of 4 layers; at fewer in 2 of these."),
        (6, None, "looks at no more than 9 places, in 2 of 4 layers; in the others it looks at every other."),
    ],
)
def test_layers_of_one_window_are_told_with_those_of_several(side, whole, told):
    trace = xray.trace(Falls(side), torch.randn(2, 3, SIDE, SIDE))
    (tower,) = xray.anatomy(trace).towers
    looks = [branch for branch in tower.branches if isinstance(branch, Looks)]

    assert {(branch.window, branch.all_places) for branch in looks} == {(PART**2, None), (None, whole)}
    assert told in " ".join(said_by(trace).split())
