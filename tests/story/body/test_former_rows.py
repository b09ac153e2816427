"""A stream that goes on with rows of another kind, which look at those that it had before (GroupViT)."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.attentions import FORMER_ROWS
from xray.story.anatomy.attentions import Attention as Attended
from xray.story.anatomy.branches import Unknown
from xray.story.sentences.of_parts import LED_IN
from xray.story.sheet.columns import read_columns

WIDTH, PLACES, GROUPS, FEWER, MANY = 15, 11, 5, 3, 6


class Asking(nn.Module):
    """Rows ask others, and think about what they found."""

    def __init__(self):
        super().__init__()
        self.attention, self.norm = Attention(WIDTH, 3), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))

    def forward(self, x, others):
        x = x + self.attention(x, others)
        return x + self.think(self.norm(x))


class Grouped(nn.Module):
    """Learned rows stand behind those of places; a few are made of them, ask the places, and go on alone."""

    def __init__(self):
        super().__init__()
        self.words, self.groups = nn.Embedding(31, WIDTH), nn.Parameter(torch.randn(1, GROUPS, WIDTH))
        self.before, self.behind = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)) for _ in range(2)
        )
        self.of_groups, self.of_places, self.last = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.fewer, self.asking = nn.Linear(GROUPS, FEWER), Asking()

    def forward(self, ids):
        x = torch.cat([self.words(ids), self.groups.expand(len(ids), -1, -1)], dim=1)
        for layer in self.before:
            x = layer(x)
        places, groups = self.of_places(x[:, :PLACES]), self.of_groups(x[:, PLACES:])
        x = self.asking(self.last(self.fewer(groups.mT).mT), places)
        for layer in self.behind:
            x = layer(x)
        return x


def test_rows_that_are_made_anew_look_at_former_rows_and_make_no_decoder():
    (tower,) = xray.anatomy(xray.trace(Grouped().eval(), torch.arange(22).view(2, PLACES))).towers

    sources = [one.source for group in tower.groups for one in group.stages[0].branches if isinstance(one, Attended)]
    assert sources == ["self", FORMER_ROWS, "self"]
    assert tower.name == "tokens"


class Grouping(nn.Module):
    """Layers with learned rows beside a stream; a few are made of them, or of all, which ask the rest and go on."""

    def __init__(self, layers, length, groups, fewer, *, cuts=True, former=0):
        super().__init__()
        self.project = nn.Linear(former, groups) if former else None
        self.groups, self.length, self.cuts = nn.Parameter(torch.randn(1, groups, WIDTH)), length, cuts
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(layers))
        self.of_groups, self.of_places, self.last = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.fewer, self.asking = nn.Linear(groups if cuts else length + groups, fewer), Asking()

    def forward(self, x, former=None):
        groups = self.groups.expand(len(x), -1, -1)
        groups = groups if self.project is None else groups + self.project(former.mT).mT
        x = torch.cat([x, groups], dim=1)
        for layer in self.layers:
            x = layer(x)
        few = x[:, self.length :]
        places, groups = self.of_places(x[:, : self.length]), self.of_groups(few if self.cuts else x)
        return self.asking(self.last(self.fewer(groups.mT).mT), places), few


class GroupedTwice(nn.Module):
    """Rows that are grouped, and grouped again, each time within one block with the layers before (GroupViT)."""

    def __init__(self, *, cuts=True, projects=False):
        super().__init__()
        sizes = ((MANY, PLACES, GROUPS, 4, 0), (2, 4, 2, 2, GROUPS * projects))
        made = (Grouping(*one, cuts=cuts, former=former) for *one, former in sizes)
        self.words, self.stages = nn.Embedding(31, WIDTH), nn.ModuleList(made)
        self.end = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))

    def forward(self, ids):
        x, few = self.words(ids), None
        for part in self.stages:
            x, few = part(x, few)
        for part in self.end:
            x = part(x)
        return x


def trace_twice(**ways):
    return xray.trace(GroupedTwice(**ways).eval(), torch.arange(22).view(2, PLACES))


def test_a_norm_of_rows_that_were_cut_off_is_none_of_the_layer_before():
    trace = trace_twice()

    (tower,) = xray.anatomy(trace).towers
    layers = {number: group.stages[-1].norm.place for group in tower.groups for number in group.layers}
    assert [layers[number] for number in (*range(MANY), MANY + 1, MANY + 2)] == ["before"] * (MANY + 2)
    assert [bridge.before for bridge in tower.bridges if not bridge.beside] == [MANY, MANY + 3]


@pytest.mark.parametrize(
    ("cuts", "joined", "told"),
    [(True, None, ["ALL ROWS BUT THE FIRST 11", "ALL ROWS BUT THE FIRST 4"]), (False, 4, [])],
)
def test_what_goes_on_with_some_rows_alone_says_so_and_joins_none(cuts, joined, told):
    trace = trace_twice(cuts=cuts)

    (tower,) = xray.anatomy(trace).towers
    assert tower.bridges[0].joined == joined
    labels = [node.label for chart in list_bridges(trace) for node in chart.nodes]
    assert [label for label in labels if label.startswith("ALL ROWS BUT THE FIRST")] == told


def list_bridges(trace):
    return [frame.bridge for column in read_columns(trace) for frame in column.frames if frame.bridge is not None]


def test_rows_that_later_layers_look_at_stand_beside_those_with_which_a_stream_goes_on():
    chart, *_ = list_bridges(trace_twice())

    cut, norm = (node for node in chart.nodes if node.record.shape[1] == PLACES)
    assert (cut.label, norm.label) == ("THE FIRST 11 OF 16 ROWS", "LAYER NORM")
    assert norm.told == (f"for layer {MANY + 1}",)
    assert cut.key in chart.feet
    assert norm.key not in chart.feet
    assert not [edge for edge in chart.edges if edge.source == norm.key]


def test_learned_rows_put_beside_a_stream_between_two_layers_are_drawn_and_told():
    trace = trace_twice()

    (tower,) = xray.anatomy(trace).towers
    assert [(one.before, one.beside) for one in tower.bridges if one.beside] == [(MANY + 1, 2)]
    _, chart, _ = list_bridges(trace)
    assert [(node.label, node.extra) for node in chart.nodes] == [
        ("LEARNED ROWS BESIDE: 4 + 2", f"{2 * WIDTH} parameters")
    ]


def test_rows_put_beside_a_stream_may_be_made_of_former_rows():
    _, chart, _ = list_bridges(trace_twice(projects=True))

    assert [node.label for node in chart.nodes] == [
        "ALL ROWS BUT THE FIRST 11",
        "LINEAR",
        "+ 2 LEARNED ROWS",
        "END TO END: 4 + 2",
    ]
    assert chart.nodes[0].told == (f"behind its layer {MANY}",)
    assert chart.feet == (chart.head,) == (chart.nodes[-1].key,)


class PutBack(nn.Module):
    """Layers, before the last of which a row stands aside, and comes back as it was, or beside a learned one."""

    def __init__(self, *, learns):
        super().__init__()
        self.words, self.row = nn.Embedding(31, WIDTH), nn.Parameter(torch.randn(1, 1, WIDTH)) if learns else None
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(4))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers[:3]:
            x = layer(x)
        more = x[:, :1] if self.row is None else self.row.expand(len(x), -1, -1)
        return self.layers[3](torch.cat([x, more], dim=1))


@pytest.mark.parametrize("learns", [True, False])
def test_rows_that_come_back_as_they_were_are_no_bridge(learns):
    (tower,) = xray.anatomy(xray.trace(PutBack(learns=learns).eval(), torch.arange(22).view(2, PLACES))).towers

    assert [(one.before, one.beside) for one in tower.bridges] == ([(3, 1)] if learns else [])


class Assigning(nn.Module):
    """Each of some rows goes to one of those of a stream alone, which takes the mean of its own (GroupViT)."""

    def __init__(self, *, looks_back=True):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm, self.looks_back = nn.LayerNorm(WIDTH), looks_back
        self.think = nn.Sequential(nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))

    def forward(self, x, others):
        others = others if self.looks_back else x
        soft = (self.query(x) @ self.key(others).mT).softmax(-2)
        hard = torch.zeros_like(soft).scatter_(-2, soft.max(-2, keepdim=True)[1], 1.0) - soft.detach() + soft
        x = x + self.out(hard / (hard.sum(-1, keepdim=True) + 1.0) @ self.value(others))
        return x + self.think(self.norm(x))


class Assigned(Grouped):
    """The same, where places are given to the few rows once these have asked."""

    def __init__(self, **ways):
        super().__init__()
        self.assigning, self.norm = Assigning(**ways), nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = torch.cat([self.words(ids), self.groups.expand(len(ids), -1, -1)], dim=1)
        for layer in self.before:
            x = layer(x)
        places, groups = self.of_places(x[:, :PLACES]), self.of_groups(x[:, PLACES:])
        x = self.assigning(self.norm(self.asking(self.last(self.fewer(groups.mT).mT), places)), places)
        for layer in self.behind:
            x = layer(x)
        return x


@pytest.mark.parametrize("looks_back", [True, False])
def test_what_an_unknown_part_multiplies_with_is_drawn_be_it_made_of_former_rows(looks_back):
    trace = xray.trace(Assigned(looks_back=looks_back).eval(), torch.arange(22).view(2, PLACES))

    (column,) = read_columns(trace)
    charts = [panel.chart for frame in column.frames for panel in frame.panels if panel.is_open]
    (chart,) = [one for one in charts if any(node.label.startswith("1 AT") for node in one.nodes)]
    linear = [node for node in chart.nodes if node.label == "LINEAR"]
    assert [node.record.shape[1] for node in linear] == [FEWER, *([PLACES] * 2 if looks_back else [FEWER] * 2), FEWER]
    assert [node.told[:1] for node in linear[1:3]] == [(LED_IN,) if looks_back else ()] * 2
    assert set(chart.feet) == {node.key for node in linear[: 1 if looks_back else 3]}


class Led(nn.Module):
    """A tower of words, and layers of others that begin with an unknown part, led there from the words' end or not."""

    def __init__(self, *, former=False):
        super().__init__()
        self.words, self.others, self.former = nn.Embedding(31, WIDTH), nn.Embedding(29, WIDTH), former
        self.before = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.last, self.assigning = nn.LayerNorm(WIDTH), nn.ModuleList(Assigning() for _ in range(2))

    def forward(self, ids, others):
        x, y = self.words(ids), self.others(others)
        for layer in self.before:
            x = layer(x)
        led = self.last(y if self.former else x)
        for part in self.assigning:
            y = part(y, led)
        return y


