"""The first layer of each stage of a convolutional network: the stream becomes shorter and wider past it (ResNet)."""

from dataclasses import replace

import pytest
import torch
from story.body.test_mistaken import PLACES, WIDTH, AttentionPart, FeedForwardPart, Reader, read
from story.sentences.makers import NO_NORM, PLAIN, make_tower
from torch import nn

import xray
from xray.story.anatomy.beside_layers import Bridge
from xray.story.anatomy.branches import Convolution
from xray.story.anatomy.tree import Group, Stage
from xray.story.cards.pattern import list_parts
from xray.story.sheet.columns import read_columns
from xray.story.sheet.layer_blocks import list_around_layers

CHANNELS, WIDER, STAGE = 6, 10, 4


class Mixes(nn.Module):
    """Convolutions with norms, beside which the stream goes through one of its own where a step is wider than 1."""

    def __init__(self, given, width, step):
        super().__init__()
        self.first = nn.Conv2d(given, width, 3, step, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.last_norm = nn.BatchNorm2d(width)
        self.past = nn.Conv2d(given, width, 1, step, bias=False) if step > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.last_norm(self.second(torch.relu(self.norm(self.first(x))))) + self.past(x))


class Staged(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, CHANNELS, 3), nn.Linear(WIDER, 5)
        ways = [(CHANNELS, CHANNELS, 1)] * 2 + [(CHANNELS, WIDER, 2)] + [(WIDER, WIDER, 1)] * (STAGE - 1)
        self.layers = nn.ModuleList(Mixes(*way) for way in ways)

    def forward(self, image):
        x = self.stem(image)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def column():
    torch.manual_seed(0)
    (found,) = read_columns(xray.trace(Staged().eval(), torch.randn(2, 3, 26, 26)))
    return found


def test_a_layer_past_which_the_stream_becomes_shorter_is_not_of_one_group_with_those_behind_it(column):
    assert [frame.group.layers for frame in column.frames] == [(0, 1), (2,), (3, 4, 5)]


def test_a_step_of_one_layer_is_not_drawn_for_others(column):
    labels = [node.label for panel in column.frames[-1].panels for node in panel.chart.nodes]
    told = [said for panel in column.frames[-1].panels for node in panel.chart.nodes for said in node.told]
    assert not told
    assert not [label for label in labels if "STEP" in label]


def test_a_stage_tells_what_the_stream_goes_through_past_it(column):
    assert [frame.group.stages[0].past for frame in column.frames] == [None, ("convolution",), None]


def test_a_stage_begins_where_the_stream_becomes_shorter_behind_a_bend(column):
    (bridge,) = column.towering.tower.bridges
    assert bridge == Bridge(2, 4, CHANNELS, WIDER, within=True)


def test_a_closed_stage_says_what_the_stream_goes_through_past_it(column):
    (panel,) = column.frames[1].panels
    (said,) = [said for node in panel.chart.nodes for said in node.told]
    assert said == "the stream comes by through convolution 1×1, step 2"


def test_layers_that_differ_in_the_way_past_them_are_told_apart(column):
    told = [list_parts(column.towering.tower, group) for group in column.towering.tower.groups]
    assert told == [["convolution"], ["convolution (past it: convolution)"], ["convolution"]]


def test_layers_of_other_sizes_say_what_the_stream_goes_through_past_them_too():
    ways = {(0,): ((3, 3), ("pool",)), (1,): ((5, 5), ("pool",)), (2,): ((5, 5), None)}
    stages = {
        layers: Stage((Convolution(kernel, 1),), False, NO_NORM, past=past) for layers, (kernel, past) in ways.items()
    }
    tower = replace(make_tower(PLAIN), groups=tuple(Group(layers, (stage,)) for layers, stage in stages.items()))

    told = [part for group in tower.groups for part in list_parts(tower, group)]
    assert told == ["convolution 3×3 (past it: pool)", "convolution 5×5 (past it: pool)", "convolution 5×5"]


class Wider(nn.Module):
    """A residual convolution of a size of its own."""

    def __init__(self, kernel):
        super().__init__()
        self.mix = nn.Conv2d(CHANNELS, CHANNELS, kernel, padding=tuple(one // 2 for one in kernel))
        self.norm = nn.BatchNorm2d(CHANNELS)

    def forward(self, x):
        return x + torch.relu(self.norm(self.mix(x)))


def read_kernels(*kernels):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, CHANNELS, 3), *map(Wider, kernels)).eval()
    (column,) = read_columns(xray.trace(model, torch.randn(2, 3, 13, 13)))
    closed = [panel.chart.nodes[0].extra for frame in column.frames for panel in frame.panels if not panel.is_open]
    return closed, [list_parts(column.towering.tower, group) for group in column.towering.tower.groups]


