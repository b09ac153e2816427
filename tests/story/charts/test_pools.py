"""Where neighbours become one number: of how many it is made, and by how many places that moves on."""

import pytest
import torch
from handwritten import Attention, Layer
from story.charts.entrance_operations import chart_of, labels_of, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.body.reading import read_pass, read_passes
from xray.story.charts.stage_chart import chart_stage
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.sentences.of_models import list_sentences

MAP = torch.ones(2, 3, 12, 12)
GATED = "× ONE NUMBER FOR EACH PLACE"


class Squeezed(nn.Module):
    """Each channel of a map times a number that is worked out of its mean (RegNet's Y layers)."""

    def __init__(self, curve=nn.Sigmoid):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 5, 3)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(5, 5, 1), curve())

    def forward(self, x):
        x = self.first(x)
        return self.last(x * self.gate(x))


class Focal(nn.Module):
    """A map by its gate, and the mean of all places, bent, times a gate of each place (FocalNet)."""

    def __init__(self, at_once=False):
        super().__init__()
        self.first, self.last, self.at_once = nn.Linear(3, 7), nn.Conv2d(5, 5, 1), at_once

    def forward(self, x):
        context, gates = self.first(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).split([5, 2], 1)
        mean = (
            context.mean((2, 3), keepdim=True) if self.at_once else context.mean(2, keepdim=True).mean(3, keepdim=True)
        )
        whole = functional.gelu(mean)
        return self.last(context * gates[:, :1] + whole * gates[:, 1:])


def test_a_mean_of_all_places_taken_axis_by_axis_is_multiplied_before_it_is_added():
    chart = chart_of(Focal(), MAP)

    labels = {node.key: node.label for node in chart.nodes}
    ways = [(labels[edge.source], labels[edge.target]) for edge in chart.edges]
    assert sorted(labels.values()) == sorted(
        ["LINEAR", GATED, "MEAN OF ALL PLACES", "GELU", "MULTIPLIED", "ADDED UP", "CONVOLUTION 1×1"]
    )
    assert ("GELU", "MULTIPLIED") in ways
    assert sorted(source for source, target in ways if target == "ADDED UP") == ["MULTIPLIED", GATED]
    assert next(node.told for node in chart.nodes if node.label == "LINEAR") == ("in parts of 5 and 2",)


class FocalLayer(nn.Module):
    """The same behind a norm, its neighbours mixed, and added to the stream; with no mean it is a convolution alone."""

    def __init__(self, has_mean=True, at_once=False):
        super().__init__()
        self.norm, self.focal, self.has_mean = nn.GroupNorm(1, 3), Focal(at_once), has_mean
        self.focal.last = nn.Conv2d(5, 3, 3, padding=1)

    def forward(self, x):
        read = self.norm(x)
        return x + (self.focal(read) if self.has_mean else self.focal.last(read.repeat(1, 2, 1, 1)[:, :5]))


@pytest.mark.parametrize(("has_mean", "at_once"), [(True, False), (True, True), (False, False)])
def test_a_mean_of_all_places_that_is_added_is_told_of_a_convolution(has_mean, at_once):
    model = nn.Sequential(nn.Conv2d(3, 3, 2, 2), *(FocalLayer(has_mean, at_once) for _ in range(3)))
    anatomy = xray.anatomy(xray.trace(model.eval(), MAP))
    branches = {branch for group in anatomy.towers[0].groups for stage in group.stages for branch in stage.branches}

    assert {getattr(branch, "adds_mean", None) for branch in branches} == {True if has_mean else None}
    told = "; the mean of all places is added" * has_mean
    assert f"Convolutions mix places near each other{told}." in list_sentences(anatomy)


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        (nn.MaxPool2d(3, 2, 1), "MAX POOL 3×3, STEP 2"),
        (nn.MaxPool2d(3, (2, 1), 1), "MAX POOL 3×3, STEP 2×1"),
        (nn.Conv2d(5, 5, 3, (1, 2)), "CONVOLUTION 3×3, STEP 1×2"),
        (nn.MaxPool2d(2), "MAX POOL 2×2"),
        (nn.AvgPool2d((2, 3)), "MEAN POOL 2×3"),
        (nn.AdaptiveAvgPool2d(1), "MEAN OF ALL PLACES"),
        (nn.AdaptiveAvgPool2d(5), "MEAN OF 4"),
    ],
)
def test_a_pool_of_a_map_tells_of_how_many_places_one_number_is_made(pool, told):
    assert labels_of(nn.Sequential(nn.Conv2d(3, 5, 3), pool, nn.Conv2d(5, 7, 1)), MAP)[1] == told


