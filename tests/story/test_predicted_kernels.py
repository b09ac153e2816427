"""What one tower makes for several layers of another one that multiplies its rows with it (UnivNet)."""

import pytest
import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.tree import Link
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

BATCH, MELS, FRAMES, WIDTH, LAYERS = 2, 7, 11, 5, 3


class Residual(nn.Module):
    """Convolutions that are added to what came in."""

    def __init__(self, width):
        super().__init__()
        self.one, self.other = (nn.Conv1d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return x + torch.tanh(self.other(torch.relu(self.one(x))))


class Varying(nn.Module):
    """A convolution of its own, and a matrix for each place that it is given."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x, kernel, bias, of=None):
        made = torch.relu(self.mix(x))
        if of is None:
            return x + torch.tanh(torch.einsum("bil,biol->bol", made, kernel) + bias)
        pieces = torch.einsum("bilk,biol->bolk", made.unflatten(2, (FRAMES, of)), kernel)
        return x + torch.tanh((pieces + bias.unsqueeze(-1)).flatten(2))


class Vocoder(nn.Module):
    """Noise, changed by layers whose matrices a tower of their own makes of a spectrogram, for each block of them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(WIDTH, WIDTH, 7, padding=3)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.last = nn.Conv1d(WIDTH, 1, 7, padding=3)

    def forward(self, spectrogram):
        x = self.first(torch.randn(BATCH, FRAMES, WIDTH).mT)
        for block in self.blocks:
            x = block(x, spectrogram)
        return torch.tanh(self.last(x))


class Block(nn.Module):
    """Some layers, and the tower that makes their matrices, for so many places each."""

    def __init__(self, of=None):
        super().__init__()
        self.of = of
        self.reads, self.tower = nn.Conv1d(MELS, 13, 5, padding=2), nn.ModuleList(Residual(13) for _ in range(3))
        self.kernels = nn.Conv1d(13, LAYERS * WIDTH * WIDTH, 3, padding=1)
        self.biases = nn.Conv1d(13, LAYERS * WIDTH, 3, padding=1)
        self.layers = nn.ModuleList(Varying() for _ in range(LAYERS))

    def forward(self, x, spectrogram):
        made = self.reads(spectrogram)
        for one in self.tower:
            made = one(made)
        kernels = self.kernels(made).view(BATCH, LAYERS, WIDTH, WIDTH, FRAMES)
        biases = self.biases(made).view(BATCH, LAYERS, WIDTH, FRAMES)
        for number, layer in enumerate(self.layers):
            x = layer(x, kernels[:, number], biases[:, number], self.of)
        return x


@pytest.fixture(scope="module")
def trace():
    with torch.no_grad():
        return xray.trace(Vocoder().eval(), torch.randn(BATCH, MELS, FRAMES))


def test_what_a_tower_makes_for_several_layers_is_drawn_where_it_ends(trace):
    columns = [column for column in read_columns(trace) if column.name.startswith("audio")]

    made = [("CONVOLUTION 3", (BATCH, LAYERS * wide, FRAMES)) for wide in (WIDTH * WIDTH, WIDTH)]
    drawn = [[(node.label, node.record.shape) for node in column.exit.nodes] for column in columns]
    assert drawn == [made] * 2


def test_no_layer_counts_what_was_made_for_several(trace):
    (stack,) = [column for column in read_columns(trace) if not column.name.startswith("audio")]

    own = WIDTH * WIDTH * 3 + WIDTH
    assert {panel.params for frame in stack.frames for panel in frame.panels} == {own}


def test_the_towers_are_told_to_be_multiplied_with_the_stream_and_led_to_the_product(trace):
    anatomy = xray.anatomy(trace)
    boxes = compose_poster(trace, text_width).boxes
    words = [" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes]

    assert anatomy.links == tuple(Link("multiplied", source, "stack") for source in ("audio", "audio 2"))
    told = "Inside its layers the stack tower's stream is multiplied with something that the audio and audio 2 towers "
    assert told in " ".join(words)
    assert "FROM THE AUDIO TOWER" in words
    assert "MEMORY" not in words


class Longer(Vocoder):
    """The same, where the second block's places are twice as many, of a spectrogram whose frames come first."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(of=number + 1) for number in range(2))
        self.twice = nn.ConvTranspose1d(WIDTH, WIDTH, 2, stride=2)

    def forward(self, spectrogram):
        spectrogram = spectrogram.transpose(2, 1)
        x = self.blocks[0](self.first(torch.randn(BATCH, FRAMES, WIDTH).mT), spectrogram)
        return torch.tanh(self.last(self.blocks[1](self.twice(x), spectrogram)))


@pytest.fixture(scope="module")
def longer():
    with torch.no_grad():
        return xray.trace(Longer().eval(), torch.randn(BATCH, FRAMES, MELS))


def text_of(box):
    return " ".join("".join(run.text for run in line) for line in box.lines)


def test_what_is_multiplied_and_what_is_added_then_is_led_to_every_frame(longer):
    layout = compose_poster(longer, text_width)
    boxes = {(box.x, box.bottom): text_of(box) for box in layout.boxes}
    ends = sorted(boxes[way.points[-1]] for way in layout.curves if way.role == way.kind == "ribbon")

    closed = f"OPERATIONS  boxes as at 5 {BATCH}×{WIDTH}×{2 * FRAMES}"
    whole = f"{BATCH}×{WIDTH}×{FRAMES}×1"
    assert ends == sorted([f"PRODUCT {whole}", f"ADDED UP {whole}", closed, closed])


def test_a_tower_whose_ways_begin_beside_each_other_is_named_once(longer):
    words = [text_of(box) for box in compose_poster(longer, text_width).boxes]

    assert [one for one in words if one.startswith("FROM THE")] == ["FROM THE AUDIO TOWER", "FROM THE AUDIO 2 TOWER"]


def test_a_spectrogram_stands_as_it_is_given_and_tells_how_it_is_turned(longer):
    columns = [column for column in read_columns(longer) if column.name.startswith("audio")]
    given = [next(node for node in column.entrance.nodes if node.key == "given") for column in columns]

    assert [node.told for node in given] == [(f"axes swapped to {BATCH}×{MELS}×{FRAMES}",)] * 2
    assert [node.record.shape for node in given] == [(BATCH, FRAMES, MELS)] * 2
