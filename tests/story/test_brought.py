"""What is worked out beside a tower and meets what it gives behind the last layer: words so far, in a transducer."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WORDS, NARROW = 9, 5


class Transducer(Reader):
    """Each place of a sound meets each word so far (RNN-T)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.narrow, self.words = nn.Linear(WIDTH, NARROW), nn.Embedding(WORDS, NARROW)
        self.remember, self.scores = nn.LSTM(NARROW, NARROW, batch_first=True), nn.Linear(NARROW, WORDS)

    def forward(self, x, kind=None):
        heard = self.narrow(super().forward(x))
        said, _ = self.remember(self.words(kind))
        return self.scores(torch.relu(heard[:, :, None] + said[:, None]))


@pytest.fixture(scope="module")
def heard():
    model = Transducer(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
    return xray.trace(model.eval(), rows(), torch.tensor([[1, 2, 3]] * len(rows())))


def test_a_network_of_the_words_so_far_is_drawn_to_where_it_meets_what_the_layers_give(heard):
    (column,) = read_columns(heard)
    chart = column.exit

    assert chart is not None
    labels = {node.key: node.label for node in chart.nodes}
    assert [(labels[edge.source], labels[edge.target]) for edge in chart.edges] == [
        ("TOKEN IDS", "TABLE LOOKUP"),
        ("LINEAR", "ADDED UP"),
        ("TABLE LOOKUP", "LSTM"),
        ("LSTM", "ADDED UP"),
        ("ADDED UP", "ReLU"),
        ("ReLU", "LINEAR"),
    ]
    assert [labels[key] for key in chart.feet] == ["LINEAR"]


def test_a_recurrent_network_says_how_many_layers_it_has_and_whether_it_reads_both_ways():
    model = Transducer(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))).eval()
    model.remember = nn.LSTM(NARROW, 2, num_layers=3, bidirectional=True, batch_first=True)
    model.scores = nn.Linear(4, WORDS)
    model.narrow = nn.Linear(WIDTH, 4)

    (column,) = read_columns(xray.trace(model, rows(), torch.tensor([[1, 2, 3]] * len(rows()))))

    assert column.exit is not None
    assert "LSTM, 3 LAYERS, BOTH WAYS" in {node.label for node in column.exit.nodes}


def test_what_no_layer_has_made_is_not_in_the_colour_of_the_tower(heard):
    (column,) = read_columns(heard)

    assert column.exit is not None
    assert {node.label for node in column.exit.nodes if node.surface == "condition"} == {
        "TOKEN IDS",
        "TABLE LOOKUP",
        "LSTM",
    }
    told = [run.text for box in compose_poster(heard, text_width).boxes for line in box.lines for run in line]
    assert "made beside the tower" in told