def test_a_pool_of_a_row_has_one_number_for_its_kernel():
    model = nn.Sequential(nn.Conv1d(3, 5, 3), nn.AvgPool1d(2), nn.Conv1d(5, 7, 3))

    assert labels_of(model, torch.ones(2, 3, 12)) == ["CONVOLUTION 3", "MEAN POOL 2", "CONVOLUTION 3"]


def test_a_mean_of_rows_is_drawn_with_their_number():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(11, 7), nn.Linear(7, 5)

        def forward(self, x):
            return self.last(self.first(x).mean(1))

    assert labels_of(Mean(), rows(11)) == ["LINEAR", "MEAN OF 5", "LINEAR"]


def test_a_mean_over_the_views_of_each_place_is_not_of_all_places():
    class Weighed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(11, 1), nn.Linear(1, 5)

        def forward(self, x):
            return self.last(self.first(x).mean(2))

    assert labels_of(Weighed(), torch.ones(2, 5, 3, 11)) == ["LINEAR", "MEAN OF 3", "LINEAR"]


@pytest.mark.parametrize(("curve", "told"), [(nn.Sigmoid, "SIGMOID"), (nn.Hardsigmoid, "HARDSIGMOID")])
def test_channels_that_are_gated_by_what_their_mean_says_are_drawn_so(curve, told):
    labels = labels_of(Squeezed(curve), MAP)

    assert labels == [
        "CONVOLUTION 3×3",
        "MEAN OF ALL PLACES",
        "CONVOLUTION 1×1",
        told,
        "EACH CHANNEL × ITS GATE",
        "CONVOLUTION 3×3",
    ]


def test_a_convolution_that_leaves_places_out_says_by_how_many_it_moves_on():
    assert labels_of(nn.Sequential(nn.Conv2d(3, 5, 3, 2)), MAP) == ["CONVOLUTION 3×3, STEP 2"]


@pytest.mark.parametrize(
    ("groups", "told"),
    [(1, "CONVOLUTION 3×3"), (2, "CONVOLUTION 3×3 IN 2 GROUPS"), (6, "CONVOLUTION 3×3 BY CHANNEL")],
)
def test_a_convolution_says_how_it_parts_channels(groups, told):
    assert labels_of(nn.Sequential(nn.Conv2d(6, 12, 3, groups=groups)), torch.ones(2, 6, 12, 12)) == [told]


def test_what_is_set_of_a_convolution_in_order_and_not_by_names_is_read_too():
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(6, 1, 3, 3))

        def forward(self, x):
            return functional.conv2d(x, self.weight, None, 2, 1, 1, 6)

    assert labels_of(Written(), torch.ones(2, 6, 12, 12)) == ["CONVOLUTION 3×3 BY CHANNEL, STEP 2"]


