"""What leaves a tower as layers give it: drawn below or beside its exit, and told."""

from functools import partial

import pytest
import torch
from printed import words_of
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from story.parameter_bars import bars_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns

WIDE = 19


class Merger(nn.Module):
    """A norm, and two linear layers that lead to another width."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x):
        return self.back(torch.relu(self.wide(self.norm(x))))


class Taps(Reader):
    """Rows behind two earlier layers are merged as the last ones are, each by weights of its own (Qwen3-VL's eye)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.earlier = nn.ModuleList(Merger() for _ in range(2))
        self.last: nn.Module = Merger()

    def forward(self, x, kind=None):
        x, taken = self.project(x), []
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number in (1, 3):
                taken.append(self.take(len(taken), x))
        return self.give(self.last(x), taken, x)

    def take(self, number, x):
        return self.earlier[number](x)

    def give(self, made, taken, rows):
        return made, taken


class HandsOut(Taps):
    """Rows behind earlier layers leave as they are (the eye of SAM-HQ)."""

    def take(self, number, x):
        return x


class HandsOutLast(HandsOut):
    """Rows behind the last layer leave as they are too, beside what is made of them."""

    def give(self, made, taken, rows):
        return made, (*taken, rows)


class NormsLast(HandsOutLast):
    """What the last layer gives leaves as it is, and goes through the last norm and a head."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDE)

    def give(self, made, taken, rows):
        return self.head(made), (*taken, rows)


class PutsTogether(Taps):
    """What earlier layers gave goes into one thing."""

    def give(self, made, taken, rows):
        return made, torch.cat(taken, dim=-1)


class KeepsBack(Taps):
    """What is worked out of earlier layers is never handed out."""

    def give(self, made, taken, rows):
        return made


def record(make, count=4):
    torch.manual_seed(0)
    layers = [part() for _ in range(count) for part in (AttentionPart, FeedForwardPart)]
    return xray.trace(make(*layers).eval(), rows())


def list_told(trace):
    return [one for one in list_sentences(xray.anatomy(trace)) if "handed out" in one]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Taps, ["Behind layers 1, 2, something is handed out too, before the last layer."]),
        (HandsOut, ["Behind layers 1, 2, something is handed out too, before the last layer."]),
        (HandsOutLast, ["Behind layers 1, 2, 4, something is handed out too."]),
        (NormsLast, ["Behind layers 1, 2, 4, something is handed out too."]),
        (PutsTogether, []),
        (KeepsBack, []),
    ],
)
def test_what_leaves_before_the_last_layer_is_told(make, told):
    assert list_told(record(make)) == told


class NormedToo(NormsLast):
    """What the last norm gives leaves too, and goes through a head."""

    def give(self, made, taken, rows):
        return self.head(made), (*taken, made)


@pytest.mark.parametrize(
    ("make", "told"),
    [(HandsOut, " before the last"), (Taps, " before the last"), (NormedToo, " before the last"), (HandsOutLast, "")],
)
def test_every_layer_may_do_so_or_every_one_before_the_last(make, told):
    too = " too" * bool(told)
    assert list_told(record(make, 3)) == [f"Behind every layer{told} something is handed out{too}."]


def test_what_is_worked_out_of_earlier_layers_stands_beside_the_exit():
    trace = record(Taps)
    (column,) = read_columns(trace)
    lane = [node for node in column.exit.nodes if node.place[0] > 0.5]

    assert [node.label for node in lane] == ["WHAT LAYER 2 GAVE", "LAYER NORM", "LINEAR", "ReLU", "LINEAR"]
    assert lane[0].told == ("as behind layer 1",)
    assert {node.place[0] for node in column.exit.nodes} == {0.25, 0.75}
    assert "Not drawn" not in words_of(compose_poster(trace, text_width))


def test_what_is_worked_out_of_earlier_layers_is_counted_once_for_all():
    merger = sum(one.numel() for one in Merger().parameters())
    bars = bars_of(compose_poster(record(Taps), text_width))

    assert bars["handed out × 2"] == 2 * merger
    assert bars["head"] == merger
    assert "all else" not in bars


@pytest.mark.parametrize("make", [HandsOut, PutsTogether, KeepsBack])
def test_nothing_stands_there_where_nothing_is_worked_out_and_handed_out(make):
    (column,) = read_columns(record(make))

    assert not [node for node in column.exit.nodes if node.label.startswith("WHAT LAYER")]


class PoolsFirst(Reader):
    """The first of the rows that the last layer gives is normalised, and all may be handed out beside (CLIP's eye)."""

    def __init__(self, *layers, give):
        super().__init__(*layers)
        self.norm, self.give = nn.LayerNorm(WIDTH), give

    def forward(self, x, kind=None):
        x = super().forward(x, kind)
        return self.give(self.norm(x[:, 0]), x)


@pytest.mark.parametrize(
    ("give", "told"),
    [
        (lambda pooled, rows: (rows, pooled), ("handed out too",)),
        (lambda pooled, rows: (rows.transpose(1, 2), pooled), ("handed out too",)),
        (lambda pooled, rows: (rows[:, 1:], pooled), ("a part of it is handed out too",)),
    ],
)
def test_what_the_last_layer_gives_stands_below_the_exit_where_it_is_handed_out_too(give, told):
    (column,) = read_columns(record(partial(PoolsFirst, give=give)))

    shown = [(node.label, node.told, node.record.shape) for node in column.exit.nodes]
    assert shown[0] == ("WHAT LAYER 4 GAVE", told, (*rows().shape[:2], WIDTH))
    assert [label for label, *_ in shown[1:]] == ["LAST NORM OF THE FIRST ROW"]
    assert [(edge.source, edge.target) for edge in column.exit.edges] == [tuple(node.key for node in column.exit.nodes)]


def test_it_stands_not_there_where_something_else_is_handed_out():
    (column,) = read_columns(record(partial(PoolsFirst, give=lambda pooled, rows: (rows + 1, pooled))))

    assert not [node for node in column.exit.nodes if node.label.startswith("WHAT LAYER")]


def test_what_the_last_layer_gives_is_the_exit_where_it_leaves_as_it_is():
    (column,) = read_columns(record(Reader))

    assert [(node.label, node.told) for node in column.exit.nodes] == [("WHAT LAYER 4 GAVE", ())]
    assert "What leaves the tower." in words_of(compose_poster(record(Reader), text_width))


class CutsLast(Reader):
    """A linear layer behind the layers, of which parts are handed out (PE Audio's rows, and the first of them)."""

    def __init__(self, *layers, take):
        super().__init__(*layers)
        self.last, self.take = nn.Linear(WIDTH, WIDE), take

    def forward(self, x, kind=None):
        return self.take(self.last(super().forward(x, kind)))


@pytest.mark.parametrize(
    ("take", "told"),
    [
        (lambda x: (x[:, 1:], x[:, 0]), (f"handed out: 2×{rows().shape[1] - 1}×{WIDE} and 2×{WIDE}",)),
        (lambda x: (x[:, 2:],), (f"handed out: 2×{rows().shape[1] - 2}×{WIDE}",)),
        (lambda x: (x, x[:, 1:]), ()),
        (lambda x: x + 1, ()),
    ],
)
def test_the_last_box_tells_the_parts_of_it_that_leave(take, told):
    (column,) = read_columns(record(partial(CutsLast, take=take)))

    assert next(node.told for node in column.exit.nodes if node.label == "LINEAR") == told


class PoolsOne(Reader):
    """A learned row looks at what the layers gave, and goes through a norm; it leaves alone (SigLIP 2)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.row = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pool, self.norm = nn.MultiheadAttention(WIDTH, 3, batch_first=True), nn.LayerNorm(WIDTH)

    def forward(self, x, kind=None):
        x = super().forward(x, kind)
        return self.norm(self.pool(self.row.repeat(len(x), 1, 1), x, x)[0])[:, 0]


def test_one_row_has_its_shape_where_it_is_found_and_where_it_leaves():
    (column,) = read_columns(record(PoolsOne))

    pool, norm = column.exit.nodes
    assert (pool.record.shape, norm.record.shape) == ((len(rows()), 1, WIDTH), (len(rows()), WIDTH))


class HeadOfFirst(HandsOut):
    """Of what an earlier layer gave the first row goes through a linear layer (CANINE)."""

    def take(self, number, x):
        return self.earlier[number].wide(x[:, 0])

    def give(self, made, taken, rows):
        return made, taken[1]


class HeadOfOthers(HeadOfFirst):
    """The rows behind the first two do: those of a picture, behind words (FLUX's control branch)."""

    def take(self, number, x):
        return self.earlier[number].wide(x[:, 2:])


@pytest.mark.parametrize(("make", "told"), [(HeadOfFirst, "THE FIRST ROW"), (HeadOfOthers, "ALL ROWS BUT THE FIRST 2")])
def test_what_is_worked_out_of_some_rows_of_an_earlier_layer_says_of_which(make, told):
    layers = [part for _ in range(3) for part in (AttentionPart(), FeedForwardPart())]
    with torch.no_grad():
        (column,) = read_columns(xray.trace(make(*layers), rows()))

    lane = [node.label for node in column.exit.nodes if node.place[0] > 0.5]
    assert lane == ["WHAT LAYER 2 GAVE", f"LINEAR OF {told}"]


class InChannels(nn.Module):
    """A layer that lays channels out as more sequences, and back behind its last sum (PatchTST)."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(AttentionPart(), FeedForwardPart())

    def forward(self, x):
        return self.parts(x.flatten(0, 1)).unflatten(0, x.shape[:2])


def test_what_the_last_layer_gives_is_as_large_as_what_is_handed_out():
    trace = xray.trace(nn.Sequential(nn.Linear(5, WIDTH), *(InChannels() for _ in range(2))), torch.rand(2, 3, 7, 5))
    (column,) = read_columns(trace)

    (node,) = column.exit.nodes
    assert (node.label, node.record.shape) == ("WHAT LAYER 2 GAVE", (2, 3, 7, WIDTH))
