"""A shared block of attention and feed-forward before a layer's own sublayer, with a part for each layer (Zamba 2)."""

import pytest
import torch
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.facts.totals import count_params
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, HEADS, LAYERS, LOW = 12, 3, 4, 5


class Shared(nn.Module):
    """Attention over the stream beside the words, then a feed-forward, to which a part for each layer is added."""

    def __init__(self):
        super().__init__()
        self.norm, self.look, self.think = nn.LayerNorm(2 * WIDTH), Looks(), Thinks()

    def forward(self, x, words, number):
        return self.think(self.look(self.norm(torch.cat([x, words], -1))), number)


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(2 * WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        sides = (side(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for side in (self.query, self.key, self.value))
        found = nn.functional.scaled_dot_product_attention(*sides, is_causal=True)
        return self.out(found.transpose(1, 2).flatten(2))


class Thinks(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)
        self.own = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, LOW), nn.Linear(LOW, 31)) for _ in range(LAYERS))

    def forward(self, x, number):
        x = self.norm(x)
        return self.down(torch.relu(self.up(x) + self.own[number](x)))


class Hybrid(nn.Module):
    """A layer that reads what the shared block adds to the stream, and adds what it makes to the stream before that."""

    def __init__(self, shared, number):
        super().__init__()
        self.shared, self.number, self.link, self.own = shared, number, nn.Linear(WIDTH, WIDTH), Own()

    def forward(self, x, words):
        return x + self.own(x + self.link(self.shared(x, words, self.number)))


class Own(nn.Module):
    """What a layer does alone, without a sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 29), nn.Linear(29, WIDTH)

    def forward(self, x):
        return self.back(torch.relu(self.wide(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, shared = nn.Embedding(31, WIDTH), Shared()
        self.first, self.layers = Own(), nn.ModuleList(Hybrid(shared, number) for number in range(LAYERS))

    def forward(self, ids):
        words = self.words(ids)
        x = words + self.first(words)
        for layer in self.layers:
            x = layer(x, words)
        return x


@pytest.fixture(scope="module")
def trace():
    torch.manual_seed(0)
    return xray.trace(Model(), torch.arange(14).view(2, 7))


def test_what_stands_between_branches_in_a_row_is_drawn_in_its_place(trace):
    (column,) = read_columns(trace)
    chart = max((panel.chart for frame in column.frames for panel in frame.panels), key=lambda one: one.rows)
    labels = [node.label for node in sorted(chart.nodes, key=lambda node: node.row)]

    assert labels[:3] == ["BESIDE WORDS AS LOOKED UP: 12 + 12", "LAYER NORM", "LINEAR Q"]
    assert labels.index("LINEAR O") < labels.index("+ THE STREAM") < labels.index("ADD")
    assert [chart.node(foot).label for foot in chart.feet] == [labels[0], "+ THE STREAM"]


def test_nothing_of_it_is_left_unsaid(trace):
    assert list_unsaid(read_columns(trace)) == ()


def test_parts_for_each_layer_are_counted_once_though_they_stand_in_a_block_that_runs_again(trace):
    shares = list_shares(read_columns(trace), trace)

    assert sum(count for _, _, count in shares) == count_params(trace)


def test_a_sublayer_is_told_without_what_other_layers_have_of_their_own_in_the_shared_block(trace):
    (column,) = read_columns(trace)
    panel = max((panel for frame in column.frames for panel in frame.panels), key=lambda one: one.chart.rows)

    shared = Shared()
    idle = count_in(*(own for number, own in enumerate(shared.think.own) if number))
    assert panel.params == count_in(Hybrid(shared, 0)) - idle


def count_in(*modules):
    return sum(one.numel() for module in modules for one in module.parameters())


class Attends(nn.Module):
    """Attention alone, whose rows are multiplied by 1 at the end (diffusers)."""

    def __init__(self):
        super().__init__()
        self.sides, self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        sides = (side(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for side in self.sides)
        found = nn.functional.scaled_dot_product_attention(*sides)
        return self.out(found.transpose(1, 2).flatten(2)) / 1.0


class TwoLooks(nn.Module):
    """Two attentions and a feed-forward with sums of their own in one of the stream's; rows of a table are added."""

    def __init__(self):
        super().__init__()
        self.norms, self.looks = (
            nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3)),
            nn.ModuleList((Attends(), Attends())),
        )
        self.think = nn.Sequential(nn.Linear(WIDTH, 17), nn.GELU(), nn.Linear(17, WIDTH))
        self.all, self.first, self.last = nn.GroupNorm(1, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("table", torch.rand(1, 9, WIDTH))

    def forward(self, given):
        x = self.first(self.all(given.transpose(1, 2)).transpose(1, 2))
        for norm, look in zip(self.norms[:2], self.looks, strict=True):
            x = look(norm(x) + self.table[:, : x.shape[1]]) + x
        return self.last(self.think(self.norms[2](x)) + x) + given


def test_sums_of_branches_within_a_sublayer_are_drawn_and_a_table_is_no_stream():
    (column,) = read_columns(xray.trace(TwoLooks().eval(), torch.rand(2, 5, WIDTH)))

    chart = column.frames[0].panels[0].chart
    labels = [node.label for node in chart.nodes]
    assert labels[:4] == ["GROUP NORM IN 1 GROUP", "LINEAR", "LAYER NORM", "ADDED UP"]
    assert labels[-6:] == ["LAYER NORM", "LINEAR + GELU", "LINEAR", "ADDED UP", "LINEAR", "ADD"]
    sums = [node.key for node in chart.nodes if node.label == "ADDED UP"]
    assert [sum(edge.target == one for edge in chart.edges) for one in sums] == [1, 2, 1, 2, 2]
