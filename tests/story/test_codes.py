"""Rows told by the nearest code of a book: what picks it is one box, and leads to where codes are looked up."""

from itertools import pairwise

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.poster import compose_poster

WIDTH, SIGN, CODES = 15, 7, 11


def make_layers(count):
    return nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(count))


class Tells(nn.Module):
    """Patches through two layers, each told by a code; rows of these are put among words (Emu3, Chameleon)."""

    def __init__(self, *, has_squares=True):
        super().__init__()
        self.patches, self.eye, self.project = nn.Conv2d(3, WIDTH, 4, stride=4), make_layers(2), nn.Linear(WIDTH, 5)
        self.book, self.has_squares = nn.Parameter(torch.rand(CODES, 5)), has_squares
        self.words, self.layers = nn.Embedding(31, WIDTH), make_layers(3)

    def forward(self, ids, image):
        seen = self.patches(image).flatten(2).mT
        for layer in self.eye:
            seen = layer(seen)
        rows = self.project(seen).reshape(-1, 5)
        book = self.book if self.has_squares else self.book.abs()
        squares = torch.sum(rows**2, dim=1, keepdim=True) + torch.sum(book**2, dim=1)
        far = squares - 2 * torch.matmul(rows, self.book.transpose(0, 1))
        codes = torch.argmin(far, dim=1)
        x = self.words(ids).masked_scatter((ids == SIGN).unsqueeze(-1), self.words(codes + 20))
        for layer in self.layers:
            x = layer(x)
        return x


def compose(**options):
    torch.manual_seed(0)
    ids = torch.arange(8, 22).view(2, 7)
    ids[:, 1:5] = SIGN
    return compose_poster(xray.trace(Tells(**options), ids, torch.rand(2, 3, 8, 8)), text_width)


def text_of(box):
    return " ".join("".join(run.text for run in line) for line in box.lines)


@pytest.mark.parametrize(("has_squares", "told"), [(True, 1), (False, 0)])
def test_the_nearest_code_is_one_box_where_it_is_proven(has_squares, told):
    words = [text_of(box) for box in compose(has_squares=has_squares).boxes]

    assert len([one for one in words if one.startswith(f"THE NEAREST OF {CODES} CODES")]) == told


def test_codes_that_are_picked_lead_to_where_they_are_looked_up():
    layout = compose()
    (picked,) = [box for box in layout.boxes if text_of(box).startswith("THE NEAREST OF")]
    ways = [curve.points for curve in layout.curves if curve.role == curve.kind == "ribbon"]

    assert [way[0] for way in ways] == [(picked.x, picked.top)]
    assert [text_of(box) for box in layout.boxes if ways[0][-1] in ((box.left, box.y), (box.right, box.y))] == [
        f"TABLE LOOKUP 8×{WIDTH}  {31 * WIDTH} parameters"
    ]


class Hears(nn.Module):
    """Layers on the sum of the rows of all codes that a place has, or of the one word that it has (CSM)."""

    def __init__(self):
        super().__init__()
        self.table, self.layers = nn.Embedding(31, WIDTH), make_layers(3)

    def forward(self, ids):
        x = self.table(ids)
        x = x.sum(dim=2) if x.ndim == 4 else x
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("shape", "name"), [((2, 7, 3), "stack"), ((2, 7), "tokens")])
def test_several_ids_for_each_place_need_not_be_those_of_a_text(shape, name):
    ids = torch.randint(31, shape, generator=torch.Generator().manual_seed(0))

    assert [tower.name for tower in xray.anatomy(xray.trace(Hears(), ids)).towers] == [name]


class Recoded(nn.Module):
    """Codes of what one stack gives, two for each place, and a stack on the sum of their rows (X-Codec)."""

    def __init__(self):
        super().__init__()
        self.lay, self.first, self.then = nn.Linear(7, WIDTH), make_layers(2), make_layers(2)
        self.books = nn.ParameterList(torch.rand(CODES, WIDTH) for _ in range(2))

    def forward(self, x):
        x = self.lay(x)
        for layer in self.first:
            x = layer(x)
        codes = torch.stack([(x @ book.T).max(dim=-1).indices for book in self.books])
        x = sum(nn.functional.embedding(own, book) for own, book in zip(codes, self.books, strict=True))
        for layer in self.then:
            x = layer(x)
        return x


def test_codes_that_were_worked_out_do_not_come_in():
    torch.manual_seed(0)
    (reading,) = read_passes(xray.trace(Recoded(), torch.rand(2, 5, 7)))
    charts = [chart_entrance(reading.flow, one) for one in reading.towers]

    assert [next(node.label for node in chart.nodes) for chart in charts] == ["VECTORS", "TABLE LOOKUP"]


