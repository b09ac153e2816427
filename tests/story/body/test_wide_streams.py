"""Streams that do not simply go on: one row of a wider stream a layer, and layers that run several times."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from handwritten import Attention
from printed import lines_of
from torch import Tensor, nn

import xray
from xray.ir.flow.dataflow import Flow
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns
from xray.story.streams.families import leave_earlier_ends

WIDTH, HEADS, VOCAB = 15, 3, 61


class Layer(nn.Module):
    """Attention and feed-forward before whom a norm stands."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.attention = Attention(WIDTH, HEADS)
        self.think = nn.Sequential(nn.Linear(WIDTH, 35), nn.GELU(), nn.Linear(35, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        asked = self.norms[0](x)
        x = x + self.attention(asked, asked)
        return x + self.think(self.norms[1](x))


class Wide(nn.Module):
    """Two copies of the stream: every layer predicts both, works on one, and corrects both by what it found."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.mixes = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        wide = torch.stack([x, x * 0.5])
        for layer, mix in zip(self.layers, self.mixes, strict=True):
            predicted = wide + mix(wide.permute(1, 2, 3, 0)).permute(3, 0, 1, 2)
            found = layer(predicted[0])
            wide = predicted + (found - predicted[0])
        return self.head(wide[0])


class Balanced(nn.Module):
    """A layer reads one row of three streams; what they are mixed by has its columns and rows divided by their sums."""

    def __init__(self, times):
        super().__init__()
        self.times, self.weights = times, nn.Linear(3 * WIDTH, 3 + 3 + 9)
        self.think = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 35), nn.GELU(), nn.Linear(35, WIDTH))

    def forward(self, streams: Tensor) -> Tensor:
        taken, given, matrix = self.weights(streams.flatten(2)).split([3, 3, 9], dim=-1)
        matrix = matrix.unflatten(-1, (3, 3)).softmax(dim=-1)
        for turn in range(self.times):
            matrix = matrix / (matrix.sum(dim=-1 if turn % 2 else -2, keepdim=True) + 1e-6)
        row = (taken.sigmoid().unsqueeze(-1) * streams).sum(dim=2)
        return given.unsqueeze(-1) * self.think(row).unsqueeze(-2) + matrix @ streams


class InStreams(nn.Module):
    """Three copies of the rows of words, which layers mix (GLM-5-next)."""

    def __init__(self, times):
        super().__init__()
        self.words, self.layers = nn.Embedding(VOCAB, WIDTH), nn.Sequential(*(Balanced(times) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        streams = self.words(ids).unsqueeze(2).expand(-1, -1, 3, -1).contiguous()
        return self.head(self.norm(self.layers(streams).mean(dim=2)))


@pytest.mark.parametrize(("times", "balanced"), [(0, None), (1, None), (2, 2), (7, 7)])
def test_how_often_a_matrix_of_streams_is_divided_by_its_sums_in_turn_is_told(times, balanced):
    found = xray.anatomy(xray.trace(InStreams(times), torch.arange(14).view(2, 7)))
    told = f"divided by the sums of its columns and of its rows in turn, {balanced} times in all."

    assert (found.towers[0].streams, found.towers[0].balanced) == (3, balanced)
    assert any(one.endswith(told) for one in list_sentences(found)) is (balanced is not None)


def test_every_place_of_streams_side_by_side_goes_through_a_feed_forward():
    drawn = " ".join(lines_of(compose_poster(xray.trace(InStreams(0).eval(), torch.arange(14).view(2, 7)), text_width)))

    assert "Each place alone, wider and back." in drawn
    assert "Some places alone" not in drawn


def test_streams_that_begin_as_copies_of_words_say_so():
    (column,) = read_columns(xray.trace(InStreams(2).eval(), torch.arange(14).view(2, 7)))
    assert column.entrance is not None
    head = column.entrance.node(column.entrance.heads[0])

    assert (head.label, head.record.shape) == ("3 COPIES, SIDE BY SIDE", (2, 7, 3, WIDTH))
    before = [one.source for one in column.entrance.edges if one.target == head.key]
    assert [column.entrance.node(one).label for one in before] == ["TABLE LOOKUP"]


class Normed(nn.Module):
    """Each of three streams is divided by its root mean square, then all together multiplied by 1 + weights."""

    def __init__(self, learned):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3 * WIDTH)) if learned else None
        self.mix, self.share = nn.Linear(3 * WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, 3)
        self.think = nn.Sequential(nn.Linear(WIDTH, 35), nn.GELU(), nn.Linear(35, WIDTH))

    def forward(self, streams: Tensor) -> Tensor:
        cut = streams.unflatten(-1, (3, WIDTH))
        normed = (cut * torch.rsqrt(cut.pow(2).mean(-1, keepdim=True) + 1e-6)).flatten(-2)
        normed = normed if self.weight is None else normed * (1.0 + self.weight)
        row = (self.mix(normed).sigmoid().unflatten(-1, (3, WIDTH)) * normed.unflatten(-1, (3, WIDTH))).mean(dim=-2)
        shares = 2 * self.share(normed).sigmoid()
        return streams + (self.think(row).unsqueeze(-2) * shares.unsqueeze(-1)).flatten(-2)


def read_normed(learned):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), *(Normed(learned) for _ in range(3)))
    return xray.anatomy(xray.trace(layers, torch.randn(2, 7, WIDTH)))


def test_what_streams_are_weighed_by_is_told_step_by_step():
    found = read_normed(True)

    mixing, sharing = (("linear", 45), ("sigmoid", None)), (("linear", 3), ("sigmoid", None), ("mul", 2))
    assert found.towers[0].weighed_by == (mixing, sharing)
    assert (
        "What weighs the streams is made of them: led to 45 numbers, sigmoid. The share of each: led to 3 numbers,"
        " sigmoid, × 2."
    ) in list_sentences(found)


def test_of_weights_that_are_made_in_another_way_nothing_is_told():
    found = xray.anatomy(xray.trace(InStreams(2), torch.arange(14).view(2, 7)))

    assert found.towers[0].weighed_by == ((), ())
    assert not any(one.startswith("What weighs the streams") for one in list_sentences(found))


@pytest.mark.parametrize(("learned", "told"), [(True, None), (False, False)])
def test_norms_of_streams_that_are_weighed_behind_these_lie_side_by_side_learn_something(learned, told):
    found = read_normed(learned)

    assert {stage.norm.learned for group in found.towers[0].groups for stage in group.stages} == {told}
    assert any(one.startswith("Norms of sublayers learn nothing") for one in list_sentences(found)) is not learned


class Looped(nn.Module):
    """Two layers that run three times."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for _ in range(3):
            for layer in self.layers:
                x = layer(x)
        return self.head(x)


def test_layers_on_one_row_of_a_wider_stream_are_one_tower():
    (tower,) = xray.anatomy(xray.trace(Wide(), torch.arange(14).view(2, 7))).towers

    (group,) = tower.groups
    assert [branch.part for stage in group.stages for branch in stage.branches] == [
        "unknown",
        "attention",
        "feed_forward",
    ]
    assert (tower.name, group.count) == ("tokens", 3)


def test_layers_that_run_several_times_say_how_many_weights_there_are():
    (tower,) = xray.anatomy(xray.trace(Looped(), torch.arange(14).view(2, 7))).towers

    (group,) = tower.groups
    assert (group.count, group.shared, group.weight_sets) == (6, False, 2)


def test_what_an_eye_and_an_ear_end_with_is_no_end_of_a_wider_stream_that_both_went_into():
    """The eye ends at 0, the ear behind 300 steps; the stream begins at 500, 150 steps behind the eye's end."""
    eye, ear, begun, last, start = 0, 300, 500, 501, 502
    makers: dict[int, tuple[int, ...]] = {step: (step - 1,) for step in (*range(1, ear + 1), *range(352, begun))}
    makers |= {eye: (), 351: (eye,), begun: (begun - 1, ear), last: (begun,), start: (last, eye, ear)}
    makers[1] = ()
    flow: Any = SimpleNamespace(makers=makers, output=lambda _: SimpleNamespace(shape=(2, 3, 5, 7)))
    flow.behind = lambda *places, **options: Flow.behind(flow, *places, **options)
    ends: Any = {eye: ["eye"], ear: ["ear"], last: [SimpleNamespace(start=begun)]}

    assert leave_earlier_ends(flow, start, [eye, ear, last], ends) == [last]
