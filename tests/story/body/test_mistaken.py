"""What could be mistaken for something else, in small models: each is told as what it is, or not at all."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray import anatomy
from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.beside_layers import EntrancePart
from xray.story.anatomy.branches import Convolution, Experts, FeedForward
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage

BATCH, PLACES, WIDTH, HEADS = 2, 5, 12, 3


class FeedForwardPart(nn.Module):
    def __init__(self, wide=17, bend=nn.GELU):
        super().__init__()
        self.norm, self.wide, self.back, self.bend = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, wide),
            nn.Linear(wide, WIDTH),
            bend(),
        )

    def forward(self, x):
        return x + self.back(self.bend(self.wide(self.norm(x))))


class AttentionPart(nn.Module):
    """Attention of which `pieces` rows attend by themselves, with a learned sink beside the scores or without."""

    def __init__(self, *, pieces=1, sink=False):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.pieces, self.sink = pieces, nn.Parameter(torch.zeros(HEADS)) if sink else None

    def forward(self, x):
        rows = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = (one.squeeze(-3).movedim(-2, -3) for one in rows.split(1, dim=-3))
        if self.sink is None:
            cut = [one.split(one.shape[-2] // self.pieces, dim=-2) for one in (q, k, v)]
            found = [functional.scaled_dot_product_attention(*one) for one in zip(*cut, strict=True)]
            made = found[0] if len(found) == 1 else torch.cat(found, dim=-2)
        else:
            scores = q @ k.transpose(-1, -2)
            share = torch.sigmoid(torch.logsumexp(scores, dim=-1) - self.sink.view(1, -1, 1))
            made = torch.softmax(scores, dim=-1) @ v * share.unsqueeze(-1)
        return x + self.out(made.transpose(-2, -3).flatten(-2))


class TanhGated(nn.Module):
    """A layer that gives as much as tanh of a learned number says, which is nothing at first (Flamingo)."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.alpha = layer, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        norm, wide, back = self.layer.norm, self.layer.wide, self.layer.back
        return x + torch.tanh(self.alpha) * back(self.layer.bend(wide(norm(x))))


class ConvolutionPart(nn.Module):
    """Pointwise out and back with a convolution between, as in a Conformer."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.ahead, self.mix = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.back = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x):
        wide = functional.glu(self.ahead(self.norm(x).transpose(1, 2)), dim=1)
        return x + self.back(functional.silu(self.mix(wide))).transpose(1, 2)


class Reader(nn.Module):
    """Rows of numbers through a linear layer, what kind they are added; then some layers."""

    def __init__(self, *layers, kinds=0):
        super().__init__()
        self.project, self.layers = nn.Linear(7, WIDTH), nn.ModuleList(layers)
        self.kinds = nn.Embedding(kinds, WIDTH) if kinds else None

    def forward(self, x, kind=None):
        x = self.project(x)
        x = x if self.kinds is None else x + self.kinds(kind)
        for layer in self.layers:
            x = layer(x)
        return x


def read(model, *given):
    with torch.no_grad():
        return anatomy(xray.trace(model, *given))


def draw(model, *given):
    """The nodes of every chart of a model's first tower."""
    with torch.no_grad():
        reading = read_pass(xray.trace(model, *given).passes[0])
    return [node for one in reading.towers[0].stagings for node in chart_stage(reading.flow, one).nodes]


def rows():
    return torch.randn(BATCH, PLACES, 7)


def branches(found):
    return found.towers[0].branches


def test_kinds_that_are_added_to_rows_of_numbers_are_no_words():
    model = Reader(AttentionPart(), FeedForwardPart(), kinds=4)
    (tower,) = read(model, rows(), torch.ones(BATCH, PLACES, dtype=torch.long)).towers

    assert (tower.reads, tower.vocab) == ("vectors", None)
    assert EntrancePart("table", 4, learned=True) in tower.entrance


class Named(nn.Module):
    """Layers over rows that come in by a name of their own."""

    def __init__(self):
        super().__init__()
        self.reader = Reader(*(part() for part in 2 * (AttentionPart, FeedForwardPart)))


class OfPatches(Named):
    def forward(self, pixel_values):
        return self.reader(pixel_values)


class OfEmbeddings(Named):
    def forward(self, image_embeds):
        return self.reader(image_embeds)


class OfFeatures(Named):
    def forward(self, image_features):
        return self.reader(image_features)


class OfStates(Named):
    def forward(self, encoder_hidden_states_image):
        return self.reader(encoder_hidden_states_image)


class OfZeros(Named):
    def forward(self, rows):
        return self.reader(torch.zeros_like(rows))


def test_what_gives_its_shape_alone_does_not_come_in():
    assert [tower.reads for tower in read(OfZeros(), rows()).towers] == [None]


