"""Norms that are written out: which of them are layer norms or RMS norms, and what the others are called."""

from functools import partial

import pytest
import torch
from story.charts.entrance_operations import chart_of, labels_of, rows
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.recognition.norms import find_norm
from xray.story.sheet.columns import read_columns

EPSILON = 1e-6


class Written(nn.Module):
    """Something done to rows between two layers."""

    def __init__(self, change, layer=nn.Linear):
        super().__init__()
        self.change = change
        self.first, self.last = (layer(8, 8) if layer is nn.Linear else layer(8, 8, 1) for _ in range(2))

    def forward(self, x):
        return self.last(self.change(self.first(x)))


def respond(x):
    """The global response norm of ConvNeXt V2: each channel by how long it is beside the mean of all."""
    length = x.norm(dim=(1, 2), keepdim=True)
    return x * (length / (length.mean(-1, keepdim=True) + EPSILON)) + x


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x * (x.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt(), "RMS NORM"),
        (lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), "LAYER NORM"),
        (lambda x: x / (x.mean(-1, keepdim=True) + EPSILON), "DIVIDED BY A MEAN"),
        (lambda x: x / x.std(-1, keepdim=True), "NORM"),
    ],
)
def test_what_is_divided_by_no_root_of_squares_is_no_norm_that_has_a_name(change, told):
    assert labels_of(Written(change), rows(8)) == ["LINEAR", told, "LINEAR"]


@pytest.mark.parametrize(
    "change", [lambda x: x - x.mean(-1, keepdim=True), lambda x: x * x.mean(-1, keepdim=True).sigmoid()]
)
def test_rows_that_no_spread_divides_are_not_normed(change):
    labels = labels_of(Written(change), rows(8))

    assert labels[1:3] in (["MEAN dim −1", "SUBTRACTED"], ["MEAN dim −1", "SIGMOID"])


@pytest.mark.parametrize(
    ("power", "told"), [(1, "EACH ROW ÷ THE SUM OF SIZES"), (2, "EACH ROW ÷ ITS LENGTH"), (3, "NORMALIZED")]
)
def test_what_is_normalized_by_any_power_has_no_mean_taken_off(power, told):
    assert labels_of(Written(partial(functional.normalize, p=power, dim=-1)), rows(8)) == ["LINEAR", told, "LINEAR"]


class ScaledFirst(nn.Module):
    """An RMS norm whose learned numbers multiply rows before these are divided (Muse Spark)."""

    def __init__(self, *, once=True):
        super().__init__()
        self.weight, self.once = nn.Parameter(torch.zeros(8)), once

    def forward(self, x):
        scaled = x * (1.0 + self.weight)
        normed = scaled * (scaled.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt()
        return normed if self.once else normed + scaled


def test_a_norm_that_multiplies_by_learned_numbers_first_has_them_in_its_box():
    nodes = chart_of(Written(ScaledFirst()), rows(8)).nodes

    assert [(node.label, node.extra) for node in nodes][1] == ("× LEARNED NUMBERS + RMS NORM", "8 parameters")
    assert [node.label for node in nodes] == ["LINEAR", "× LEARNED NUMBERS + RMS NORM", "LINEAR"]


def test_rows_that_are_read_beside_a_norm_too_are_not_multiplied_by_it():
    labels = labels_of(Written(ScaledFirst(once=False)), rows(8))

    assert "RMS NORM" in labels
    assert not any(label.startswith("× LEARNED NUMBERS +") for label in labels)


def test_how_long_each_channel_of_a_map_is_has_a_box():
    labels = labels_of(Written(respond), torch.rand(2, 4, 4, 8))

    assert labels == [
        "LINEAR",
        "LENGTH OF EACH CHANNEL",
        "DIVIDED BY A MEAN",
        "MULTIPLIED",
        "ADDED UP",
        "LINEAR",
    ]


def test_a_mean_over_both_axes_of_a_map_is_one_of_all_places():
    mean = Written(lambda x: x.mean((2, 3), keepdim=True), nn.Conv2d)

    assert labels_of(mean, torch.rand(2, 8, 4, 4)) == ["CONVOLUTION 1×1", "MEAN OF ALL PLACES", "CONVOLUTION 1×1"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x * (x.pow(2).mean(1, keepdim=True) + EPSILON).rsqrt(), ["RMS NORM"]),
        (lambda x: x * (x.pow(2).mean((2, 3), keepdim=True) + EPSILON).rsqrt(), None),
    ],
)
def test_a_norm_may_stand_over_the_channels_of_a_map_and_one_over_its_places_is_none_of_rows(change, told):
    labels = labels_of(Written(change, nn.Conv2d), torch.rand(2, 8, 4, 4))[1:-1]

    assert labels == told if told else "RMS NORM" not in labels


