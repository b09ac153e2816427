"""Boxes beside a stream, in small models: told where each layer corrects those that the next one reads."""

import pytest
import torch
from handwritten import Attention
from story.body.test_sampled import SIDES, Sampling
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Boxes
from xray.story.cards.boxless import list_unsaid
from xray.story.facts.unsaid import list_undrawn
from xray.story.poster import compose_poster
from xray.story.regions.past_boxes import list_drawn
from xray.story.sentences.of_links import describe_boxes
from xray.story.sheet.columns import read_columns, set_beside
from xray.story.sheet.compose import list_around, list_told
from xray.story.sheet.shares import list_shares
from xray.story.wording import spell_layers

BATCH, ROWS, WIDTH, HEADS, DEPTH = 2, 7, 15, 3, 4


class Head(nn.Module):
    """What a layer gives, as so many numbers for each row."""

    def __init__(self, sides):
        super().__init__()
        self.wide, self.back = nn.Linear(WIDTH, 11), nn.Linear(11, sides)

    def forward(self, x):
        return self.back(self.wide(x).relu())


class Looking(nn.Module):
    """A layer whose queries and keys are told the places of boxes."""

    def __init__(self):
        super().__init__()
        self.look, self.one, self.two = Attention(WIDTH, HEADS), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, places):
        asks = x + places
        x = self.one(x + self.look(asks, asks))
        return self.two(x + self.think(x))


class Detector(nn.Module):
    """Layers behind each of which boxes are corrected by what it gives; the next layer's places are made of them."""

    def __init__(self, *, shared=False, sides=4, depth=DEPTH):
        super().__init__()
        self.rows, self.layers = nn.Linear(5, WIDTH), nn.ModuleList(Looking() for _ in range(depth))
        self.first: nn.Module = nn.Linear(5, sides)
        self.places: nn.Module = nn.Linear(2 * sides, WIDTH)
        own, self.kinds = Head(sides), nn.Linear(WIDTH, 3)
        self.heads = nn.ModuleList(own if shared else Head(sides) for _ in range(depth))

    def forward(self, rows):
        x, boxes = self.rows(rows), self.first(rows).sigmoid()
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes

    def place(self, boxes):
        return self.places((boxes[..., None] * torch.arange(1.0, 3.0)).sin().flatten(2))

    def correct(self, boxes, delta):
        return (delta + torch.logit(boxes, eps=1e-3)).sigmoid()


class Far(Detector):
    """Places are made of logarithms, with the sign of each number, or of what these are bent to; and a map is read."""

    def __init__(self, *, is_bent=False):
        super().__init__()
        self.is_bent = is_bent

    def place(self, boxes):
        apart = boxes[..., None] - torch.arange(1.0, 3.0)
        far = apart.sign() * (apart.abs() + 1).log2() / 3
        points = boxes[:, :, None, :2] * 2 - 1
        found = nn.functional.grid_sample(torch.ones(BATCH, WIDTH, 5, 3), points, align_corners=False)
        return self.places((far.tanh() if self.is_bent else far).flatten(2)) + found[..., 0].transpose(1, 2)


class Points(Looking):
    """A layer that samples a map at points about each row's box, too."""

    def __init__(self, *, is_whole):
        super().__init__()
        self.is_whole, self.sample = is_whole, Sampling(width=WIDTH)

    def forward(self, x, places, boxes, maps):  # type: ignore[override]
        asks = x + places
        x = self.one(x + self.look(asks, asks))
        x = self.sample(x, maps, places, boxes[..., :2] if self.is_whole else places[..., :2])
        return self.two(x + self.think(x))


class Sampled(Detector):
    """Layers sample a map at points that are measured from the boxes, or from their places."""

    def __init__(self, *, is_whole=True):
        super().__init__()
        self.layers, self.maps = nn.ModuleList(Points(is_whole=is_whole) for _ in range(DEPTH)), nn.Linear(5, WIDTH)

    def forward(self, rows):
        maps = self.maps(torch.ones(BATCH, sum(side * side for side in SIDES), 5) * rows[:, :1])
        x, boxes = self.rows(rows), self.first(rows).sigmoid()
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes), boxes, maps)
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes


