"""Rows in turn: one box tells how often a loop goes round, another that rows are laid first again behind a norm."""

import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

TURNS, LENGTH = 20, 4


class Smooths(nn.Module):
    """A series cut into pieces, each less the mean of all pieces until then (TimesFM 2.5), with layers behind."""

    def __init__(self, *, learned: bool):
        super().__init__()
        self.bring, self.learned = nn.Linear(LENGTH, WIDTH), learned
        self.share = nn.Parameter(torch.rand(TURNS))
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, series):
        pieces = series.reshape(series.shape[0], -1, LENGTH)
        mean, means = torch.zeros(series.shape[0]), []
        for turn in range(pieces.shape[1]):
            new = pieces[:, turn].mean(-1)
            mean = mean * (self.share[turn] if self.learned else 0.5) + new * 0.5
            means.append(mean)
        return self.layers(self.bring(pieces - torch.stack(means, 1)[..., None]))


class LooksUp(nn.Module):
    """Letters whose codes are looked up in a table each (CANINE)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(16, LENGTH) for _ in range(12))
        self.bring = nn.Linear(12 * LENGTH, WIDTH)
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, ids):
        found = [table((ids + 1) * (number + 3) % 16) for number, table in enumerate(self.tables)]
        return self.layers(self.bring(torch.cat(found, -1)))


def read_entrance(*, learned, turns=TURNS):
    (column,) = read_columns(xray.trace(Smooths(learned=learned).eval(), torch.rand(2, turns * LENGTH)))
    return column.entrance


def test_the_turns_of_a_loop_are_one_box_that_what_comes_in_leads_to():
    chart = read_entrance(learned=False)

    (loop,) = [node for node in chart.nodes if "TURNS" in node.label]
    (given,) = [node for node in chart.nodes if node.key == "given"]
    assert loop.label == "20 TURNS OF A LOOP"
    assert loop.record.shape == (2, TURNS)
    assert given.record.shape == (2, TURNS * LENGTH)
    assert loop.key in {edge.target for edge in chart.edges if edge.source == "given"}


def test_steps_that_work_with_learned_numbers_or_come_a_few_times_are_no_loop_to_be_folded():
    for chart in (read_entrance(learned=True), read_entrance(learned=False, turns=3)):
        assert not [node for node in chart.nodes if "TURNS" in node.label]


def test_lookups_in_a_row_are_no_loop():
    (column,) = read_columns(xray.trace(LooksUp().eval(), torch.arange(10).view(2, 5)))

    assert not [node for node in column.entrance.nodes if "TURNS" in node.label]


class AddsUp(nn.Module):
    """What ten tables give is added up, one sum behind the other on one line (LayoutLM)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(16, WIDTH) for _ in range(10))
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, ids):
        a, b, c, d, e, f, g, h, i, j = (table((ids + number) % 16) for number, table in enumerate(self.tables))
        return self.layers(self.norm(a + b + c + d + e + f + g + h + i + j))


def test_sums_in_a_row_are_no_loop():
    (column,) = read_columns(xray.trace(AddsUp().eval(), torch.arange(10).view(2, 5)))

    labels = [node.label for node in column.entrance.nodes]
    assert labels.count("ADDED UP") == 9
    assert not [label for label in labels if "TURNS" in label]


class Swapped(nn.Module):
    """A feed-forward behind a norm over the batch, for which its rows are laid last, and first again (PatchTST)."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 53), nn.Linear(53, WIDTH)

    def forward(self, x):
        return x + self.back(torch.relu(self.wide(self.norm(x.mT.contiguous()).transpose(1, 2))))


def test_rows_that_a_feed_forward_has_laid_first_again_have_a_box():
    model = nn.Sequential(AttentionPart(), Swapped(), AttentionPart(), Swapped()).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(2, 5, WIDTH)))
    nodes = column.frames[0].panels[1].chart.nodes

    assert [node.label for node in nodes] == ["BATCH NORM", "AXES SWAPPED", "LINEAR + ReLU", "LINEAR", "ADD"]
    assert [node.record.shape for node in nodes][:3] == [(2, WIDTH, 5), (2, 5, WIDTH), (2, 5, 53)]
