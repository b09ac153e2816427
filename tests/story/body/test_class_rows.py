"""A class row that goes by an attention of the same place at all times, and is copied in front of each picture's."""

import pytest
import torch
from handwritten import Attention
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sentences.stations.of_stages import describe_stage
from xray.story.sheet.columns import read_columns

BATCH, TIMES, PLACES = 2, 3, 5


class InTimeThenSpace(nn.Module):
    """Rows of all pictures, a class in front: each place looks along time, then each picture at itself and the class.

    Behind that the copies of the class become one: their mean, the first of them, or what `make_one` makes of them.
    """

    def __init__(self, *, make_one=lambda copies: copies.mean(1, True), shifts=False):
        super().__init__()
        self.in_time, self.in_space, self.make_one = Attention(WIDTH, 3), Attention(WIDTH, 3), make_one
        self.norm, self.other, self.shifts = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), shifts

    def forward(self, x):
        batch, rest = len(x), x[:, 1:]
        rows = self.norm((x[:, :-1] if self.shifts else rest).reshape(batch * PLACES, TIMES, WIDTH))
        rest = rest + self.in_time(rows, rows).reshape(batch, PLACES * TIMES, WIDTH)
        first = x[:, 0, :].unsqueeze(1)
        copies = first.repeat(1, TIMES, 1).reshape(batch * TIMES, 1, WIDTH)
        seen = rest.reshape(batch, PLACES, TIMES, WIDTH).permute(0, 2, 1, 3).reshape(batch * TIMES, PLACES, WIDTH)
        seen = self.other(torch.cat((copies, seen), 1))
        made = self.in_space(seen, seen)
        copies = made[:, 0, :].reshape(batch, TIMES, WIDTH)
        copies = self.make_one(copies)
        made = made[:, 1:, :].reshape(batch, TIMES, PLACES, WIDTH).permute(0, 2, 1, 3)
        return torch.cat((first, rest), 1) + torch.cat((copies, made.reshape(batch, PLACES * TIMES, WIDTH)), 1)


def read_stages(**given):
    layers = (part for _ in range(2) for part in (InTimeThenSpace(**given), FeedForwardPart()))
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers)
    trace = xray.trace(model.eval(), torch.rand(BATCH, 1 + PLACES * TIMES, 7))
    (column,) = read_columns(trace)
    return [panel.chart for panel in column.phases[0].frames[0].panels]


def labels_of(chart):
    return [node.label for node in sorted(chart.nodes, key=lambda node: node.row)]


def test_a_row_that_goes_by_an_attention_is_put_in_front_of_the_others_again():
    in_time, *_ = map(labels_of, read_stages())

    assert in_time[:3] == ["ALL ROWS BUT THE FIRST", f"CUT INTO WINDOWS OF {TIMES}", "LAYER NORM"]
    assert in_time[-2:] == ["ADD", f"END TO END: 1 + {PLACES * TIMES}"]


def test_a_row_that_is_copied_in_front_of_windows_is_drawn_before_and_behind_their_attention():
    _, chart, _ = read_stages()
    in_space = labels_of(chart)

    begin = [
        f"THE FIRST ROW, {TIMES} TIMES",
        f"CUT INTO WINDOWS OF {PLACES}",
        f"END TO END: 1 + {PLACES}",
        "LAYER NORM",
    ]
    ending = [f"THE FIRST ROWS: MEAN OF {TIMES}", "WINDOWS JOINED", f"END TO END: 1 + {PLACES * TIMES}", "ADD"]
    assert (in_space[:4], in_space[-4:]) == (begin, ending)
    assert chart.feet == ("copied", "cut")
    assert chart.node("cut").told == ("of all rows but the first",)


def test_a_mean_without_an_axis_for_what_it_is_of_is_the_same():
    _, in_space, _ = map(labels_of, read_stages(make_one=lambda copies: copies.mean(-2).unsqueeze(1)))

    assert f"THE FIRST ROWS: MEAN OF {TIMES}" in in_space