def test_layers_with_convolutions_of_other_sizes_say_of_which():
    closed, parts = read_kernels((3, 3), (3, 3), (3, 5), (3, 1))
    assert closed == ["kernel 3×5", "kernel 3×1"]
    assert parts == [["convolution 3×3"], ["convolution 3×5"], ["convolution 3×1"]]


def test_a_size_that_all_have_is_not_told_of_each():
    assert read_kernels((3, 3), (3, 3)) == ([], [["convolution"]])


class Halving(nn.Module):
    """A sublayer of convolutions that makes one place of two, as the mean of two does past it (Granite Speech 5)."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, 2, 1, groups=WIDTH)

    def forward(self, x):
        rows = nn.functional.glu(self.wide(self.norm(x)), dim=-1)
        made = self.back(self.mix(rows.transpose(1, 2)).transpose(1, 2))
        past = x.unfold(1, 2, 2).mean(-1)
        return past + made[:, : past.shape[1]]


def test_a_convolution_past_which_two_places_become_their_mean_is_a_sublayer():
    layers = [nn.Sequential(AttentionPart(), part(), FeedForwardPart()) for part in (Halving, Halving, nn.Identity)]
    (tower,) = read(Reader(*layers), torch.randn(2, 4 * PLACES, 7)).towers

    parts = [[branch.part for stage in group.stages for branch in stage.branches] for group in tower.groups]
    assert ["attention", "convolution", "feed_forward"] in parts
    assert ("pool",) in [stage.past for group in tower.groups for stage in group.stages]


class Apart(nn.Module):
    """Convolutions in a block of their own, beside which the stream goes through one too, as large as it was."""

    def __init__(self, past):
        super().__init__()
        ways = (nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1, bias=False) for _ in range(2))
        self.convs = nn.Sequential(next(ways), nn.BatchNorm2d(CHANNELS), nn.ReLU(), next(ways))
        self.past = past

    def forward(self, x):
        return torch.relu(self.convs(x) + self.past(x))


def test_what_the_stream_goes_through_past_a_block_of_convolutions_is_the_layers():
    past = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
    layers = [Apart(past if number == 0 else nn.Identity()) for number in range(4)]
    model = nn.Sequential(nn.Conv2d(3, CHANNELS, 3), *layers, nn.Flatten(2))
    (found,) = read_columns(xray.trace(model.eval(), torch.rand(2, 3, 26, 26)))

    flow = found.reading.flow
    assert not [node for node in list_around_layers(flow, found.towering) if flow.steps[node].params]


class Pooled(nn.Module):
    """Attention whose queries are pooled, a first row aside, as the stream is past it, made wider (MViT)."""

    def __init__(self, wide, cut):
        super().__init__()
        self.cut, self.norm, self.past = cut, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, wide)
        self.q, self.k, self.v = (nn.Linear(WIDTH, wide) for _ in range(3))
        self.out = nn.Linear(wide, wide)

    def forward(self, x):
        read = self.norm(x)
        query = self.pool(self.q(read))
        weights = (query @ self.k(read).mT / query.shape[-1] ** 0.5).softmax(-1)
        return self.pool(self.past(read)) + self.out(weights @ self.v(read))

    def pool(self, x):
        first, places = self.cut(x)
        made = nn.functional.max_pool3d(places.mT.unflatten(-1, (2, 4, 4)), (1, 2, 2))
        return torch.cat((first, made.flatten(2).mT), dim=1)


@pytest.mark.parametrize("cut", [lambda x: x.tensor_split((1,), dim=1), lambda x: (x[:, :1, :], x[:, 1:, :])])
def test_a_stream_may_be_pooled_past_a_sublayer_with_a_first_row_aside(cut):
    wide = [nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, 31), nn.GELU(), nn.Linear(31, 2 * WIDTH)]
    layers = [AttentionPart(), FeedForwardPart(), Pooled(2 * WIDTH, cut), Added(nn.Sequential(*wide))]
    (tower,) = read(Reader(*layers), torch.randn(2, 1 + 2 * 4 * 4, 7)).towers

    stages = [stage for group in tower.groups for stage in group.stages]
    assert [stage.past for stage in stages] == [None, None, ("norm", "linear", "pool"), None]


class Added(nn.Module):
    """What a part makes, added to what it reads."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return x + self.part(x)
