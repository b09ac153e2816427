"""Maps and signals before a stream begins: lines and columns of a map, a long stem, what is added to a picture."""

import pytest
import torch
from story.entrances import OTHER, WIDTH, labels_of, make_layers, read
from torch import nn

import xray
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance


class Lined(nn.Module):
    """A map, or a part of it, with a vector at an end of each of its lines, laid out as rows (LLaVA-NeXT)."""

    def __init__(self, learned, first, pick=slice(None)):
        super().__init__()
        self.patches, self.layers, self.first = nn.Conv2d(3, WIDTH, 4, stride=4), make_layers(WIDTH, 3), first
        self.pick = pick
        self.line: torch.Tensor = nn.Parameter(torch.rand(WIDTH))
        if not learned:
            del self.line
            self.register_buffer("line", torch.rand(WIDTH))

    def forward(self, image):
        seen = self.patches(image)[0][self.pick]
        line = self.line[:, None, None].expand(*seen.shape[:-1], 1)
        x = torch.cat((line, seen) if self.first else (seen, line), dim=-1).flatten(1).T.unsqueeze(0)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("learned", "first", "label"),
    [
        (True, False, "A LEARNED COLUMN BEHIND"),
        (True, True, "A LEARNED COLUMN IN FRONT"),
        (False, False, "SIDE BY SIDE"),
    ],
)
def test_a_vector_at_the_end_of_each_line_of_a_map_is_a_column(learned, first, label):
    _, chart = read(lambda: Lined(learned, first), torch.rand(1, 3, 8, 12))

    (column,) = (node for node in chart.nodes if node.record.shape == (WIDTH, 2, 4))
    assert column.label == label


class LinesOfRows(Lined):
    """The same, the map of rows already; its vector learned or, where it is not, the first row of each line again."""

    def forward(self, image):
        seen = self.patches(image).permute(0, 2, 3, 1)
        one = self.line.repeat(1, seen.shape[1], 1, 1) if isinstance(self.line, nn.Parameter) else seen[:, :, :1]
        x = torch.cat((one, seen) if self.first else (seen, one), dim=2).flatten(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("learned", "first", "label"),
    [
        (True, False, "LEARNED ROWS BESIDE: 3 + 1"),
        (True, True, "A LEARNED ROW IN FRONT"),
        (False, False, "END TO END"),
    ],
)
def test_a_row_at_the_end_of_each_line_of_rows_is_told_for_each(learned, first, label):
    _, chart = read(lambda: LinesOfRows(learned, first), torch.rand(1, 3, 8, 12))

    (column,) = (node for node in chart.nodes if node.record.shape == (1, 2, 4, WIDTH))
    assert column.label == label


@pytest.mark.parametrize(
    ("pick", "told"),
    [
        ((slice(None), slice(None), slice(1, 3)), ["2 OF 4 COLUMNS"]),
        ((slice(None), slice(1, None)), ["1 OF 2 LINES"]),
        ((slice(None), slice(1, None), slice(1, 3)), ["1 OF 2 LINES, 2 OF 4 COLUMNS"]),
        (slice(None), []),
    ],
)
def test_lines_and_columns_that_are_left_out_of_a_map_have_a_box(pick, told):
    _, chart = read(lambda: Lined(True, False, pick), torch.rand(1, 3, 8, 16))

    assert [label for label in labels_of(chart) if " OF " in label] == told


class FirstPieces(nn.Module):
    """The first few of each picture's pieces, each with the same learned column, as rows (LLaVA-OneVision)."""

    def __init__(self, begun, lines):
        super().__init__()
        self.patches, self.layers, self.begun = nn.Conv2d(3, WIDTH, 4, stride=4), make_layers(WIDTH, 3), begun
        self.lines = nn.ParameterList(torch.rand(WIDTH, 1, 1) for _ in range(lines))

    def forward(self, pieces):
        taken = [one[self.begun : self.begun + 2] for one in pieces]
        seen = self.patches(torch.cat(taken, dim=0))
        lines = [self.lines[number % len(self.lines)].expand(WIDTH, 2, 1) for number in range(2)]
        maps = [torch.cat((one, line), dim=-1) for one, line in zip((seen[0], seen[2]), lines, strict=True)]
        x = torch.cat([one.flatten(1).T for one in maps], dim=0).unsqueeze(0)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("begun", "label"), [(0, "THE FIRST 2 OF EACH 5, END TO END"), (1, "END TO END")])
