"""A dropout is told with its share; of a function that was told to drop none while nothing is learned nothing is."""

import pytest
import torch
from printed import words_of
from story.body.test_mistaken import BATCH, PLACES, WIDTH, FeedForwardPart, draw
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.charts.chart import Node
from xray.story.charts.dropouts import drops_now
from xray.story.poster import compose_poster
from xray.story.roles.listing import list_roles
from xray.story.sentences.of_parts import DROPPED_FIRST
from xray.story.sheet.columns import read_columns


class Looks(nn.Module):
    """Attention that is written out, its weights through one dropout or another."""

    def __init__(self, drops):
        super().__init__()
        self.drops = drops
        self.ways = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        query, key, value = (way(x).unflatten(-1, (3, -1)).transpose(1, 2) for way in self.ways[:3])
        weights = self.drops((query @ key.mT / 2).softmax(-1))
        return x + self.ways[3]((weights @ value).transpose(1, 2).flatten(2))


DROPS = {
    "a function told none": (lambda weights: functional.dropout(weights, 0.0, training=False), ""),
    "a function told a share": (lambda weights: functional.dropout(weights, 0.3, training=False), "dropout 0.3, idle"),
    "a module of none": (nn.Dropout(0.0), "dropout 0"),
}


@pytest.mark.parametrize("way", DROPS)
def test_a_share_of_none_is_told_of_a_module_alone(way):
    drops, told = DROPS[way]
    model = nn.Sequential(nn.Linear(7, WIDTH), Looks(drops), FeedForwardPart()).eval()

    nodes = draw(model, torch.rand(BATCH, PLACES, 7))
    assert [node.extra for node in nodes if node.key == "softmax"] == [told]


def draw_kept(weights):
    return weights * torch.empty_like(weights).bernoulli_(0.7).div_(0.7)


def compare(weights):
    return weights * ((torch.rand_like(weights) > 0.3).float() / 0.7)


def leave_small(weights):
    return weights * torch.empty_like(weights).bernoulli_(0.7)


def draw_rows(weights):
    return weights * torch.empty_like(weights[..., :1]).bernoulli_(0.7).div_(0.7)


@pytest.mark.parametrize(
    ("drops", "told"), [(draw_kept, "dropout 0.3"), (compare, "dropout 0.3"), (leave_small, ""), (draw_rows, "")]
)
def test_a_mask_by_chance_over_the_share_that_it_keeps_is_a_dropout(drops, told):
    model = nn.Sequential(nn.Linear(7, WIDTH), Looks(drops), FeedForwardPart())

    nodes = draw(model, torch.rand(BATCH, PLACES, 7))
    assert [node.extra for node in nodes if node.key == "softmax"] == [told]


class InKernel(nn.Module):
    """Attention in one kernel, which drops a share of its weights where that is told."""

    def __init__(self, share):
        super().__init__()
        self.ways, self.share = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4)), share

    def forward(self, x):
        heads = (way(x).unflatten(-1, (3, -1)).transpose(1, 2) for way in self.ways[:3])
        found = functional.scaled_dot_product_attention(*heads, dropout_p=self.share)
        return x + self.ways[3](found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("share", "told"), [(0.3, "dropout 0.3"), (0.0, "")])
def test_a_kernel_that_drops_a_share_of_its_weights_is_told_so(share, told):
    model = nn.Sequential(nn.Linear(7, WIDTH), InKernel(share), FeedForwardPart())

    nodes = draw(model, torch.rand(BATCH, PLACES, 7))
    assert [node.extra for node in nodes if node.key == "softmax"] == [told]


@pytest.mark.parametrize(
    ("told", "is_now"),
    [
        ("dropout 0.3", True),
        ("with a sink, dropout 0.3", True),
        ("dropout 0.3, idle", False),
        ("dropout 0", False),
        ("", False),
    ],
)
def test_a_share_that_is_idle_or_none_is_not_dropped_now(told, is_now):
    assert drops_now(Node("softmax", "SOFTMAX", 0, (0.0, 1.0), extra=told)) is is_now
    assert drops_now(Node("softmax", "SOFTMAX", 0, (0.0, 1.0), told=(told,))) is is_now


