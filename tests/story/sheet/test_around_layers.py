"""What stands beside layers and works for each of them is no layer's, though the first to read it is read with it."""

import torch
from handwritten import Attention
from printed import lines_of, text_of
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.body.test_stacks import HEADS, PlacedAttention
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_frames
from xray.story.sheet.shares import list_shares

QUERIES, SIZES = 7, 3


class Asking(nn.Module):
    """An attention that looks with places added to what it looks with and at, and a feed-forward."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.look, self.think = nn.MultiheadAttention(WIDTH, 2, batch_first=True), FeedForwardPart()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, places, memory):
        query, key = self.query(x + places), self.key(x + places)
        found = (query @ key.mT / WIDTH**0.5).softmax(-1) @ self.value(x)
        x = self.norm(x + self.out(found))
        x = x + self.look(x + places, memory, memory, need_weights=False)[0]
        return self.think(x)


class Refining(nn.Module):
    """A decoder whose boxes become better layer by layer, and give each layer its places (SAM 3)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(QUERIES, WIDTH))
        self.boxes = nn.Parameter(torch.randn(QUERIES, SIZES))
        self.places = nn.Sequential(nn.Linear(SIZES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.layers = nn.ModuleList(Asking() for _ in range(3))
        self.better = nn.Linear(WIDTH, SIZES)

    def forward(self, memory):
        x = self.rows[None].expand(2, -1, -1)
        boxes = self.boxes[None].expand(2, -1, -1).sigmoid()
        for layer in self.layers:
            x = layer(x, self.places(boxes), memory)
            boxes = (boxes + self.better(x)).sigmoid()
        return boxes


def trace_of(model):
    torch.manual_seed(0)
    return xray.trace(model.eval(), torch.rand(2, 11, WIDTH))


def count(*models):
    return sum(one.numel() for model in models for one in model.parameters())


def test_all_layers_have_as_many_parameters_as_their_blocks():
    model = Refining()
    (frame,) = read_columns(trace_of(model))[-1].frames

    assert frame.group.count == 3
    assert (frame.params, any(frame.more)) == (count(model.layers[0]), False)


def test_what_gives_each_layer_its_places_has_a_row_of_its_own():
    model = Refining()
    layout = compose_poster(trace_of(model), text_width)
    told = {round(box.y): text_of(box.lines[0]) for box in layout.boxes if (box.on, box.align) == ("card", "right")}
    (row,) = (
        box
        for box in layout.boxes
        if box.on == "card" and box.lines and text_of(box.lines[0]).endswith("around layers")
    )

    assert told[round(row.y)] == f"{count(model.places) + model.boxes.numel():,}"


class Joining(nn.Module):
    """Rows of others are joined to those that look, are cut off behind the first sum, and handed on (OmDet)."""

    def __init__(self):
        super().__init__()
        self.part, self.think = PlacedAttention(), FeedForwardPart()

    def forward(self, x, places, others):
        own, part = x.shape[1], self.part
        placed, rows = torch.cat([x + places, others], 1), torch.cat([x, others], 1)
        looking = (part.query(placed), part.key(placed), part.value(rows))
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for one in looking)
        found = (query @ key.mT).softmax(-1) @ value
        rows = part.norm(rows + part.out(found.transpose(-2, -3).flatten(-2)))
        return self.think(rows[:, :own, :]), rows[:, own:, :]


class RefiningJoined(Refining):
    """Its layers hand on the rows that stand beside theirs."""

    def __init__(self):
        super().__init__()
        self.project, self.layers = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Joining() for _ in range(3))

    def forward(self, memory):
        x, others = self.project(memory[:, :QUERIES]), self.project(memory[:, QUERIES:])
        boxes = self.boxes[None].expand(2, -1, -1).sigmoid()
        for layer in self.layers:
            x, others = layer(x, self.places(boxes), others)
            boxes = (boxes + self.better(x)).sigmoid()
        return x


def test_layers_that_join_rows_to_theirs_are_blocks_too():
    model = RefiningJoined()
    frames = read_columns(trace_of(model))[-1].frames

    assert {(frame.params, any(frame.more)) for frame in frames} == {(count(model.layers[0]), False)}
    assert {panel.block.inputs[0].shape for frame in frames for panel in frame.panels} == {(2, QUERIES, WIDTH)}


