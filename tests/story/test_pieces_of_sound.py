"""A sound that is cut into pieces before convolutions read it, and the frequencies of a moment that become one row."""

import pytest
import torch
from story.entrances import WIDTH, labels_of, make_layers, read
from torch import nn

MELS, FRAMES = 6, 20


class Hears(nn.Module):
    """Pieces of a sound, each a picture by itself, whose moments become rows (Qwen3-ASR)."""

    def __init__(self, piece=None, *, across=False):
        super().__init__()
        self.piece, self.across = piece, across
        self.find = nn.Conv2d(1, 5, 3, padding=1)
        self.lead = nn.Linear(5 * ((piece or FRAMES) if across else MELS), WIDTH)
        self.layers = make_layers(WIDTH, 3)

    def forward(self, sound):
        if self.piece is None:
            x = sound[:, None]
        else:
            x = sound.view(len(sound), MELS, -1, self.piece).transpose(1, 2).reshape(-1, 1, MELS, self.piece)
        x = torch.relu(self.find(x))
        x = x.permute(0, 2, 1, 3) if self.across else x.permute(0, 3, 1, 2)
        x = self.lead(x.reshape(*x.shape[:2], -1))
        for layer in self.layers:
            x = layer(x)
        return x


def hear(*given, **options):
    return read(lambda: Hears(*given, **options), torch.rand(2, MELS, FRAMES))[1]


def test_a_sound_that_is_cut_into_pieces_has_a_box_for_the_cut_and_one_for_the_whole():
    chart = hear(10)

    first, second = (node for node in chart.nodes if node.row < 2)
    assert first.record.shape == (2, MELS, FRAMES)
    assert (second.label, second.record.shape) == ("EACH CUT INTO 2 PIECES OF 10", (4, 1, MELS, 10))
    assert [edge.target for edge in chart.edges if edge.source == first.key] == [second.key]


def test_a_sound_that_is_read_whole_is_not_cut():
    assert not [label for label in labels_of(hear()) if "PIECES" in label]


@pytest.mark.parametrize(
    ("across", "told"),
    [
        (False, f"{MELS} LINES SIDE BY SIDE, CHANNEL BY CHANNEL: 5·6 = 30"),
        (True, f"{FRAMES} COLUMNS SIDE BY SIDE, CHANNEL BY CHANNEL: 5·20 = 100"),
    ],
)
def test_what_a_map_has_at_one_place_is_no_places_of_a_sequence(across, told):
    assert [label for label in labels_of(hear(across=across)) if "SIDE BY SIDE" in label] == [told]


class Folds(Hears):
    """A map of four times four places, two by two of which become a row: neighbours, and no lines."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(4 * 5, WIDTH)

    def forward(self, sound):
        x = torch.relu(self.find(sound[:, None, :4, :4])).permute(0, 2, 3, 1)
        x = x.view(len(x), 2, 2, 2, 2, 5).transpose(2, 3).reshape(len(x), 4, -1)
        x = self.lead(x)
        for layer in self.layers:
            x = layer(x)
        return x


def test_neighbours_of_a_map_are_no_lines():
    _, chart = read(Folds, torch.rand(2, MELS, FRAMES))

    assert not [label for label in labels_of(chart) if "LINES" in label or "COLUMNS" in label]


class Packed(Hears):
    """Moments of all sounds that a mask keeps, end to end and cut into pieces (Qwen3-Omni)."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, sound, mask):  # type: ignore[override]
        kept = sound.transpose(1, 2)[mask]
        pieces = nn.utils.rnn.pad_sequence(kept.split(self.sizes), batch_first=True)
        x = torch.relu(self.find(pieces.transpose(1, 2)[:, None])).permute(0, 3, 1, 2)
        x = self.lead(x.flatten(2))
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("sizes", "told"),
    [([10, 10, 10], "CUT INTO 3 PIECES OF 10"), ([13, 13, 4], "CUT INTO 3 PIECES OF UP TO 13")],
)
def test_sounds_that_are_masked_packed_and_cut_have_boxes_from_what_comes_in(sizes, told):
    mask = torch.arange(FRAMES).lt(torch.tensor([[17], [13]]))
    _, chart = read(lambda: Packed(sizes), torch.rand(2, MELS, FRAMES), mask)

    given, kept, cut = sorted((node for node in chart.nodes if node.row < 3), key=lambda node: node.row)
    assert (given.label, given.record.shape) == ("SIGNAL", (2, MELS, FRAMES))
    assert (kept.label, kept.record.shape) == ("ROWS THAT A MASK LETS THROUGH", (30, MELS))
    assert (cut.label, cut.record.shape) == (told, (3, max(sizes), MELS))
    assert given.steps[0].op == "index"
