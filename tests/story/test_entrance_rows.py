"""Rows that a stream begins with and no word stands for: learned ones, held ones, rows put in front or behind."""

from functools import partial

import pytest
import torch
from handwritten import Attention, Layer
from story.entrances import OTHER, WIDTH, Words, labels_of, make_layers, read
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.entrance.entrance import walk_back
from xray.story.sheet.columns import read_columns


class Repeated(nn.Module):
    """Rows that stand for others that were not given, again and again before those that were (MusicGen Melody)."""

    def __init__(self, rows):
        super().__init__()
        self.rows, self.lead, self.layers = rows, nn.Linear(OTHER, WIDTH), make_layers(WIDTH, 3)

    def forward(self, rows):
        x = self.lead(rows)
        x = torch.cat([x[:, : self.rows].repeat(1, 6 // self.rows, 1), x], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("rows", "label"), [(1, "ONE ROW, 6 TIMES"), (2, "2 ROWS, 3 TIMES")])
def test_rows_that_are_repeated_before_a_stream_begins_have_a_box(rows, label):
    _, chart = read(lambda: Repeated(rows), torch.rand(2, 7, OTHER))

    assert label in labels_of(chart)


class Registers(nn.Module):
    """Learned rows put behind the first of those of an image, the others behind them (DINOv2 with registers)."""

    def __init__(self, first):
        super().__init__()
        self.patches, self.layers, self.first = nn.Conv2d(3, WIDTH, 4, stride=4), make_layers(WIDTH, 3), first
        self.registers = nn.Parameter(torch.rand(1, 2, WIDTH))

    def forward(self, image):
        x = self.patches(image).flatten(2).mT
        own = self.registers.expand(len(x), -1, -1)
        x = torch.cat([x[:, :1], own, x[:, 1:]] if self.first else [x[:, :-1], own, x[:, -1:]], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("first", "end"), [(True, "THE FIRST"), (False, "THE LAST")])
def test_both_parts_of_rows_that_are_cut_and_put_together_again_have_a_box(first, end):
    _, chart = read(lambda: Registers(first), torch.rand(2, 3, 8, 8))

    (joined,) = (node for node in chart.nodes if node.record.shape == (2, 6, WIDTH))
    labels = {node.key: node.label for node in chart.nodes}
    parts = {labels[edge.source] for edge in chart.edges if edge.target == joined.key}
    assert parts == {f"{end} ROW", f"ALL ROWS BUT {end}"}


class Latents(nn.Module):
    """Rows that are learned, or lie there, through layers that look at each other (Perceiver)."""

    def __init__(self, *, learned=True):
        super().__init__()
        rows = torch.rand(6, WIDTH)
        self.rows = nn.Parameter(rows) if learned else nn.Buffer(rows)
        self.layers = make_layers(WIDTH, 3)

    def forward(self, x):
        rows = self.rows.expand(len(x), -1, -1)
        for layer in self.layers:
            rows = layer(rows)
        return rows + x


def test_a_stream_that_begins_as_learned_rows_has_them_at_its_foot():
    _, chart = read(Latents, torch.rand(2, 1, WIDTH))
    assert labels_of(chart) == ["6 LEARNED ROWS"]

    _, chart = read(lambda: Latents(learned=False), torch.rand(2, 1, WIDTH))
    assert chart is None or "6 LEARNED ROWS" not in labels_of(chart)


class SomeLatents(Latents):
    """The same with the first rows of a table alone (LW-DETR, which learns with all of them)."""

    def forward(self, x):
        rows = self.rows[:4].unsqueeze(0).expand(len(x), -1, -1)
        for layer in self.layers:
            rows = layer(rows)
        return rows + x


def test_learned_rows_that_are_some_of_a_table_say_of_how_many():
    _, chart = read(SomeLatents, torch.rand(2, 1, WIDTH))
    assert labels_of(chart) == ["4 OF 6 LEARNED ROWS"]


class Marked(nn.Module):
    """Learned rows in front of an image's and behind it, and numbers of two kinds put into one row (HunYuan-VL)."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.start, self.end = (nn.Parameter(torch.rand(1, 1, WIDTH)) for _ in range(2))
        self.spread, self.layers = nn.Linear(4, WIDTH), make_layers(WIDTH, 3)

    def forward(self, image, number):
        seen = self.patches(image).flatten(2).mT
        start, end = (one.expand(len(seen), -1, -1) for one in (self.start, self.end))
        seen = torch.cat([start, seen, end], 1)
        x = seen + self.spread(torch.cat([number.log(), number.abs().expand(-1, 3)], 1)).unsqueeze(1)
        for layer in self.layers:
            x = layer(x)
        return x


class Registered(nn.Module):
    """Learned rows put between the first row and all others (registers, DINOv2)."""

    def __init__(self):
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Parameter(torch.rand(1, 4, WIDTH))
        self.registers, self.layers = nn.Parameter(torch.rand(1, 2, WIDTH)), make_layers(WIDTH, 3)

    def forward(self, image):
        seen = self.patches(image).flatten(2).mT + self.places
        x = torch.cat([seen[:, :1], self.registers.expand(len(seen), -1, -1), seen[:, 1:]], 1)
        for layer in self.layers:
            x = layer(x)
        return x


def test_learned_rows_between_others_are_told():
    _, chart = read(Registered, torch.rand(2, 3, 8, 8))

    assert "END TO END: 1 + 2 LEARNED + 3" in labels_of(chart)


class Fitted(Registered):
    """Places held for more pieces than come in, resized to these, behind one of the first row (DINOv2)."""

    def __init__(self):
        super().__init__()
        self.first, self.wide = nn.Parameter(torch.rand(1, 1, WIDTH)), nn.Parameter(torch.rand(1, WIDTH, 3, 3))

    def forward(self, image):
        self.places, seen = None, self.patches(image).flatten(2).mT
        fitted = nn.functional.interpolate(self.wide, size=(2, 2), mode="bicubic").flatten(2).mT
        x = torch.cat([self.first.expand(len(seen), -1, -1), seen], 1) + torch.cat([self.first, fitted], 1)
        for layer in self.layers:
            x = layer(x)
        return x


def test_rows_that_were_resized_are_not_told_as_so_many_learned_ones():
    _, chart = read(Fitted, torch.rand(2, 3, 8, 8))

    assert "END TO END: 1 LEARNED + 4 RESIZED" in labels_of(chart)


class Placed(Registered):
    """A learned row with a place of its own, of the table of those of all pieces, stands before these, or behind."""

    def __init__(self, *, first):
        super().__init__()
        self.first, self.kind = first, nn.Parameter(torch.rand(1, 1, WIDTH))
        self.table = nn.Parameter(torch.rand(1, 5, WIDTH), requires_grad=False)

    def forward(self, image):
        seen = self.patches(image).flatten(2).mT + self.table[:, 1:]
        kind = (self.kind + self.table[:, :1]).expand(len(seen), -1, -1)
        x = torch.cat([kind, seen] if self.first else [seen, kind], 1)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("first", "where"), [(True, "IN FRONT"), (False, "BEHIND")])
def test_a_learned_row_with_its_place_is_told_and_where_it_stands(first, where):
    torch.manual_seed(0)
    _, chart = read(partial(Placed, first=first), torch.rand(2, 3, 8, 8))

    assert {"+ A LEARNED ROW", f"WITH ONE MORE ROW {where}"} <= {*labels_of(chart)}


class Filled(nn.Module):
    """One row that was given, and copies of a learned one for those that were not (masked trajectory models)."""

    def __init__(self):
        super().__init__()
        self.lead, self.layers = nn.Linear(OTHER, WIDTH), make_layers(WIDTH, 3)
        self.hidden = nn.Parameter(torch.rand(1, 1, WIDTH))

    def forward(self, rows):
        x = self.lead(rows[:, :1])
        x = torch.cat([x, self.hidden.repeat(len(x), rows.shape[1] - 1, 1)], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_row_that_copies_of_a_learned_one_are_put_behind_is_no_row_more():
    _, chart = read(Filled, torch.rand(2, 7, OTHER))

    assert "END TO END" in labels_of(chart)
    assert not any(label.startswith("WITH ONE MORE ROW") for label in labels_of(chart))


def test_learned_rows_in_front_and_behind_are_both_told():
    _, chart = read(Marked, torch.rand(2, 3, 8, 8), torch.rand(2, 1))

    assert "LEARNED ROWS BESIDE: 4 + 2" in labels_of(chart)


def test_numbers_beside_each_other_in_one_row_are_no_more_rows():
    _, chart = read(Marked, torch.rand(2, 3, 8, 8), torch.rand(2, 1))

    assert "SIDE BY SIDE" in labels_of(chart)
    assert not any(label.startswith("WITH ONE MORE ROW") for label in labels_of(chart))


class Tiled(nn.Module):
    """Rows of tiles: a norm, held places by how far a gate is open, and rows of nothing behind those of each."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.layers = nn.Linear(7, WIDTH), nn.LayerNorm(WIDTH), make_layers(WIDTH, 3)
        self.gate, self.places = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.rand(5, WIDTH))

    def forward(self, tiles):
        x = self.norm(self.first(tiles)) + ((1 - self.gate.tanh()) * self.places).view(1, 1, 5, WIDTH)
        x = nn.functional.pad(x, (0, 0, 0, 3)).flatten(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_rows_of_nothing_behind_those_of_each_tile_have_a_box():
    _, chart = read(Tiled, torch.rand(2, 4, 5, 7))

    assert labels_of(chart)[-2:] == ["+ GATED LEARNED PLACES", "PADDED TO 8 ROWS"]


def test_gated_places_are_counted_with_their_gate():
    _, chart = read(Tiled, torch.rand(2, 4, 5, 7))

    [places] = (node for node in chart.nodes if "PLACES" in node.label)
    assert (places.label, places.extra) == ("+ GATED LEARNED PLACES", "76 parameters")


class CutSeries(nn.Module):
    """Two series of one signal side by side, the longer one cut to the length of the other (NeuCodec)."""

    def __init__(self, part):
        super().__init__()
        self.fine, self.coarse = nn.Conv1d(OTHER, 5, 3, padding=1), nn.Conv1d(OTHER, WIDTH - 5, 3, stride=2, padding=1)
        self.layers, self.part = make_layers(WIDTH, 3), part

    def forward(self, series):
        x = torch.cat([self.fine(series)[..., self.part], self.coarse(series)], dim=1).mT
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("part", "label"), [(slice(7), "THE FIRST 7 OF 13 PLACES"), (slice(6, None), "ALL PLACES BUT THE FIRST 6")]
)
def test_places_that_are_cut_off_a_series_have_a_box(part, label):
    _, chart = read(lambda: CutSeries(part), torch.rand(2, OTHER, 13))

    assert label in labels_of(chart)


class Asked(nn.Module):
    """Rows of yes and no, which numbers or whole numbers are compared for, go on as numbers (Nemotron 3.5)."""

    def __init__(self, whole):
        super().__init__()
        self.first, self.last, self.whole = nn.Linear(7, 11), nn.Linear(11, 13), whole

    def forward(self, x):
        said = self.first(x).sigmoid()
        return self.last(((said * 5).long() > 2 if self.whole else said > 0.5).float())


@pytest.mark.parametrize(("whole", "linears"), [(False, 2), (True, 1)])
def test_an_entrance_goes_back_behind_numbers_that_are_compared_for_yes_and_no(whole, linears):
    flow = read_flow(xray.trace(Asked(whole), torch.rand(2, 5, 7)).passes[0])
    start = max(node for node in range(len(flow.steps)) if flow.is_leaf(node))

    assert [flow.op(node) for node in walk_back(flow, start, ())].count("linear") == linears


class Widened(nn.Module):
    """Rows that two linear layers, and one beside them, bring to the width of the layers; a row stands behind these."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.past = nn.Linear(5, 22), nn.Linear(22, 12), nn.Linear(5, 12)
        self.marks = nn.Embedding(2, 12)
        self.layers = nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in range(2))

    def forward(self, x):
        x = self.back(self.wide(x).relu()) + self.past(x)
        x = torch.cat([x, self.make_row(len(x))], dim=1)
        for layer in self.layers:
            x = layer(x)
        return x

    def make_row(self, count):
        return self.marks(torch.full((count, 1), 1))


class Lengthened(Widened):
    """The same, where the row is learned itself, and times a number (VideoPrism)."""

    def __init__(self):
        super().__init__()
        self.row = nn.Parameter(torch.ones(1, 1, 12))

    def make_row(self, count):
        return (self.row * 12**0.5).expand(count, 1, 12)


def test_a_row_behind_those_that_a_sum_brought_to_the_width_of_the_layers_has_a_box():
    (tower,) = read_columns(xray.trace(Widened(), torch.randn(2, 7, 5)))
    nodes = {node.label: node for node in tower.entrance.nodes}

    assert tower.entrance.nodes[-1].label == "WITH ONE MORE ROW BEHIND"
    assert nodes["WITH ONE MORE ROW BEHIND"].record.shape == (2, 8, 12)
    assert nodes["LOOKUP IN 2 ROWS"].extra == "24 parameters"


def test_a_learned_row_that_is_multiplied_by_a_number_first_counts_where_it_is_put():
    (tower,) = read_columns(xray.trace(Lengthened(), torch.randn(2, 7, 5)))

    assert {node.label: node.extra for node in tower.entrance.nodes}["WITH ONE MORE ROW BEHIND"] == "12 parameters"


class SomeCodes(nn.Module):
    """All codes of a place are looked up and laid side by side, and the first few of them added up (Bark)."""

    def __init__(self, read):
        super().__init__()
        self.read, self.tables = read, nn.ModuleList(nn.Embedding(31, WIDTH) for _ in range(5))
        self.layers = make_layers(WIDTH, 2)

    def forward(self, codes):
        found = [table(codes[:, :, number])[..., None] for number, table in enumerate(self.tables)]
        x = torch.cat(found, dim=-1)[:, :, :, : self.read].sum(dim=-1)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("few", "told"), [(3, "SIDE BY SIDE, THE FIRST 3 OF 5 READ"), (5, "SIDE BY SIDE")])
def test_it_is_said_that_the_first_of_what_lies_side_by_side_alone_are_read(few, told):
    (tower,) = read_columns(xray.trace(SomeCodes(few), torch.randint(31, (2, 7, 5))))

    assert [one for one in labels_of(tower.entrance) if one.startswith("SIDE BY SIDE")] == [told]


class CutBehind(Words):
    """A convolution of the last places on the way of the words, of which the end is cut off by a count."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 4, padding=3, groups=WIDTH)

    def forward(self, ids):
        x = self.mix(self.words(ids).mT)[:, :, :-3].mT
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_cut_behind_a_convolution_stands_in_one_box():
    _, chart = read(CutBehind, torch.arange(14).view(2, 7))
    cuts = [node for node in chart.nodes if any(step.op == "index" for step in node.steps)]

    assert [node.label for node in cuts] == ["CONVOLUTION OF THE LAST 4 BY CHANNEL"]
    assert "ALL PLACES BUT THE LAST 3" not in labels_of(chart)
