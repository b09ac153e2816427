"""A norm behind the last sum is the last layer's if each other ends so, or another does and its block holds it."""

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import BATCH, PLACES, WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns


class Closed(nn.Module):
    """Attention, a feed-forward with a norm behind its sum, then a way of its own in one layer."""

    def __init__(self, *, closes, guesses=False):
        super().__init__()
        self.look, self.think = AttentionPart(), FeedForwardPart()
        self.close = nn.LayerNorm(WIDTH) if closes else nn.Identity()
        self.guess, self.back = (nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)) if guesses else (None, None)

    def forward(self, x):
        x = self.close(self.think(self.look(x)))
        return x if self.guess is None else x + self.back(self.guess(x).softmax(-1))


@pytest.mark.parametrize(
    ("closes", "final"),
    [((True, True, True, True), None), ((False, False, False, True), "layer"), ((True, False, True, True), None)],
)
def test_a_norm_behind_the_last_sum_ends_the_layer_if_others_end_with_one(closes, final):
    layers = (Closed(closes=one, guesses=number == 1) for number, one in enumerate(closes))
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers, nn.Linear(WIDTH, 3))

    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7))).towers
    assert tower.final_norm == final
    ends = {number: group.stages[1].norm.on for group in tower.groups for number in group.layers}
    assert [ends[number] == "stream" for number in range(4)] == [*closes[:-1], final is None]


class Twice(nn.Module):
    """A norm on what a feed-forward gives, and one behind the sum (the sound of Gemma 4)."""

    def __init__(self):
        super().__init__()
        self.look, self.within, self.behind = AttentionPart(), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, x):
        x = self.look(x)
        return self.behind(x + self.within(self.back(self.wide(x).relu())))


def test_two_norms_behind_a_sublayer_stand_before_none_in_the_last_layer_either():
    model = nn.Sequential(nn.Linear(7, WIDTH), *(Twice() for _ in range(3)), nn.Linear(WIDTH, 3))

    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7))).towers
    (group,) = tower.groups
    assert (group.stages[1].norm.place, group.stages[1].norm.on, tower.final_norm) == ("after", "both", None)


class NormedBetween(nn.Module):
    """A norm before attention and one behind its sum, which the feed-forward reads as it is and adds to (CCT)."""

    def __init__(self):
        super().__init__()
        self.before, self.look, self.behind = nn.LayerNorm(WIDTH), Attention(WIDTH, 2), nn.LayerNorm(WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, x):
        y = self.before(x)
        x = self.behind(x + self.look(y, y))
        return x + self.back(self.wide(x).relu())


def test_a_norm_behind_the_last_sum_is_the_towers_where_no_sum_of_that_kind_has_one():
    layers = (NormedBetween() for _ in range(3))
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3))

    anatomy = xray.anatomy(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7)))
    (tower,) = anatomy.towers
    assert [group.layers for group in tower.groups] == [(0, 1, 2)]
    assert tower.final_norm == "layer"
    assert "Layer norm before some sublayers, and again behind their sum." in list_sentences(anatomy)


class Merged(nn.Module):
    """Layers, behind which places go on one by one or two side by side, through a norm (InternVL's projector)."""

    def __init__(self, *, merges):
        super().__init__()
        self.given, self.times = nn.Linear(7, WIDTH), 2 if merges else 1
        self.layers = nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        self.norm, self.head = nn.LayerNorm(self.times * WIDTH), nn.Linear(self.times * WIDTH, 3)

    def forward(self, x):
        x = self.layers(self.given(x))[:, :4]
        return self.head(self.norm(x.reshape(len(x), -1, self.times * WIDTH)))


@pytest.mark.parametrize(("merges", "final"), [(False, "layer"), (True, None)])
def test_a_norm_of_places_that_were_put_together_is_not_the_last_of_the_tower(merges, final):
    (tower,) = xray.anatomy(xray.trace(Merged(merges=merges).eval(), torch.rand(BATCH, PLACES, 7))).towers

    assert tower.final_norm == final


