"""What works around the layers of a tower and stands in no box is named, and what others of a list are unused."""

from itertools import pairwise

import handwritten
import pytest
import torch
from printed import lines_of
from story.body.test_kept_waist import WIDTH
from torch import nn
from unsaid import list_unsaid

import xray
from xray.renderers.fonts import text_width
from xray.story.cards.undrawn import list_unboxed
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.parts import list_learned_for_many
from xray.story.sheet.shares import list_idle


class Layer(nn.Module):
    """Attention whose queries and keys have places added, and a feed-forward."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 1, batch_first=True)
        self.up, self.down = nn.Linear(WIDTH, 50), nn.Linear(50, WIDTH)

    def forward(self, x, places):
        seen = self.first(x)
        x = x + self.attend(seen + places, seen + places, seen, need_weights=False)[0]
        return x + self.down(self.up(self.second(x)).relu())


class Placed(nn.Module):
    """Two linear layers make places of given points, one time for all layers."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(12, WIDTH), nn.Linear(WIDTH, 12)
        self.place = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, ids, points):
        x, places = self.words(ids), self.place(points)
        for layer in self.layers:
            x = layer(x, places)
        return self.head(x)


def test_what_makes_places_for_all_layers_and_stands_in_no_box_is_named():
    trace = xray.trace(Placed().eval(), torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.rand(2, 3, 5))
    columns = read_columns(trace)

    assert [one.path for one in list_unboxed(columns)] == ["place"]
    assert dict(list_unsaid(columns))["around layers"] == {"linear": 2, "tanh": 1}
    layout = compose_poster(trace, text_width)
    text = " ".join("".join(run.text for run in line) for box in layout.boxes for line in box.lines)
    assert "Not drawn, with parameters: place (" in text


class Levelled(Layer):
    """The same, with a learned row for each half of the places, its own or those that it is given."""

    def __init__(self):
        super().__init__()
        self.levels = nn.Parameter(torch.rand(2, WIDTH))

    def forward(self, x, levels=None):
        levels = self.levels if levels is None else levels
        grid = torch.linspace(0, 1, 4 * WIDTH).view(4, WIDTH).sin()
        places = torch.cat([grid[:1] + levels[0].view(1, -1), grid[1:] + levels[1].view(1, -1)])
        return super().forward(x, places[None])


class Mapped(nn.Module):
    """Layers over the places of two maps, which a row of one table tells apart for all of them, or one of each."""

    def __init__(self, is_shared):
        super().__init__()
        self.words, self.head = nn.Embedding(12, WIDTH), nn.Linear(WIDTH, 12)
        self.layers = nn.ModuleList((Layer if is_shared else Levelled)() for _ in range(3))
        self.levels = nn.Parameter(torch.rand(2, WIDTH)) if is_shared else None

    def forward(self, ids):
        x, places = self.words(ids), None
        if self.levels is not None:
            grid = torch.linspace(0, 1, 4 * WIDTH).view(4, WIDTH).sin()
            levels = [self.levels[number].view(1, 1, -1) for number in (0, 1)]
            places = torch.cat([grid[None, :1] + levels[0], grid[None, 1:] + levels[1]], 1)
        for layer in self.layers:
            x = layer(x, places)
        return self.head(x)


@pytest.mark.parametrize("is_shared", [True, False])
def test_rows_of_a_table_that_all_layers_read_are_named_and_are_no_attentions(is_shared):
    trace = xray.trace(Mapped(is_shared).eval(), torch.arange(8).view(2, 4))
    columns = read_columns(trace)
    lines = lines_of(compose_poster(trace, text_width))

    told = dict(pairwise(lines))
    assert [one.params for one in list_unboxed(columns)] == [2 * WIDTH] * (1 if is_shared else 3)
    attention = 4 * WIDTH * (WIDTH + 1) + 2 * WIDTH * (1 if is_shared else 2)  # with its norm, and its own rows
    assert told["self-attention × 3"] == f"{3 * attention:,}"
    assert told.get("around layers") == (f"{2 * WIDTH:,}" if is_shared else None)


class Placing(Layer):
    """The same, with a linear layer of its own that makes its places of those it is given."""

    def __init__(self):
        super().__init__()
        self.place = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, places):
        return super().forward(x, self.place(places))


