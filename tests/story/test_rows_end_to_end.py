"""Rows behind others: told apart from numbers beside others by what reads them, where nothing behind them tells."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance

WIDTH, PLACES, OTHERS = 15, 7, 5


class Joined(nn.Module):
    """Looked-up rows are joined with others, and the layers read what comes of it."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(31, WIDTH), nn.Embedding(11, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def join(self, ids):
        return torch.cat([self.words(ids), self.kinds(ids[:, :OTHERS] % 11)], dim=1)

    def forward(self, ids):
        x = self.join(ids)
        for layer in self.layers:
            x = layer(x)
        return x


class Cut(Joined):
    """One row is cut off, and stands before two others that are put in its neighbourhood."""

    def join(self, ids):
        x, kinds = self.words(ids), self.kinds(ids[:, :2] % 11)
        return torch.cat([x[:, :1], kinds, x[:, 1:]], dim=1)


class Paired(Joined):
    """Two rows are taken one by one, and put end to end: neither is one more than the other (OmDet)."""

    def join(self, ids):
        x = self.words(ids[:1])
        return torch.cat([x[:, 0][:, None], x[:, 1][:, None]], dim=1)


class Wider(Joined):
    """Two numbers of each sequence stand beside each other, and then beside all of its rows (Informer)."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(3 + 2, WIDTH)

    def join(self, rows):
        both = torch.cat([rows.abs().mean(1).amax(1, keepdim=True), rows.exp().amax(2).amax(1, keepdim=True)], dim=1)
        return self.project(torch.cat([rows, both[:, None].expand(-1, rows.shape[1], -1)], dim=-1))


def labels_of(model):
    torch.manual_seed(0)
    given = torch.rand(2, PLACES, 3) if model is Wider else torch.arange(2 * PLACES).view(2, PLACES)
    reading = read_passes(xray.trace(model(), given))[0]
    return {node.label for node in chart_entrance(reading.flow, reading.towers[-1]).nodes}


@pytest.mark.parametrize(
    ("model", "told", "untold"),
    [
        (Joined, "END TO END", "SIDE BY SIDE"),
        (Cut, "END TO END", "WITH ONE MORE ROW"),
        (Paired, "END TO END", "WITH ONE MORE ROW"),
        (Wider, "SIDE BY SIDE", "WITH ONE MORE ROW"),
    ],
)
def test_what_is_joined_is_called_by_the_axis_that_grows(model, told, untold):
    labels = labels_of(model)

    assert told in labels
    assert not any(label.startswith(untold) for label in labels)


class Series(Joined):
    """A series and what comes after it, both given, become rows of one number each (Time Series Transformer)."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(1, WIDTH)

    def forward(self, past, future):  # type: ignore[override]
        x = self.project(torch.cat([past, future], dim=1)[..., None])
        for layer in self.layers:
            x = layer(x)
        return x


def test_series_that_came_in_end_to_end_have_a_box():
    reading = read_passes(xray.trace(Series().eval(), torch.rand(2, PLACES), torch.rand(2, OTHERS)))[0]
    chart = chart_entrance(reading.flow, reading.towers[-1])

    assert f"END TO END: {PLACES} + {OTHERS}, ALL GIVEN" in {node.label for node in chart.nodes}


class Fused(nn.Module):
    """Past and future led through a recurrence each and added end to end to what they were, then a layer (TFT)."""

    def __init__(self):
        super().__init__()
        self.past, self.future = nn.Linear(OTHERS, WIDTH), nn.Linear(3, WIDTH)
        self.before, self.behind = (nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(2))
        self.norm, self.layer = nn.LayerNorm(WIDTH), Layer(WIDTH, Attention(WIDTH, 3), norm="before")

    def forward(self, seen, known):
        seen, known = self.past(seen), self.future(known)
        given = torch.cat([seen, known], 1)
        seen, state = self.before(seen)
        x = self.norm(given + torch.cat([seen, self.behind(known, state)[0]], 1))
        return self.layer(x)


def test_rows_of_two_ways_that_are_added_end_to_end_are_not_the_longer_way():
    (tower,) = xray.anatomy(xray.trace(Fused().eval(), torch.rand(2, 13, OTHERS), torch.rand(2, 7, 3))).towers

    assert [[branch.part for stage in group.stages for branch in stage.branches] for group in tower.groups] == [
        ["attention", "feed_forward"]
    ]
