"""Ribbons between towers: they begin at the box whose steps made what is read, and pass no other tower."""

from math import dist

import pytest
import torch
from handwritten import Attention, Layer
from printed import text_of
from story.body.test_mistaken import WIDTH as SAMPLED
from story.body.test_sampled import Detector, given
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.poster import compose_poster
from xray.story.regions.ribbons.links import TIP

WIDTH, OTHER, WIDE = 15, 12, 21


def make_layers(width, count):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(count))


class Three(nn.Module):
    """An eye, a stack of words, and a stack that reads the eye behind an early layer beside what the words became."""

    def __init__(self, behind):
        super().__init__()
        self.behind = behind
        self.patches, self.words = nn.Conv2d(3, OTHER, 4, stride=4), nn.Embedding(31, WIDE)
        self.eye, self.reader, self.layers = make_layers(OTHER, 4), make_layers(WIDE, 2), make_layers(WIDTH, 3)
        self.of_eye, self.of_words = nn.Linear(OTHER, WIDTH), nn.Linear(WIDE, WIDTH)

    def forward(self, ids, image):
        rows = [self.patches(image).flatten(2).mT]
        for layer in self.eye:
            rows.append(layer(rows[-1]))
        x = self.words(ids)
        for layer in self.reader:
            x = layer(x)
        x = torch.cat([self.of_eye(rows[self.behind]), self.of_words(x)], 1)
        for layer in self.layers:
            x = layer(x)
        return x, rows[-1]


class Several(Three):
    """The same, with what is read behind three of the layers side by side in each row (ViP-LLaVA)."""

    def __init__(self):
        super().__init__(0)
        self.of_eye = nn.Linear(3 * OTHER, WIDTH)

    def forward(self, ids, image):
        rows = [self.patches(image).flatten(2).mT]
        for layer in self.eye:
            rows.append(layer(rows[-1]))
        x = self.words(ids)
        for layer in self.reader:
            x = layer(x)
        x = torch.cat([self.of_eye(torch.cat(rows[1:4], -1)), self.of_words(x)], 1)
        for layer in self.layers:
            x = layer(x)
        return x, rows[-1]


class Following(nn.Module):
    """An eye, and words of which each layer looks at what the eye's layer of its own number gave (BridgeTower)."""

    def __init__(self):
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.eye, self.reader = make_layers(WIDTH, 4), make_layers(WIDTH, 3)

    def forward(self, ids, image):
        x, seen = self.words(ids), self.patches(image).flatten(2).mT
        rows = [seen := layer(seen) for layer in self.eye]
        for layer, memory in zip(self.reader, rows, strict=False):
            x = layer(x, memory)
        return x, rows[-1]


class LastOfItsOwn(Following):
    """The same, but the first layer of the eye and the last of the words have other heads (Grounding DINO)."""

    def __init__(self):
        super().__init__()
        first, last = (Layer(WIDTH, Attention(WIDTH, 1), norm="before") for _ in range(2))
        self.eye, self.reader = nn.ModuleList([first, *self.eye]), nn.ModuleList([*self.reader, last])


class Taking(nn.Module):
    """An eye, and words whose layers take turns: each has so many heads, and looks at the eye or at words alone."""

    def __init__(self, *kinds):
        super().__init__()
        self.patches, self.words, self.kinds = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH), kinds
        self.eye, attentions = make_layers(WIDTH, 3), [Attention(WIDTH, heads) for heads, _ in (*kinds, *kinds)]
        self.reader = nn.ModuleList(Layer(WIDTH, one, norm="before") for one in attentions)

    def forward(self, ids, image):
        x, seen = self.words(ids), self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        for layer, (_, looks) in zip(self.reader, (*self.kinds, *self.kinds), strict=True):
            x = layer(x, seen if looks else None)
        return x


class Mutual(nn.Module):
    """A picture's rows and words that look at each other in every layer but the first two (LXMERT)."""

    def __init__(self):
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.eye, self.reader = make_layers(WIDTH, 4), make_layers(WIDTH, 4)

    def forward(self, ids, image):
        x, seen = self.words(ids), self.patches(image).flatten(2).mT
        for number, (one, other) in enumerate(zip(self.eye, self.reader, strict=True)):
            seen, x = (one(seen, x), other(x, seen)) if number > 1 else (one(seen), other(x))
        return seen, x


class Beginning(nn.Module):
    """An eye, and words that take in what is made of what it gives, and look at that too (RT-DETR)."""

    def __init__(self):
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.lead = nn.Linear(WIDTH, WIDTH)
        self.eye, self.reader = make_layers(WIDTH, 3), make_layers(WIDTH, 3)

    def forward(self, ids, image):
        seen = self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        memory = self.lead(seen).tanh()
        x = self.words(ids) + memory.mean(1, keepdim=True)
        for layer in self.reader:
            x = layer(x, memory)
        return x


def draw(behind):
    return draw_model(Several() if behind is None else Three(behind))


