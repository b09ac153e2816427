"""Moves that belong to a box: those that a linear layer makes for itself, and rows left off as heads are joined."""

import pytest
import torch
from printed import words_of
from story.body.test_mistaken import BATCH, HEADS, WIDTH, FeedForwardPart
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

PLACES, OUT = 7, 37


class Flattening(nn.Module):
    """A linear layer that lays all its rows in one row of rows, and out again behind (GPT-2)."""

    def __init__(self, wide, out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(wide, out)), nn.Parameter(torch.randn(out))

    def forward(self, x):
        made = torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight)
        return made.view(*x.shape[:-1], -1)


class AddingApart(nn.Module):
    """A linear layer as torch runs one of rows that lie apart: a product, laid out again, and the bias added behind."""

    def __init__(self, wide, out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(out, wide)), nn.Parameter(torch.randn(out))

    def forward(self, x):
        rows = x.view(-1, x.shape[-1])
        return torch.mm(rows, self.weight.t()).view(*x.shape[:-1], -1) + self.bias


class Attention(nn.Module):
    """Attention of pre-normalised rows, in one window that is as long as it is told: rows of zeros fill it up."""

    def __init__(self, linear, window=PLACES):
        super().__init__()
        self.norm, self.window = nn.LayerNorm(WIDTH), window
        self.qkv, self.out = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)

    def forward(self, x):
        rows = self.norm(x)
        rows = rows if self.window == PLACES else functional.pad(rows, (0, 0, 0, self.window - PLACES))
        parts = self.qkv(rows).chunk(3, -1)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        found = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(*rows.shape)
        return x + self.out(found if self.window == PLACES else found[:, :PLACES])


class WithoutKeys(Attention):
    """Attention that holds its weights itself, and copies its bias and sets it to 0 for keys (Swin 2)."""

    def __init__(self):
        super().__init__(nn.Linear)
        del self.qkv
        self.weight, self.bias = nn.Parameter(torch.randn(3 * WIDTH, WIDTH)), nn.Parameter(torch.randn(3 * WIDTH))
        self.qkv = self.make

    def make(self, x):
        bias = self.bias.clone()
        bias[WIDTH : 2 * WIDTH].zero_()
        return functional.linear(x, self.weight, bias)


class Forward(nn.Module):
    """A feed-forward of such linear layers, or of others."""

    def __init__(self, linear=Flattening):
        super().__init__()
        self.norm, self.out, self.back = nn.LayerNorm(WIDTH), linear(WIDTH, OUT), linear(OUT, WIDTH)

    def forward(self, x):
        return x + self.back(functional.gelu(self.out(self.norm(x))))


def read_nodes(*parts):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, WIDTH), *parts).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(BATCH, PLACES, 5)))
    return [node for frame in column.frames for panel in frame.panels for node in panel.chart.nodes]


def test_a_linear_layer_shows_the_rows_that_it_lays_out_again():
    parts = [part for _ in range(2) for part in (Attention(Flattening), Forward())]
    nodes = {node.label: node.record.shape for node in read_nodes(*parts)}

    assert nodes["LINEAR + GELU"] == (BATCH, PLACES, OUT)
    assert nodes["LINEAR"] == nodes["LINEAR O"] == nodes["CONCAT HEADS"] == (BATCH, PLACES, WIDTH)
    assert nodes["ONE LINEAR FOR Q, K, V"] == (BATCH, PLACES, 3 * WIDTH)
    assert "CUT ANEW" not in nodes


@pytest.mark.parametrize("look", [lambda: Attention(AddingApart), WithoutKeys])
def test_a_bias_is_counted_where_the_linear_layer_is_that_it_belongs_to(look):
    (made,) = (node for node in read_nodes(look(), look()) if node.label == "ONE LINEAR FOR Q, K, V")

    assert made.extra == f"{3 * WIDTH * (WIDTH + 1):,} parameters"


def test_a_bias_that_is_added_behind_a_layer_stands_in_its_box():
    nodes = read_nodes(*(part for _ in range(2) for part in (Attention(AddingApart), Forward(AddingApart))))
    told = {node.label: (node.extra, node.record.shape) for node in nodes}
    made = [node for node in nodes if node.label in ("ONE LINEAR FOR Q, K, V", "LINEAR O", "LINEAR")]

    assert [[step.op for step in node.steps] for node in made] == [["add", "view", "mm", "view"]] * 3
    assert told["ONE LINEAR FOR Q, K, V"][1] == (BATCH, PLACES, 3 * WIDTH)
    assert told["LINEAR O"] == (f"{WIDTH * (WIDTH + 1)} parameters", (BATCH, PLACES, WIDTH))
    assert told["LINEAR"] == (f"{WIDTH * (OUT + 1)} parameters", (BATCH, PLACES, WIDTH))
    assert not {"CUT ANEW", "CUT ANEW + A BIAS"} & told.keys()