@pytest.mark.parametrize("former", [True, False])
def test_rows_of_another_tower_are_not_called_former_ones(former):
    """So it is with keys and values that a decoder whose attention is not known makes of an encoder's end."""
    trace = xray.trace(Led(former=former).eval(), torch.arange(22).view(2, PLACES), torch.arange(14).view(2, 7))

    nodes = [node for chart in list_panels(trace) for node in chart.nodes]
    assert any(node.label.startswith("1 AT") for node in nodes)
    assert any(LED_IN in node.told for node in nodes) is former


def list_panels(trace):
    panels = (panel for column in read_columns(trace) for frame in column.frames for panel in frame.panels)
    return [panel.chart for panel in panels if panel.is_open]


class Looks(nn.Module):
    """Attention and a feed-forward, of rows before the batch, or behind it."""

    def __init__(self, *, is_batch_first):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=is_batch_first)
        self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 29), nn.GELU(), nn.Linear(29, WIDTH))

    def forward(self, x):
        x = self.one(x + self.attention(x, x, x, need_weights=False)[0])
        return self.two(x + self.think(x))


class Tasked(nn.Module):
    """A stream begins as copies of one row, which is put behind them after two layers, or another one (OneFormer)."""

    def __init__(self, *, is_batch_first=False, is_same=True):
        super().__init__()
        self.task, self.other, self.axis = nn.Linear(7, WIDTH), nn.Linear(7, WIDTH), int(is_batch_first)
        self.is_same, self.norm = is_same, nn.LayerNorm(WIDTH)
        before, behind = ([Looks(is_batch_first=is_batch_first) for _ in range(number)] for number in (2, 3))
        self.before, self.behind = nn.ModuleList(before), nn.ModuleList(behind)

    def forward(self, given):
        row = self.norm(self.task(given)).unsqueeze(self.axis)
        x = torch.cat([row] * PLACES, self.axis)
        for layer in self.before:
            x = layer(x)
        x = torch.cat([x, row if self.is_same else self.other(given).unsqueeze(self.axis)], self.axis)
        for layer in self.behind:
            x = layer(x)
        return x