def draw_model(model):
    torch.manual_seed(0)
    trace = xray.trace(model, torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    return xray.anatomy(trace), compose_poster(trace, text_width)


@pytest.fixture(scope="module")
def drawn():
    return draw(2)


def list_ribbons(layout):
    return [curve.points for curve in layout.curves if curve.role == curve.kind == "ribbon"]


def find_boxes(layout, record_shape, label):
    return [
        box
        for box in layout.boxes
        if box.record is not None
        and box.record.shape == record_shape
        and label in "".join(run.text for line in box.lines for run in line)
    ]


def list_texts(layout):
    return [" ".join(run.text for line in box.lines for run in line) for box in layout.boxes]


def test_a_link_says_behind_which_layers_its_rows_are_taken(drawn):
    anatomy, _ = drawn
    behind = {link.source: link.behind for link in anatomy.links}

    assert behind == {anatomy.towers[0].name: (1,), anatomy.towers[1].name: ()}


def test_a_ribbon_from_an_early_layer_begins_beside_its_sum_and_says_which_layer_it_is(drawn):
    _, layout = drawn
    sums = find_boxes(layout, (2, 4, OTHER), "ADD")
    starts = [points[0] for points in list_ribbons(layout)]

    assert any(start == pytest.approx((box.right, box.y)) for start in starts for box in sums)
    assert "BEHIND LAYER 2" in list_texts(layout)


def test_a_ribbon_from_the_end_of_a_tower_says_no_layer():
    anatomy, layout = draw(4)

    assert all(link.behind == () for link in anatomy.links)
    assert not any(text.startswith("BEHIND") for text in list_texts(layout))


def test_ribbons_from_several_layers_say_all_of_them_once():
    _, layout = draw(None)

    assert [text for text in list_texts(layout) if text.startswith("BEHIND")] == ["BEHIND LAYERS 1, 2, 3"]


def test_where_of_layers_alike_each_reads_another_layer_the_ribbon_says_all_of_them():
    anatomy, layout = draw_model(Following())

    assert [len(tower.groups) for tower in anatomy.towers] == [1, 1]
    assert [text for text in list_texts(layout) if text.startswith("BEHIND")] == ["BEHIND LAYERS 1, 2, 3"]


def test_what_leads_to_one_layer_alone_is_said_to_begin_behind_one():
    anatomy, layout = draw_model(LastOfItsOwn())

    assert [link.behind for link in anatomy.links] == [(0, 1, 2, 3)]
    assert [len(tower.groups) for tower in anatomy.towers] == [2, 2]
    assert [text for text in list_texts(layout) if text.startswith("BEHIND")] == ["BEHIND LAYER 4"]


def test_what_a_tower_looks_at_is_led_from_the_box_of_its_own_entrance_that_made_it():
    _, layout = draw_model(Beginning())
    (bent,) = find_boxes(layout, (2, 4, WIDTH), "TANH")
    inner = [points for points in list_ribbons(layout) if points[0] == (bent.right, bent.y)]

    assert inner
    ends = {points[-1] for points in inner}
    assert ends <= {(box.x, box.bottom) for box in find_boxes(layout, (2, 4, WIDTH), "LINEAR")}
    assert max(x for points in inner for x, _ in points) < layout.width


def test_a_ribbon_goes_above_the_towers_that_it_passes(drawn):
    _, layout = drawn
    (passing,) = (points for points in list_ribbons(layout) if points[0][0] < min(find_middle(layout)))
    highest = max(box.top for box in layout.boxes if box.x in find_middle(layout))

    assert max(y for _, y in passing) > highest


def find_middle(layout):
    """Where the boxes of the words' tower stand that are in its middle."""
    return {box.x for box in find_boxes(layout, (2, 7, WIDE), "ADD")}


def test_every_ribbon_ends_at_a_box_that_reads_another_tower(drawn):
    _, layout = drawn
    takers = [*find_boxes(layout, (2, 4, WIDTH), "LINEAR"), *find_boxes(layout, (2, 7, WIDTH), "LINEAR")]
    ends = [points[-1] for points in list_ribbons(layout)]

    assert len(ends) == 2
    assert all(any(box.left <= x <= box.right and box.bottom <= y <= box.top for box in takers) for x, y in ends)


class Speaks(nn.Module):
    """Layers of words with a table that is looked into from outside, and a head."""

    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(31, WIDTH), make_layers(WIDTH, 3)
        self.head = nn.Linear(WIDTH, 31, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Asks(nn.Module):
    """Learned rows stand before what is looked up, and the table of words may be the head too."""

    def __init__(self, rows, is_tied):
        super().__init__()
        self.asking, self.speaks = nn.Parameter(torch.rand(1, rows, WIDTH)), Speaks()
        if is_tied:
            self.speaks.head.weight = self.speaks.words.weight

    def forward(self, ids):
        return self.speaks(torch.cat([self.asking.expand(2, -1, -1), self.speaks.words(ids)], 1))


@pytest.mark.parametrize(("rows", "label"), [(1, "A LEARNED ROW IN FRONT"), (5, "5 LEARNED ROWS IN FRONT")])
def test_learned_rows_before_others_are_counted(rows, label):
    reading = read_passes(xray.trace(Asks(rows, is_tied=False), torch.arange(14).view(2, 7)))[0]

    assert label in [node.label for node in chart_entrance(reading.flow, reading.towers[0]).nodes]


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_head_that_shares_the_table_is_tied(is_tied):
    head = xray.anatomy(xray.trace(Asks(5, is_tied), torch.arange(14).view(2, 7))).head

    assert (head.kind, bool(head.tied)) == ("vocabulary", is_tied)


class Frames(nn.Module):
    """Pictures of which each sequence has several, laid end to end before they are cut into patches."""

    def __init__(self):
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, OTHER, 4, stride=4), make_layers(OTHER, 3)

    def forward(self, frames):
        x = self.patches(torch.cat([one[:2] for one in frames])).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return x


def test_an_input_leads_to_the_first_box_that_reads_it():
    reading = read_passes(xray.trace(Frames(), torch.rand(2, 5, 3, 8, 8)))[0]
    chart = chart_entrance(reading.flow, reading.towers[0])
    ways = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}

    assert {("VIDEO", "END TO END"), ("END TO END", "PATCHES 4×4")} <= ways
    assert ("VIDEO", "PATCHES 4×4") not in ways
    assert next(node.record.shape for node in chart.nodes if node.label == "VIDEO") == (2, 5, 3, 8, 8)