@pytest.mark.parametrize(("is_held", "final"), [(True, None), (False, "layer")])
def test_a_norm_that_the_block_of_the_last_layer_holds_is_of_that_where_another_layer_ends_with_one(is_held, final):
    layers = [Closed(closes=number == 1 or (is_held and number == 3)) for number in range(4)]
    behind = [] if is_held else [nn.LayerNorm(WIDTH)]
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers, *behind, nn.Linear(WIDTH, 3))

    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7))).towers
    assert tower.final_norm == final


class WayOn(nn.Module):
    """Layers, then a norm and linear layers: of one block, or the norm beside the block of the layers (Mistral 3)."""

    def __init__(self, *, holds_norm):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        self.layers = nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        way = [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)]
        self.way = nn.Sequential(nn.Sequential(*way)) if holds_norm else nn.Sequential(*way)
        self.is_whole = holds_norm

    def forward(self, x):
        x = self.layers(self.given(x))
        return self.way(x) if self.is_whole else self.way[1](self.way[0](x))


@pytest.mark.parametrize(("holds_norm", "final"), [(False, "layer"), (True, None)])
def test_a_norm_of_the_block_that_brings_the_stream_to_another_width_is_not_the_last_of_the_tower(holds_norm, final):
    trace = xray.trace(WayOn(holds_norm=holds_norm).eval(), torch.rand(BATCH, PLACES, 7))

    (tower,) = xray.anatomy(trace).towers
    assert tower.final_norm == final
    (column,) = read_columns(trace)
    assert column.exit is not None
    assert next(node.label for node in column.exit.nodes) == ("LAST NORM" if final else "LAYER NORM")


class Parted(nn.Module):
    """Layers, behind which each piece of the rows goes through one and the same norm (HunYuan VL's images)."""

    def __init__(self, *, parts):
        super().__init__()
        self.given, self.size = nn.Linear(7, WIDTH), 2 if parts else 4
        self.layers = nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        pieces = self.layers(self.given(x))[:, :4].split(self.size, 1)
        return torch.cat([self.head(self.norm(piece)) for piece in pieces], 1)


@pytest.mark.parametrize(("parts", "final"), [(False, "layer"), (True, None)])
def test_a_norm_of_pieces_that_the_rows_were_cut_into_is_not_the_last_of_the_tower(parts, final):
    (tower,) = xray.anatomy(xray.trace(Parted(parts=parts).eval(), torch.rand(BATCH, PLACES, 7))).towers

    assert tower.final_norm == final


class Forked(nn.Module):
    """Layers, behind which the first row goes through a norm, and the others through one of their own (X-CLIP)."""

    def __init__(self):
        super().__init__()
        self.given, self.head = nn.Linear(7, WIDTH), nn.Linear(WIDTH, 3)
        self.layers = nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        self.norm, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.layers(self.given(x))
        return self.norm(x[:, 0]), self.head(self.other(x[:, 1:]))


def test_a_last_norm_stands_on_the_right_of_another_way_out():
    (column,) = read_columns(xray.trace(Forked().eval(), torch.rand(BATCH, PLACES, 7)))

    assert column.exit is not None
    places = {node.label: node.place for node in column.exit.nodes}
    assert places["LAST NORM OF THE FIRST ROW"][0] > places["LAYER NORM"][0]