class Begun(Detector):
    """The first boxes are learned, one for each row."""

    def __init__(self):
        super().__init__(shared=True)
        self.first, self.begin = nn.Identity(), nn.Parameter(torch.rand(ROWS, 4))

    def forward(self, rows):
        x, boxes = self.rows(rows), self.begin.sigmoid().expand(BATCH, -1, -1)
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes


class Early(Detector):
    """Boxes of what comes in are handed out too, by the weights that correct boxes behind each layer."""

    def __init__(self):
        super().__init__(shared=True)

    def forward(self, rows):
        early = self.heads[0](self.rows(rows))
        return *super().forward(rows), early


class Samples(Detector):
    """What the next layer is told is what a map has at the middle of each box."""

    def place(self, boxes):
        points = boxes[:, :, None, :2] * 2 - 1
        found = nn.functional.grid_sample(torch.ones(BATCH, WIDTH, 5, 3), points, align_corners=False)
        return found[..., 0].transpose(1, 2)


class NoPlaces(Detector):
    """Four numbers of each row are corrected, and nothing says that they are places in a picture."""

    def __init__(self):
        super().__init__()
        self.places = nn.Linear(4, WIDTH)

    def place(self, boxes):
        return self.places(boxes)


class Anew(Detector):
    """Boxes are made anew behind each layer: nothing is left of what they were."""

    def correct(self, boxes, delta):
        return delta.sigmoid()


class Kept(Detector):
    """All layers are told the places of the boxes that came first; each corrects others, which none reads."""

    def forward(self, rows):
        x, boxes = self.rows(rows), self.first(rows).sigmoid()
        places = self.place(boxes)
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, places)
            boxes = self.correct(boxes, head(x))
        return self.kinds(x), boxes


class Asking(Looking):
    """The places are added to what asks alone."""

    def forward(self, x, places):
        x = self.one(x + self.look(x + places, x))
        return self.two(x + self.think(x))


class Waves(Kept):
    """Two linear layers read sines and cosines of the boxes that came first, or these and the boxes (LW-DETR)."""

    def __init__(self, *, is_whole=True):
        super().__init__()
        self.is_whole, self.layers = is_whole, nn.ModuleList(Asking() for _ in range(DEPTH))
        wide = 2 * 4 if is_whole else 3 * 4
        self.places = nn.Sequential(nn.Linear(wide, 11), nn.ReLU(), nn.Linear(11, WIDTH))

    def place(self, boxes):
        waves = [boxes.sin(), boxes.cos()] if self.is_whole else [boxes.sin(), boxes.cos(), boxes.exp()]
        return self.places(torch.cat(waves, -1))


