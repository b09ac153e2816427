"""How many parameters a frame of layers tells, of all its layers and of what no box shows."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import text_of
from story.parameter_bars import IDS, bars_of, count, poster_of
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.tree import Untold
from xray.story.facts.unused import find_unworked
from xray.story.sheet.columns import read_columns
from xray.story.sheet.counting import count_frames

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Looking(nn.Module):
    """A layer whose keys and values stand behind those of another stream, if it is given some; it gives its own too."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(21), nn.Linear(21, 21)
        self.q, self.k, self.v = (nn.Linear(21, 21) for _ in range(3))
        self.think = nn.Sequential(nn.LayerNorm(21), nn.Linear(21, 85), nn.GELU(), nn.Linear(85, 21))

    def forward(self, x, before=()):
        q, k, v = (one(self.norm(x)).unflatten(-1, (3, 7)).transpose(1, 2) for one in (self.q, self.k, self.v))
        both = [torch.cat(pair, dim=2) for pair in zip(before, (k, v), strict=True)] if before else (k, v)
        x = x + self.out(functional.scaled_dot_product_attention(q, *both).transpose(1, 2).flatten(2))
        return x + self.think(x), (k, v)


class Acting(nn.Module):
    """Words in layers of their own, and rows of numbers in others that look at the words' keys beside theirs (Pi0)."""

    def __init__(self):
        super().__init__()
        self.words, self.acts = nn.Embedding(61, 21), nn.Linear(5, 21)
        self.first, self.then = (nn.ModuleList(Looking() for _ in range(2)) for _ in range(2))
        self.out = nn.Linear(21, 5)

    def forward(self, ids, acts):
        y, x, kept = self.acts(acts), self.words(ids), []
        for layer in self.first:
            x, own = layer(x)
            kept.append(own)
        for layer, own in zip(self.then, kept, strict=True):
            y, _ = layer(y, own)
        return self.out(y)


def test_a_stream_beside_which_another_ones_keys_stand_is_not_told_that_ones_entrance():
    layout = poster_of(Acting(), IDS, torch.rand(2, 3, 5))

    told = {run.text.strip() for box in layout.boxes for run in sum(box.lines, ())}
    assert not any(text.startswith("up to") for text in told)
    assert {f"{count(Looking()):,} parameters each"} <= told


class Unlike(nn.Module):
    """Layers of one build, some of which have no bias at last, and so fewer learned numbers than the others."""

    def __init__(self, *biased):
        super().__init__()
        self.words, self.out = nn.Embedding(61, 21), nn.Linear(21, 61)
        self.layers = nn.ModuleList(Looking() for _ in range(3))
        for layer, has_bias in zip(self.layers, biased, strict=True):
            layer.out = nn.Linear(21, 21, bias=has_bias)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x, _ = layer(x)
        return self.out(x)


