"""Weights that two towers work with have their number at the first (Informer, BART, Kosmos-2)."""

import pytest
import torch
from handwritten import Attention, Layer, make_writer
from torch import nn

import xray
from xray.story.charts.steps.same_weights import DRAWN_BEFORE
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, KINDS, VOCAB = 15, 2, 53


class Forecast(nn.Module):
    """The past and the future, each with the same rows of a kind beside it, in layers of their own."""

    def __init__(self):
        super().__init__()
        self.kinds, self.past, self.future = nn.Embedding(5, KINDS), nn.Linear(3 + KINDS, WIDTH), nn.Linear(5, WIDTH)
        self.first, self.second = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3)) for _ in range(2)
        )

    def forward(self, rows, kind):
        kinds = self.kinds(kind)[:, None].expand(-1, rows.shape[1], -1)
        both = torch.cat([rows, kinds], dim=-1)
        x, y = self.past(both[:, :6]), self.future(both[:, 6:])
        for layer in self.first:
            x = layer(x)
        for layer in self.second:
            y = layer(y)
        return x, y


def test_a_lookup_that_both_towers_begin_with_counts_at_the_first_and_is_no_second_one():
    trace = xray.trace(Forecast().eval(), torch.rand(2, 11, 3), torch.tensor([1, 3]))

    found = [node.extra for one in read_columns(trace) for node in one.entrance.nodes if "LOOKUP" in node.label]
    assert found == [f"{5 * KINDS} parameters", DRAWN_BEFORE]


class Told(nn.Module):
    """Words, and others by the same table; what ends the first layers is normed twice, the second time for more."""

    def __init__(self):
        super().__init__()
        self.words, self.answer = nn.Embedding(31, WIDTH), nn.Embedding(31, WIDTH)
        self.answer.weight = self.words.weight
        self.norm, self.bring = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3)) for _ in range(2)
        )

    def forward(self, ids, others):
        x, y = self.words(ids), self.answer(others)
        for layer in self.first:
            x = layer(x)
        pooled = self.norm(x[:, 0])
        y = torch.cat([self.bring(self.norm(x)), y], dim=1)
        for layer in self.second:
            y = layer(y)
        return pooled, y


def test_a_table_and_a_norm_that_work_again_have_their_number_at_the_first():
    trace = xray.trace(Told().eval(), torch.randint(31, (2, 7)), torch.randint(31, (2, 5)))

    first, second = read_columns(trace)
    found = {node.label: node.extra for node in second.entrance.nodes if node.extra}
    assert [node.extra for node in first.entrance.nodes] == ["", f"{31 * WIDTH} parameters"]
    assert found == {
        "TABLE LOOKUP": "same weights",
        "LAYER NORM": "same weights",
        "LINEAR": f"{WIDTH * (WIDTH + 1)} parameters",
    }


class PlacesOfItsOwn(nn.Module):
    """A learned row with its places begins a tower, and other places of another width are added before the next."""

    def __init__(self):
        super().__init__()
        self.row, self.places = nn.Parameter(torch.rand(1, 1, WIDTH)), nn.Parameter(torch.rand(1, 8, WIDTH - 3))
        self.start, self.narrow = nn.Linear(3, WIDTH), nn.Linear(WIDTH, WIDTH - 3)
        self.first, self.second = (
            nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(3))
            for width in (WIDTH, WIDTH - 3)
        )

    def forward(self, x):
        first = self.row + torch.ones(1, 1, WIDTH)
        x = torch.cat([first.expand(2, -1, -1), self.start(x)], dim=1)
        for layer in self.first:
            x = layer(x)
        y = self.narrow(x) + self.places
        for layer in self.second:
            y = layer(y)
        return y


def test_what_two_sums_of_one_block_are_given_is_not_taken_for_the_same():
    trace = xray.trace(PlacesOfItsOwn().eval(), torch.rand(2, 7, 3))

    found = [node.extra for one in read_columns(trace) for node in one.entrance.nodes if "PLACES" in node.label]
    assert found == [f"{8 * (WIDTH - 3)} parameters"]