class LeftOver(nn.Module):
    """A stack on rows told by codes three times, each of what those before left over of what another stack gives.

    Codes may be compared `narrow` and by direction alone (DAC); those that are `far` are the worst ones.
    """

    def __init__(self, *, narrow=False, far=False):
        super().__init__()
        self.lay, self.first, self.then, self.far = nn.Linear(7, WIDTH), make_layers(2), make_layers(2), far
        self.books = nn.ParameterList(torch.rand(CODES, 5 if narrow else WIDTH) for _ in range(3))
        self.down = nn.ModuleList(nn.Linear(WIDTH, 5) for _ in range(3)) if narrow else None
        self.up = nn.ModuleList(nn.Linear(5, WIDTH) for _ in range(3))

    def forward(self, x):
        x = self.lay(x)
        for layer in self.first:
            x = layer(x)
        left = x
        told: torch.Tensor | float = 0.0
        for number, book in enumerate(self.books):
            rows, codes = left, book
            if self.down is not None:
                rows = self.down[number](left)
                codes, compared = nn.functional.normalize(book), nn.functional.normalize(rows, dim=-1)
            else:
                compared = rows
            far = compared.pow(2).sum(-1, keepdim=True) - 2 * compared @ codes.T + codes.pow(2).sum(-1)
            own = nn.functional.embedding((far if self.far else -far).max(dim=-1).indices, book)
            own = own if self.down is None else self.up[number](rows + (own - rows).detach())
            left, told = left - own, told + own
        for layer in self.then:
            told = layer(told)
        return told


def chart_left_over(**options):
    torch.manual_seed(0)
    (reading,) = read_passes(xray.trace(LeftOver(**options), torch.rand(2, 3, 7)))
    return chart_entrance(reading.flow, reading.towers[1])


@pytest.mark.parametrize(
    ("narrow", "label"),
    [
        (False, f"3 TIMES: THE NEAREST OF {CODES} CODES"),
        (True, f"3 TIMES: LINEAR; THE NEAREST OF {CODES} CODES, BY DIRECTION; LINEAR"),
    ],
)
def test_codes_of_what_is_left_over_are_one_box(narrow, label):
    chart = chart_left_over(narrow=narrow)

    assert [(node.label, node.told) for node in chart.nodes] == [
        (label, ("each of what those before leave over", "what all look up is added up"))
    ]


def test_codes_of_what_is_left_over_count_their_parameters_once():
    (node,) = chart_left_over(narrow=True).nodes

    assert node.extra == f"{3 * (CODES * 5 + WIDTH * 5 + 5 + 5 * WIDTH + WIDTH):,} parameters"


def test_codes_that_are_the_farthest_are_not_the_nearest():
    assert [node.label for node in chart_left_over(far=True).nodes if "NEAREST" in node.label] == []


class Once(LeftOver):
    """A stack on rows told by the nearest code, once."""

    def forward(self, x):
        x = self.lay(x)
        for layer in self.first:
            x = layer(x)
        x = self.up[0](nn.functional.embedding(torch.cdist(self.down[0](x), self.books[0]).argmin(-1), self.books[0]))
        for layer in self.then:
            x = layer(x)
        return x


def test_a_lone_code_is_picked_of_what_another_stack_gives():
    torch.manual_seed(0)
    (reading,) = read_passes(xray.trace(Once(narrow=True), torch.rand(2, 3, 7)))
    chart = chart_entrance(reading.flow, reading.towers[1])

    labels = ["LINEAR", f"THE NEAREST OF {CODES} CODES", "TABLE LOOKUP", "LINEAR"]
    assert [node.label for node in chart.nodes] == labels
    assert [(edge.source, edge.target) for edge in chart.edges] == [
        (one.key, other.key) for one, other in pairwise(chart.nodes)
    ]


class Bent(Once):
    """A stack on the rows of the nearest codes, beside a bend of those that are told by them, moved before both.

    Codes may be compared by direction alone, and the bend be of rows of the length 1.
    """

    in_direction = False

    def forward(self, x):
        x = self.lay(x)
        for layer in self.first:
            x = layer(x)
        rows, book = self.down[0](x).flatten(0, 1), self.books[0]
        if self.in_direction:
            rows = nn.functional.normalize(rows, dim=-1)
            codes = (rows @ nn.functional.normalize(book, dim=-1).T).argmax(-1)
        else:
            codes = torch.cdist(rows, book).argmin(-1)
        x = self.up[0]((nn.functional.embedding(codes, book) + rows.tanh()).unflatten(0, x.shape[:2]))
        for layer in self.then:
            x = layer(x)
        return x


@pytest.mark.parametrize("in_direction", [False, True])
def test_what_reads_the_rows_that_are_compared_reads_none_of_the_codes(in_direction):
    torch.manual_seed(0)
    model = Bent(narrow=True)
    model.in_direction = in_direction
    (reading,) = read_passes(xray.trace(model, torch.rand(2, 3, 7)))
    chart = chart_entrance(reading.flow, reading.towers[1])
    labels = {node.key: node.label for node in chart.nodes}

    assert [labels[edge.source] for edge in chart.edges if labels[edge.target] == "TANH"] == ["LINEAR"]