def test_the_first_pieces_of_each_picture_are_told(begun, label):
    _, chart = read(lambda: FirstPieces(begun, 1), torch.rand(2, 5, 3, 8, 12))

    assert [node.label for node in chart.nodes if node.record.shape == (4, 3, 8, 12)] == [label]


@pytest.mark.parametrize(("lines", "told"), [(1, "same weights"), (2, f"{WIDTH} parameters")])
def test_a_learned_column_that_comes_twice_is_told_to_be_one(lines, told):
    _, chart = read(lambda: FirstPieces(0, lines), torch.rand(2, 5, 3, 8, 12))

    extras = [node.extra for node in chart.nodes if node.label == "A LEARNED COLUMN BEHIND"]
    assert extras == [f"{WIDTH} parameters", told]


class Framed(nn.Module):
    """A learned frame is added to a picture, learned rows stand before words and patches (TVP)."""

    def __init__(self):
        super().__init__()
        self.side, self.top = nn.Parameter(torch.rand(1, 3, 4, 2)), nn.Parameter(torch.rand(1, 3, 2, 8))
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.rows, self.layers = nn.Parameter(torch.rand(1, 5, WIDTH)), make_layers(WIDTH, 2)

    def forward(self, ids, image):
        frame = torch.cat((self.side, torch.zeros(1, 3, 4, 4), self.side), dim=3)
        image = image * torch.ones(8, 8) + torch.cat((self.top, frame, self.top), dim=2)
        seen = self.patches(image).flatten(2).mT
        x = torch.cat((self.rows.expand(len(ids), -1, -1), self.words(ids), seen), dim=1)
        for layer in self.layers:
            x = layer(x)
        return x


def framed():
    trace = xray.trace(Framed(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))
    (reading,) = read_passes(trace)
    return xray.anatomy(trace).towers[0], chart_entrance(reading.flow, reading.towers[0])


def test_learned_numbers_that_are_added_to_a_picture_are_no_places():
    tower, chart = framed()

    assert "positions" not in {part.part for part in tower.entrance}
    assert {"ADDED UP", "END TO END: 5 LEARNED + 7 + 4"} <= {node.label for node in chart.nodes}
    assert "SIDE BY SIDE" not in {node.label for node in chart.nodes}


def test_a_picture_comes_in_as_it_is_before_anything_is_added():
    chart = framed()[1]

    image = next(node for node in chart.nodes if node.label == "IMAGE")
    assert [edge.target for edge in chart.edges if edge.source == image.key] == [
        node.key for node in chart.nodes if node.label == "ADDED UP"
    ]


class Frozen(nn.Module):
    """A norm of channels that is held still, spelt out as many steps (DETR)."""

    weight: torch.Tensor
    bias: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self):
        super().__init__()
        for name in ("weight", "bias", "mean", "variance"):
            self.register_buffer(name, torch.rand(1, OTHER, 1, 1))

    def forward(self, x):
        scale = self.weight * (self.variance + 1e-5).rsqrt()
        return x * scale + (self.bias - self.mean * scale)


class Stem(nn.Module):
    """A picture goes through many convolutions, each with a norm that is held still, before it is patches."""

    def __init__(self):
        super().__init__()
        sizes = (3, *(OTHER,) * 60)
        self.stem = nn.ModuleList(nn.Conv2d(one, OTHER, 3, padding=1, bias=False) for one in sizes)
        self.norms = nn.ModuleList(Frozen() for _ in sizes)
        self.patches, self.layers = nn.Conv2d(OTHER, WIDTH, 4, stride=4), make_layers(WIDTH, 3)

    def forward(self, image):
        for convolution, norm in zip(self.stem, self.norms, strict=True):
            image = norm(convolution(image)).relu()
        x = self.patches(image).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_long_stem_is_followed_down_to_the_picture():
    _, chart = read(Stem, torch.rand(2, 3, 8, 8))
    foot = min(chart.nodes, key=lambda node: node.row)

    assert foot.label == "IMAGE"
    assert foot.record.shape == (2, 3, 8, 8)


