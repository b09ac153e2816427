"""The chart of any steps: what is joined is drawn, and called what it is."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.charts.entrance_operations import PLACES, chart_of, labels_of, rows
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Fronted(nn.Module):
    """A learned row in front of the others, between two layers (CvT, PE-Audio)."""

    def __init__(self, count=1):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.row = nn.Parameter(torch.ones(1, count, WIDTH))

    def forward(self, x):
        return self.last(torch.cat((self.row.expand(len(x), -1, -1), self.first(x)), dim=1))


class Padded(nn.Module):
    """Beside each value whether it counts at all, which another part worked out (TimesFM)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, counts):
        return self.last(torch.cat((self.first(x), counts), dim=-1))


class Sampled(nn.Module):
    """Numbers picked from a map, where two coordinates say."""

    def __init__(self):
        super().__init__()
        self.convolve = nn.Conv2d(3, WIDTH, 3)

    def forward(self, image, across, down):
        return nn.functional.grid_sample(self.convolve(image), torch.stack((across, down), dim=-1), align_corners=False)


class Written(nn.Module):
    """A norm in several steps, the last of which multiplies by learned numbers (Muse Spark's ear)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def test_a_learned_row_that_is_put_in_front_is_drawn():
    assert labels_of(Fronted(), rows()) == ["LINEAR", "A LEARNED ROW IN FRONT", "LINEAR"]


class CutAgain(Fronted):
    """The same, of which the first row and all others go their own ways before they are end to end again (CoaT)."""

    def forward(self, x):
        whole = torch.cat((self.row.expand(len(x), -1, -1), self.first(x)), dim=1)
        first, others = whole[:, :1], whole[:, 1:]
        return torch.cat((first, self.last(others) + others), dim=1)


def test_rows_that_are_cut_again_are_led_from_the_box_of_the_learned_row_in_front():
    chart = chart_of(CutAgain(), rows())
    told = {node.key: node.label for node in chart.nodes}
    led = {(told[edge.source], told[edge.target]) for edge in chart.edges}

    assert {after for before, after in led if before == "A LEARNED ROW IN FRONT"} == {
        "LINEAR",
        "ADDED UP",
        "END TO END",
    }
    assert {after for before, after in led if before == "LINEAR"} == {"A LEARNED ROW IN FRONT", "ADDED UP"}


class Masked(nn.Module):
    """One learned row of some, repeated, of which as many are taken as places say, behind others (V-JEPA 2)."""

    def __init__(self, held=1):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.rows = nn.Parameter(torch.rand(held, 1, 1, 8))

    def forward(self, x):
        places = torch.tensor([[1, 4, 2]] * len(x))[..., None].expand(-1, -1, 8)
        masked = torch.cat([self.rows[-1].repeat(len(x), 5, 1).gather(dim=1, index=places)], dim=0)
        return self.last(torch.cat((self.first(x), masked), dim=1))


@pytest.mark.parametrize("held", [1, 4])
def test_a_learned_row_that_is_repeated_and_picked_from_is_not_told_as_several(held):
    assert labels_of(Masked(held), rows(8)) == ["LINEAR", "END TO END", "LINEAR"]


def test_several_learned_rows_are_told_with_their_number():
    assert labels_of(Fronted(3), rows()) == ["LINEAR", "LEARNED ROWS BESIDE: 5 + 3", "LINEAR"]


def test_what_comes_from_elsewhere_and_stands_beside_is_drawn():
    assert labels_of(Padded(), rows(), rows()) == ["LINEAR", "SIDE BY SIDE", "LINEAR"]


class Sequencing(nn.Module):
    """Rows that are read one by one, from both ends, and again the other way (Sequencer)."""

    def __init__(self):
        super().__init__()
        self.across, self.down = (nn.LSTM(WIDTH, 3, batch_first=True, bidirectional=True) for _ in range(2))
        self.last = nn.Linear(12, WIDTH)

    def forward(self, x):
        return self.last(torch.cat((self.across(x)[0], self.down(x.transpose(0, 1))[0].transpose(0, 1)), dim=-1))


def test_what_reads_rows_one_by_one_has_a_box():
    assert labels_of(Sequencing(), rows()) == [*["LSTM, BOTH WAYS"] * 2, "SIDE BY SIDE", "LINEAR"]


def test_what_is_put_beside_itself_is_no_joint():
    class Doubled(Padded):
        def forward(self, x, counts=None):
            seen = self.first(x)
            return self.last(torch.cat((seen, seen), dim=-1))

    assert labels_of(Doubled(), rows()) == ["LINEAR", "LINEAR"]


def test_rows_of_nothing_that_pad_others_are_no_joint():
    class Padding(Padded):
        def forward(self, x, counts=None):
            return self.last(torch.cat((self.first(x), torch.zeros(2, PLACES, WIDTH)), dim=-1))

    assert labels_of(Padding(), rows()) == ["LINEAR", "LINEAR"]


def test_what_is_picked_between_places_is_drawn():
    places = torch.zeros(1, PLACES, PLACES)

    labels = labels_of(Sampled(), torch.ones(1, 3, 7, 7), places, places)

    assert labels == ["CONVOLUTION 3×3", "PICKED BETWEEN PLACES"]


def test_two_norms_of_the_same_rows_are_both_drawn():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

        def forward(self, x):
            seen = self.first(x)
            return torch.cat((self.one(seen), self.other(seen)), dim=1)

    assert labels_of(Twice(), rows()).count("LAYER NORM") == 2


def test_a_norm_that_is_written_out_is_told_with_its_parameters():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Written(), nn.Linear(WIDTH, WIDTH))

    assert [node.extra for node in chart_of(model, rows()).nodes if node.label == "RMS NORM"] == [f"{WIDTH} parameters"]


def test_a_convolution_without_a_module_of_its_own_is_told_with_its_parameters():
    class Padding(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(7, WIDTH, 3))

        def forward(self, x):
            return nn.functional.conv1d(nn.functional.pad(x, (2, 0)), self.weight)

    assert [node.extra for node in chart_of(Padding(), rows(PLACES).new_ones(2, WIDTH, PLACES)).nodes] == [
        f"{7 * WIDTH * 3} parameters"
    ]


def test_a_written_out_norm_before_the_first_layer_keeps_its_last_step():
    model = nn.Sequential(nn.Embedding(12, WIDTH), Written(), FeedForwardPart(), FeedForwardPart())
    trace = xray.trace(model.eval(), torch.tensor([[1, 2, 3], [4, 5, 6]]))

    boxes = read_columns(trace)[0].entrance.nodes

    assert [node.extra for node in boxes if node.label == "RMS NORM"] == [f"{WIDTH} parameters"]


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ((..., 0), "NUMBERS PUT IN"),
        ((slice(None), slice(None), 0), "NUMBERS PUT IN"),
        ((slice(None), 0), "ROWS PUT IN"),
        ((slice(None), slice(0, 2), slice(None)), "ROWS PUT IN"),
    ],
)
def test_what_is_written_into_rows_is_no_row(places, told):
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            into = self.one(x).clone()
            into[places] = self.other(x)[places]
            return into

    assert labels_of(Writing(), rows())[-1] == told


def test_what_is_written_into_maps_is_no_row():
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            into, others = (one(x).mT.unflatten(-1, (-1, 1)) for one in (self.one, self.other))
            into[:, :, 1:] = others[:, :, 1:]
            return into.flatten(2).mT

    labels = labels_of(Writing(), rows())
    assert "NUMBERS PUT IN" in labels
    assert "ROWS PUT IN" not in labels


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x + (x.round() - x).detach(), "ROUNDED"),
        (lambda x: (x.round() - x) + x, "ROUNDED"),
        (lambda x: x + (x.floor() - x), "ADDED UP"),
        (lambda x: x + (x - x.round()), "ADDED UP"),
        (lambda x: x + (x.tanh().round() - x), "ADDED UP"),
    ],
)
def test_what_is_rounded_with_a_way_back_is_told(change, told):
    class Rounding(Padded):
        def forward(self, x, counts=None):
            return self.last(torch.cat((change(self.first(x)), x), dim=-1))

    labels = labels_of(Rounding(), rows())

    assert [one for one in labels if one in ("ROUNDED", "ADDED UP")] == [told]
    assert ("SUBTRACTED" in labels) == (told != "ROUNDED")
    assert labels[0] == "LINEAR"


def put_highest(x, value=1.0, dim=-2):
    return torch.zeros_like(x).scatter_(dim, x.max(-2, keepdim=True)[1], value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: put_highest(x) - x.detach() + x, "1 AT THE HIGHEST dim −2, ELSE 0"),
        (lambda x: x + (put_highest(x) - x), "1 AT THE HIGHEST dim −2, ELSE 0"),
        (lambda x: put_highest(x, 2.0) - x.detach() + x, "ADDED UP"),
        (lambda x: put_highest(x.tanh()) - x.detach() + x, "ADDED UP"),
        (lambda x: put_highest(x, dim=-1) - x.detach() + x, "ADDED UP"),
    ],
)
def test_a_choice_of_the_highest_with_a_way_back_is_told(change, told):
    class Choosing(Padded):
        def forward(self, x, counts=None):
            return self.last(torch.cat((change(self.first(x)), x), dim=-1))

    labels = labels_of(Choosing(), rows())

    assert [one for one in labels if one.startswith(("1 AT", "ADDED"))] == [told]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x / (x.sum(-1, keepdim=True) + 1.0), "÷ ITS OWN SUM + 1"),
        (lambda x: x / (x.sum(-1, keepdim=True) + 1e-6), "÷ ITS OWN SUM"),
        (lambda x: x / (x.abs().sum(-1, keepdim=True) + 1.0), "DIVIDED"),
        (lambda x: x.softmax(-2), "SOFTMAX dim −2"),
        (lambda x: x.softmax(-1), "SOFTMAX"),
        (lambda x: torch.exp(x.log_softmax(-1)), "SOFTMAX"),
    ],
)
def test_what_is_divided_by_its_own_sum_says_so(change, told):
    class Weighing(Padded):
        def forward(self, x, counts=None):
            return self.last(torch.cat((change(self.first(x)), x), dim=-1))

    labels = labels_of(Weighing(), rows())

    assert [one for one in labels if one.startswith(("÷", "DIVIDED", "SOFTMAX"))] == [told]