@pytest.mark.parametrize(
    ("biased", "told"),
    [
        ((True, True, True), "{whole} parameters each"),
        ((True, False, False), "layer 1 drawn: {whole} parameters; layers 2–3 have 21 fewer"),
        ((False, False, True), "layer 1 drawn: {less} parameters; layer 3 has 21 more"),
    ],
)
def test_a_frame_of_unlike_layers_says_which_of_them_is_drawn_and_how_many_numbers_others_have(biased, told):
    boxes = poster_of(Unlike(*biased), IDS).boxes
    texts = {" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes}

    whole = count(Looking())
    assert told.format(whole=f"{whole:,}", less=f"{whole - 21:,}") in texts


class Aside(Looking):
    """The same, with a part that no box shows."""

    def __init__(self):
        super().__init__()
        self.beside = nn.Linear(21, 5)

    def forward(self, x, before=None):
        self.beside(x)
        return super().forward(x, before)[0]


def test_a_frame_counts_what_the_blocks_of_its_layers_hold_and_no_box_shows():
    model = nn.Sequential(nn.Embedding(61, 21), Aside(), Aside(), nn.Linear(21, 61))
    (column,) = read_columns(xray.trace(model, IDS))
    (frame,) = column.frames
    (found,) = count_frames(column.reading, column.towering, column.frames, {})

    assert found.params == count(Aside()) == frame.params
    assert found.more == (0, 0)


@pytest.mark.parametrize(
    ("aside", "told"),
    [
        ((True, False, False), "layer 1 drawn: {whole} parameters; layers 2–3 have 110 fewer"),
        ((False, False, True), "layer 1 drawn: {less} parameters; layer 3 has 110 more"),
    ],
)
def test_a_frame_counts_what_no_box_shows_where_some_of_its_layers_hold_it_alone(aside, told):
    layers = [Aside() for _ in aside]
    for layer, has_part in zip(layers, aside, strict=True):
        if not has_part:
            layer.register_module("beside", nn.Identity())
    boxes = poster_of(nn.Sequential(nn.Embedding(61, 21), *layers, nn.Linear(21, 61)), IDS).boxes
    texts = {" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes}

    whole = count(Aside())
    assert told.format(whole=f"{whole:,}", less=f"{whole - 110:,}") in texts


class Spreads(Attention):
    """Attention that makes something of its rows beside it, and holds a norm with which nothing works."""

    def __init__(self):
        super().__init__(21, 3)
        self.norm, self.spread = nn.LayerNorm(21), nn.Linear(21, 5)

    def forward(self, x, memory, mask=None):
        self.spread(x)
        return super().forward(x, memory, mask)


def test_a_sublayer_counts_no_idle_part_of_a_block_of_which_another_part_is_not_drawn():
    model = nn.Sequential(nn.Embedding(61, 21), *(Layer(21, Spreads(), norm="before") for _ in range(2)))
    trace = xray.trace(model, IDS)
    (column,) = read_columns(trace)
    idle, undrawn = find_unworked(trace), [Untold(f"{number}.one.spread", 110) for number in (1, 2)]
    (frame,) = count_frames(column.reading, column.towering, column.frames, idle, undrawn)

    assert [panel.params for panel in frame.panels] == [count(Attention(21, 3)) + 42, count(model[1].two) + 42]
    assert frame.params == count(model[1])


class Idle(Looking):
    """A layer that is drawn whole, and holds a part that nothing calls."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(5, 13)

    def forward(self, x, before=None):
        return super().forward(x, before)[0]


class IdleAside(Aside):
    """A layer that holds a part that no box shows, and one that nothing calls."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(5, 13)


@pytest.mark.parametrize("layer", [Idle, IdleAside])
def test_a_frame_counts_what_takes_no_part_be_its_layers_drawn_in_part(layer):
    model = nn.Sequential(nn.Embedding(61, 21), layer(), layer(), nn.Linear(21, 61))
    told = {run.text.strip() for box in poster_of(model, IDS).boxes for run in sum(box.lines, ())}

    assert f"{count(layer()):,} parameters each" in told


class Pieces(nn.Module):
    """One row for so many places, none where a sequence has fewer; the rows that it is made of are kept."""

    def __init__(self, places):
        super().__init__()
        self.places, self.row = places, nn.Linear(21, 21)

    def forward(self, x, kept):
        rows = self.row(x)
        kept.append(rows)
        whole = rows.shape[1] // self.places
        pieces = rows[:, : whole * self.places].reshape(rows.shape[0], whole, self.places, 21)
        return pieces.mean(2) if whole else x.new_zeros(x.shape[0], 0, 21)


class Piecing(nn.Module):
    """Attention beside whose keys and values stand those of whole pieces (DeepSeek-V4)."""

    def __init__(self, places):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(21, 21) for _ in range(4))
        self.pieces = Pieces(places)

    def forward(self, x, kept):
        beside = self.pieces(x, kept)
        rows = self.q(x), *(torch.cat([one(x), beside], dim=1) for one in (self.k, self.v))
        q, k, v = (one.unflatten(-1, (3, 7)).transpose(1, 2) for one in rows)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Pieced(nn.Module):
    """A layer with such an attention."""

    def __init__(self, places):
        super().__init__()
        self.norm, self.look = nn.LayerNorm(21), Piecing(places)
        self.think = nn.Sequential(nn.LayerNorm(21), nn.Linear(21, 85), nn.GELU(), nn.Linear(85, 21))

    def forward(self, x, kept):
        x = x + self.look(self.norm(x), kept)
        return x + self.think(x)


class Keeping(nn.Module):
    """Layers that keep rows for a pass to come; the first has whole pieces."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(61, 21), nn.Linear(21, 61)
        self.layers = nn.ModuleList(map(Pieced, (5, 11, 11)))

    def forward(self, ids):
        x, kept = self.words(ids), []
        for layer in self.layers:
            x = layer(x, kept)
        return {"logits": self.out(x), "past_key_values": kept}


def test_a_frame_counts_once_what_an_attention_holds_and_gives_no_rows_here():
    told = " ".join(text_of(line) for box in poster_of(Keeping(), IDS).boxes for line in box.lines)

    assert f"{count(Pieced(11)):,} parameters each" in told
    assert "Not drawn, with parameters: layers.1.look.pieces (462)" in told


def test_other_rows_are_told_of_no_attention_that_gets_none_here():
    told = " ".join(text_of(line) for box in poster_of(Keeping(), IDS).boxes for line in box.lines)

    assert "In some attentions, beside the keys and values of the places stand others that the stream makes" in told


class AsksWhere(Looking):
    """Queries and keys are made of the stream with places added, values of the stream alone (DETR)."""

    def forward(self, x, before=()):
        asked = self.norm(x)
        rows = self.q(asked + before), self.k(asked + before), self.v(asked)
        q, k, v = (one.unflatten(-1, (3, 7)).transpose(1, 2) for one in rows)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.think(x)


class Detecting(nn.Module):
    """Learned places, repeated for every sequence before the words come in, and added in every layer."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(61, 21), nn.Embedding(7, 21)
        self.layers, self.out = nn.ModuleList(AsksWhere() for _ in range(2)), nn.Linear(21, 61)

    def forward(self, ids):
        places, x = self.places.weight.unsqueeze(0).repeat(len(ids), 1, 1), self.words(ids)
        for layer in self.layers:
            x = layer(x, places)
        return self.out(x)


def test_places_that_every_layer_adds_are_counted_once_and_named():
    bars = bars_of(poster_of(Detecting(), torch.arange(14).view(2, 7)))

    assert bars["places"] == 7 * 21
    assert sum(bars.values()) == count(Detecting())


class LooksUp(Looking):
    """Keys of places, of a table that the layer holds as well as all others do (Former)."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, x, before=()):
        q, k, v = (one(self.norm(x)).unflatten(-1, (3, 7)).transpose(1, 2) for one in (self.q, self.k, self.v))
        far = self.table(torch.arange(x.shape[1])).unflatten(-1, (3, 7)).transpose(0, 1)
        x = x + self.out(((q @ k.mT + q @ far.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.think(x)


class OneTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.table, self.out = nn.Embedding(61, 21), nn.Embedding(11, 21), nn.Linear(21, 61)
        self.layers = nn.Sequential(*(LooksUp(self.table) for _ in range(3)))

    def forward(self, ids):
        return self.out(self.layers(self.words(ids)))


def test_a_table_that_all_layers_hold_is_none_of_the_parameters_of_each():
    told = [text_of(line) for box in poster_of(OneTable(), IDS).boxes for line in box.lines]

    assert f"{count(Looking()):,} parameters each" in told


class Part(nn.Module):
    """What a sublayer adds to rows; how much these are scaled and shifted before is worked out `by` itself."""

    def __init__(self, inner):
        super().__init__()
        self.norm, self.inner, self.by = nn.LayerNorm(21), inner, nn.Linear(7, 42)

    def forward(self, x, scaled):
        scale, shift = scaled[:, None].chunk(2, dim=-1)
        return self.inner(self.norm(x) * (1 + scale) + shift)


class Own(Attention):
    def forward(self, x):  # type: ignore[override]  # it looks at itself
        return super().forward(x, x)


class Scaled(nn.Module):
    """A layer that works out what scales its second sublayer before the sum of the first (Kandinsky 6)."""

    def __init__(self):
        super().__init__()
        self.look = Part(Own(21, 3))
        self.think = Part(nn.Sequential(nn.Linear(21, 85), nn.GELU(), nn.Linear(85, 21)))

    def forward(self, x, time):
        found, scaled = self.look(x, self.look.by(time)), self.think.by(time)
        x = x + found
        return x + self.think(x, scaled)


class Both(nn.Module):
    """A layer of each of two streams in one block."""

    def __init__(self):
        super().__init__()
        self.first, self.other = Scaled(), Scaled()

    def forward(self, x, y, time):
        return self.first(x, time), self.other(y, time)


class SideBySide(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.layers = nn.ModuleList(nn.Linear(5, 21) for _ in "xy"), nn.ModuleList(Both() for _ in range(3))
        self.out = nn.ModuleList(nn.Linear(21, 5) for _ in "xy")

    def forward(self, x, y, time):
        x, y = self.begin[0](x), self.begin[1](y)
        for layer in self.layers:
            x, y = layer(x, y, time)
        return self.out[0](x), self.out[1](y)


def test_what_works_out_a_condition_for_one_layer_before_its_last_sum_is_counted_with_it():
    columns = read_columns(xray.trace(SideBySide(), torch.rand(2, 9, 5), torch.rand(2, 8, 5), torch.rand(2, 7)))

    assert [[frame.params for frame in column.frames] for column in columns] == [[count(Scaled())]] * 2