class Learned(Detector):
    """What boxes were goes through learned numbers before the correction is added: it is no correction of these."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def correct(self, boxes, delta):
        return (delta + self.mix(boxes)).sigmoid()


class Summed(Detector):
    """Numbers are added up from layer to layer, beginning behind the first; boxes are made of these (D-FINE)."""

    def __init__(self):
        super().__init__(sides=8)
        self.first, self.places = nn.Linear(5, 4), nn.Linear(8, WIDTH)

    def forward(self, rows):
        x, boxes, numbers = self.rows(rows), self.first(rows).sigmoid(), None
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            numbers = head(x) if numbers is None else head(x) + numbers
            boxes = (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1)
        return self.kinds(x), boxes


class Twice(Summed):
    """Behind the first layer boxes are corrected by a head of their own, and later ones are worked out of these."""

    def __init__(self):
        super().__init__()
        self.own = Head(4)

    def forward(self, rows):
        x, boxes, before, numbers = self.rows(rows), self.first(rows).sigmoid(), None, None
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            before = self.correct(boxes, self.own(x)) if before is None else before
            numbers = head(x) if numbers is None else head(x) + numbers
            boxes = before + (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1) / 5
        return self.kinds(x), boxes


class Scored(Twice):
    """Heads read what the layer before gave too, and what the last numbers are is added to the scores of kinds."""

    def __init__(self):
        super().__init__()
        self.trust, self.far = nn.Linear(8, 3), nn.Parameter(torch.ones(1))

    def forward(self, rows):
        x, boxes, before, last, numbers = self.rows(rows), self.first(rows).sigmoid(), None, None, None
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = layer(x, self.place(boxes))
            before = self.correct(boxes, self.own(x)) if before is None else before
            numbers = head(x) if numbers is None or last is None else head(x + last) + numbers
            boxes = before + (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1) / self.far
            last = x
        return self.kinds(x) + self.trust(numbers), boxes


class Beside(Summed):
    """Boxes are made of numbers that are added up, and the next layer reads these too: they are more than boxes."""

    def __init__(self):
        super().__init__()
        self.places = nn.Linear(8, WIDTH)
        self.size = nn.Linear(4, WIDTH)

    def forward(self, rows):
        x, numbers = self.rows(rows), torch.zeros(BATCH, ROWS, 8)
        for layer, head in zip(self.layers, self.heads, strict=True):
            boxes = (numbers.view(BATCH, ROWS, 4, 2).softmax(-1) * torch.arange(2.0)).sum(-1)
            x = layer(x, self.places(numbers) + self.size(boxes))
            numbers = head(x) + numbers
        return self.kinds(x), numbers


def record(model):
    with torch.no_grad():
        return xray.trace(model, torch.zeros(BATCH, ROWS, 5))


def read(model):
    (tower,) = anatomy(record(model)).towers
    return tower.boxes


def draw(model):
    (column,) = read_columns(record(model))
    (frame,) = column.frames
    return column, frame


@pytest.mark.parametrize("shared", [True, False])
def test_boxes_that_each_layer_corrects_are_told(shared):
    assert read(Detector(shared=shared)) == Boxes(tuple(range(DEPTH)), shared)


def test_numbers_at_which_a_map_is_sampled_are_boxes():
    assert read(Samples()) == Boxes(tuple(range(DEPTH)), shared=False)


def test_boxes_that_are_made_of_numbers_added_up_begin_behind_the_first_layer():
    assert read(Summed()) == Boxes(tuple(range(1, DEPTH)), shared=False, begun=0, steps=2)


def test_boxes_that_the_first_layer_read_are_corrected_behind_it_where_later_ones_are_worked_out_of_them():
    assert read(Twice()) == Boxes(tuple(range(DEPTH)), shared=False, begun=0, steps=2)


@pytest.mark.parametrize(
    "model",
    [NoPlaces(), Anew(), Kept(), Learned(), Beside(), Detector(sides=3), Detector(depth=2)],
    ids=lambda one: type(one).__name__,
)
def test_nothing_is_told_where_no_boxes_are_corrected_for_the_next_layer(model):
    assert read(model) is None


def test_the_sentence_says_behind_which_layers_and_with_what_weights():
    assert describe_boxes(anatomy(record(Detector()))) == (
        "Boxes, 4 numbers for each row, are corrected behind each layer of the stack tower by what it gives, each time "
        "with other weights; the next layer reads them."
    )
    assert describe_boxes(anatomy(record(Summed()))) == (
        "Boxes, 4 numbers for each row, are made behind layer 1 of the stack tower, and corrected behind each later "
        "one by what it gives, each time with other weights; the next layer reads them. From there on layers add to 2 "
        "numbers for each of the 4: a softmax of these weighs 2 others, the same for every row, and boxes are worked "
        "out of the means."
    )
    assert describe_boxes(anatomy(record(Twice()))) == (
        "Boxes, 4 numbers for each row, are corrected behind each layer of the stack tower by what it gives, each time "
        "with other weights; the next layer reads them. Behind layer 1 they are corrected by other weights first. From "
        "there on layers add to 2 numbers for each of the 4: a softmax of these weighs 2 others, the same for every "
        "row, and boxes are worked out of the means and of those corrected first."
    )
    assert describe_boxes(anatomy(record(Anew()))) == ""


def test_the_frame_shows_what_corrects_boxes_and_what_the_next_layer_makes_of_them():
    _, frame = draw(Detector())

    assert frame.corrected is not None
    assert [(node.label, node.extra, node.told) for node in frame.corrected.nodes] == [
        ("LINEAR + ReLU", "176 parameters", ()),
        ("LINEAR", "48 parameters", ()),
        ("+ BOXES SO FAR", "", ()),
        ("SIGMOID", "", ("for the next layer",)),
        ("LINEAR OF SINES", "", ("135 parameters", "for the next layer")),
    ]
    assert frame.correcting == 176 + 48 + 135


@pytest.mark.parametrize(
    ("model", "told"), [(Far(), "LINEAR OF LOGARITHMS"), (Far(is_bent=True), "LINEAR"), (Sampled(), "LINEAR OF SINES")]
)
def test_what_is_made_of_boxes_before_linear_layers_read_it_is_told(model, told):
    _, frame = draw(model)

    assert frame.corrected is not None
    assert [node.label for node in frame.corrected.nodes if "135 parameters" in node.told] == [told]


def test_what_corrects_boxes_says_how_many_more_parameters_it_has():
    boxes = compose_poster(record(Detector()), text_width).boxes

    assert "359 more parameters" in ["".join(run.text for run in line) for box in boxes for line in box.lines]


def test_a_frame_says_behind_which_of_its_layers_boxes_are_corrected_for_the_next():
    layout = compose_poster(record(Detector()), text_width)
    column, frame = draw(Detector())
    titles = [box for box in layout.boxes if box.lines and box.lines[0][0].text == "BOXES CORRECTED"]

    *others, last = frame.group.layers
    assert last == sum(len(one.group.layers) for one in column.frames) - 1
    assert frame.corrected_behind == tuple(others)
    assert [box.lines[1][0].text for box in titles] == [f"behind layers {spell_layers(others)}"]


def test_numbers_of_which_boxes_are_made_are_not_called_boxes():
    _, frame = draw(Summed())

    assert frame.corrected is not None
    labels = [node.label for node in frame.corrected.nodes]
    assert labels == ["LINEAR + ReLU", "LINEAR", "+ THESE NUMBERS SO FAR", "BOXES OF THESE", "LINEAR OF SINES"]


def test_what_corrects_boxes_counts_as_drawn_nowhere_where_two_phases_stand_beside_each_other():
    column, frame = draw(Detector())
    head = {step.id for node in frame.corrected.nodes for step in node.steps if step.path.startswith("heads")}
    together = set_beside(column, column)

    drawn = [set().union(*list_drawn([one]).values()) for one in (column, together)]

    assert head
    assert head <= drawn[0]
    assert head.isdisjoint(drawn[1])


def test_a_frame_shows_nothing_where_no_boxes_are_corrected():
    _, frame = draw(Anew())

    assert frame.corrected is None


def test_the_places_that_are_made_of_boxes_are_called_places_in_the_layer():
    labels = [[node.label for node in draw(model)[1].panels[0].chart.nodes] for model in (Detector(), Anew())]

    assert [sum("PLACES" in label for label in some) for some in labels] == [1, 0]
    assert "+ PLACES" in labels[0]


@pytest.mark.parametrize("is_whole", [True, False])
def test_points_say_that_they_are_measured_from_boxes(is_whole):
    nodes = [node for panel in draw(Sampled(is_whole=is_whole))[1].panels for node in panel.chart.nodes]
    (points,) = [node for node in nodes if node.label == "POINTS"]

    assert points.told == (("from each row's box",) if is_whole else ())


@pytest.mark.parametrize(
    ("model", "told"), [(Waves(), "+ 2 LINEAR LAYERS OF SINES Q"), (Waves(is_whole=False), "ADDED UP Q")]
)
def test_a_sum_says_through_what_the_sines_go_that_it_adds(model, told):
    labels = [node.label for node in draw(model)[1].panels[0].chart.nodes]

    assert labels.count(told) == 1


@pytest.mark.parametrize("is_whole", [True, False])
def test_linear_layers_that_a_sum_names_are_not_said_to_be_drawn_nowhere(is_whole):
    columns = read_columns(record(Waves(is_whole=is_whole)))

    untold = [*list_around(columns, {}), *list_undrawn(list_told(columns))]
    assert ("places" in {one.path for one in untold}) is not is_whole


def test_what_corrects_the_last_layers_boxes_is_told_at_the_end():
    column, _ = draw(Detector())

    assert column.exit is not None
    assert "+ BOXES SO FAR" in [node.label for node in column.exit.nodes]


def test_numbers_that_the_last_layer_adds_to_and_their_boxes_are_told_at_the_end():
    column, _ = draw(Scored())

    assert column.exit is not None
    labels = {node.key: node.label for node in column.exit.nodes}
    ways = [(labels[one.source], labels[one.target]) for one in column.exit.edges]
    (boxes,) = [node for node in column.exit.nodes if node.label == "BOXES OF THESE"]
    assert ("+ WHAT THE LAYER BEFORE GAVE", "LINEAR") in ways
    assert ("LINEAR", "+ THESE NUMBERS SO FAR") in ways
    assert {two for one, two in ways if one == "+ THESE NUMBERS SO FAR"} == {"BOXES OF THESE", "LINEAR"}
    assert (boxes.record.shape, boxes.extra) == ((BATCH, ROWS, 4), "")


@pytest.mark.parametrize(
    ("shared", "row", "sets"), [(False, "boxes corrected × 3", 3), (True, "boxes corrected × 4, weights of 1", 1)]
)
def test_the_heads_and_the_places_of_boxes_have_rows_of_their_own(shared, row, sets):
    trace = record(Detector(shared=shared))
    columns = read_columns(trace)
    shares = {name: count for name, _, count in list_shares(columns, 8383, {})}

    assert shares[row] == sets * (176 + 48)
    assert shares["places of boxes"] == 135


def test_learned_boxes_are_not_counted_with_what_corrects_them():
    shares = {name: count for name, _, count in list_shares(read_columns(record(Begun())), 8383, {})}

    assert shares["first boxes"] == 4 * ROWS
    assert shares["boxes corrected × 4, weights of 1"] == 176 + 48
    assert shares["places of boxes"] == 135


def test_what_corrects_the_first_layers_boxes_alone_is_not_counted_with_what_each_layer_adds_to():
    shares = {name: count for name, _, count in list_shares(read_columns(record(Twice())), 8383, {})}

    assert shares["first boxes"] == 176 + 48
    assert shares["boxes corrected × 3"] == 3 * (176 + 96)


def test_weights_that_corrected_before_the_layers_are_told_to_be_of_one_set():
    shares = {name: count for name, _, count in list_shares(read_columns(record(Early())), 8383, {})}

    assert shares["boxes corrected × 4, weights of 1"] == 176 + 48


def test_no_head_of_an_earlier_layer_is_said_to_be_drawn_nowhere():
    columns = read_columns(record(Detector()))
    held = [read_columns(record(Kept())), columns]

    untold = [[one.path for one in list_undrawn(list_told(some))] for some in held]

    assert [path for path in untold[0] if path.startswith("heads")] == ["heads.0", "heads.1", "heads.2"]
    assert [path for path in untold[1] if path.startswith("heads")] == []
    assert "between layers" not in dict(list_unsaid(columns))