class ReadInTheMiddle(nn.Module):
    """Layers that end with a norm of the stream; other layers begin with what two of them give (BridgeTower)."""

    def __init__(self):
        super().__init__()
        self.words, self.bring = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="after") for _ in range(count)) for count in (4, 3)
        )

    def forward(self, ids):
        x, given = self.words(ids), []
        for layer in self.first:
            x = layer(x)
            given.append(x)
        y = self.bring(given[1])
        for layer in self.second:
            y = layer(y)
        return x, y


def test_a_norm_that_ends_a_layer_is_not_drawn_again_where_another_tower_begins_with_it():
    trace = xray.trace(ReadInTheMiddle().eval(), torch.randint(31, (2, 7)))

    _, second = read_columns(trace)
    assert [node.label for node in second.entrance.nodes] == ["LINEAR"]
    assert second.entrance.memory


class ScoresTwice(nn.Module):
    """Letters are scored in the middle, and what is sure of them is added; the same layer scores them last."""

    def __init__(self, *, same):
        super().__init__()
        self.lead, self.letters, self.back = nn.Linear(7, WIDTH), nn.Linear(WIDTH, 11), nn.Linear(11, WIDTH)
        self.last = self.letters if same else nn.Linear(WIDTH, 11)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(4))

    def forward(self, x):
        x = self.lead(x)
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == 1:
                x = x + self.back(self.letters(x).softmax(-1))
        return self.last(x)


@pytest.mark.parametrize(
    ("same", "told"),
    [(True, "same weights as between layers 2 and 3"), (False, f"{(WIDTH + 1) * 11} parameters")],
)
def test_a_head_that_worked_between_layers_has_its_number_there(same, told):
    (column,) = read_columns(xray.trace(ScoresTwice(same=same).eval(), torch.rand(2, 5, 7)))

    assert [node.extra for node in column.exit.nodes if node.label == "LINEAR"] == [told]


@pytest.mark.parametrize("own_bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_a_head_that_is_the_table_of_the_words_says_so_and_counts_what_it_has_beside_that(tied, own_bias):
    model = make_writer(WIDTH)
    if tied:
        model.scores.weight = model.words.weight
    if not own_bias:
        model.scores.bias = None
    trace = xray.trace(model.eval(), torch.randint(31, (2, 7)))
    (column,) = read_columns(trace)
    listed = list_shares([column], trace)

    (told,) = (node.extra for node in column.exit.nodes if node.label == "LINEAR TO VOCABULARY")
    bias = VOCAB * own_bias
    tail = f", {bias} parameters of its own" * own_bias
    assert told == (f"same weights as the entrance{tail}" if tied else f"{VOCAB * WIDTH + bias} parameters")
    assert sum(count for _, _, count in listed) == sum(one.numel() for one in model.parameters())


class AddsOwn(nn.Module):
    """Scores of words by a table, to which a step of its own adds numbers (ESM)."""

    def __init__(self, weight):
        super().__init__()
        self.decoder, self.bias = nn.Linear(WIDTH, VOCAB, bias=False), nn.Parameter(torch.zeros(VOCAB))
        self.decoder.weight = weight

    def forward(self, x):
        return self.decoder(x) + self.bias


def test_what_is_added_to_the_scores_of_a_table_is_all_that_a_head_has_of_its_own():
    model = make_writer(WIDTH)
    model.scores = AddsOwn(model.words.weight)
    (column,) = read_columns(xray.trace(model.eval(), torch.randint(31, (2, 7))))

    (told,) = (node.extra for node in column.exit.nodes if node.label == "LINEAR TO VOCABULARY")
    assert told == f"same weights as the entrance, {VOCAB} parameters of its own"


class ByNumbers(nn.Module):
    """A product with learned numbers before the layers, and one with others behind them, in no module of their own."""

    def __init__(self):
        super().__init__()
        self.begin, self.end = nn.Parameter(torch.rand(WIDTH, WIDTH)), nn.Parameter(torch.rand(WIDTH, WIDTH))
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, x):
        x = x @ self.begin
        for layer in self.layers:
            x = layer(x)
        return x @ self.end


def test_other_numbers_that_the_same_block_multiplies_by_are_not_said_to_be_the_same():
    (column,) = read_columns(xray.trace(ByNumbers().eval(), torch.rand(2, 5, WIDTH)))

    ends = [node.extra for chart in (column.entrance, column.exit) for node in chart.nodes if node.label == "LINEAR"]
    assert ends == [f"{WIDTH * WIDTH} parameters"] * 2
