"""The parameters of weights that are held, kept, handed on or worked on before they serve."""

import pytest
import torch
from handwritten import make_writer
from printed import text_of
from story.parameter_bars import IDS, bars_of, count, poster_of
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.counted_weights import count_params
from xray.story.sentences.of_models import list_sentences

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Held(nn.Module):
    """An attention whose weights are its own parameters, multiplied by in products without a module."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Parameter(torch.rand(21, 3, 7)) for _ in range(4))
        self.norm = nn.LayerNorm(21)

    def forward(self, x):
        query, key, value = (torch.einsum("bsd,dhk->bhsk", x, one) for one in (self.query, self.key, self.value))
        weights = (torch.einsum("bhsk,bhtk->bhst", query, key) / 7**0.5).softmax(-1)
        seen = torch.einsum("bhst,bhtk->bshk", weights, value)
        return self.norm(x + torch.einsum("bshk,dhk->bsd", seen, self.out))


def test_weights_that_a_block_holds_itself_count_once_for_each_product_with_them():
    bars = bars_of(poster_of(nn.Sequential(nn.Embedding(11, 21), Held(), Held(), Held()), IDS % 11))

    assert bars["self-attention × 3"] == 3 * (4 * 21 * 21 + 2 * 21)


class ScaledNorm(nn.Module):
    """An RMS norm, step by step in full precision, whose factors are learned as how far they are from 1."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + self.weight.float())).type_as(x)


class Thinker(nn.Module):
    """Three layers that think, each behind such a norm."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(61, 19)
        self.norms = nn.ModuleList(ScaledNorm(19) for _ in range(3))
        self.thinking = nn.ModuleList(
            nn.Sequential(nn.Linear(19, 35), nn.GELU(), nn.Linear(35, 19)) for _ in self.norms
        )

    def forward(self, ids):
        x = self.words(ids)
        for norm, think in zip(self.norms, self.thinking, strict=True):
            x = x + think(norm(x))
        return x


def test_a_norm_whose_weights_are_worked_on_before_they_serve_says_how_many_it_has():
    layout = poster_of(Thinker(), IDS)

    norm = next(box for box in layout.boxes if "RMS NORM" in text_of(box.lines[0]))
    assert "19 parameters" in " ".join(map(text_of, norm.lines))


class Closed(Thinker):
    """The same, with one more of these norms at the end, which reads it twice."""

    def __init__(self):
        super().__init__()
        self.last = ScaledNorm(19)

    def forward(self, ids):
        x = super().forward(ids)
        return self.last(x), self.last(x[:, 0])


def test_a_last_norm_that_is_worked_on_or_used_again_is_called_no_head():
    bars = bars_of(poster_of(Closed(), IDS))

    assert bars["last norm"] == 19
    assert "head" not in bars


class Kept(nn.Module):
    """A feed-forward whose two weights a block keeps that is handed them, and multiplies by what it is handed."""

    def __init__(self):
        super().__init__()
        self.wide, self.back = nn.Parameter(torch.rand(37, 15)), nn.Parameter(torch.rand(37, 15))

    def forward(self, x, wide, back):
        return functional.relu(x @ wide.T) @ back


class Handing(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.kept = nn.LayerNorm(15), Kept()

    def forward(self, x):
        wide, back = self.kept.wide.view(1, 37, 15)[0], self.kept.back.view(1, 37, 15)[0]
        return x + self.kept(self.norm(x), wide, back)


class Writing(nn.Module):
    def __init__(self):
        super().__init__()
        self.writer, self.handing = make_writer(), nn.ModuleList(Handing() for _ in range(2))

    def forward(self, ids):
        x, future = self.writer.words(ids), torch.ones(7, 7, dtype=torch.bool).triu(1)
        for row, handing in zip(self.writer.rows, self.handing, strict=True):
            x = handing(row(x, None, future))
        return self.writer.scores(x)


def test_weights_that_a_block_keeps_and_is_handed_are_counted_all():
    model = Writing()

    bars = bars_of(poster_of(model, IDS))

    assert sum(bars.values()) == count(model)
    assert "all else" not in bars


class Standardised(nn.Conv2d):
    """A convolution whose weights are brought to mean 0, variance 1; it reads them once more for their shape."""

    def forward(self, x):
        weight = functional.batch_norm(self.weight.reshape(1, len(self.weight), -1), None, None, training=True)
        return functional.conv2d(x, weight.reshape_as(self.weight), self.bias, self.stride, self.padding)


class Preactivated(nn.Module):
    """Two convolutions; what they read, normed and bent, goes through a third one on its way past them (BiT)."""

    def __init__(self, width, wide):
        super().__init__()
        self.norm, self.middle = nn.GroupNorm(2, width), nn.GroupNorm(2, wide)
        self.one, self.two = Standardised(width, wide, 3, padding=1), Standardised(wide, wide, 3, padding=1)
        self.past = Standardised(width, wide, 1)

    def forward(self, x):
        x = torch.relu(self.norm(x))
        return self.past(x) + self.two(torch.relu(self.middle(self.one(x))))


def test_standardised_weights_are_counted_in_their_layer_with_the_norm_before_it():
    layers = nn.Sequential(Preactivated(6, 10), Preactivated(10, 14))
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.MaxPool2d(2), *layers)

    bars = bars_of(poster_of(model, torch.rand(2, 3, 18, 18)))

    assert bars["convolution × 2"] == count(layers)


class Scaled(nn.Module):
    """Attention and feed-forward, each times learned numbers of the layer's own before it is added (InternVL)."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(21, 3, batch_first=True)
        self.think = nn.Sequential(nn.Linear(21, 85), nn.GELU(), nn.Linear(85, 21))
        self.norms = nn.ModuleList(nn.LayerNorm(21) for _ in range(2))
        self.one, self.other = nn.Parameter(torch.rand(21)), nn.Parameter(torch.rand(21))

    def forward(self, x):
        read = self.norms[0](x)
        x = x + self.one * self.attend(read, read, read)[0]
        return x + self.other * self.think(self.norms[1](x))


