"""Several heads of one stream: all that a model hands out are drawn, each in a lane of its own."""

from itertools import pairwise

import pytest
import torch
from printed import lines_of
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn
from unsaid import list_unsaid

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

CLASSES, EDGES, WORDS = 13, 4, 2


class Detector(Reader):
    """A class and the edges of a box for each row, and which row comes before which (DETR, PP-DocLayout)."""

    def __init__(self, *layers, hands_out=True):
        super().__init__(*layers)
        self.norm, self.classes = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, EDGES)
        self.before, self.hands_out = nn.Linear(WIDTH, 2 * WORDS), hands_out

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        asks, answers = self.before(x).chunk(2, dim=-1)
        made = self.classes(x)
        edges = self.second(torch.relu(self.first(x))).sigmoid()
        return (edges, asks @ answers.mT, made) if self.hands_out else (edges, asks @ answers.mT)


class Moves(Detector):
    """The middle of each box is moved by where a query stands before all is bent (Conditional DETR)."""

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x, kind))
        edges = self.second(torch.relu(self.first(x)))
        edges[..., :2] += torch.linspace(-1, 1, 2)
        return edges.sigmoid(), self.classes(x)


class Refines(Detector):
    """The edges are added to those that were guessed before the layers (RT-DETR)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.guess = nn.Linear(7, EDGES)

    def forward(self, x, kind=None):
        guessed = self.guess(x)
        x = self.norm(Reader.forward(self, x, kind))
        edges = self.second(torch.relu(self.first(x)))
        return (edges + guessed).sigmoid(), self.classes(x)


class Orders(Detector):
    """Which row comes before which: what one says of the other less what the other says of it (PP-DocLayout)."""

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x, kind))
        asks, answers = self.before(x).chunk(2, dim=-1)
        scores = asks @ answers.mT
        return scores - scores.mT, self.classes(x)


class OrdersOnce(Detector):
    """The same, of each pair one score alone (PP-DocLayout v3)."""

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x, kind))
        asks, answers = self.before(x).chunk(2, dim=-1)
        scores = asks @ answers.mT / 8
        return scores.masked_fill(torch.ones(scores.shape[1:]).tril().bool(), -1e4), self.classes(x)


class Tries(Detector):
    """Tries of the scores whether their double is above 0, of which nothing is handed out, and hands out half of them.

    Torch's distributions do so with the numbers that they are given (Toto).
    """

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x, kind))
        made = self.classes(x)
        (made * 2).gt(0).all()
        return made / 4, self.second(torch.relu(self.first(x)))


class Letters(Reader):
    """Three heads of one layer each (MGP-STR)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, size) for size in (17, 19, 23))

    def forward(self, x, kind=None):
        x = super().forward(x, kind)
        return tuple(head(x) for head in self.heads)


