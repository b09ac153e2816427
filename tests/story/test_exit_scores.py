"""What scores words behind the layers, and what is handed out of them."""

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class ScoresByTable(nn.Module):
    """Learned rows that look at words, and scores by the table of these words, or one as large (Perceiver)."""

    def __init__(self, is_one):
        super().__init__()
        self.rows, self.words = nn.Parameter(torch.zeros(5, 15)), nn.Embedding(11, 15)
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(3))
        self.table = self.words.weight if is_one else nn.Parameter(torch.zeros(11, 15))

    def forward(self, ids):
        x, read = self.rows.expand(len(ids), -1, -1), self.words(ids)
        for layer in self.layers:
            x = layer(x, read)
        return (x.flatten(0, 1) @ self.table.T).unflatten(0, x.shape[:2])


@pytest.mark.parametrize("is_one", [True, False])
def test_a_head_by_the_table_of_words_that_the_layers_look_at_says_so(is_one):
    trace = xray.trace(ScoresByTable(is_one).eval(), torch.arange(14).view(2, 7) % 11)

    told = [run.text for box in compose_poster(trace, text_width).boxes for line in box.lines for run in line]
    assert ("The table of the words is also the last layer" in " ".join(told)) == is_one
    assert ("vocab " in told) == is_one
    assert xray.anatomy(trace).head.tied is (True if is_one else None)


@pytest.mark.parametrize(
    ("is_one", "told"),
    [
        (True, ("LINEAR TO VOCABULARY", "same weights as the table of the words", (2, 5, 11), "vocab")),
        (False, ("LINEAR", "165 parameters", (10, 11), "")),
    ],
)
def test_a_product_with_the_table_of_words_says_so_and_gives_scores_for_each_row(is_one, told):
    (column,) = read_columns(xray.trace(ScoresByTable(is_one).eval(), torch.arange(14).view(2, 7) % 11))
    node = column.exit.nodes[-1]

    assert (node.label, node.extra, node.record.shape, node.record.axes[-1]) == told


class TableAndBias(nn.Module):
    """Layers of words, and scores by the table of the words with a bias that is added behind (ESM-2)."""

    def __init__(self):
        super().__init__()
        self.words, self.bias = nn.Embedding(11, 15), nn.Parameter(torch.zeros(11))
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.linear(x, self.words.weight) + self.bias


def test_of_a_product_with_the_table_of_words_the_bias_alone_is_its_own():
    (column,) = read_columns(xray.trace(TableAndBias().eval(), torch.arange(14).view(2, 7) % 11))

    assert column.exit.nodes[-1].extra == "same weights as the entrance, 11 parameters of its own"


class Twice(Reader):
    """Two linear layers of the same rows, which are no words (AIMv2)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.ways = nn.LayerNorm(WIDTH), nn.ModuleList(nn.Linear(WIDTH, 23) for _ in range(2))

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        return tuple(way(x) for way in self.ways)


def test_layers_of_the_same_rows_score_no_words_where_none_came_in():
    trace = xray.trace(Twice(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart()).eval(), rows())

    told = [run.text for box in compose_poster(trace, text_width).boxes for line in box.lines for run in line]
    assert "vocab " not in told


class Scored(Reader):
    """A norm behind all layers, and a score for each of its rows; what is normalised may be handed out too."""

    def __init__(self, *layers, both):
        super().__init__(*layers)
        self.norm, self.score, self.both = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1), both

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        return (self.score(x), x) if self.both else self.score(x)


@pytest.mark.parametrize(("both", "told"), [(True, ("handed out too",)), (False, ())])
def test_what_is_read_above_the_layers_and_handed_out_says_so(both, told):
    parts = (AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
    (column,) = read_columns(xray.trace(Scored(*parts, both=both).eval(), rows()))

    assert [(node.label, node.told) for node in column.exit.nodes] == [("LAST NORM", told), ("LINEAR", ())]


class TakenApart(Scored):
    """What is normalised leaves moved, or cut into its first row and others, beside the scores of its rows."""

    def __init__(self, *layers, take):
        super().__init__(*layers, both=False)
        self.take = take

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x, kind))
        return self.score(x), *self.take(x)


@pytest.mark.parametrize(
    ("take", "told"),
    [
        (lambda x: (x.flatten(0, 1),), ("handed out too",)),
        (lambda x: (x[:, 0], x[:, 1:]), ("handed out too",)),
        (lambda x: (x[:, 1:],), ("a part of it is handed out too",)),
        (lambda x: (x + 1,), ()),
    ],
)
def test_what_is_handed_out_moved_or_cut_says_so_where_it_is_made(take, told):
    parts = (AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
    (column,) = read_columns(xray.trace(TakenApart(*parts, take=take).eval(), rows()))

    assert next(node.told for node in column.exit.nodes if "NORM" in node.label) == told


class LeftBehind(Scored):
    """Rows are normalised behind the layers, and scored as they were before, or moved by their norm's numbers."""

    def __init__(self, *layers, read):
        super().__init__(*layers, both=False)
        self.read = read

    def forward(self, x, kind=None):
        x = Reader.forward(self, x, kind)
        return self.read(self.norm(x), x, self.score)


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda normed, rows, score: (rows, score(normed)), ()),
        (lambda normed, rows, score: rows, ("read by nothing",)),
        (lambda normed, rows, score: (rows, normed.flatten()), ()),
    ],
)
def test_a_last_norm_that_nothing_reads_says_so(read, told):
    parts = (AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
    (column,) = read_columns(xray.trace(LeftBehind(*parts, read=read).eval(), rows()))

    assert next(node.told for node in column.exit.nodes if "NORM" in node.label) == told


class CopiesWords(nn.Module):
    """Scores of a head, and what each place takes of the words before it added to them (the first RWKV)."""

    def __init__(self):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(11, 15), nn.LayerNorm(15), nn.Linear(15, 11)
        self.asks, self.offers = nn.Linear(15, 13), nn.Linear(15, 13)
        self.of_place, self.seen = nn.Parameter(torch.ones(7, 1)), torch.ones(7, 7).tril()
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        found = (self.asks(x) @ self.offers(x).mT / 15).masked_fill(self.seen == 0, 0)
        copied = found @ nn.functional.one_hot(ids, 11).float()
        return self.head(x * self.of_place) + copied


def test_scores_that_are_added_up_at_the_end_are_drawn_with_their_sum():
    (column,) = read_columns(xray.trace(CopiesWords().eval(), torch.arange(14).view(2, 7) % 11))
    nodes = {node.key: node.label for node in column.exit.nodes}

    assert nodes[column.exit.head] == "ADDED UP"
    assert sorted(nodes[one.source] for one in column.exit.edges if one.target == column.exit.head) == [
        "LINEAR TO VOCABULARY",
        "PRODUCT",
    ]