class Widened(nn.Module):
    """Layers, of which the last alone ends with a norm, or one behind it; then wider ones (Fun-ASR)."""

    def __init__(self, *, holds_norm):
        super().__init__()
        self.given = nn.Linear(7, WIDTH)
        self.layers = nn.Sequential(*(Closed(closes=holds_norm and number == 2) for number in range(3)))
        self.norm = nn.Identity() if holds_norm else nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 2 * WIDTH)
        self.wide = nn.ModuleList(Layer(2 * WIDTH, Attention(2 * WIDTH, 2), norm="before") for _ in range(2))

    def forward(self, x):
        x = self.widen(self.norm(self.layers(self.given(x))))
        for layer in self.wide:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("holds_norm", "on", "told"), [(True, "stream", ["LINEAR"]), (False, None, ["LAYER NORM", "LINEAR"])]
)
def test_a_norm_that_the_last_layer_before_a_bridge_holds_is_of_that_layer(holds_norm, on, told):
    (column,) = read_columns(xray.trace(Widened(holds_norm=holds_norm).eval(), torch.rand(BATCH, PLACES, 7)))

    ends = {number: frame.group.stages[-1].norm.on for frame in column.frames for number in frame.group.layers}
    bridge = next(frame.bridge for frame in column.frames if frame.bridge is not None)
    assert [ends[number] for number in range(3)] == [None, None, on]
    assert [node.label for node in bridge.nodes] == told


class Clamped(nn.Module):
    """A layer whose last branch ends in a norm, and with a clamp and another norm behind the sum (Gemma 4 Audio)."""

    def __init__(self, *, closes):
        super().__init__()
        self.look, self.norm = AttentionPart(), nn.LayerNorm(WIDTH)
        self.wide, self.back, self.ending = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH), nn.LayerNorm(WIDTH)
        self.close = nn.LayerNorm(WIDTH) if closes else nn.Identity()

    def forward(self, x):
        x = self.look(x)
        return self.close((x + self.ending(self.back(self.wide(self.norm(x)).relu()))).clamp(-9, 9))


@pytest.mark.parametrize(("closes", "on", "final"), [(True, "both", None), (False, "branch", "layer")])
def test_a_norm_behind_a_clamp_of_each_last_sum_is_told_beside_that_of_the_branch(closes, on, final):
    layers = [Clamped(closes=closes) for _ in range(3)]
    behind = [] if closes else [nn.LayerNorm(WIDTH)]
    model = nn.Sequential(nn.Linear(7, WIDTH), *layers, *behind, nn.Linear(WIDTH, 3))

    trace = xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7))
    (tower,) = xray.anatomy(trace).towers
    (group,) = tower.groups
    assert (group.stages[-1].norm.on, tower.final_norm) == (on, final)
    (column,) = read_columns(trace)
    (frame,) = column.phases[0].frames
    ending = next(node for node in frame.panels[-1].chart.nodes if node.key == "add")
    assert ending.label == ("ADD + CLAMP + LAYER NORM" if closes else "ADD")


class OverBatch(nn.Module):
    """A norm over the batch, its channels laid second for it alone."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class ClosedOverBatch(nn.Module):
    """Attention and a feed-forward, behind the sum of each a norm over the batch (PatchTST as published)."""

    def __init__(self):
        super().__init__()
        self.look, self.behind, self.end = Attention(WIDTH, 2), OverBatch(), OverBatch()
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, x):
        x = self.behind(x + self.look(x, x))
        return self.end(x + self.back(self.wide(x).relu()))


def test_a_norm_over_the_batch_behind_a_sum_is_the_streams_with_the_swaps_around_it():
    model = nn.Sequential(nn.Linear(7, WIDTH), *(ClosedOverBatch() for _ in range(3)), nn.Linear(WIDTH, 3))
    trace = xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7))

    (column,) = read_columns(trace)
    (frame,) = column.frames
    boxes = [node for panel in frame.panels for node in panel.chart.nodes]
    sums = [node for node in boxes if node.label.startswith("ADD")]

    assert "Batch norm after the sum of each sublayer." in list_sentences(xray.anatomy(trace))
    assert [(node.label, node.record.shape) for node in sums] == [("ADD + BATCH NORM", (BATCH, PLACES, WIDTH))] * 2
    assert "AXES SWAPPED" not in {node.label for node in boxes}
    assert column.towering.tower.final_norm is None