@pytest.mark.parametrize("axes", [2, 3])
def test_a_norm_over_the_channels_of_maps_has_its_learned_numbers_be_they_of_a_video(axes):
    gain, shift = (nn.Parameter(torch.ones(1, 8, *(1 for _ in range(axes)))) for _ in range(2))

    def change(x):
        spread = torch.var(x, dim=1, unbiased=False, keepdim=True).sqrt()
        return (x - x.mean(1, keepdim=True)) / (spread + EPSILON) * gain + shift

    model = Written(change, nn.Conv2d if axes == 2 else nn.Conv3d)
    model.gain, model.shift = gain, shift
    assert labels_of(model, torch.rand(2, 8, *(4, 5, 3)[:axes]))[1:-1] == ["LAYER NORM"]


def test_a_mask_of_padding_behind_a_norm_is_no_part_of_it():
    counted = (torch.arange(5) < 4).float()[:, None]

    labels = labels_of(Written(lambda x: nn.functional.layer_norm(x + x.tanh(), (8,)) * counted), rows(8))

    assert labels == ["LINEAR", "TANH", "ADDED UP", "LAYER NORM", "LINEAR"]


def test_numbers_of_places_that_all_rows_share_are_no_part_of_a_norm_before_them():
    def norm_and_count(x):
        normed = x * (x.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt()
        return normed * (torch.arange(x.shape[1]) + 2.0).log()[None, :, None]

    flow = read_flow(xray.trace(Written(norm_and_count), rows(8)).passes[0])
    norms = list(filter(None, map(partial(find_norm, flow), range(len(flow.steps)))))

    assert norms
    assert {flow.op(node) for norm in norms for node in norm.nodes}.isdisjoint({"arange", "log"})


def test_a_norm_that_reads_another_scaled_one_has_none_of_its_weights():
    weights = [nn.Parameter(torch.full((8,), 0.5)) for _ in range(3)]

    def norm_twice(x):
        scaled = x * (x.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt() * weights[0].view(1, 8) * weights[1].view(1, 8)
        return scaled * (scaled.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt() * weights[2].view(1, 8)

    model = Written(norm_twice)
    model.weights = nn.ParameterList(weights)
    flow = read_flow(xray.trace(model, rows(8)).passes[0])
    last = max(filter(None, map(partial(find_norm, flow), range(len(flow.steps)))), key=lambda one: one.end)
    assert last.origin is not None
    assert min(last.nodes) > last.origin


class Offset(nn.Module):
    """A norm without weights, then a product with learned numbers, each plus 1 (Moonshine), or with a row of data."""

    def __init__(self, learned):
        super().__init__()
        self.norm = nn.LayerNorm(8, elementwise_affine=False)
        self.weight = nn.Parameter(torch.zeros(8)) if learned else None

    def forward(self, x):
        return self.norm(x) * (x[:1, :1].tanh() if self.weight is None else self.weight + 1.0)


@pytest.mark.parametrize(("learned", "told"), [(True, "8 parameters"), (False, None)])
def test_learned_numbers_behind_a_norm_without_weights_are_its_own(learned, told):
    model = Written(nn.Identity())
    model.change = Offset(learned)
    boxes = chart_of(model, rows(8)).nodes

    (norm,) = [node for node in boxes if node.label == "LAYER NORM"]
    assert (norm.extra or None) == told
    assert ([node.label for node in boxes] == ["LINEAR", "LAYER NORM", "LINEAR"]) == learned


class NormedBy(nn.Module):
    """Rows through a linear layer, divided by how long another row is: what it read, or what it made (HY V4)."""

    def __init__(self, *, own):
        super().__init__()
        self.layer, self.own = nn.Linear(8, 8, bias=False), own

    def forward(self, x):
        made = self.layer(x)
        return made * ((made if self.own else x).square().mean(-1, keepdim=True) + EPSILON).rsqrt()


@pytest.mark.parametrize("own", [True, False])
def test_rows_that_are_divided_by_the_length_of_others_are_not_normed(own):
    assert ("RMS NORM" in labels_of(nn.Sequential(NormedBy(own=own), nn.Linear(8, 8)), rows(8))) == own


class Sloped(nn.Module):
    """A norm without weights, then a bend with one learned number for its slope (Moonshine Streaming)."""

    def __init__(self):
        super().__init__()
        self.norm, self.slope = nn.LayerNorm(8, elementwise_affine=False), nn.Parameter(torch.ones(1))

    def forward(self, x):
        return torch.asinh(self.slope.exp() * self.norm(x))


def test_one_learned_number_behind_a_norm_without_weights_is_not_its_own():
    model = Written(nn.Identity())
    model.change = Sloped()

    assert [(node.label, node.extra) for node in chart_of(model, rows(8)).nodes][1:-1] == [
        ("LAYER NORM", ""),
        ("ASINH", ""),
    ]


class ToTheSizeOfOthers(nn.Module):
    """Rows that are made as large as those that they are made of (Gemma 3n's streams)."""

    def __init__(self):
        super().__init__()
        self.first, self.other, self.last = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        size, made = (x**2).mean(-1, keepdim=True) ** 0.5, self.other(x)
        return self.last(made * size / (made**2).mean(-1, keepdim=True).clamp(min=EPSILON).sqrt())


def test_the_size_of_rows_and_its_product_with_others_are_told():
    chart = chart_of(ToTheSizeOfOthers(), rows(8))

    ways = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}
    assert ways == {
        ("LINEAR", "LINEAR"),
        ("LINEAR", "ROOT MEAN SQUARE dim −1"),
        ("LINEAR", "RMS NORM, EACH ROW × A NUMBER"),
        ("ROOT MEAN SQUARE dim −1", "RMS NORM, EACH ROW × A NUMBER"),
        ("RMS NORM, EACH ROW × A NUMBER", "LINEAR"),
    }
    ops = {node.label: {step.op for step in node.steps} for node in chart.nodes}
    assert {"pow", "mean"} <= ops["ROOT MEAN SQUARE dim −1"]
    assert "mul" in ops["RMS NORM, EACH ROW × A NUMBER"]


def test_a_mean_of_the_numbers_of_rows_that_is_no_norm_has_a_box():
    told = labels_of(Written(lambda x: x + x.exp().mean(-1, keepdim=True)), rows(8))

    assert told[:3] == ["LINEAR", "EXP", "MEAN dim −1"]


@pytest.mark.parametrize(
    ("norm", "told"),
    [
        (lambda x: x * (x.pow(2).mean(-1, keepdim=True) + EPSILON).rsqrt(), "RMS NORM"),
        (lambda x: functional.layer_norm(x, (8,)), "LAYER NORM"),
        (lambda x: functional.rms_norm(x, (8,)), "RMS NORM"),
        (lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + EPSILON).sqrt(), "LAYER NORM"),
    ],
)
def test_a_norm_of_a_product_of_rows_and_numbers_of_rows_is_no_more_than_a_norm(norm, told):
    labels = labels_of(Written(lambda x: norm(x * x.exp().mean(-1, keepdim=True))), rows(8))

    assert told in labels


class OneOfTwo(nn.Module):
    """A layer whose norm, without numbers of its own, is scaled by learned ones, or by a condition (Transfusion)."""

    def __init__(self):
        super().__init__()
        self.gamma, self.film = nn.Parameter(torch.zeros(8)), nn.Linear(3, 16)
        self.asked, self.offered, self.out = nn.Linear(8, 16), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, time, is_timed):
        normed = functional.layer_norm(x, (8,))
        weighed = normed * (self.gamma + 1)
        scale, shift = self.film(time).chunk(2, dim=-1)
        read = torch.where(is_timed[..., None], normed * (scale + 1) + shift, weighed)
        query, key = self.asked(read).reshape(*x.shape[:2], 2, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        seen = (query @ key.transpose(-1, -2) * 0.5).softmax(-1) @ self.offered(read).unflatten(-1, (2, 4)).transpose(
            1, 2
        )
        return x + self.out(seen.transpose(1, 2).flatten(2))


class OfTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(OneOfTwo() for _ in range(3))

    def forward(self, x, time, is_timed):
        for layer in self.layers:
            x = layer(x, time, is_timed)
        return x


@pytest.fixture(scope="module")
def looking():
    trace = xray.trace(OfTwo(), torch.rand(2, 5, 8), torch.rand(2, 5, 3), torch.rand(2, 5) > 0.5)
    return read_columns(trace)[0].frames[0].panels[0].chart


def test_a_norm_that_others_read_without_its_weights_does_not_hold_these(looking):
    (norm,) = (node for node in looking.nodes if node.label == "LAYER NORM")
    (choice,) = (node for node in looking.nodes if node.label == "ONE OR THE OTHER")
    led = {edge.source for edge in looking.edges if edge.target == choice.key}

    assert [step.op for step in norm.steps] == ["layer_norm"]
    assert {looking.node(key).label for key in led} == {"LAYER NORM", "× WHAT IS MADE OF LEARNED NUMBERS"}


def test_one_linear_layer_that_makes_queries_and_keys_is_drawn_once(looking):
    labels = [node.label for node in looking.nodes]

    assert labels.count("ONE LINEAR FOR Q, K") == 1
    assert not {"LINEAR Q", "LINEAR K"}.intersection(labels)
    assert {"LINEAR V", "HEADS Q", "HEADS K"} <= {*labels}
