"""Streams that stand apart, and sums that belong to none, in small models."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, branches, read, rows
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Experts, FeedForward, StreamMixing
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.poster import compose_poster
from xray.story.sentences.of_models import list_sentences
from xray.story.sheet.columns import read_columns

NARROW = 8


class Asking(nn.Module):
    """What one stream takes from another, whose places are told to both of them anew."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, one, other, place):
        q, k, v = self.q(one + place), self.k(other), self.v(other)
        found = torch.softmax(q @ k.transpose(1, 2) / WIDTH**0.5, dim=-1) @ v
        return self.norm(one + self.out(found))


class InTurn(nn.Module):
    """Two streams that look at each other in turn (SAM)."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(7, WIDTH), nn.Linear(5, WIDTH)
        self.asks = nn.ModuleList(Asking() for _ in range(6))

    def forward(self, few, many):
        few, many = self.one(few), self.other(many)
        place = few
        for there, back in zip(self.asks[::2], self.asks[1::2], strict=True):
            few = there(few, many, place)
            many = back(many, few, 0.5 * many)
        return few, many


def test_two_streams_that_look_at_each_other_in_turn_are_two_towers():
    found = read(InTurn(), torch.randn(2, 3, 7), torch.randn(2, 11, 5))

    assert [one.layers for one in found.towers] == [3, 3]
    first, second = found.towers
    assert {branch.source for branch in first.branches} == {
        None,
        second.name,
    }  # the first asks what no layer made
    assert {branch.source for branch in second.branches} == {first.name}


def test_no_norm_of_one_stream_is_counted_in_the_layers_of_the_other():
    with torch.no_grad():
        reading = read_pass(xray.trace(InTurn(), torch.randn(2, 3, 7), torch.randn(2, 11, 5)).passes[0])

    held = [
        {reading.flow.steps[node].path for staging in tower.stagings for node in staging.nodes}
        for tower in reading.towers
    ]
    norms = [{path for path in paths if path.endswith(".norm")} for paths in held]
    assert norms == [{f"asks.{number}.norm" for number in range(first, 6, 2)} for first in (0, 1)]


class Joint(nn.Module):
    """A layer in which two streams attend together, and that goes on with both."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.think = FeedForwardPart()

    def forward(self, one, other):
        rows = torch.cat([self.norm(one), self.norm(other)], dim=1)
        q, k, v = (layer(rows).unflatten(-1, (3, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        found = self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        one, other = one + found[:, : one.shape[1]], other + found[:, one.shape[1] :]
        return self.think(one), self.think(other)


class ThinksWithin(Joint):
    """The same, where each stream thinks inside one branch, of what its rows took up before (AuraFlow)."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.ends = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.thinking = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(2)
        )

    def forward(self, one, other):
        rows = torch.cat([self.norms[0](one), self.norms[1](other)], dim=1)
        q, k, v = (layer(rows).unflatten(-1, (3, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        found = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        taken = self.ends[0](found[:, : one.shape[1]]), self.ends[1](found[:, one.shape[1] :])
        return tuple(
            rows + think(norm(rows + new))
            for rows, new, norm, think in zip((one, other), taken, self.norms[2:], self.thinking, strict=True)
        )


class CutInTwo(nn.Module):
    """Rows of two kinds are laid one behind the other, told their places, and cut apart again (CogVideoX)."""

    def __init__(self, layer=Joint):
        super().__init__()
        self.one, self.other = nn.Linear(7, WIDTH), nn.Conv2d(3, WIDTH, 2, 2)
        self.places = nn.Parameter(torch.randn(1, 9, WIDTH))
        self.layers = nn.ModuleList(layer() for _ in range(3))

    def forward(self, words, image):
        rows = torch.cat([self.one(words), self.other(image).flatten(2).transpose(1, 2)], dim=1) + self.places
        one, other = rows[:, :5], rows[:, 5:]
        for layer in self.layers:
            one, other = layer(one, other)
        return one, other


def test_streams_that_were_cut_from_one_tensor_begin_where_they_are_cut():
    words, image = read(CutInTwo(), torch.randn(2, 5, 7), torch.randn(2, 3, 4, 4)).towers

    assert [(one.reads, len(one.groups), one.layers) for one in (words, image)] == [("vectors", 1, 3), ("image", 1, 3)]
    for one, other in ((words, image), (image, words)):
        (look,) = (branch for branch in one.branches if isinstance(branch, Attention))
        assert (look.source, look.beside, look.other_rows) == ("self", other.name, None)
        assert {stage.norm.place for stage in one.groups[0].stages} == {"before"}


def test_both_of_two_streams_that_think_inside_the_branch_of_their_attention_have_a_feed_forward():
    words, image = read(CutInTwo(ThinksWithin), torch.randn(2, 5, 7), torch.randn(2, 3, 4, 4)).towers

    for one in (words, image):
        (stage,) = one.groups[0].stages
        assert [type(branch) for branch in stage.branches] == [Attention, FeedForward]


class Neck(nn.Module):
    """Layers, a linear layer to fewer numbers for each place, and other layers (V-JEPA 2)."""

    def __init__(self):
        super().__init__()
        self.wide, self.neck = Reader(AttentionPart(), FeedForwardPart()), nn.Linear(WIDTH, NARROW)
        self.narrow = nn.ModuleList(nn.Linear(NARROW, NARROW) for _ in range(4))

    def forward(self, x):
        x = self.neck(self.wide(x))
        for layer, back in zip(self.narrow[::2], self.narrow[1::2], strict=True):
            x = x + back(functional.gelu(layer(x)))
        return x


def test_layers_behind_a_neck_are_a_tower_of_their_own():
    found = read(Neck(), rows())

    assert [one.d_model for one in found.towers] == [WIDTH, NARROW]
    assert [(link.kind, link.target) for link in found.links] == [("joined", found.towers[1].name)]


def test_a_sum_around_everything_is_no_layer():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside, self.after = (
                nn.Sequential(*(FeedForwardPart() for _ in range(14))),
                nn.Linear(WIDTH, WIDTH),
            )

        def forward(self, x):
            return x + self.after(self.inside(torch.tanh(x)))

    (tower,) = read(Reader(Whole()), rows()).towers

    assert tower.layers == 14


def test_the_larger_of_two_is_no_choice_of_experts():
    class Larger(FeedForwardPart):
        def forward(self, x):
            wide = self.wide(self.norm(x))
            return x + self.back(self.bend(torch.max(wide, wide.neg())))

    found = read(Reader(AttentionPart(), Larger(), AttentionPart(), Larger()), rows())

    assert not any(isinstance(one, Experts) for one in branches(found))


def test_a_feed_forward_that_reads_the_place_before_is_not_told_to_think_alone():
    class Shifted(FeedForwardPart):
        def __init__(self):
            super().__init__()
            self.shift, self.share = nn.ZeroPad2d((0, 0, 1, -1)), nn.Parameter(torch.rand(1, 1, WIDTH))

        def forward(self, x):
            normed = self.norm(x)
            mixed = normed * self.share + self.shift(normed) * (1 - self.share)
            return x + self.back(self.bend(self.wide(mixed)))

    found = read(Reader(AttentionPart(), Shifted(), AttentionPart(), Shifted()), rows())

    (told,) = (one for one in branches(found) if isinstance(one, FeedForward))
    assert told.kernel == (2,)


def test_half_a_row_that_stands_beside_the_other_half_of_the_place_before_comes_from_the_norm_too():
    class Halved(FeedForwardPart):
        def forward(self, x):
            one, other = self.norm(x).chunk(2, dim=-1)
            before = functional.pad(one, (0, 0, 1, -1))
            return x + self.back(self.bend(self.wide(torch.cat([before, other], dim=-1))))

    with torch.no_grad():
        reading = read_pass(xray.trace(Reader(AttentionPart(), Halved(), AttentionPart(), Halved()), rows()).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[1])
    labels = {node.key: node.label for node in chart.nodes}
    led = [labels[edge.target] for edge in chart.edges if labels[edge.source] == "LAYER NORM"]

    assert sorted(led) == ["ROWS OF THE PLACE BEFORE", "SIDE BY SIDE"]


def test_a_norm_is_said_of_each_sublayer_only_where_each_has_one():
    class Bare(FeedForwardPart):
        def forward(self, x):
            return x + self.back(self.bend(self.wide(x)))

    whole = read(Reader(AttentionPart(), FeedForwardPart()), rows())
    most = read(Reader(AttentionPart(), FeedForwardPart(), AttentionPart(), Bare()), rows())

    assert "Layer norm before each sublayer." in list_sentences(whole)
    assert "Layer norm before most sublayers." in list_sentences(most)


class Mixed(nn.Module):
    """Three streams, mixed by a matrix worked out of what is read of them; each gets its share of what that became."""

    def __init__(self, read):
        super().__init__()
        self.read, self.router, self.mix = read, nn.Linear(WIDTH, 3), nn.Linear(3, 9, bias=False)
        self.share, self.parts = nn.Linear(3, 3), nn.ModuleList([AttentionPart(), FeedForwardPart()])

    def forward(self, streams):
        matrix = self.mix(torch.tanh(self.router(self.read(streams)))).unflatten(-1, (3, 3))
        streams = streams + (streams.permute(1, 2, 3, 0) @ matrix).permute(3, 0, 1, 2)
        row = self.parts[1](self.parts[0](streams[0]))
        shares = self.share(torch.tanh(self.router(row))).permute(2, 0, 1).unsqueeze(-1)
        return streams + (row - streams[0]).repeat(3, 1, 1, 1) * shares


class InThree(nn.Module):
    """Rows in three streams, which layers mix (AltUp, in Gemma 3n)."""

    def __init__(self, read):
        super().__init__()
        self.begin = nn.ModuleList(nn.Linear(7, WIDTH) for _ in range(3))
        self.layers = nn.Sequential(Mixed(read), Mixed(read))

    def forward(self, x):
        return self.layers(torch.stack([one(x) for one in self.begin])).mean(0)


@pytest.mark.parametrize(
    ("of", "of_one", "told"),
    [
        (lambda streams: streams[0], True, "mixed by a matrix that is worked out of one of them."),
        (lambda streams: streams[0] + streams[1], False, "mixed by a matrix that is worked out of them."),
        (lambda streams: streams.mean(0), False, "mixed by a matrix that is worked out of them."),
    ],
)
def test_streams_that_a_matrix_of_their_own_mixes_are_told_to_be_mixed(of, of_one, told):
    found = read(InThree(of), torch.randn(2, 5, 7))
    (tower,) = found.towers

    assert (tower.layers, tower.streams) == (2, 3)
    assert tower.branches[0] == StreamMixing(3, of_one)
    assert f"3 streams side by side, {told}" in list_sentences(found)
    assert "unknown" not in {branch.part for branch in tower.branches}


class AddsToSome(Mixed):
    """Streams that a layer mixes, and at the end adds to all but the first what it makes of this one."""

    def __init__(self, read, back=slice(1, None)):
        super().__init__(read)
        self.scale, self.back = nn.Parameter(torch.rand(WIDTH)), back
        self.wide, self.narrow = nn.Linear(WIDTH, 41), nn.Linear(41, WIDTH)

    def forward(self, streams):
        streams = super().forward(streams)
        made = self.narrow(nn.functional.gelu(self.wide(streams[0].clone() * self.scale)))
        streams = streams.clone()
        streams[self.back] = streams[1:] + made
        return streams


@pytest.mark.parametrize(("back", "parts"), [(slice(1, None), 3), (slice(0, 2), 2)], ids=["back", "elsewhere"])
def test_what_is_added_to_some_streams_is_a_part_of_the_layer_where_they_are_put_back(back, parts):
    model = InThree(lambda streams: streams[0])
    model.layers = nn.Sequential(*(AddsToSome(lambda streams: streams[0], back) for _ in range(2)))
    trace = xray.trace(model, torch.randn(2, 5, 7))
    (tower,) = xray.anatomy(trace).towers
    boxes = compose_poster(trace, text_width).boxes
    texts = {"".join(run.text for line in box.lines for run in line) for box in boxes}

    (group,) = tower.groups
    is_whole = parts == 3
    assert len(group.stages) == parts
    assert any(text.startswith("ADD TO 2 OF 3 STREAMS") for text in texts) == is_whole
    picked = [text for text in texts if text.startswith("1 OF 3 STREAMS, × LEARNED NUMBERS")]
    assert [f"{WIDTH} parameters" in text for text in picked] == [True] * is_whole


class AddsInPlace(AddsToSome):
    """The same, added to those streams where they stand: the first one is as it was."""

    def forward(self, streams):
        streams = Mixed.forward(self, streams)
        made = self.narrow(nn.functional.gelu(self.wide(streams[0].clone() * self.scale)))
        streams[1:] += made
        return streams


class Ends(InThree):
    """Behind the layers each stream goes through a linear layer of its own, or the first one is left as it is."""

    def __init__(self, *, alone):
        super().__init__(lambda streams: streams[0])
        self.layers = nn.Sequential(*(AddsInPlace(lambda streams: streams[0]) for _ in range(2)))
        self.ends = nn.ModuleList([nn.Identity() if alone else nn.Linear(WIDTH, WIDTH)])
        self.ends.extend(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 17)

    def forward(self, x):
        streams = self.layers(torch.stack([one(x) for one in self.begin]))
        rows = torch.stack([end(streams[place]) for place, end in enumerate(self.ends)]).mean(0)
        return self.head(self.norm(rows))


@pytest.mark.parametrize("alone", [True, False])
def test_a_stream_that_is_stacked_as_it_is_is_led_there_from_the_last_layer(alone):
    (column,) = read_columns(xray.trace(Ends(alone=alone), torch.randn(2, 5, 7)))

    (stacked,) = (node.key for node in column.exit.nodes if node.label == "STACKED")
    led = [column.exit.node(edge.source).label for edge in column.exit.edges if edge.target == stacked]
    assert (stacked in column.exit.feet) == alone
    assert led == ["LINEAR"] * (3 - alone)
