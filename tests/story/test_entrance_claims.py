"""What is not said at the entrance where only a sign of it is there: places that are none, sounds, patches, ids."""

import pytest
import torch
from story.entrances import OTHER, WIDTH, labels_of, make_layers, read
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.entrance.inputs import name_input
from xray.story.sentences.of_ends import describe_entrance

PLACES = 7


class Given(nn.Module):
    """Words, and rows of a table by numbers that are counted out: added, or led in as a learner may do by mistake."""

    def __init__(self, way, many=16):
        super().__init__()
        self.way, self.words, self.places = way, nn.Embedding(31, WIDTH), nn.Embedding(many, WIDTH)
        self.register_buffer("table", torch.rand(1, 16, WIDTH))
        self.of_sequences = nn.Parameter(torch.rand(2, 1, WIDTH))
        self.lead = nn.Linear(2 * WIDTH, WIDTH)
        self.layers = make_layers(WIDTH, 3)

    def forward(self, ids):
        x, counted = self.words(ids), torch.arange(ids.shape[1])
        if self.way == "added":
            x = x + self.places(counted)
        elif self.way == "multiplied":
            x = x * self.places(counted)
        elif self.way == "beside":
            x = self.lead(torch.cat([x, self.places(counted).expand(len(x), -1, -1)], dim=-1))
        elif self.way == "by sequence":
            x = x + self.places(torch.arange(len(ids)))[:, None]
        elif self.way == "spread by sequence":
            x = x + self.places(torch.arange(len(ids))).unsqueeze(1).expand(-1, PLACES, -1)
        elif self.way == "one for all":
            x = x + self.places(counted // PLACES)
        elif self.way == "counts of an id":
            x = x + self.places((ids == 3).cumsum(1))
        elif self.way == "bent words":
            x = x + torch.sin(x)
        elif self.way == "one of a table":
            x = x * WIDTH**0.5 + self.table[:, :1]
        elif self.way == "numbers by sequence":
            x = x + self.of_sequences
        elif self.way == "in front":
            x = torch.cat([self.places(torch.arange(3)).expand(len(x), -1, -1), x], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("way", "is_said", "label"),
    [
        ("added", True, "PLACE LOOKUP"),
        ("multiplied", False, "PLACE LOOKUP"),
        ("beside", False, "PLACE LOOKUP"),
        ("by sequence", False, "TABLE LOOKUP"),
        ("spread by sequence", False, "TABLE LOOKUP"),
        ("one for all", False, "TABLE LOOKUP"),
        ("counts of an id", False, "TABLE LOOKUP"),
        ("bent words", False, "SIN"),
        ("one of a table", False, "ADDED UP"),
        ("numbers by sequence", False, "+ LEARNED NUMBERS"),
        ("in front", False, "TABLE LOOKUP"),
    ],
)
def test_places_are_added_where_a_sum_makes_places_differ_alone(way, is_said, label):
    anatomy, chart = read(lambda: Given(way), torch.arange(2 * PLACES).view(2, PLACES))

    assert (describe_entrance(anatomy.towers[-1]) == "Ids become vectors. Learned places are added.") is is_said
    assert label in labels_of(chart)
    assert is_said or "PLACES" not in " ".join(labels_of(chart))


def test_a_table_of_counts_holds_no_words_though_it_is_the_larger_one():
    anatomy, _ = read(lambda: Given("counts of an id", 64), torch.arange(2 * PLACES).view(2, PLACES))

    assert anatomy.towers[-1].vocab == 31


class Entered(nn.Module):
    """Layers behind any way in."""

    def __init__(self, *found, enter):
        super().__init__()
        self.found, self.enter, self.layers = nn.ModuleList(found), enter, make_layers(WIDTH, 3)

    def forward(self, x):
        x = self.enter(self.found, x)
        for layer in self.layers:
            x = layer(x)
        return x


def cut(found, came):
    return found[0](came).flatten(2).mT


def mix(found, came):
    return found[0](came).reshape(len(came), -1, WIDTH)


def gather(found, came):
    return found[0](came.flatten(0, 1).mT).amax(-1).view(*came.shape[:2], WIDTH)


IMAGE = (2, 3, 20, 20)


@pytest.mark.parametrize(
    ("shape", "found", "enter", "told", "label"),
    [
        (IMAGE, lambda: nn.Conv2d(3, WIDTH, 4, 4), cut, "An image becomes vectors, one for each patch.", "PATCHES 4×4"),
        (IMAGE, lambda: nn.Conv2d(3, WIDTH, 4, 4), mix, "An image becomes vectors.", "PATCHES 4×4"),
        (
            IMAGE,
            lambda: nn.Conv2d(3, WIDTH, 2, 2, dilation=3),
            cut,
            "An image becomes vectors.",
            "CONVOLUTION 2×2, 3 APART, STEP 2",
        ),
        ((2, 1, 5, 40), lambda: nn.Conv2d(1, WIDTH, (5, 3)), cut, "A map becomes vectors.", "MAP"),
        ((2, 4, 20, 20), lambda: nn.Conv2d(4, WIDTH, 4, 4), cut, "A map becomes vectors, one for each patch.", "MAP"),
        ((2, 7, 5, 3), lambda: nn.Conv1d(3, WIDTH, 1), gather, "What goes in.", "INPUT"),
        ((2, OTHER, 17), lambda: nn.Conv1d(OTHER, WIDTH, 3), cut, "Vectors come in.", "VECTORS"),
        ((2, 1, 17), lambda: nn.Conv1d(1, WIDTH, 3), cut, "A signal becomes vectors.", "SIGNAL"),
    ],
)
def test_what_a_convolution_reads_is_named_by_what_is_known_of_it(shape, found, enter, told, label):
    anatomy, chart = read(lambda: Entered(found(), enter=enter), torch.rand(shape))

    assert describe_entrance(anatomy.towers[-1]) == told
    assert label in labels_of(chart)


@pytest.mark.parametrize(
    ("name", "shape", "found", "told", "label"),
    [
        ("rgb_left", IMAGE, nn.Conv2d(3, WIDTH, 4, 4), "An image becomes vectors, one for each patch.", "IMAGE"),
        ("flow", IMAGE, nn.Conv2d(3, WIDTH, 4, 4), "A map becomes vectors, one for each patch.", "MAP"),
        ("image_mask", IMAGE, nn.Conv2d(3, WIDTH, 4, 4), "A map becomes vectors, one for each patch.", "MAP"),
        ("img_latents", (2, 4, 8, 8), nn.Conv2d(4, WIDTH, 2, 2), "A map becomes vectors, one for each patch.", "MAP"),
        ("x", IMAGE, nn.Conv2d(3, WIDTH, 1), "What goes in.", "INPUT"),
        ("wave", (2, 1, 17), nn.Conv1d(1, WIDTH, 3), "A signal becomes vectors.", "SIGNAL"),
        ("prices", (2, 1, 17), nn.Conv1d(1, WIDTH, 3), "What goes in.", "INPUT"),
        ("feature_list", (2, OTHER, 17), nn.Conv1d(OTHER, WIDTH, 3), "Vectors come in.", "VECTORS"),
    ],
)
def test_what_comes_in_is_called_so_by_its_name_and_by_how_it_is_read(name, shape, found, told, label):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = Entered(found, enter=cut)

        def forward(self, given):
            return self.own(given[name])

    anatomy, chart = read(Named, {name: torch.rand(shape)})

    assert describe_entrance(anatomy.towers[-1]) == told
    assert label in labels_of(chart)


class Series(nn.Module):
    """Each number of a series becomes a row, or each series is one vector."""

    def __init__(self, width):
        super().__init__()
        self.first, self.layers = nn.Linear(width, PLACES * WIDTH if width > 1 else WIDTH), make_layers(WIDTH, 3)

    def forward(self, x):
        x = self.first(x).view(2, PLACES, WIDTH) if self.first.in_features > 1 else self.first(x[..., None])
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("width", "told"), [(1, "What goes in."), (31, "Vectors come in.")])
def test_vectors_are_what_a_linear_layer_reads_whole(width, told):
    anatomy, _ = read(lambda: Series(width), torch.rand(2, 31))

    assert describe_entrance(anatomy.towers[-1]) == told


