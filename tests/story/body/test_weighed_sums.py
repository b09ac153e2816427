"""Sums that weigh a stream against a branch by gates, and layers whose places are predicted anew (D-FINE, RT-DETR)."""

import pytest
import torch
from story.body.test_mistaken import PLACES, WIDTH, AttentionPart, FeedForwardPart, Reader, draw, read, rows
from story.body.test_stacks import HEADS, PlacedAttention
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.beside_layers import Boxes
from xray.story.anatomy.branches import FeedForward
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage

LAYERS = 3


class Weighed(nn.Module):
    """A feed-forward that is weighed against the stream by gates that both work out (D-FINE)."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.gate = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH), nn.Linear(2 * WIDTH, 2 * WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        made = self.back(functional.gelu(self.wide(x)))
        one, other = torch.sigmoid(self.gate(torch.cat([x, made], dim=-1))).chunk(2, dim=-1)
        return self.norm(one * x + other * made)


class OneSided(Weighed):
    """The same with gates that the stream alone works out, as those of a recurrence."""

    def forward(self, x):
        made = self.back(functional.gelu(self.wide(x)))
        one, other = torch.sigmoid(self.gate(torch.cat([x, x], dim=-1))).chunk(2, dim=-1)
        return self.norm(one * x + other * made)


class Refining(nn.Module):
    """Layers whose queries are told their places by boxes that the layer before predicted."""

    def __init__(self):
        super().__init__()
        self.project, self.place, self.first = nn.Linear(7, WIDTH), nn.Linear(8, WIDTH), nn.Linear(7, 4)
        self.look = nn.ModuleList(PlacedAttention() for _ in range(LAYERS))
        self.think = nn.ModuleList(FeedForwardPart() for _ in range(LAYERS))
        self.box = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)) for _ in range(LAYERS))

    def forward(self, x):
        boxes, x = torch.sigmoid(self.first(x)), self.project(x)
        for look, think, box in zip(self.look, self.think, self.box, strict=True):
            sines = (boxes[..., None] * torch.arange(1.0, 3.0)).sin().flatten(2)
            x = think(look(x, self.place(sines)))
            boxes = torch.sigmoid(box(x) + torch.logit(boxes)).detach()
        return x, boxes


def test_a_branch_that_is_weighed_against_the_stream_is_added_to_it():
    (tower,) = read(Reader(*(part for _ in range(2) for part in (AttentionPart(), Weighed()))), rows()).towers

    (group,) = tower.groups
    assert group.count == 2
    assert [stage.scale for stage in group.stages] == [None, "gates"]
    assert [one.d_ff for one in tower.branches if isinstance(one, FeedForward)] == [17]
    assert (group.stages[1].norm.place, group.stages[1].norm.on) == ("after", "stream")


def test_the_gates_of_a_weighed_sum_are_drawn_with_their_parameters():
    nodes = {node.label: node for node in draw(Reader(AttentionPart(), Weighed()), rows())}

    assert nodes["GATES OF BOTH"].extra == f"{(2 * WIDTH + 1) * 2 * WIDTH} parameters"
    assert not nodes["EACH × ITS GATE, ADD"].remark


def test_gates_are_led_to_from_stream_and_branch_and_the_branch_goes_by_them():
    with torch.no_grad():
        reading = read_pass(xray.trace(Reader(AttentionPart(), Weighed()), rows()).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[1])

    ways = {(edge.source, edge.target) for edge in chart.edges}
    assert {("contract", "gates"), ("contract", "add"), ("gates", "add")} <= ways
    assert "gates" in chart.feet


def test_gates_that_the_branch_does_not_work_out_with_the_stream_weigh_nothing():
    (tower,) = read(Reader(AttentionPart(), OneSided(), AttentionPart(), OneSided()), rows()).towers

    assert {stage.scale for group in tower.groups for stage in group.stages} == {None}


def test_places_that_are_predicted_anew_are_no_part_of_a_layer():
    found = read(Refining(), rows())

    (tower,) = found.towers
    (group,) = tower.groups
    assert group.count == LAYERS
    assert (group.stages[0].norm.place, group.stages[0].branches[0].positions) == ("after", None)
    assert tower.boxes == Boxes(tuple(range(LAYERS)), shared=False)
    assert [one.path for one in found.untold] == ["first"]


class Lone(nn.Module):
    """A stack in a block of its own, and one sum behind it that stands outside of that (OmDet-Turbo)."""

    def __init__(self):
        super().__init__()
        parts = [part for _ in range(LAYERS) for part in (AttentionPart(), FeedForwardPart())]
        self.stack, self.last = Reader(*parts), FeedForwardPart(19)

    def forward(self, x):
        return self.last(self.stack(x))


class TwoScores(nn.Module):
    """A stack, and behind its last norm scores of two kinds that are added up (RWKV 1)."""

    def __init__(self):
        super().__init__()
        parts = [part for _ in range(LAYERS) for part in (AttentionPart(), FeedForwardPart())]
        self.stack, self.norm = Reader(*parts), nn.LayerNorm(WIDTH)
        self.head, self.ask, self.key = nn.Linear(WIDTH, 19), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, words):
        x = self.norm(self.stack(x))
        copied = self.ask(x) @ self.key(x).transpose(1, 2) @ functional.one_hot(words, 19).float()
        return self.head(x) + copied


class Packed(nn.Module):
    """Attention whose rows have no axis of sequences, while the stream has one, of length 1 (MiniMax M3)."""

    def __init__(self):
        super().__init__()
        self.project, self.layers = nn.Linear(7, WIDTH), nn.ModuleList(AttentionPart() for _ in range(LAYERS))
        self.think = nn.ModuleList(FeedForwardPart() for _ in range(LAYERS))

    def forward(self, x):
        x = self.project(x)
        for look, think in zip(self.layers, self.think, strict=True):
            rows = look.norm(x).squeeze(0)
            qkv = look.qkv(rows).unflatten(-1, (3, HEADS, WIDTH // HEADS)).movedim(1, 0)
            made = functional.scaled_dot_product_attention(*(one.transpose(0, 1).unsqueeze(0) for one in qkv))
            x = think(x + look.out(made.squeeze(0).transpose(0, 1).flatten(1)))
        return x


class Beside(nn.Module):
    """Layers whose queries have other rows behind them, and are told their places before these come (OmDet-Turbo)."""

    def __init__(self):
        super().__init__()
        self.project, self.place = nn.Linear(7, WIDTH), nn.Linear(7, WIDTH)
        self.parts = nn.ModuleList(PlacedAttention() for _ in range(LAYERS))
        self.think = nn.ModuleList(FeedForwardPart() for _ in range(LAYERS))

    def forward(self, x, other):
        places, x, other = self.place(x), self.project(x), self.project(other)
        for part, think in zip(self.parts, self.think, strict=True):
            count = x.shape[1]
            placed, rows = torch.cat([x + places, other], dim=1), torch.cat([x, other], dim=1)
            heads = (part.query(placed), part.key(placed), part.value(rows))
            q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for one in heads)
            made = torch.softmax(q @ k.transpose(-1, -2), dim=-1) @ v
            rows = part.norm(rows + part.out(made.transpose(-2, -3).flatten(-2)))
            x, other = think(rows[:, :count, :]), rows[:, count:, :]
        return x


class TwoReaders(nn.Module):
    """One convolution before two stacks: the second begins at what the first one's entrance made (D-FINE)."""

    def __init__(self):
        super().__init__()
        self.cut, self.down = nn.Conv2d(3, WIDTH, 4, 4), nn.Conv2d(WIDTH, WIDTH, 2, 2)
        self.first = nn.ModuleList(part for _ in range(2) for part in (AttentionPart(), FeedForwardPart()))
        self.second = nn.ModuleList(part for _ in range(2) for part in (AttentionPart(), FeedForwardPart()))

    def forward(self, image):
        maps = self.cut(image)
        x, y = maps.flatten(2).transpose(1, 2), self.down(maps).flatten(2).transpose(1, 2)
        for layer in self.first:
            x = layer(x)
        for layer in self.second:
            y = layer(y)
        return x, y