class Guesses(Reader):
    """A head whose bias stands apart from its layer, and one of the first row alone (BERT before it is taught more)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.words, self.bias = nn.Linear(WIDTH, CLASSES, bias=False), nn.Parameter(torch.zeros(CLASSES))
        self.follows = nn.Linear(WIDTH, WORDS)

    def forward(self, x, kind=None):
        x = super().forward(x, kind)
        return self.words(x) + self.bias, self.follows(x[:, 0])


class Teaches(nn.Module):
    """Maps whose mean goes to two heads, one of which learns of a teacher: the mean of both is given (SwiftFormer)."""

    def __init__(self):
        super().__init__()
        self.lead, self.norm = nn.Conv2d(3, WIDTH, 1), nn.BatchNorm2d(WIDTH)
        self.nets = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(4))
        self.classes, self.taught = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.lead(x)
        for net in self.nets:
            x = x + net(x).relu()
        x = self.norm(x).flatten(2).mean(-1)
        return (self.classes(x) + self.taught(x)) / 2


def record(make, **options):
    parts = (part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))
    return xray.trace(make(*parts, **options).eval(), rows())


@pytest.fixture(scope="module")
def columns():
    return read_columns(record(Detector))


def test_each_head_is_drawn_to_its_end(columns):
    chart = columns[0].exit
    before = {edge.target: edge.source for edge in chart.edges}
    ends = [node.key for node in chart.nodes if node.key not in before.values()]

    def spell(key):
        return ([] if key not in before else spell(before[key])) + [chart.node(key).label]

    assert sorted(map(spell, ends)) == [
        ["LAST NORM", "LINEAR"],
        ["LAST NORM", "LINEAR", "PRODUCT"],
        ["LAST NORM", "LINEAR", "ReLU", "LINEAR", "SIGMOID"],
    ]
    assert list_unsaid(columns) == ()


def test_each_head_stands_in_a_lane_of_its_own(columns):
    chart = columns[0].exit
    lanes = {node.place[0] for node in chart.nodes if node.label != "LAST NORM"}

    assert len(lanes) == 3
    assert all(chart.node(edge.source).row < chart.node(edge.target).row for edge in chart.edges)
    assert {chart.node(edge.source).place[0] for edge in chart.edges if edge.target in chart.heads} <= {0.5, *lanes}


def test_no_mark_stands_on_a_head():
    boxes = compose_poster(record(Letters), text_width).boxes
    marks = [box for box in boxes if box.kind == "station"]
    heads = [box for box in boxes if box.lines and any("LINEAR" in run.text for run in box.lines[0])]

    assert len(marks) > 1
    for mark in marks:
        assert not [one for one in heads if one.left < mark.x < one.right and one.bottom < mark.y < one.top]


def test_a_head_that_a_model_keeps_for_itself_is_not_drawn():
    (column,) = read_columns(record(Detector, hands_out=False))

    assert CLASSES not in {node.record.shape[-1] for node in column.exit.nodes}


def test_what_is_only_tried_of_a_head_is_none_of_what_it_gives():
    (column,) = read_columns(record(Tries))
    labels = {node.label for node in column.exit.nodes}

    assert "÷ 4" in labels
    assert "× 2" not in labels


@pytest.mark.parametrize(("make", "unsaid"), [(Moves, ()), (Refines, (("elsewhere", {"linear": 1}),))])
def test_a_head_that_something_else_is_added_to_is_drawn_to_its_end(make, unsaid):
    (column,) = read_columns(record(make))
    sigmoid = next(node for node in column.exit.nodes if node.label == "SIGMOID")

    assert sigmoid.record.shape[-1] == EDGES
    assert sigmoid.key not in {edge.source for edge in column.exit.edges}
    assert list_unsaid([column]) == unsaid


def test_what_a_head_takes_away_is_drawn():
    (column,) = read_columns(record(Orders))
    labels = {node.key: node.label for node in column.exit.nodes}

    assert ("PRODUCT", "SUBTRACTED") in {(labels[edge.source], labels[edge.target]) for edge in column.exit.edges}
    assert list_unsaid([column]) == ()


def test_a_mean_of_two_heads_is_drawn_to_what_the_model_gives():
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(Teaches().eval(), torch.rand(2, 3, 5, 7)))

    labels = [node.label for node in sorted(column.exit.nodes, key=lambda node: node.row)]
    heads = ["LINEAR OF A MEAN OF PLACES"] * 2
    assert labels == ["LAST NORM", *heads, "ADDED UP", "÷ 2"]


def test_what_is_done_with_a_head_in_boxes_of_its_own_is_not_said_to_be_in_none():
    texts = lines_of(compose_poster(record(Detector), text_width))

    assert "What leaves the tower." in texts
    assert not any("once more" in text for text in texts)


class Asks(nn.Module):
    """Words that look at others; of each a class and the edges of a box, with no norm before (RT-DETR)."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList([AttentionPart(), FeedForwardPart()] * 2)
        self.asks = nn.ModuleList(nn.TransformerDecoderLayer(WIDTH, 2, 33, batch_first=True) for _ in range(2))
        self.classes, self.first, self.edges = nn.Linear(WIDTH, 5), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, EDGES)

    def forward(self, ids, others):
        read, x = self.words(ids), self.words(others)
        for layer in self.layers:
            read = layer(read)
        for layer in self.asks:
            x = layer(x, read)
        return self.classes(x), self.edges(self.first(x).relu()).sigmoid()


def test_no_way_to_a_head_goes_through_what_is_written_over_the_frame():
    torch.manual_seed(0)
    given = torch.arange(14).view(2, 7), torch.arange(10).view(2, 5)
    layout = compose_poster(xray.trace(Asks().eval(), *given), text_width)
    notes = [one for one in layout.boxes if one.lines and "parameters" in one.lines[-1][-1].text and not one.filled]
    pieces = [piece for line in layout.curves for piece in pairwise(line.points)]

    crossing = [
        note
        for note in notes
        for (x, y), (_, top) in pieces
        if note.left < x < note.right and min(y, top) < note.y < max(y, top)
    ]
    assert len(notes) > 1
    assert not crossing


@pytest.mark.parametrize(("kind", "told"), [(OrdersOnce, 1), (Detector, 0)])
def test_scores_of_pairs_that_are_pushed_down_at_the_end_are_told(kind, told):
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(kind(AttentionPart(), FeedForwardPart()).eval(), rows()))

    assert [node.label for node in column.exit.nodes].count("WHAT A MASK NAMES PUSHED FAR DOWN") == told


def test_a_bias_that_stands_apart_from_its_layer_is_drawn_in_one_box():
    (column,) = read_columns(record(Guesses))

    held = [step.id for node in column.exit.nodes for step in node.steps]
    assert len(held) == len(set(held))
    assert [node.extra for node in column.exit.nodes if node.label == "+ A BIAS"] == [f"{CLASSES} parameters"]