@pytest.mark.parametrize(
    "given",
    [
        {"make_one": lambda copies: copies[:, :1]},
        {"make_one": lambda copies: copies.reshape(TIMES, BATCH, WIDTH).mean(0).unsqueeze(1)},
        {"make_one": lambda copies: copies.reshape(BATCH, WIDTH, TIMES).mean(-1).unsqueeze(1)},
        {"shifts": True},
    ],
    ids=["first", "of other sequences", "of other numbers", "shifted"],
)
def test_rows_that_go_another_way_are_not_told_so(given):
    in_time, in_space, _ = map(labels_of, read_stages(**given))

    assert ("ALL ROWS BUT THE FIRST" in in_time) != ("shifts" in given)
    assert any("MEAN OF" in one for one in in_space) != ("make_one" in given)


class FirstRowsLook(nn.Module):
    """The first rows look at each other, the others go by (RegionViT)."""

    def __init__(self):
        super().__init__()
        self.norm, self.look = nn.LayerNorm(WIDTH), Attention(WIDTH, 3)

    def forward(self, x):
        first, rest = x[:, :TIMES], x[:, TIMES:]
        rows = self.norm(first)
        return torch.cat((first + self.look(rows, rows), rest), 1)


def test_no_place_is_told_to_look_at_every_other_where_some_rows_alone_are_taken():
    layers = (part for _ in range(2) for part in (FirstRowsLook(), FeedForwardPart()))
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers).eval()
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(BATCH, TIMES + PLACES, 7))).towers

    told = {describe_stage(tower, stage) for group in tower.groups for stage in group.stages}
    assert told == {"Places look at other places.", "Each place alone, wider and back."}


class ClassLooks(nn.Module):
    """The first row looks at all, or at those that a mask shows; the others go by (VOLO)."""

    def __init__(self, *, hides):
        super().__init__()
        self.norm, self.look, self.hides = nn.LayerNorm(WIDTH), Attention(WIDTH, 3), hides

    def forward(self, x):
        rows = self.norm(x)
        hidden = torch.arange(x.shape[1])[None] > TIMES if self.hides else None
        return torch.cat((x[:, :1] + self.look(rows[:, :1], rows, hidden), x[:, 1:]), 1)


@pytest.mark.parametrize(
    ("hides", "told_of"), [(False, "One row looks at all."), (True, "Places look at those that they may see.")]
)
def test_one_row_that_looks_at_all_is_told_so(hides, told_of):
    layers = (part for _ in range(2) for part in (ClassLooks(hides=hides), FeedForwardPart()))
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers).eval()
    (tower,) = xray.anatomy(xray.trace(model, torch.rand(BATCH, TIMES + PLACES, 7))).towers

    told = {describe_stage(tower, stage) for group in tower.groups for stage in group.stages}
    assert told == {told_of, "Each place alone, wider and back."}


class Convolved(nn.Module):
    """A map is convolved and added to itself, the class in front left as it is; behind that all rows look (CoaT)."""

    def __init__(self):
        super().__init__()
        self.near, self.norm, self.look = (
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
            nn.LayerNorm(WIDTH),
            Attention(WIDTH, 3),
        )

    def forward(self, x):
        maps = x[:, 1:].mT.unflatten(2, (TIMES, PLACES))
        x = torch.cat((x[:, :1], (maps + self.near(maps)).flatten(2).mT), 1)
        rows = self.norm(x)
        return x + self.look(rows, rows)


@pytest.fixture(scope="module")
def convolved():
    model = nn.Sequential(nn.Linear(7, WIDTH), *(part for _ in range(3) for part in (Convolved(), FeedForwardPart())))
    (column,) = read_columns(xray.trace(model.eval(), torch.rand(BATCH, 1 + PLACES * TIMES, 7)))
    return column.towering


def test_a_stream_goes_on_behind_a_sum_of_all_rows_but_the_first(convolved):
    (group,) = convolved.tower.groups

    parts = [stage.branches[0].part for stage in group.stages]
    assert (group.count, parts) == (3, ["convolution", "attention", "feed_forward"])


def test_rows_that_the_first_sum_alone_takes_are_not_taken_before_all_layers(convolved):
    taken = convolved.layers[0][0].taken

    assert taken is not None
    assert taken not in convolved.entrance