class ScaledByViews(Scaled):
    """The same with numbers that are laid out before (PoolFormer)."""

    def forward(self, x):
        read = self.norms[0](x)
        x = x + self.one.unsqueeze(0).unsqueeze(0) * self.attend(read, read, read)[0]
        return x + self.other.unsqueeze(0).unsqueeze(0) * self.think(self.norms[1](x))


class ScaledByBends(Scaled):
    """The same with numbers that are bent before (Evolla)."""

    def forward(self, x):
        read = self.norms[0](x)
        x = x + self.one.tanh() * self.attend(read, read, read)[0]
        return x + self.other.tanh() * self.think(self.norms[1](x))


@pytest.mark.parametrize("layer", [Scaled, ScaledByViews, ScaledByBends])
def test_two_learned_scales_of_one_layer_count_each_where_it_stands(layer):
    bars = bars_of(poster_of(nn.Sequential(nn.Embedding(11, 21), layer(), layer()), IDS % 11))

    assert bars["feed-forward × 2"] == 2 * count(Scaled().think, nn.LayerNorm(21)) + 2 * 21
    assert "all else" not in bars


class Alike(nn.Module):
    """An RMS norm whose weights, if it has any, are given the type of the rows first."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return functional.rms_norm(x, (19,), weight=None if self.weight is None else self.weight.type_as(x))


@pytest.mark.parametrize("is_learned", [True, False])
def test_a_norm_whose_weights_are_cast_to_the_type_of_rows_learns_something(is_learned):
    model = Thinker().bfloat16()
    model.norms = nn.ModuleList(Alike(nn.Parameter(torch.ones(19)) if is_learned else None) for _ in range(3))

    told = list_sentences(xray.anatomy(xray.trace(model, IDS)))

    assert any(one.startswith("Norms of sublayers learn nothing") for one in told) is not is_learned


class Sliced(nn.Module):
    """One weight, of which a linear layer reads all rows, another one the first ones, and a third the others (STTR)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(21, 7))

    def forward(self, x, slices=torch.ops.aten.slice):
        first, others = slices(self.weight, 0, 0, 14), slices(self.weight, 0, 14, 21)
        return [torch.mm(x, one.t()) for one in (self.weight, first, others)]


def test_rows_that_are_cut_of_a_weight_count_and_not_the_whole():
    flow = read_flow(xray.trace(Sliced(), torch.rand(5, 7)).passes[0])

    products = [node for node, step in enumerate(flow.steps) if step.op == "mm"]
    assert [count_params(flow, node) for node in products] == [21 * 7, 14 * 7, 7 * 7]