@pytest.mark.parametrize(
    ("cut", "told"),
    [
        (nn.Unfold(2, stride=2), "2×2 NEIGHBOURS SIDE BY SIDE"),
        (nn.Unfold((1, 3), stride=(1, 3)), "1×3 NEIGHBOURS SIDE BY SIDE"),
        (nn.Unfold(3), "3×3 NEIGHBOURS SIDE BY SIDE, STEP 1"),
        (nn.Unfold(9, stride=3), "4 PIECES OF 9×9, STEP 3"),
        (nn.Unfold(1), None),
    ],
)
def test_neighbours_that_are_laid_side_by_side_are_drawn(cut, told):
    class Merged(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.cut = nn.Conv2d(3, 5, 1), cut
            self.last = nn.LazyLinear(4)

        def forward(self, x):
            return self.last(self.cut(self.first(x)).mT)

    model = Merged()
    model(MAP)
    assert labels_of(model, MAP) == ["CONVOLUTION 1×1", *([told] if told else []), "LINEAR"]


@pytest.mark.parametrize(
    ("stride", "told"),
    [(2, "2×2 NEIGHBOURS BACK IN A MAP"), (1, "2×2 NEIGHBOURS BACK IN A MAP, OVERLAPS ADDED UP")],
)
def test_neighbours_that_are_laid_out_as_a_map_again_are_drawn(stride, told):
    class Laid(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.mix, self.last = nn.Conv2d(3, 5, 1), nn.Conv1d(20, 20, 1), nn.Conv2d(5, 7, 1)

        def forward(self, x):
            columns = functional.unfold(self.first(x), 2, stride=stride)
            return self.last(functional.fold(self.mix(columns), x.shape[2:], 2, stride=stride))

    assert labels_of(Laid(), MAP)[-2:] == [told, "CONVOLUTION 1×1"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda conv, x: conv(functional.pad(x, (3, 0))), "CONVOLUTION OF THE LAST 4"),
        (lambda conv, x: conv(functional.pad(x, (0, 3))), "CONVOLUTION 4"),
        (lambda conv, x: conv(functional.pad(x, (2, 1))), "CONVOLUTION 4"),
        (lambda conv, x: functional.conv1d(x, conv.weight, padding=3)[..., :12], "CONVOLUTION OF THE LAST 4"),
        (lambda conv, x: functional.conv1d(x, conv.weight, padding=3)[..., 3:], "CONVOLUTION 4"),
        (lambda conv, x: conv(x), "CONVOLUTION 4"),
        (lambda conv, x: step(functional.pad(x, (1, 0)), conv, 3), "CONVOLUTION OF THE LAST 4, STEP 3"),
        (lambda conv, x: step(functional.pad(x, (3, 0)), conv, 3), "CONVOLUTION OF THE LAST 4, STEP 3"),
        (lambda conv, x: step(functional.pad(x, (1, 1)), conv, 3), "CONVOLUTION 4, STEP 3"),
        (lambda conv, x: step(functional.pad(x, (1, 0)), conv, 2), "CONVOLUTION 4, STEP 2"),
        (lambda conv, x: step(functional.pad(x, (5, 0)), conv, 3), "CONVOLUTION 4, STEP 3"),
        (lambda conv, x: step(functional.pad(x, (6, 0)), conv, 1, 2), "CONVOLUTION OF THE LAST 4, 2 APART"),
        (lambda conv, x: step(functional.pad(x, (3, 0)), conv, 1, 2), "CONVOLUTION 4, 2 APART"),
    ],
)
def test_a_convolution_that_reads_no_place_behind_its_own_says_so(change, told):
    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.last = nn.Conv1d(3, 5, 4), nn.Conv1d(5, 2, 1)

        def forward(self, x):
            return self.last(change(self.mix, x))

    assert labels_of(Row(), torch.ones(2, 3, 12)) == [told, "CONVOLUTION 1"]


@pytest.mark.parametrize("cuts", [True, False])
def test_the_end_that_a_convolution_before_the_layers_makes_too_much_is_cut_off_in_one_box(cuts):
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.mix = nn.Embedding(12, 15), nn.Conv1d(15, 15, 3, padding=2)
            self.layers = nn.Sequential(*(Layer(15, Attention(15, 3), norm="before") for _ in range(2)))

        def forward(self, ids):
            x = self.mix(self.words(ids).mT)
            return self.layers((x[..., :-2] if cuts else x).mT)

    reading = read_passes(xray.trace(Mixed(), torch.tensor([[1, 2, 3, 4, 5]] * 2)))[0]
    box = chart_entrance(reading.flow, reading.towers[0]).nodes[-1]

    told, length = ("CONVOLUTION OF THE LAST 3", 5) if cuts else ("CONVOLUTION 3", 7)
    assert (box.label, box.record.shape) == (told, (2, 15, length))


def step(x, conv, stride, dilation=1):
    return functional.conv1d(x, conv.weight, stride=stride, dilation=dilation)


class Halving(nn.Module):
    """Attention over the places of a map, whose queries are pooled before they are cut into heads (SAM 2)."""

    def __init__(self, heads=2):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(8)
        self.qkv, self.out, self.past = nn.Linear(8, 24), nn.Linear(8, 8), nn.MaxPool2d(2)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, x = (self.past(one.movedim(-1, 1)).movedim(1, -1) for one in (q, x))
        heads = (one.flatten(1, 2).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (q, k, v))
        found = functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return x + self.out(found).unflatten(1, x.shape[1:3])


def test_queries_that_are_pooled_say_how():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), Halving(), Halving())
    with torch.no_grad():
        reading = read_pass(xray.trace(model, torch.rand(2, 8, 8, 5)).passes[0])
    labels = [node.label for one in reading.towers[0].stagings for node in chart_stage(reading.flow, one).nodes]

    assert "MAX POOL 2×2 Q" in labels