def test_a_last_sum_outside_of_the_block_of_all_others_is_no_layer():
    found = read(Lone(), rows())

    (tower,) = found.towers
    assert (tower.layers, len(tower.groups)) == (LAYERS, 1)
    assert {one.path for one in found.untold} <= {"last"}


def test_scores_of_two_kinds_that_are_added_up_are_no_layer():
    (tower,) = read(TwoScores(), rows(), torch.ones(2, PLACES, dtype=torch.long)).towers
    assert (tower.layers, tower.d_model) == (LAYERS, WIDTH)


def test_rows_without_an_axis_of_sequences_are_added_to_a_stream_that_has_one():
    (tower,) = read(Packed(), rows()[:1]).towers

    assert tower.layers == LAYERS
    assert [one.part for one in tower.branches] == ["attention", "feed_forward"]


def test_queries_beside_other_rows_are_no_layers_of_their_own():
    (tower,) = read(Beside(), rows(), rows()[:, :2]).towers

    assert tower.layers == LAYERS
    assert {one.part for one in tower.branches} == {"attention", "feed_forward"}


def test_a_tower_that_begins_at_another_ones_convolutions_reads_no_image():
    first, second = read(TwoReaders(), torch.randn(2, 3, 16, 16)).towers

    assert (first.reads, second.reads) == ("image", None)
    assert [(part.part, part.size) for part in second.entrance] == [("convolution", WIDTH)]


class ByPlace(nn.Module):
    """A feed-forward multiplied by a learned number for each channel, or for each place (RWKV 1)."""

    def __init__(self, *shape):
        super().__init__()
        self.layer, self.scale = FeedForwardPart(), nn.Parameter(torch.ones(shape))

    def forward(self, x):
        return x + self.scale * self.layer.back(self.layer.bend(self.layer.wide(self.layer.norm(x))))


@pytest.mark.parametrize(("shape", "told"), [((WIDTH,), "learned"), ((PLACES, 1), None), ((1, PLACES, 1), None)])
def test_a_learned_number_for_each_place_is_none_for_each_channel(shape, told):
    (tower,) = read(Reader(AttentionPart(), ByPlace(*shape)), rows()).towers
    assert tower.groups[0].stages[1].scale == told