@pytest.mark.parametrize("is_batch_first", [True, False])
def test_a_row_that_the_stream_began_with_and_is_put_beside_it_later_has_a_box(is_batch_first):
    (column,) = read_columns(xray.trace(Tasked(is_batch_first=is_batch_first).eval(), torch.rand(2, 7)))

    (frame,) = [one for one in column.frames if one.bridge is not None]
    (node,) = frame.bridge.nodes
    assert (node.label, node.told) == (f"END TO END: {PLACES} + 1", ("1 as before the layers",))
    assert [(one.key, one.made.path) for one in frame.earlier] == [(node.key, "norm")]
    assert [bridge.beside for bridge in column.towering.tower.bridges] == [1]


def test_a_row_that_the_stream_did_not_begin_with_is_not_said_to_be_as_before():
    (column,) = read_columns(xray.trace(Tasked(is_same=False).eval(), torch.rand(2, 7)))

    made, node = next(one.bridge.nodes for one in column.frames if one.bridge is not None)
    assert (made.label, node.label, node.told) == ("LINEAR", f"END TO END: {PLACES} + 1", ())
    assert not any(one.earlier for one in column.frames)


class Meets(nn.Module):
    """Attention to other rows, or to the same ones, and a feed-forward."""

    def __init__(self):
        super().__init__()
        self.first, self.beside, self.second = (nn.LayerNorm(12) for _ in range(3))
        self.query, self.key, self.value, self.out = (nn.Linear(12, 12) for _ in range(4))
        self.up, self.down = nn.Linear(12, 31), nn.Linear(31, 12)

    def forward(self, x, others=None):
        y = self.first(x)
        z = y if others is None else self.beside(others)
        pairs = ((self.query, y), (self.key, z), (self.value, z))
        query, key, value = (make(one).unflatten(-1, (2, 6)).transpose(1, 2) for make, one in pairs)
        found = (query @ key.mT / 6**0.5).softmax(-1) @ value
        x = x + self.out(found.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Tracks(nn.Module):
    """Learned tracks beside points; then the tracks look at the points, at each other, and points at them (CoTracker).

    Over `frames` each track looks at itself before that; else all rows of a frame look at each other.
    """

    def __init__(self, frames):
        super().__init__()
        self.lead, self.head, self.frames = nn.Linear(7, 12), nn.Linear(12, 3), frames
        self.near, self.there, self.own, self.back = (nn.ModuleList(Meets() for _ in range(2)) for _ in range(4))
        self.rows = nn.Parameter(torch.rand(1, 4, 12))

    def turn(self, x):
        return x.unflatten(0, (2, -1)).transpose(1, 2).flatten(0, 1) if self.frames > 1 else x

    def forward(self, points):
        x = torch.cat([self.lead(points), self.rows.expand(len(points), -1, -1)], 1)
        for near, there, own, back in zip(self.near, self.there, self.own, self.back, strict=True):
            x = self.turn(near(self.turn(x)))
            seen, tracks = x[:, :6], x[:, 6:]
            tracks = own(there(tracks, seen))
            x = torch.cat([back(seen, tracks), tracks], 1)
        return self.head(x[:, :6])


@pytest.mark.parametrize(("frames", "sources"), [(1, ["self", FORMER_ROWS, "self"] * 2), (5, ["self"])])
def test_no_part_of_a_stream_that_looks_at_another_part_looks_at_itself(frames, sources):
    """Where several such attentions stand in one branch, it is not told what that is."""
    torch.manual_seed(0)
    trace = xray.trace(Tracks(frames).eval(), torch.rand(2 * frames, 6, 7))
    branches = [one for tower in xray.anatomy(trace).towers for one in tower.branches]

    assert [one.source for one in branches if isinstance(one, Attended)] == sources
    assert any(isinstance(one, Unknown) for one in branches) == (frames > 1)