class OfTorch(nn.Module):
    """Attention of torch's own, which puts the sequences of a batch behind their places, and rows in one."""

    def __init__(self):
        super().__init__()
        self.look = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x):
        return x + self.look(x, x, x, need_weights=False)[0]


def test_what_only_swaps_axes_before_a_layer_that_lays_rows_out_is_not_told_to_cut_them():
    nodes = read_nodes(*(part for _ in range(2) for part in (OfTorch(), Forward())))
    (swapped, *_) = (node for node in nodes if node.label == "AXES SWAPPED")

    assert [step.op for step in swapped.steps] == ["clone", "transpose"]
    assert swapped.record.shape == (PLACES, BATCH, WIDTH)


def test_no_step_of_such_a_layer_stands_in_two_boxes():
    nodes = read_nodes(*(part for _ in range(2) for part in (Attention(Flattening), Forward())))
    steps = [step.id for node in nodes for step in node.steps if step.op in ("view", "addmm")]

    assert len(steps) == len(set(steps))


def test_rows_that_were_put_behind_the_others_are_left_off_where_heads_are_joined():
    parts = [part for _ in range(2) for part in (Attention(nn.Linear, window=11), FeedForwardPart())]

    assert "the first 7 of 11 rows" in [node.extra for node in read_nodes(*parts) if node.label == "CONCAT HEADS"]


class SplitBehind(Attention):
    """Attention of rows with others before them; what it found is split, and the part of its own rows goes on."""

    def __init__(self):
        super().__init__(nn.Linear)

    def forward(self, x):
        rows = functional.pad(self.norm(x), (0, 0, 4, 0))
        parts = self.qkv(rows).chunk(3, -1)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        found = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(*rows.shape)
        return x + self.out(found.split([4, PLACES], dim=1)[1])


def test_heads_that_are_joined_and_split_are_shown_as_the_part_that_is_read():
    parts = [part for _ in range(2) for part in (SplitBehind(), FeedForwardPart())]
    nodes = {node.label: node.record.shape for node in read_nodes(*parts)}

    assert nodes["CONCAT HEADS"] == nodes["LINEAR O"] == (BATCH, PLACES, WIDTH)


class PlacesFirst(nn.Module):
    """Post-norm layers of normed rows that are laid with their places first, once before all of them (BEATs)."""

    def __init__(self):
        super().__init__()
        self.begin, self.convolve = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.attentions = nn.ModuleList(SlicedAttention() for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(6))
        self.wide = nn.ModuleList(nn.Linear(WIDTH, 17) for _ in range(3))
        self.back = nn.ModuleList(nn.Linear(17, WIDTH) for _ in range(3))

    def forward(self, x):
        x = self.begin(x + self.convolve(x.transpose(1, 2)).transpose(1, 2)).transpose(0, 1)
        for number, attend in enumerate(self.attentions):
            x = self.norms[2 * number](x * 1.5 + attend(x))
            x = self.norms[2 * number + 1](x * 1.5 + self.back[number](self.wide[number](x).relu()))
        return x


