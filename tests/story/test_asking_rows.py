"""Learned rows that ask, and what is written into nothing: both are told as they go in, and counted once."""

import torch
from story.entrances import WIDTH, labels_of, make_layers, read
from torch import nn

from xray.story.sentences.of_ends import describe_rows


class Queries(nn.Module):
    """Rows of two tables of its own, the sequences in front of them or second, through layers (SAM 3, Mask2Former)."""

    def __init__(self, *, second=False):
        super().__init__()
        self.rows, self.more = nn.Embedding(6, WIDTH), nn.Embedding(1, WIDTH)
        self.second, self.layers = second, make_layers(WIDTH, 3)

    def forward(self, x):
        if self.second:
            rows = self.rows.weight.unsqueeze(1).repeat(1, len(x), 1)
        else:
            own = (one.weight.unsqueeze(0).expand(len(x), -1, -1) for one in (self.more, self.rows))
            rows = torch.cat(list(own), dim=1)
        for layer in self.layers:
            rows = layer(rows)
        return rows.mean(1 - self.second) + x


def test_learned_rows_of_two_tables_are_all_told_and_none_comes_in_from_elsewhere():
    found, chart = read(Queries, torch.rand(2, WIDTH))

    assert labels_of(chart) == ["END TO END: 1 LEARNED + 6 LEARNED"]
    assert describe_rows(found.towers[0]) == "7 learned rows go in."


def test_learned_rows_are_counted_and_not_the_sequences_that_come_second():
    found, chart = read(lambda: Queries(second=True), torch.rand(2, WIDTH))

    assert labels_of(chart) == ["6 LEARNED ROWS"]
    assert describe_rows(found.towers[0]) == "6 learned rows go in."


class Patterns(Queries):
    """Each of the rows of one table, as often as there are places at which something is looked for (Anchor DETR)."""

    def forward(self, x):
        rows = self.rows.weight.reshape(1, 6, 1, WIDTH).repeat(len(x), 1, 4, 1).flatten(1, 2)
        for layer in self.layers:
            rows = layer(rows)
        return rows.mean(1) + x


def test_learned_rows_that_are_repeated_are_counted_once():
    found, chart = read(Patterns, torch.rand(2, WIDTH))

    (node,) = chart.nodes
    assert (node.label, node.extra) == ("6 LEARNED ROWS, 4 TIMES", f"{6 * WIDTH} parameters")
    assert describe_rows(found.towers[0]) == "6 learned rows go in."


class OfMoments(Queries):
    """Rows of each moment, repeated for each sequence and laid in one axis with these (AutoBots)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.rand(5, 1, 6, WIDTH))

    def forward(self, x):
        rows = self.table.repeat(1, len(x), 1, 1).view(5, -1, WIDTH)
        for layer in self.layers:
            rows = layer(rows)
        return rows.view(5, len(x), 6, WIDTH).mean((0, 2)) + x


def test_learned_rows_that_share_an_axis_with_sequences_are_counted_as_they_are_held():
    found, chart = read(OfMoments, torch.rand(2, WIDTH))

    (node,) = chart.nodes
    assert (node.label, node.extra) == ("30 LEARNED ROWS", f"{30 * WIDTH} parameters")
    assert describe_rows(found.towers[0]) == "30 learned rows go in."


class NormedFirst(nn.Module):
    """Learned rows as they are held go through a norm before the first layer (Granite Speech's queries)."""

    def __init__(self):
        super().__init__()
        self.rows, self.norm, self.layers = nn.Parameter(torch.rand(1, 6, WIDTH)), nn.LayerNorm(WIDTH), Queries().layers

    def forward(self, x):
        rows = self.norm(self.rows)
        for layer in self.layers:
            rows = layer(rows)
        return rows.mean(1) + x


def test_a_norm_counts_no_learned_rows_that_have_a_box_below_it():
    _, chart = read(NormedFirst, torch.rand(1, WIDTH))

    told = [(node.label, node.extra) for node in sorted(chart.nodes, key=lambda node: node.row)]
    assert told == [("6 LEARNED ROWS", f"{6 * WIDTH} parameters"), ("LAYER NORM", f"{2 * WIDTH} parameters")]


class Padded(nn.Module):
    """Images of several sizes, each written into zeros before they are cut into patches (DETR, Anchor DETR)."""

    def __init__(self):
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, WIDTH, 4, stride=4), make_layers(WIDTH, 3)

    def forward(self, images):
        whole = torch.zeros(len(images), 3, 8, 12)
        for image, room in zip(images, whole, strict=True):
            room[:, : image.shape[1], : image.shape[2]].copy_(image)
        x = self.patches(whole).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_is_written_into_zeros_goes_in_and_not_these():
    _, chart = read(Padded, [torch.rand(3, 8, 9), torch.rand(3, 6, 12)])

    given = [(node.label, node.record.shape) for node in chart.nodes if node.key == "given"]
    assert given == [("INPUT", (3, 8, 9))]
