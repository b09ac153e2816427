"""Signals: rows of channels with their places last, padded convolutions before, between and behind layers."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart, Reader, draw, read, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import FeedForward
from xray.story.body.reading import read_pass
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.exits.exit_chart import chart_exit
from xray.story.sheet.columns import read_columns

SAMPLES = 23


class ChannelsFirst(nn.Module):
    """A convolution and a feed-forward over a stream of channels, each scaled channel by channel (VibeVoice)."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.scale, self.also = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))

    def forward(self, x):
        mixed = self.mix(functional.pad(self.one(x.transpose(1, 2)).transpose(1, 2), (2, 0)))
        x = x + mixed * self.scale.unsqueeze(-1)
        alone = self.back(functional.gelu(self.wide(self.other(x.transpose(1, 2))))).transpose(1, 2)
        return x + alone * self.also.unsqueeze(-1)


class Hearing(nn.Module):
    """A signal through a convolution padded in front, and `behind`, layers, and one more convolution."""

    def __init__(self, behind=0):
        super().__init__()
        self.behind = behind
        self.first, self.last = nn.Conv1d(1, WIDTH, 7), nn.Conv1d(WIDTH, 3, 7)
        self.layers = nn.ModuleList(ChannelsFirst() for _ in range(3))

    def forward(self, input_values):
        x = self.first(functional.pad(input_values, (6, self.behind)))
        for layer in self.layers:
            x = layer(x)
        return self.last(functional.pad(x, (6, 0)))


class Coded(Hearing):
    """A signal that becomes a code of few channels, and a signal again by a convolution that makes it longer."""

    def __init__(self):
        super().__init__()
        self.code, self.decode = nn.Conv1d(WIDTH, 3, 3, padding=1), Decoding()

    def forward(self, input_values):
        x = self.first(functional.pad(input_values, (6, 0)))
        for layer in self.layers:
            x = layer(x)
        return self.decode(self.code(x))


class Decoding(nn.Module):
    """A code through layers before and behind a convolution that makes it longer (VibeVoice)."""

    def __init__(self):
        super().__init__()
        self.wide, self.longer = nn.Conv1d(3, WIDTH, 3, padding=1), nn.ConvTranspose1d(WIDTH, WIDTH, 4, stride=2)
        self.layers = nn.ModuleList(ChannelsFirst() for _ in range(4))
        self.last = nn.Conv1d(WIDTH, 1, 7)

    def forward(self, hidden_states):
        x = self.layers[1](self.layers[0](self.wide(hidden_states)))
        return self.last(self.layers[3](self.layers[2](self.longer(x))))


class Frames(nn.Module):
    """Frames through a linear layer, and a convolution behind that, before layers whose stream counts for more."""

    def __init__(self):
        super().__init__()
        self.dense, self.fewer = nn.Linear(5, WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, stride=2)
        self.layers = nn.ModuleList(part() for part in 2 * (FeedForwardPart, AttentionPart))
        self.wide, self.back = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def forward(self, input_features):
        x = self.fewer(functional.relu(self.dense(input_features)).transpose(1, 2)).transpose(1, 2)
        x = 1.5 * x + self.back(functional.gelu(self.wide(x)))
        for layer in self.layers:
            x = layer(x)
        return x


class ShortConvolution(nn.Module):
    """Two of three parts of one projection multiplied before a convolution, the third one behind it (LFM2)."""

    def __init__(self):
        super().__init__()
        self.norm, self.parts, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        before, behind, rows = self.parts(self.norm(x)).transpose(1, 2).chunk(3, dim=1)
        return x + self.back((behind * self.mix(before * rows)).transpose(1, 2))


def open_first(model, *given):
    with torch.no_grad():
        reading = read_pass(xray.trace(model, *given).passes[0])
    return reading.flow, reading.towers[0]


def test_feed_forwards_over_channels_are_told_and_both_sublayers_are_scaled():
    (tower,) = read(Hearing(), torch.randn(2, 1, SAMPLES)).towers
    (group,) = tower.groups

    assert [stage.branches[0].part for stage in group.stages] == ["convolution", "feed_forward"]
    assert [one.d_ff for one in tower.branches if isinstance(one, FeedForward)] == [4 * WIDTH]
    assert [stage.scale for stage in group.stages] == ["learned", "learned"]
    labels = [node.label for node in draw(Hearing(), torch.randn(2, 1, SAMPLES))]
    assert labels.count("× LEARNED NUMBERS") == labels.count("ADD") == 6


def test_a_signal_is_drawn_as_long_as_it_came_in_and_the_last_convolution_ends_all():
    flow, towering = open_first(Hearing(), torch.randn(2, 1, SAMPLES))
    entrance, leaving = chart_entrance(flow, towering), chart_exit(flow, towering, ())

    assert [node.record.shape for node in entrance.nodes if node.key == "given"] == [(2, 1, SAMPLES)]
    assert [node.label for node in leaving.nodes] == ["CONVOLUTION OF THE LAST 7"]