@pytest.mark.parametrize(
    ("kind", "reads"),
    [(OfPatches, "image"), (OfEmbeddings, "vectors"), (OfFeatures, "vectors"), (OfStates, "vectors")],
)
def test_what_another_model_made_of_an_image_is_no_image(kind, reads):
    found = read(kind(), rows())

    assert [tower.reads for tower in found.towers] == [reads]


def test_rows_that_attend_one_part_after_another_are_neither_wider_nor_in_windows():
    found = read(Reader(AttentionPart(pieces=2), FeedForwardPart()), torch.randn(1, 2 * PLACES, 7))

    (told,) = [one for one in branches(found) if isinstance(one, Attention)]
    assert (told.heads, told.d_k, told.d_v, told.window) == (HEADS, 4, 4, None)


def test_a_sink_that_is_applied_after_the_softmax_is_no_gate():
    found = read(Reader(AttentionPart(sink=True), FeedForwardPart()), rows())

    (told,) = [one for one in branches(found) if isinstance(one, Attention)]
    assert (told.sinks, told.gate) == (True, False)


def test_a_sink_that_is_applied_after_the_softmax_is_not_written_into_its_box():
    nodes = {node.label: node for node in draw(Reader(AttentionPart(sink=True), FeedForwardPart()), rows())}

    assert "sink" not in nodes["SOFTMAX dim −1"].extra
    assert nodes["SOFTMAX dim −1"].remark == "each row shares out one whole of attention"
    assert "× WHAT THE SINK LEAVES" in nodes


def test_what_a_sink_leaves_is_worked_out_of_the_scores_that_softmax_reads():
    with torch.no_grad():
        reading = read_pass(xray.trace(Reader(AttentionPart(sink=True), FeedForwardPart()), rows()).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[0])
    keys = {node.label: node.key for node in chart.nodes}
    sources = {target: {edge.source for edge in chart.edges if edge.target == target} for target in keys.values()}

    (read_by_softmax,) = sources[keys["SOFTMAX dim −1"]]
    assert read_by_softmax in sources[keys["× WHAT THE SINK LEAVES"]]


def test_pointwise_layers_around_a_convolution_that_grow_no_wider_are_no_feed_forward():
    found = read(Reader(AttentionPart(), ConvolutionPart(), AttentionPart(), ConvolutionPart()), rows())

    assert [one for one in branches(found) if not isinstance(one, Attention)] == [Convolution((3,), WIDTH)]


def test_channels_that_stand_before_places_are_the_width_of_a_stream():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 1)

        def forward(self, x):
            return x + self.other(functional.elu(self.one(x)))

    (tower,) = read(nn.Sequential(nn.Conv1d(1, WIDTH, 3), Sum(), Sum()), torch.randn(BATCH, 1, 23)).towers

    assert (tower.d_model, tower.layers) == (WIDTH, 2)


def test_places_that_are_chosen_are_no_experts():
    class Choice(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.back = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            best = self.score(x).mean(-1).topk(2, dim=1)
            return x + self.back(x * functional.pad(best.values, (0, PLACES - 2)).unsqueeze(-1))

    found = read(Reader(AttentionPart(), Choice(), AttentionPart(), Choice()), rows())

    assert not any(isinstance(one, Experts) for one in branches(found))


def test_a_wide_row_that_is_multiplied_by_rows_from_elsewhere_is_not_told_as_ungated():
    class Beside(FeedForwardPart):
        def forward(self, x):
            return x + self.back(self.bend(self.wide(self.norm(x))) * self.given)

    layer = Beside()
    layer.given = torch.randn(BATCH, PLACES, 17)
    found = read(Reader(AttentionPart(), layer), rows())

    (told,) = [one for one in branches(found) if isinstance(one, FeedForward)]
    assert (told.d_ff, told.gated) == (17, None)


def test_parameters_that_no_step_uses_do_not_count_as_used_for_each_place():
    model = Reader(AttentionPart(), FeedForwardPart())
    used = sum(one.numel() for one in model.parameters())
    model.silent = nn.Linear(WIDTH, 31)
    found = read(model, rows())

    assert (found.params, found.active_params) == (used + 31 * (WIDTH + 1), used)


def test_a_gate_by_tanh_of_a_learned_number_is_told_and_drawn():
    model = Reader(AttentionPart(), TanhGated(FeedForwardPart()))

    found = read(model, rows())

    assert [stage.scale for group in found.towers[0].groups for stage in group.stages] == [None, "tanh"]
    assert "× TANH OF A LEARNED NUMBER" in [node.label for node in draw(model, rows())]
    model.layers[-1].alpha = nn.Parameter(torch.zeros(WIDTH))
    assert "× TANH OF LEARNED NUMBERS" in [node.label for node in draw(model, rows())]


def test_the_gated_linear_unit_of_a_convolution_is_drawn():
    labels = [node.label for node in draw(Reader(AttentionPart(), ConvolutionPart()), rows())]

    assert "HALF × SIGMOID OF HALF" in labels