class Prompted(nn.Module):
    """Rows of a table by ids that the model holds, before vectors."""

    def __init__(self):
        super().__init__()
        self.words, self.lead, self.layers = nn.Embedding(31, WIDTH), nn.Linear(OTHER, WIDTH), make_layers(WIDTH, 3)
        self.register_buffer("prompt", torch.tensor([3, 4, 7, 9]))

    def forward(self, x):
        x = torch.cat([self.words(self.prompt).expand(len(x), -1, -1), self.lead(x)], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


def test_ids_that_a_model_holds_do_not_come_in():
    anatomy, chart = read(Prompted, torch.rand(2, PLACES, OTHER))

    assert describe_entrance(anatomy.towers[-1]) == "Vectors come in."
    assert not {"TOKEN IDS", "IDS"} & {*labels_of(chart)}


@pytest.mark.parametrize(
    ("name", "told", "label", "called"),
    [
        ("audio", "A signal becomes vectors.", "SIGNAL", "audio"),
        ("x", "A map becomes vectors, one for each patch.", "MAP", "stack"),
        ("image", "An image becomes vectors, one for each patch.", "IMAGE", "vision"),
    ],
)
def test_a_map_of_one_channel_is_what_the_argument_is_called_that_comes_in(name, told, label, called):
    """Clips of sound come in with an axis more, and are laid out as maps before they are cut (ImageBind)."""

    class Clips(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = Entered(nn.Conv2d(1, WIDTH, 4, 4), enter=cut)

        def forward(self, given):
            return self.own(given[name].flatten(0, 1))

    anatomy, chart = read(Clips, {name: torch.rand(2, 1, 1, 20, 20)})

    assert (anatomy.towers[-1].name, describe_entrance(anatomy.towers[-1])) == (called, told)
    assert label in labels_of(chart)


@pytest.mark.parametrize("of_places", [True, False])
def test_sines_of_numbers_that_come_in_are_of_no_places(of_places):
    def wave(found, came):
        told = torch.arange(PLACES).expand(2, PLACES) if of_places else came.sum(-1)
        angles = told[..., None] * torch.exp(-torch.arange(WIDTH))
        return found[0](came) + angles.sin()

    anatomy, chart = read(lambda: Entered(nn.Linear(OTHER, WIDTH), enter=wave), torch.rand(2, PLACES, OTHER))

    assert ("laces are added" in describe_entrance(anatomy.towers[-1])) is of_places
    assert any("PLACES" in label for label in labels_of(chart)) is of_places


def spread(found, came):
    return found[0](nn.functional.one_hot(came, 31).float())


def draw(found, came):
    return found[0](torch.randn(2, PLACES, 31))


@pytest.mark.parametrize(
    ("enter", "told", "label", "shape"),
    [
        (spread, "What goes in.", "IDS", (2, PLACES)),
        (draw, "Noise is drawn by chance.", "NOISE, DRAWN BY CHANCE", (2, PLACES, 31)),
    ],
)
def test_vectors_come_in_where_what_comes_in_is_vectors_alone(enter, told, label, shape):
    anatomy, chart = read(lambda: Entered(nn.Linear(31, WIDTH), enter=enter), torch.arange(14).view(2, PLACES))

    below = min(chart.nodes, key=lambda node: node.row)
    assert (describe_entrance(anatomy.towers[-1]), below.label, below.record.shape) == (told, label, shape)


class Bought(nn.Module):
    """What a customer bought, and the customer: one of far more than there are things."""

    def __init__(self):
        super().__init__()
        self.things, self.customers, self.layers = (
            nn.Embedding(31, WIDTH),
            nn.Embedding(997, WIDTH),
            make_layers(WIDTH, 3),
        )

    def forward(self, things, customer):
        x = self.things(things) + self.customers(customer)[:, None]
        for layer in self.layers:
            x = layer(x)
        return x


def test_one_id_for_a_whole_sequence_is_none_of_its_tokens():
    _, chart = read(Bought, torch.arange(14).view(2, PLACES), torch.tensor([5, 7]))

    ids = {node.label: node.record.shape for node in chart.nodes if node.row == 0}
    assert ids == {"TOKEN IDS": (2, PLACES), "IDS": (2,)}


class Picked(nn.Module):
    """Two stacks: frames, and rows of fixed numbers, of the frames' kind, that a mask picks (VideoMAE's decoder)."""

    def __init__(self):
        super().__init__()
        self.held = torch.rand(1, PLACES, OTHER)
        self.row = nn.Parameter(torch.rand(1, 1, OTHER))
        self.into = nn.Linear(5, WIDTH)
        self.first, self.second = (nn.Sequential(*make_layers(width, 3)) for width in (WIDTH, OTHER))
        self.across = nn.Linear(WIDTH, OTHER)

    def forward(self, x, mask):
        seen = self.across(self.first(self.into(x)[~mask].reshape(len(x), -1, WIDTH)))
        held = self.held.expand(len(x), -1, -1).type_as(x).clone().detach()
        hidden = self.row + held[mask].reshape(len(x), -1, OTHER)
        return self.second(torch.cat([seen + held[~mask].reshape(len(x), -1, OTHER), hidden], dim=1))


def test_a_mask_that_picks_what_a_model_holds_is_no_vectors_that_come_in():
    mask = (torch.arange(PLACES) > 3).expand(2, PLACES)

    trace = xray.trace(Picked().eval(), torch.rand(2, PLACES, 5), mask)
    assert "Vectors come in." not in describe_entrance(xray.anatomy(trace).towers[-1])


def test_a_stack_is_led_to_from_the_rows_that_a_mask_lets_through():
    mask = (torch.arange(PLACES) > 3).expand(2, PLACES)

    towering = (reading := read_passes(xray.trace(Picked().eval(), torch.rand(2, PLACES, 5), mask))[0]).towers[0]
    chart = chart_entrance(reading.flow, towering)
    assert chart.node(chart.head).label == "ROWS THAT A MASK LETS THROUGH"


def move(found, came):
    return found[1](found[0](came).mT).mT


def test_ids_that_are_looked_up_before_a_convolution_are_no_signal():
    found = (nn.Embedding(31, WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1))
    trace = xray.trace(Entered(*found, enter=move), torch.arange(2 * PLACES).view(2, PLACES))
    flow = read_passes(trace)[0].flow
    finders = [place for place in range(len(flow.steps)) if flow.is_leaf(place) and flow.op(place) == "conv1d"]

    assert name_input(flow, finders, finders, []) == "ids"


def picture(found, came):
    return found[0](came.float().permute(0, 3, 1, 2) / 255).flatten(2).mT


def mark_and_move(found, came):
    return found[0](nn.functional.one_hot(came, OTHER).float().mT).mT


@pytest.mark.parametrize(
    ("found", "enter", "shape", "reads"),
    [
        (nn.Conv2d(3, WIDTH, 4, stride=4), picture, (2, 16, 16, 3), "image"),
        (nn.Conv1d(1, WIDTH, 4, stride=4), lambda found, came: found[0](came[:, None] / 255).mT, (2, 48), "audio"),
        (nn.Conv1d(OTHER, WIDTH, 3, padding=1), mark_and_move, (2, PLACES), "ids"),
    ],
)
def test_whole_numbers_that_no_row_is_found_by_are_an_image_or_a_signal(found, enter, shape, reads):
    anatomy, _ = read(lambda: Entered(found, enter=enter), torch.randint(0, OTHER, shape))

    assert anatomy.towers[0].reads == reads


def put(found, came):
    rows = torch.zeros(*came.shape, OTHER + 1)
    rows[:, 0, 0] = 1
    rows[:, 1:, 1:] = nn.functional.one_hot(came, OTHER)[:, :-1].float()
    return torch.tanh(found[0](rows))


def test_what_something_is_written_into_is_not_what_comes_in():
    ids = torch.arange(2 * PLACES).view(2, PLACES) % OTHER
    _, chart = read(lambda: Entered(nn.Linear(OTHER + 1, WIDTH), enter=put), ids)

    assert "ZEROS" not in labels_of(chart)
    assert [(node.label, node.record.shape) for node in chart.nodes][:1] == [("IDS", (2, PLACES))]