class AsFrames(Stem):
    """The same picture several times over, as if it were frames (Emu3)."""

    def forward(self, image):
        return super().forward(image[:, None].repeat(1, 4, 1, 1, 1).flatten(0, 1))


def test_a_picture_that_is_laid_out_several_times_is_told_as_it_came_in():
    _, chart = read(AsFrames, torch.rand(2, 3, 8, 8))
    foot = min(chart.nodes, key=lambda node: node.row)

    assert (foot.label, foot.record.shape, foot.told) == ("IMAGE", (2, 3, 8, 8), ("laid out 4 times",))


class Heard(nn.Module):
    """A signal becomes rows, is multiplied by the root of their width, and taken out where a place does not count."""

    def __init__(self):
        super().__init__()
        self.hear, self.layers = nn.Conv1d(5, WIDTH, 3), make_layers(WIDTH, 3)

    def forward(self, x, counts):
        x = self.hear(x).mT * WIDTH**0.5 * counts.unsqueeze(2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_signal_that_is_multiplied_before_a_mask_has_a_box_for_it():
    _, chart = read(Heard, torch.rand(2, 5, 9), torch.ones(2, 7))

    assert labels_of(chart)[1:] == ["CONVOLUTION 3", "× √d_model", "× ONE NUMBER FOR EACH PLACE"]


class LaidOut(nn.Module):
    """Flat rows are laid out as maps of four channels, and each of these becomes a row (Decision Transformer)."""

    def __init__(self):
        super().__init__()
        self.see, self.layers = nn.Conv2d(4, WIDTH, 8), make_layers(WIDTH, 3)

    def forward(self, rows):
        x = self.see(rows.reshape(-1, 4, 8, 8)).reshape(*rows.shape[:2], WIDTH)
        for layer in self.layers:
            x = layer(x)
        return x


def test_maps_of_several_channels_that_came_in_as_flat_rows_are_no_sound():
    anatomy, chart = read(LaidOut, torch.rand(2, 5, 256))

    assert labels_of(chart)[0] == "INPUT"
    assert anatomy.towers[0].reads is None


class Colours(nn.Module):
    """A map as it is, or with the length of its numbers as one more channel (CMGAN, which reads spectrograms)."""

    def __init__(self, joined):
        super().__init__()
        self.see, self.layers, self.joined = nn.Conv2d(3, WIDTH, 4, stride=4), make_layers(WIDTH, 3), joined

    def forward(self, x):
        x = torch.cat([(x**2).sum(1, keepdim=True).sqrt(), x], 1) if self.joined else x
        x = self.see(x).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("joined", "told"), [(True, "map"), (False, "image")])
def test_a_map_is_an_image_by_the_channels_that_come_in(joined, told):
    anatomy, chart = read(lambda: Colours(joined), torch.rand(2, 2 if joined else 3, 8, 12))

    assert anatomy.towers[0].reads == told
    assert told.upper() in labels_of(chart)


class Parts(nn.Module):
    """How large two numbers of each place are stands in front of them, as one channel more (CMGAN)."""

    def __init__(self):
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, WIDTH, 4, stride=4), make_layers(WIDTH, 3)

    def forward(self, parts):
        length = (parts[:, :1] ** 2 + parts[:, 1:] ** 2).sqrt()
        x = self.patches(torch.cat([length, parts], dim=1)).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_channel_put_before_others_is_no_row():
    _, chart = read(Parts, torch.rand(1, 2, 8, 12))

    assert "SIDE BY SIDE" in labels_of(chart)
    assert not any("ROW" in label for label in labels_of(chart))


class Frames(nn.Module):
    """Pictures behind each other as channels, each by itself, with zeros around it (ViNT)."""

    def __init__(self):
        super().__init__()
        self.pad, self.patches, self.layers = (
            nn.ZeroPad2d((0, 1, 0, 1)),
            nn.Conv2d(3, WIDTH, 5, 5),
            make_layers(WIDTH, 3),
        )

    def forward(self, frames):
        x = self.patches(self.pad(torch.cat(frames.split(3, 1), 0))).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return x


def test_pictures_are_as_large_as_they_were_before_zeros_were_put_around_them():
    _, chart = read(Frames, torch.rand(2, 6, 9, 14))

    assert chart.nodes[0].record.shape == (4, 3, 9, 14)