class Asked(nn.Module):
    """Learned rows are added to zeros in each layer, which look at words behind their first attention (DETR)."""

    def __init__(self, kind):
        super().__init__()
        self.words, self.asks = nn.Embedding(12, WIDTH), nn.Parameter(torch.rand(1, 4, WIDTH))
        self.reader = nn.ModuleList(handwritten.Layer(WIDTH, make_attention(), norm="before") for _ in range(2))
        self.layers = nn.ModuleList(kind() for _ in range(3))
        self.looks = nn.ModuleList(handwritten.Layer(WIDTH, make_attention(), norm="before") for _ in range(3))

    def forward(self, ids):
        memory = self.words(ids)
        for layer in self.reader:
            memory = layer(memory)
        x, asks = torch.zeros(2, 4, WIDTH), self.asks.expand(2, -1, -1)
        for layer, look in zip(self.layers, self.looks, strict=True):
            x = look(layer(x, asks), memory)
        return x


def make_attention():
    return handwritten.Attention(WIDTH, 3)


@pytest.mark.parametrize("kind", [Layer, Placing])
def test_a_layer_that_no_data_has_come_to_so_far_serves_no_others(kind):
    columns = read_columns(xray.trace(Asked(kind).eval(), torch.arange(10).view(2, 5)))

    flow, towering = columns[-1].reading.flow, columns[-1].towering
    assert towering.tower.layers == 6
    assert not any(flow.steps[node].params for node in list_learned_for_many(flow, towering))


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        ({"heads.0"}, "unused: 2 of 3 heads.*"),
        ({"heads.0", "heads.3"}, "unused: 2 of 4 heads.*"),
        (set(), "unused: heads.*"),
        ({"tails.0"}, "unused: heads.*"),
    ],
)
def test_of_parts_alike_it_is_said_how_many_are_unused_where_others_ran(ran, told):
    assert list(list_idle("unused", {"heads.1": 4, "heads.2": 4}, ran)) == [(told, "card", 8)]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("posterior_encoder", "posterior_encoder"),
        ("depth_decoder.model.layers", "depth_decoder.model.layers"),
        ("duration_predictor.flows.1", "duration_predictor.flows.1"),
        ("model.encoder.layers.0.key", "layers.0.key"),
        ("model.key", "model.key"),
    ],
)
def test_what_took_no_part_is_called_by_two_parts_of_its_path_that_tell_something(path, told):
    assert list(list_idle("unused", {path: 4}, {})) == [(f"unused: {told}", "card", 4)]


class Scales(nn.Module):
    """Rows are scaled too often for a box each, by numbers that scale once more what nobody reads."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.gate, self.down = nn.LayerNorm(8), nn.Linear(8, 9), nn.Linear(8, 9), nn.Linear(9, 8)
        self.scales = nn.ParameterList(torch.ones(8) for _ in range(6))

    def forward(self, x):
        rows = self.norm(x)
        for scale in self.scales:
            own = scale.exp()
            rows = rows * own + rows.sin()
        _ = rows * own
        return x + self.down(self.up(rows).relu() * self.gate(rows))


def test_numbers_that_also_scale_what_nobody_reads_count_as_not_drawn():
    model = nn.Sequential(nn.Embedding(12, 8), Scales(), Scales(), nn.Linear(8, 12)).eval()
    text = " ".join(lines_of(compose_poster(xray.trace(model, torch.tensor([[1, 2, 3]])), text_width)))

    assert "Not drawn, with parameters: 1.scales.0 (8), 1.scales.1 (8), and 10 more (80)." in text


class Begun(nn.Module):
    """Learned rows that a group norm works on before layers, of which one is called as that is (TripoSR)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.rand(2, WIDTH, 3))
        self.first, self.into = nn.GroupNorm(1, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, places):
        rows = self.into(self.first(self.rows).mT)
        for layer in self.layers:
            rows = layer(rows, places)
        return rows


def test_a_norm_in_no_box_is_named_though_one_of_each_layer_is_called_like_it():
    columns = read_columns(xray.trace(Begun().eval(), torch.rand(2, 3, WIDTH)))

    assert [one.path for one in list_unboxed(columns)] == ["first", "rows"]