class SlicedAttention(nn.Module):
    """Attention of rows with places first, whose heads are laid beside the batch."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        cut = (len(x), -1, WIDTH // HEADS)
        query, key, value = (
            one(x).contiguous().view(*cut).transpose(0, 1) for one in (self.query, self.key, self.value)
        )
        shares = torch.bmm(query, key.transpose(1, 2)).mul((WIDTH // HEADS) ** -0.5).softmax(-1)
        return self.out(torch.bmm(shares, value).transpose(0, 1).contiguous().view(*x.shape))


def test_rows_laid_once_before_all_layers_are_not_laid_in_each():
    with torch.no_grad():
        (column,) = read_columns(xray.trace(PlacesFirst(), torch.randn(BATCH, PLACES, WIDTH)))
    (frame,) = column.frames

    assert len(frame.group.layers) == 3
    assert "AXES SWAPPED" not in [node.label for panel in frame.panels for node in panel.chart.nodes]


class OfEachPlace(nn.Module):
    """A linear layer of its own for each of two halves of the places, laid end to end (Moshi's depth transformer)."""

    def __init__(self, wide, out, *, shared=False):
        super().__init__()
        first = nn.Linear(wide, out)
        self.layers = nn.ModuleList([first, first if shared else nn.Linear(wide, out)])

    def forward(self, x):
        return torch.cat([layer(rows) for layer, rows in zip(self.layers, x.split(4, 1), strict=True)], 1)


class Together(nn.Module):
    """One layer for values, one for queries and keys, then padded by nothing (DehazeFormer)."""

    def __init__(self, wide, out):
        super().__init__()
        self.value, self.both = nn.Linear(wide, out // 3), nn.Linear(wide, out - out // 3)

    def forward(self, x):
        value = self.value(x)
        return functional.pad(torch.cat([self.both(x), value], -1), (0, 0, 0, 0))


class Behind(nn.Module):
    """What is led through two layers and a bend before one layer makes queries, keys and values (TFT)."""

    def __init__(self, wide, out):
        super().__init__()
        self.before = nn.Sequential(nn.Linear(wide, wide), nn.ELU(), nn.Linear(wide, wide))
        self.norm, self.last = nn.LayerNorm(wide), nn.Linear(wide, out)

    def forward(self, x):
        return self.last(self.norm(x + self.before(x)))


@pytest.mark.parametrize(
    ("linear", "made"),
    [
        (nn.Linear, "ONE LINEAR FOR Q, K, V"),
        (OfEachPlace, "LINEAR LAYERS FOR Q, K, V"),
        (lambda wide, out: OfEachPlace(wide, out, shared=True), "LINEAR FOR Q, K, V"),
        (Together, "LINEAR LAYERS FOR Q, K, V"),
    ],
)
def test_layers_laid_end_to_end_are_not_told_as_one(linear, made):
    model = nn.Sequential(nn.Linear(5, WIDTH), *(Attention(linear) for _ in range(2))).eval()
    trace = xray.trace(model, torch.rand(BATCH, PLACES, 5))
    labels = {
        node.label
        for column in read_columns(trace)
        for frame in column.frames
        for panel in frame.panels
        for node in panel.chart.nodes
    }
    told = words_of(compose_poster(trace, text_width))

    assert {label for label in labels if "FOR Q, K, V" in label} == {made}
    assert ("One linear layer makes Q, K and V at once" in told) == (linear is nn.Linear)


def test_layers_before_the_one_that_makes_queries_keys_and_values_make_none_of_them():
    parts = [Attention(nn.Linear), Attention(nn.Linear)]
    for part in parts:
        part.qkv = Behind(WIDTH, 3 * WIDTH)

    made = [node.label for node in read_nodes(*parts) if node.label.startswith(("LINEAR", "ONE LINEAR", "LAYER NORM"))]
    assert made[:5] == ["LAYER NORM", "LINEAR", "LINEAR", "LAYER NORM", "ONE LINEAR FOR Q, K, V"]


def write_into_cache(keys, values):
    cache = torch.zeros(2 * BATCH, PLACES, WIDTH)
    cache[:, torch.arange(PLACES)] = torch.cat([keys, values])
    return cache[:BATCH], cache[BATCH:]


class InOneTensor(Attention):
    """Attention of which two linear layers make keys and values, which lie in one tensor for a while (min-dalle)."""

    def __init__(self, lay):
        super().__init__(nn.Linear)
        self.qkv, self.lay = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)), lay

    def forward(self, x):
        rows = self.norm(x)
        query, key, value = (layer(rows) for layer in self.qkv)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, *self.lay(key, value)))
        shares = (query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return x + self.out((shares @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    "lay",
    [
        write_into_cache,
        lambda keys, values: torch.cat([keys, values]).chunk(2),
        lambda keys, values: torch.stack([keys, values]),
        lambda keys, values: torch.stack([keys, values], 1).unbind(1),
        lambda keys, values: torch.stack([keys, values], 1)[::1].unbind(1),
        lambda keys, values: torch.cat([keys, values], -1).chunk(2, -1),
    ],
)
def test_layers_of_keys_and_of_values_are_not_told_as_one_where_one_tensor_holds_both(lay):
    (column,) = read_columns(
        xray.trace(nn.Sequential(InOneTensor(lay), InOneTensor(lay)).eval(), torch.rand(BATCH, PLACES, WIDTH))
    )
    chart = column.frames[0].panels[0].chart
    labels = {node.key: node.label for node in chart.nodes}
    made = "LINEAR LAYERS FOR K, V"

    assert [label for label in labels.values() if "LINEAR" in label and label.endswith("K, V")] == [made]
    assert [labels[edge.source] for edge in chart.edges if labels[edge.target] == made] == ["LAYER NORM"]
