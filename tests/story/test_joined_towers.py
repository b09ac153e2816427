"""Rows of one tower put among the words of another: where they go in, and what stands on their way."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.alarms.whole import audit
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.poster import compose_poster

WIDTH, SEEN, SIGN = 15, 12, 7


def make_layers(width, count):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(count))


class Sees(nn.Module):
    """Patches through two layers, brought to the width of words, and put where signs stand among them."""

    def __init__(self, factor=None):
        super().__init__()
        self.factor = factor
        self.patches = nn.Conv2d(3, SEEN, 4, stride=4)
        self.eye = make_layers(SEEN, 2)
        self.project = nn.Sequential(nn.Linear(SEEN, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.words = nn.Embedding(31, WIDTH)
        self.layers = make_layers(WIDTH, 3)
        self.head = nn.Linear(WIDTH, 31)

    def forward(self, ids, image):
        seen = self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        x = self.words(ids) if self.factor is None else self.words(ids) * self.factor
        x = x.masked_scatter((ids == SIGN).unsqueeze(-1), self.project(seen))
        for layer in self.layers[:-1]:
            x = layer(x)
        chosen = x.mean(-1)[:, None, None] < x.mean()  # the last layer hides rows by what stands in them
        return self.head(self.layers[-1](x, None, chosen))


@pytest.fixture(scope="module")
def trace():
    torch.manual_seed(0)
    return record(Sees())


def record(model):
    ids = torch.arange(8, 22).view(2, 7)
    ids[:, 1:5] = SIGN
    return xray.trace(model, ids, torch.rand(2, 3, 8, 8))


def test_words_that_are_multiplied_before_rows_are_put_among_them_say_so_on_their_side():
    reading = read_passes(record(Sees(factor=3.0)))[0]
    chart = chart_entrance(reading.flow, reading.towers[1])

    ways = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}
    scaled = next(node for node in chart.nodes if node.label == "× 3")
    assert {("TABLE LOOKUP", "× 3"), ("× 3", "ROWS PUT IN")} <= ways
    assert all(node.place[0] < scaled.place[0] for node in chart.nodes if node.row == scaled.row and node != scaled)


def test_both_the_words_and_the_rows_of_the_other_tower_lead_to_where_these_are_put_in(trace):
    reading = read_passes(trace)[0]
    chart = chart_entrance(reading.flow, reading.towers[1])

    labels = {node.key: node.label for node in chart.nodes}
    before = {labels[edge.source] for edge in chart.edges if labels[edge.target] == "ROWS PUT IN"}
    assert before == {"TABLE LOOKUP", "LINEAR"}
    assert labels[chart.head] == "ROWS PUT IN"


def test_the_arrow_from_the_other_tower_ends_at_the_first_that_reads_its_rows(trace):
    layout = compose_poster(trace, text_width)
    reading = read_passes(trace)[0]
    chart = chart_entrance(reading.flow, reading.towers[1])

    (first,) = (chart.node(key) for key in chart.memory)
    assert (first.label, first.record.shape) == ("LINEAR", (2, 4, WIDTH))
    (box,) = (box for box in layout.boxes if box.record is first.record)
    (end,) = {curve.points[-1] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert end == pytest.approx((box.left, box.y))


class Ends(Sees):
    """The place behind the last word is marked before words are looked up: the first that is 0 (CLVP)."""

    def forward(self, ids, image):
        last = (ids == 0).int().argmax(dim=1, keepdim=True)
        return super().forward(ids.masked_fill(torch.arange(ids.shape[1]) == last, 30), image)


def test_ids_in_which_an_end_is_marked_are_still_given():
    reading = read_passes(record(Ends()))[0]
    chart = chart_entrance(reading.flow, reading.towers[1])

    labels = {node.key: node.label for node in chart.nodes}
    assert ("TOKEN IDS", "TABLE LOOKUP") in {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    assert [labels[key] for key in chart.memory] == ["LINEAR"]


class Narrows(nn.Module):
    """What the eye made is brought to another width, for a stack of its own (DETR)."""

    def __init__(self):
        super().__init__()
        self.eye, self.layers = make_layers(WIDTH, 2), make_layers(SEEN, 2)
        self.patches, self.narrow = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Linear(WIDTH, SEEN)

    def forward(self, image):
        x = self.patches(image).flatten(2).mT
        for layer in self.eye:
            x = layer(x)
        x = self.narrow(x)
        for layer in self.layers:
            x = layer(x)
        return x


def test_what_another_tower_gives_is_no_input():
    trace = xray.trace(Narrows(), torch.rand(2, 3, 8, 8))
    reading = read_passes(trace)[0]
    charts = [chart_entrance(reading.flow, one) for one in reading.towers]

    assert [[node.label for node in chart.nodes] for chart in charts] == [["IMAGE", "PATCHES 4×4"], ["LINEAR"]]
    assert len(charts[1].memory) == 1


class Chunked(Narrows):
    """What the eye makes of each piece is written into a place that was made for it before (Nemotron's audio)."""

    def forward(self, image):
        x = self.patches(image - image.mean()).flatten(2).mT
        seen = x.new_empty(x.shape)
        for layer in self.eye:
            x = layer(x)
        seen[:, 0:4] = x[:, 0:4]
        x = self.narrow(seen)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_place_that_was_made_before_a_tower_leads_no_way_past_it():
    trace = xray.trace(Chunked(), torch.rand(2, 3, 8, 8))
    reading = read_passes(trace)[0]
    charts = [chart_entrance(reading.flow, one) for one in reading.towers]

    assert [[node.label for node in chart.nodes] for chart in charts] == [
        ["IMAGE", "SUBTRACTED", "PATCHES 4×4"],
        ["LINEAR"],
    ]
    assert len(charts[1].memory) == 1


def test_ids_that_tell_where_an_image_stands_are_no_mask(trace):
    found = audit(trace)

    assert found.alarms == ()
    assert all(mask.reached == 0 for mask in found.masks)


class Hears(Sees):
    """What the eye made is added to rows that are looked up: words, where the head works with their table (Voxtral)."""

    def __init__(self, *, tied):
        super().__init__()
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids, image):
        seen = self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        x = self.words(ids) + self.project(seen)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.mark.parametrize(("tied", "told"), [(True, ("ids", 31, "vocabulary")), (False, (None, None, "numbers"))])
def test_rows_of_a_table_that_are_added_to_others_are_words_where_the_head_works_with_it(tied, told):
    torch.manual_seed(0)
    anatomy = xray.anatomy(xray.trace(Hears(tied=tied), torch.arange(14).view(2, 7), torch.rand(2, 3, 4, 28)))
    tower = anatomy.towers[-1]

    assert (tower.reads, tower.vocab, anatomy.head.kind if anatomy.head else None) == told