class Leaning(nn.Module):
    """Attention whose scores lean by a bias that it is given, and a feed-forward."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm, self.think = nn.LayerNorm(WIDTH), FeedForwardPart()

    def forward(self, x, bias):
        scores = self.query(x) @ self.key(x).mT / WIDTH**0.5 + bias
        return self.think(self.norm(x + self.out(scores.softmax(-1) @ self.value(x))))


class Tabled(nn.Module):
    """One table, looked into once, gives all layers the bias of their places (MPNet)."""

    def __init__(self):
        super().__init__()
        self.table, self.layers = nn.Embedding(2 * QUERIES, 1), nn.ModuleList(Leaning() for _ in range(3))

    def forward(self, x):
        places = torch.arange(QUERIES)
        bias = self.table(places[None] - places[:, None] + QUERIES)[..., 0]
        for layer in self.layers:
            x = layer(x, bias)
        return x


def test_a_table_that_all_layers_read_is_not_the_first_layers():
    model = Tabled()
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, QUERIES, WIDTH)))
    (frame,) = column.frames

    assert (frame.params, any(frame.more)) == (count(model.layers[0]), False)


class Handed(Tabled):
    """Its rows are cut where a cache would hand on others, before the first layer (CPM-Ant)."""

    def __init__(self):
        super().__init__()
        self.begin = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return super().forward((self.begin(x) + 1)[:, 0:])


def test_a_table_is_not_the_first_layers_where_the_stream_is_only_moved_before_it():
    model = Handed()
    torch.manual_seed(0)
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(2, QUERIES, WIDTH)))
    (frame,) = column.frames

    assert (frame.params, any(frame.more)) == (count(model.layers[0]), False)


class Checking(Asking):
    """It checks the sizes that it is given (DEIMv2)."""

    def forward(self, x, places, memory):
        (torch.tensor([memory.shape[1]]) * 2).sum().eq(memory.shape[1] * 2)
        return super().forward(x, places, memory)


def test_layers_that_check_sizes_are_blocks_too():
    model = Refining()
    model.layers = nn.ModuleList(Checking() for _ in range(3))
    (frame,) = read_columns(trace_of(model))[-1].frames

    assert (frame.params, any(frame.more)) == (count(model.layers[0]), False)


class NormedTwice(nn.Module):
    """One norm before the attention of a layer and before its feed-forward, by which the stream itself goes on."""

    def __init__(self):
        super().__init__()
        self.scale, self.look = nn.Parameter(torch.ones(7, WIDTH)), Attention(WIDTH, 2)
        self.wide, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def norm(self, x):
        size = torch.linalg.norm(x, dim=(1, 2)) * x[0].numel() ** -0.5
        return self.scale[: x.shape[1]].unsqueeze(0) * (x / size[:, None, None])

    def forward(self, x):
        x = self.norm(x)
        x = self.norm(x + self.look(x, x))
        return x + self.back(self.wide(x).relu())


def test_what_is_drawn_nowhere_of_some_layers_counts_with_the_module_that_each_is():
    layers = nn.Sequential(nn.Embedding(31, WIDTH), *(NormedTwice() for _ in range(4)), nn.Linear(WIDTH, 31))
    layout = compose_poster(xray.trace(layers.eval(), torch.randint(31, (2, 7))), text_width)

    assert f"{count(layers[1]):,} parameters each" in lines_of(layout)


class NormedOutside(nn.Module):
    """Layers of a list, with the norm behind each sum in another list, one of them before all layers (NodeFormer)."""

    def __init__(self):
        super().__init__()
        self.first, self.layers = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Attention(WIDTH, 2) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))

    def forward(self, x):
        x = self.norms[0](self.first(x)).relu()
        for layer, norm in zip(self.layers, self.norms[1:], strict=True):
            x = norm(x + layer(x, x))
        return x


def test_a_norm_that_a_layer_hands_its_rows_on_through_is_its_own():
    model = NormedOutside()
    (column,) = read_columns(trace_of(model))
    trace = trace_of(model)

    (frame,) = count_frames(column.reading, column.towering, column.frames, {})
    assert (frame.params, any(frame.more)) == (count(model.layers[0], model.norms[1]), False)
    assert "around layers" not in {name for name, _, _ in list_shares([column], trace)}