@pytest.mark.parametrize(("behind", "told"), [(5, (f"padded to {SAMPLES + 11:,}",)), (0, ())])
def test_a_signal_tells_how_long_it_is_padded_unless_its_convolution_does(behind, told):
    flow, towering = open_first(Hearing(behind), torch.randn(2, 1, SAMPLES))
    (given,) = (node for node in chart_entrance(flow, towering).nodes if node.key == "given")

    assert given.told == told


def test_frames_that_a_linear_layer_reads_first_come_in_there_and_are_not_scaled():
    flow, towering = open_first(Frames(), torch.randn(2, SAMPLES, 5))
    chart = chart_entrance(flow, towering)
    (given,) = (node for node in chart.nodes if node.key == "given")
    (edge,) = (edge for edge in chart.edges if edge.source == "given")

    assert given.record.shape == (2, SAMPLES, 5)
    assert chart.node(edge.target).label == "LINEAR"
    assert "scale" not in [part.part for part in towering.tower.entrance]


def test_parts_of_one_projection_that_are_multiplied_before_a_convolution_are_drawn():
    labels = [node.label for node in draw(Reader(ShortConvolution(), AttentionPart()), rows())]

    assert labels[: labels.index("CONVOLUTION 3 BY CHANNEL")].count("MULTIPLIED") == 1
    assert labels.count("MULTIPLIED") == 2


class Merging(nn.Module):
    """A feed-forward of pairs of rows laid side by side, whose sum adds their mean (the eye of MiniCPM-V 4.7)."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide = nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, 5 * WIDTH)
        self.back = nn.Linear(5 * WIDTH, WIDTH)

    def forward(self, x):
        pairs = x.reshape(len(x), -1, 2, WIDTH)
        return pairs.mean(2) + self.back(functional.gelu(self.wide(self.norm(pairs.flatten(2)))))


def test_a_feed_forward_that_makes_one_row_of_several_says_so():
    layers = [part() for part in (AttentionPart, FeedForwardPart, AttentionPart, Merging, AttentionPart)]
    (tower,) = read(Reader(*layers), torch.randn(2, 6, 7)).towers

    joined = [one.joined for one in tower.branches if isinstance(one, FeedForward)]
    assert joined == [None, 2]


class Pooled(nn.Module):
    """Pairs of rows as their mean before layers (Qwen2.5-Omni)."""

    def __init__(self):
        super().__init__()
        self.lay = nn.Linear(7, WIDTH)
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))

    def forward(self, x):
        x = self.lay(x)
        x = (x[:, ::2] + x[:, 1::2]) / 2
        for layer in self.layers:
            x = layer(x)
        return x


def test_the_mean_of_two_rows_is_a_sum_and_half_of_it():
    flow, towering = open_first(Pooled(), torch.randn(2, 6, 7))

    assert "ADDED UP, ÷ 2" in {node.label for node in chart_entrance(flow, towering).nodes}


class Resized(nn.Module):
    """Maps that are resized, and counted by one learned number, before layers."""

    def __init__(self):
        super().__init__()
        self.cut, self.share = nn.Conv2d(3, WIDTH, 2, stride=2), nn.Parameter(torch.ones(1))
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))

    def forward(self, pixel_values):
        maps = functional.interpolate(self.cut(pixel_values) * self.share, size=(3, 3))
        x = maps.flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_resized_maps_and_a_learned_number_stand_in_boxes_of_an_entrance():
    flow, towering = open_first(Resized(), torch.randn(2, 3, 8, 8))

    labels = [node.label for node in chart_entrance(flow, towering).nodes]
    assert labels[1:] == ["PATCHES 2×2", "× A LEARNED NUMBER", "RESIZED"]


def test_what_is_made_of_a_code_is_a_tower_of_its_own():
    heard, made = read(Coded(), torch.zeros(2, 1, SAMPLES)).towers

    assert (heard.reads, heard.layers) == ("audio", 3)
    assert (made.reads, made.layers) == (None, 4)


def test_a_code_is_no_signal():
    assert read(Decoding(), torch.zeros(2, 3, SAMPLES)).towers[0].reads == "vectors"


def test_a_convolution_that_makes_a_signal_longer_is_drawn_between_layers():
    (column,) = read_columns(xray.trace(Decoding(), torch.zeros(2, 3, SAMPLES)))

    bridges = [node.label for frame in column.frames if frame.bridge is not None for node in frame.bridge.nodes]

    assert bridges == ["TRANSPOSED CONVOLUTION 4, STEP 2"]


class Series(nn.Module):
    """One series of numbers, read by a convolution."""

    def __init__(self):
        super().__init__()
        self.cut = nn.Conv1d(1, WIDTH, 4, stride=4)
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())

    def forward(self, series):
        return self.layers(self.cut(series[:, None]).mT)


class Waves(Series):
    """The same of sound, by its name."""

    def forward(self, waveform):
        return super().forward(waveform)


@pytest.mark.parametrize(("model", "name"), [(Series, "signal"), (Waves, "audio")])
def test_a_tower_of_numbers_is_of_sound_only_where_that_is_said(model, name):
    (tower,) = read(model(), torch.zeros(2, 28)).towers

    assert (tower.name, tower.reads) == (name, "audio")
