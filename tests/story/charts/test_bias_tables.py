"""What is added to scores as the sum of tables: by how far apart places are, and by how far their boxes (UDOP)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

HEADS, FAR = 3, 7


class Attends(nn.Module):
    """Attention whose scores have a bias that was made before all layers."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, bias):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        weights = (q @ k.mT + bias).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


class Biased(nn.Module):
    """A table for places, and a `second` for the left ends of boxes; their rows are divided by a number, if told."""

    def __init__(self, *, second, by=None):
        super().__init__()
        self.words, self.layers = nn.Embedding(31, WIDTH), nn.ModuleList(Attends() for _ in range(3))
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(3))
        self.places, self.ends, self.second = nn.Embedding(2 * FAR, HEADS), nn.Embedding(2 * FAR, HEADS), second
        self.by = by

    def forward(self, ids, bbox):
        places, ends = torch.arange(ids.shape[1]).expand_as(ids), bbox[:, :, 0]
        bias = self.look_up(self.places, places)
        bias = bias + self.look_up(self.ends, ends) if self.second else bias
        x = self.words(ids)
        for attends, thinks in zip(self.layers, self.thinks, strict=True):
            x = thinks(attends(x, bias if self.by is None else bias / self.by))
        return x

    def look_up(self, table, places):
        apart = places.unsqueeze(-2) - places.unsqueeze(-1)
        return table((apart + FAR).clamp(0, 2 * FAR - 1)).permute(0, 3, 1, 2)


def bias_of(*, second, by=None):
    ids, bbox = torch.arange(10).view(2, 5), torch.arange(40).view(2, 5, 4) % 6
    (column,) = read_columns(xray.trace(Biased(second=second, by=by).eval(), ids, bbox))
    return next(node for node in column.frames[0].panels[0].chart.nodes if node.label.startswith("+"))


def test_a_bias_that_is_the_sum_of_two_tables_says_so_and_by_what_one_is_asked():
    assert "2 tables added up, 1 of them by bbox, 84 parameters outside" in bias_of(second=True).told


def test_the_box_of_such_a_bias_stands_for_the_sum_of_its_tables():
    ops = [step.op for step in bias_of(second=True).steps]

    assert ops.count("add") == 2  # with that of the scores
    assert ops.count("embedding") == 2


def test_a_bias_of_one_table_has_no_sum():
    assert not [text for text in bias_of(second=False).told if "added up" in text]


@pytest.mark.parametrize(("by", "factor"), [((WIDTH // HEADS) ** 0.5, "÷ √d_k"), (8, "· 0.125")])
def test_rows_of_tables_that_are_divided_before_they_are_added_say_by_what(by, factor):
    assert (
        f"2 tables added up, 1 of them by bbox, rows {factor}, 84 parameters outside"
        in bias_of(second=True, by=by).told
    )
    assert f"rows {factor}" in bias_of(second=False, by=by).told[0]


class OfOneWindow(nn.Module):
    """Places of a map look at each other, by a table for how far two in a window are apart (MONAI's Swin)."""

    def __init__(self, side, order=None):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(torch.randn((2 * side - 1) ** 2, HEADS))
        places = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None, :] + side - 1
        index = apart[0] * (2 * side - 1) + apart[1]
        self.register_buffer("index", index if order is None else index[:, order])

    def forward(self, x):
        many = x.shape[1]
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        picked = self.index.clone()[:many, :many].reshape(-1)
        bias = self.table[picked].reshape(many, many, -1).permute(2, 0, 1)
        return x + self.out(((q @ k.mT + bias[None]).softmax(-1) @ v).transpose(1, 2).flatten(2))


def labels_of(side, order=None):
    parts = (part for _ in range(2) for part in (OfOneWindow(side, order), FeedForwardPart()))
    (column,) = read_columns(xray.trace(nn.Sequential(*parts).eval(), torch.randn(2, 4, WIDTH)))
    return [node.label for node in column.frames[0].panels[0].chart.nodes]


@pytest.mark.parametrize(("side", "is_relative"), [(2, True), (3, False)])
def test_the_corner_of_an_index_of_a_larger_map_is_not_said_to_tell_how_far_two_are_apart(side, is_relative):
    labels = labels_of(side)

    assert ("+ BIAS OF RELATIVE PLACES" in labels) == is_relative
    assert ("+ A BIAS" in labels) != is_relative


def test_a_held_index_that_goes_by_no_distance_is_not_said_to_tell_how_far_two_are_apart():
    assert "+ A BIAS" in labels_of(2, order=[1, 0, 2, 3])