class Dropping(nn.Module):
    """A feed-forward that drops a share behind its bend."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drops = nn.Dropout(0.3)

    def forward(self, x):
        return x + self.down(self.drops(self.up(x).relu()))


def list_told(*layers, head=()):
    """What the boxes of the layers say inside, and those of the exit behind them."""
    model = nn.Sequential(nn.Linear(7, WIDTH), nn.Sequential(*layers), *head).eval()
    (column,) = read_columns(xray.trace(model, torch.rand(BATCH, PLACES, 7)))
    charts = [panel.chart for frame in column.frames for panel in frame.panels]
    return tuple(
        [(node.key, *node.told) for chart in some for node in chart.nodes if node.told]
        for some in (charts, () if column.exit is None else (column.exit,))
    )


def test_a_dropout_behind_a_bend_stands_in_the_box_of_the_bend():
    layers, _ = list_told(Looks(nn.Identity()), Dropping())

    assert layers == [("expand", "dropout 0.3, idle")]


def test_a_dropout_behind_a_view_of_weights_stands_in_the_box_of_the_softmax():
    def drops(weights):
        return functional.dropout(weights.flatten(0, 1), 0.3, training=False).view(weights.shape)

    layers, _ = list_told(Looks(drops), FeedForwardPart())

    assert layers == [("softmax", "dropout 0.3, idle")]


def test_a_dropout_before_a_head_stands_in_its_box():
    _, leaving = list_told(Looks(nn.Identity()), FeedForwardPart(), head=(nn.Dropout(0.2), nn.Linear(WIDTH, 17)))

    assert [told for _, *told in leaving] == [[DROPPED_FIRST.format(dropout="dropout 0.2, idle")]]


class Parted(Dropping):
    """A feed-forward of which a share of samples is given nothing while it learns, and a share of its numbers is 0."""

    def __init__(self, path, share):
        super().__init__()
        self.out, self.drop_path = nn.Dropout(share), DropPath(path)

    def forward(self, x):
        return x + self.drop_path(self.out(self.down(self.up(x).relu())))


class DropPath(nn.Module):
    def __init__(self, drop_prob):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return x * torch.empty(len(x), 1, 1).bernoulli_(1 - self.drop_prob) if self.training else x


@pytest.mark.parametrize(
    ("path", "share", "told"),
    [
        (0.1, 0.0, "dropout 0, drop path 0.1, idle"),
        (0.1, 0.3, "dropout 0.3, idle, drop path 0.1, idle"),
        (0.0, 0.3, "dropout 0.3, idle"),
    ],
)
def test_a_share_of_whole_branches_is_called_a_drop_path(path, share, told):
    model = nn.Sequential(nn.Linear(7, WIDTH), Looks(nn.Identity()), Parted(path, share)).eval()

    assert [node.extra for node in draw(model, torch.rand(BATCH, PLACES, 7)) if node.key == "add"][-1] == told


@pytest.mark.parametrize("has_first", [True, False])
def test_layers_that_differ_in_drop_paths_alone_are_told_so(has_first):
    """Where a share is 0 there may be no step at all (SwinIR)."""
    layers = nn.Sequential(*(nn.Sequential(Looks(nn.Identity()), Parted(number / 10, 0.3)) for number in range(3)))
    if not has_first:
        layers[0][1].drop_path = nn.Identity()
    trace = xray.trace(nn.Sequential(nn.Linear(7, WIDTH), layers).eval(), torch.rand(BATCH, PLACES, 7))
    ((group,),) = (tower.groups for tower in xray.anatomy(trace).towers)

    assert (group.dropouts, group.drop_paths) == (None, (0.0, 0.2))
    assert list_roles(trace)["forward"]["1.1.1.drop_path#0"] == "drop path after feed-forward"


class Placed(nn.Module):
    """Places are added to words, and dropped besides as a copy that nothing reads (WeNet)."""

    def __init__(self):
        super().__init__()
        self.words, self.dropout = nn.Embedding(12, WIDTH), nn.Dropout(0.3)
        self.register_buffer("places", torch.rand(1, 40, WIDTH))

    def forward(self, ids):
        places = self.places[:, : ids.shape[1]]
        rows = self.dropout(self.words(ids) + places)
        self.dropout(places)
        return rows


def test_a_dropout_of_a_copy_that_nothing_reads_stands_in_no_box():
    model = nn.Sequential(Placed(), Looks(nn.Identity()), FeedForwardPart(), nn.Linear(WIDTH, 12))
    trace = xray.trace(model.eval(), torch.arange(BATCH * PLACES).view(BATCH, PLACES) % 12)

    assert words_of(compose_poster(trace, text_width)).count("dropout 0.3, idle") == 1


@pytest.mark.parametrize(("trains", "told"), [(True, "dropout 0.3"), (False, "dropout 0.3, idle")])
def test_a_dropout_between_an_entrance_and_its_layers_is_told_whether_it_drops_or_not(trains, told):
    entrance = nn.Sequential(nn.Embedding(11, WIDTH), nn.LayerNorm(WIDTH), nn.Dropout(0.3))
    model = nn.Sequential(entrance, Looks(nn.Identity()), FeedForwardPart(), nn.Linear(WIDTH, 11)).train(trains)

    words = words_of(compose_poster(xray.trace(model, torch.randint(11, (BATCH, PLACES))), text_width))
    assert words.count(told) == 1