class FromBoxes(Detector):
    """Queries sample at points near places that were worked out of what the maps became, or that are given."""

    def __init__(self, is_given):
        super().__init__()
        self.is_given, self.box = is_given, nn.Linear(SAMPLED, 2)

    def forward(self, maps, queries, where):
        x, places = self.maps(maps), torch.sin(maps[..., :1])
        for sample, think in zip(self.own, self.thinks[:2], strict=True):
            x = think(sample(x, x, places, maps[..., :2]))
        boxes = self.box(x)
        best = boxes.mean(-1).topk(queries.shape[1]).indices
        boxes = boxes.gather(1, best[..., None].expand(-1, -1, 2)).sigmoid()
        where, y = (where if self.is_given else boxes.detach()), self.queries(queries)
        for look, sample, think in zip(self.looks, self.asks, self.thinks[2:], strict=True):
            y = think(sample(look(y), x, queries[..., :1], where))
        return y, boxes


@pytest.mark.parametrize("is_given", [False, True])
def test_a_ribbon_leads_from_the_places_that_points_are_measured_from_to_these(is_given):
    torch.manual_seed(0)
    layout = compose_poster(xray.trace(FromBoxes(is_given).eval(), *given()), text_width)

    boxes = {step: box for box in layout.boxes for step in box.steps}
    (points,) = (box for box in layout.boxes if "asks" in str(box.steps) and text_of(box.lines[0]) == "POINTS")
    source = boxes["forward/box#0"]
    ends = [(points_of[0], points_of[-1]) for points_of in list_ribbons(layout)]
    led = [start for start, end in ends if abs(end[0] - points.x) < 1 and abs(end[1] - points.bottom) < 1]
    assert [source.left <= x <= source.right for x, _ in led] == ([] if is_given else [True])


def test_every_ribbon_ends_straight_for_as_long_as_its_head_is_and_its_casing_within_that(drawn):
    ribbons = [curve for curve in drawn[1].curves if curve.kind == "ribbon"]
    casings = [curve.points for curve in ribbons if curve.role == "casing"]

    for way, casing in zip(list_ribbons(drawn[1]), casings, strict=True):
        assert dist(way[-4], way[-1]) >= TIP
        assert 0 < dist(casing[-1], way[-1]) < TIP
        assert casing[0] == way[0]


def test_the_name_of_a_ribbon_keeps_clear_of_what_is_written_over_a_frame():
    _, layout = draw(4)
    written = [box for box in layout.boxes if not box.filled]
    named = [box for box in written if box.lines[0][0].text.startswith("FROM THE")]

    assert len(named) == 2
    for name in named:
        below = [box.top for box in written if box.y < name.y and box.left < name.right and name.left < box.right]
        assert name.bottom >= max(below) + 4


@pytest.mark.parametrize(
    ("kinds", "name", "is_led"),
    [
        (((3, True), (5, True)), "CROSS-ATTENTION", True),
        (((3, True), (3, False), (5, False)), "SELF-ATTENTION", False),
    ],
)
def test_a_ribbon_leads_to_layers_that_are_drawn_closed_where_these_look_at_another_tower(kinds, name, is_led):
    _, layout = draw_model(Taking(*kinds))
    (closed,) = (box for box in layout.boxes if box.filled and box.lines and box.lines[0][0].text == name)
    ends = [points[-1] for points in list_ribbons(layout)]

    assert ((closed.left, closed.y) in ends) == is_led
    assert len(ends) == 2 + is_led


def test_towers_that_look_at_each_other_are_joined_both_ways():
    ways = list_ribbons(draw_model(Mutual())[1])

    assert {points[0][0] < points[-1][0] for points in ways} == {True, False}
