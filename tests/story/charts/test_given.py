"""What comes in is led to what is made of its numbers, and to nothing that takes its shape alone."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.charts.test_combined_keys import Detects
from torch import nn
from torch.nn import functional

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.chart import Chart, Edge
from xray.story.entrance.entry_labels import list_joined
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

PIECE = 8


class Scaled(nn.Module):
    """A series brought to mean 0 and variance 1 over the places that are observed: all of them (PatchTST)."""

    def __init__(self):
        super().__init__()
        self.enter, self.layers = nn.Linear(1, WIDTH), nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, past_values):
        observed = torch.ones_like(past_values)
        count = observed.sum(1, keepdim=True).clamp_min(1.0)
        middle = (past_values * observed).sum(1, keepdim=True) / count
        spread = (((past_values - middle) * observed) ** 2).sum(1, keepdim=True) / count
        return self.layers(self.enter((past_values - middle) / torch.sqrt(spread + 1e-5)))


def entrance_of(model, *given) -> Chart:
    (column,) = read_columns(xray.trace(model.eval(), *given))
    assert column.entrance is not None
    return column.entrance


def list_led(chart: Chart) -> list[str]:
    """The labels of the boxes to which a line leads from what comes in."""
    labels = {node.key: node.label for node in chart.nodes}
    given = [node.key for node in chart.nodes if node.key.startswith("given")]
    return [labels[edge.target] for edge in chart.edges if edge.source in given]


def test_a_series_is_led_to_its_mean_and_to_what_its_mean_is_taken_from():
    chart = entrance_of(Scaled(), torch.ones(2, 19, 1))

    assert list_led(chart) == ["DIVIDED", "SUBTRACTED", "SUBTRACTED"]


class InPieces(Scaled):
    """A series that is cut into pieces, each of which becomes a row (PatchTST)."""

    def __init__(self, size, step):
        super().__init__()
        self.enter, self.size, self.step = nn.Linear(size, WIDTH), size, step

    def forward(self, past_values):
        return self.layers(self.enter(past_values.unfold(dimension=-2, size=self.size, step=self.step)[:, :, 0]))


@pytest.mark.parametrize(
    ("size", "step", "told"), [(5, 5, "CUT INTO 4 PIECES OF 5"), (5, 3, "CUT INTO 6 PIECES OF 5, STEP 3")]
)
def test_a_series_that_is_cut_into_pieces_says_how_long_these_are(size, step, told):
    chart = entrance_of(InPieces(size, step), torch.ones(2, 20, 1))

    assert [node.label for node in chart.nodes] == ["VECTORS", told, "LINEAR"]
    assert list_led(chart) == [told]


class Heard(nn.Module):
    """Frames of a sound, each a row of pitches, laid out otherwise before a convolution reads them (Speech2Text)."""

    def __init__(self, lay_out, channels):
        super().__init__()
        self.enter, self.lay_out = nn.Conv1d(channels, WIDTH, 5, stride=2), lay_out
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, input_features):
        return self.layers(self.enter(self.lay_out(input_features).contiguous()).transpose(1, 2))


@pytest.mark.parametrize(
    ("lay_out", "channels", "shape", "told"),
    [
        (lambda rows: rows.transpose(1, 2), 11, (2, 19, 11), ("axes swapped to 2×11×19",)),
        (lambda rows: rows, 11, (2, 11, 19), ()),
        (lambda rows: rows.reshape(2, 11, 19), 11, (2, 19, 11), ()),
        (lambda rows: rows[:, None], 1, (2, 19), ()),
    ],
)
def test_a_signal_stands_as_it_came_in_and_says_how_its_axes_are_swapped(lay_out, channels, shape, told):
    chart = entrance_of(Heard(lay_out, channels), torch.randn(shape))
    given = chart.node("given")

    assert given.record is not None
    assert (given.record.shape, given.told) == (shape, told)
    assert list_led(chart) == ["CONVOLUTION 5, STEP 2"]


class Lengthened(nn.Module):
    """Ids behind which a model puts others, up to a whole window (Longformer)."""

    def __init__(self, more):
        super().__init__()
        self.words, self.more = nn.Embedding(31, WIDTH), more
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, input_ids):
        return self.layers(self.words(functional.pad(input_ids, (0, self.more), value=1)))


@pytest.mark.parametrize(("more", "told"), [(6, ("7 given, the rest put behind",)), (0, ())])
def test_ids_that_a_model_puts_behind_those_that_came_in_are_told(more, told):
    chart = entrance_of(Lengthened(more), torch.arange(14).view(2, 7))

    assert next((node.label, node.told) for node in chart.nodes) == ("TOKEN IDS", told)


class Marked(Lengthened):
    """Ids in front of which a sign is put, and another behind the last that is no 0; or a mask tells where (CLVP)."""

    def forward(self, input_ids, also=None):
        ids = functional.pad(input_ids, (self.more, 0), value=30)
        last = (ids != 0).sum(1, keepdim=True) if also is None else also
        ids = functional.pad(ids, (0, self.more)).masked_fill(torch.arange(7 + 2 * self.more) == last, 29)
        return self.layers(self.words(ids))


@pytest.mark.parametrize(
    ("more", "also", "told"),
    [(1, None, ("worked out of 7 given",)), (0, None, ()), (1, torch.tensor([[3], [5]]), ())],
)
def test_ids_among_which_a_model_puts_others_say_of_how_many_they_were_worked_out(more, also, told):
    chart = entrance_of(Marked(more), torch.arange(14).view(2, 7), *([] if also is None else [also]))

    assert chart.node("given").told == told


def test_what_is_made_of_a_shape_alone_is_no_box():
    chart = entrance_of(Scaled(), torch.ones(2, 19, 1))

    assert "CLAMP MIN" not in {node.label for node in chart.nodes}
    assert Edge("given", chart.nodes[1].key) in chart.edges


class Asks(Detects):
    """Learned rows, held beside the norm that they go through first, that ask those of an encoder (a Q-Former)."""

    def __init__(self, *, is_repeated):
        super().__init__()
        self.rows, self.norm, self.is_repeated = nn.Parameter(torch.rand(1, 5, WIDTH)), nn.LayerNorm(WIDTH), is_repeated

    def forward(self, rows, ids=None):
        memory = self.encoder(self.lead(rows))
        asked = self.norm(self.rows.expand(len(rows), -1, -1) if self.is_repeated else self.rows)
        for attend, look, wide in zip(self.attend, self.look, self.wide, strict=True):
            asked = wide(look(attend(asked), memory, torch.zeros(())))
        return asked


@pytest.mark.parametrize("is_repeated", [True, False])
def test_learned_rows_that_a_norm_works_on_first_stand_below_it(is_repeated):
    trace = xray.trace(Asks(is_repeated=is_repeated).eval(), torch.rand(2, 7, WIDTH))
    chart = read_columns(trace)[-1].entrance
    shares = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    assert chart is not None
    assert [(node.label, node.extra) for node in chart.nodes][:1] == [("5 LEARNED ROWS", f"{5 * WIDTH} parameters")]
    assert list_led(chart) == ["LAYER NORM"]
    assert xray.anatomy(trace).towers[-1].entrance[0].part == "learned rows"
    assert shares["decoder entrance"] == 5 * WIDTH + 2 * WIDTH


class AsksAlike(Asks):
    """The same, the rows multiplied by as many ones as there are sequences (Evolla)."""

    def forward(self, rows, ids=None):
        memory, asked = self.encoder(self.lead(rows)), self.rows[0][None] * torch.ones(len(rows))[:, None, None]
        for attend, look, wide in zip(self.attend, self.look, self.wide, strict=True):
            asked = wide(look(attend(asked), memory, torch.zeros(())))
        return asked


def test_learned_rows_that_are_laid_out_by_ones_are_drawn():
    trace = xray.trace(AsksAlike(is_repeated=False).eval(), torch.rand(2, 7, WIDTH))
    chart = read_columns(trace)[-1].entrance

    assert chart is not None
    assert [node.label for node in chart.nodes] == ["5 LEARNED ROWS"]


class AsksByPlaces(Asks):
    """A stream that begins as zeros, to which its layers add what they find; learned rows are added to what asks."""

    def forward(self, rows, ids=None):
        memory, asked = self.encoder(self.lead(rows)), torch.zeros_like(self.rows.expand(len(rows), -1, -1))
        for attend, look, wide in zip(self.attend, self.look, self.wide, strict=True):
            asked = wide(look(attend(asked), memory, torch.zeros(())))
        return asked


def test_zeros_that_a_stream_begins_as_are_drawn():
    trace = xray.trace(AsksByPlaces(is_repeated=True).eval(), torch.rand(2, 7, WIDTH))
    chart = read_columns(trace)[-1].entrance

    assert chart is not None
    assert [(node.label, node.record.shape) for node in chart.nodes if node.record] == [("ZEROS", (2, 5, WIDTH))]


class Pyramid(nn.Module):
    """An image at three sizes, the larger two in pieces, all of one size one behind the other (Depth Pro)."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, pixel_values):
        sizes = [functional.interpolate(pixel_values, scale_factor=factor) for factor in (0.25, 0.5, 1)]
        pieces = torch.cat([sizes[0], *(cut_in_pieces(size) for size in sizes[1:])])
        return self.layers(self.patches(pieces).flatten(2).mT)


def cut_in_pieces(image):
    return functional.unfold(image, PIECE, stride=PIECE - 2).permute(2, 0, 1).reshape(-1, 3, PIECE, PIECE)


def test_an_image_of_several_sizes_comes_in_once_and_is_cut_in_pieces():
    chart = entrance_of(Pyramid(), torch.ones(2, 3, 4 * PIECE, 4 * PIECE))
    (image,) = (node for node in chart.nodes if node.label == "IMAGE")

    assert image.record is not None
    assert image.record.shape == (2, 3, 4 * PIECE, 4 * PIECE)
    assert sorted(list_led(chart)) == ["RESIZED", "RESIZED", "RESIZED × 1"]
    pieces = [f"{count} PIECES OF {PIECE}×{PIECE}, STEP {PIECE - 2}" for count in (2 * 2, 5 * 5)]
    assert [node.label for node in chart.nodes if "PIECES" in node.label] == pieces


class ReadsOneChannel(nn.Module):
    """One channel of pictures, read by two convolutions of the same step whose sum is the stream (EfficientLoFTR)."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(1, WIDTH, 3, 2, 1), nn.Conv2d(1, WIDTH, 1, 2)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, pixel_values):
        grey = pixel_values[:, 0][:, None]
        x = (self.wide(grey) + self.narrow(grey)).relu()
        return self.layers(x.flatten(2).transpose(1, 2))


def test_the_one_channel_that_is_read_has_a_box_and_is_led_to_all_that_read_it():
    chart = entrance_of(ReadsOneChannel(), torch.ones(2, 3, 11, 11))
    names = {node.key: node.label for node in chart.nodes}

    assert list_led(chart) == ["CHANNEL 1 OF 3"]
    led = [names[edge.target] for edge in chart.edges if names[edge.source] == "CHANNEL 1 OF 3"]
    assert led == ["CONVOLUTION 3×3, STEP 2", "CONVOLUTION 1×1, STEP 2"]


class Picks(ReadsOneChannel):
    """What is read of pictures, as it is picked; or of lines whose places are told by three numbers each."""

    def __init__(self, pick, channels):
        super().__init__()
        self.pick, self.find = pick, (nn.Conv1d if channels == 11 else nn.Conv2d)(channels, WIDTH, 3, 2, 1)

    def forward(self, x):
        return self.layers(self.find(self.pick(x)).flatten(2).transpose(1, 2))


@pytest.mark.parametrize(
    ("pick", "picked", "given"),
    [
        (lambda x: x[:], 1, 1),
        (lambda x: x[:, 0][:, None], 1, 6),  # frames, perhaps
        (lambda x: x[:, 0].transpose(1, 2), 11, 3),
    ],
)
def test_what_is_not_known_to_be_a_channel_is_not_called_one(pick, picked, given):
    labels = [node.label for node in entrance_of(Picks(pick, picked), torch.ones(2, given, 11, 11)).nodes]

    assert any("CONVOLUTION 3" in label for label in labels)
    assert not any("CHANNEL" in label for label in labels)


class Hashed(nn.Module):
    """Characters looked up in several tables by what is left over of their ids, each times a prime (CANINE)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(11, WIDTH // 3) for _ in range(3))
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        primes = zip((31, 43, 59), self.tables, strict=True)
        return self.layers(torch.cat([table(((ids + 1) * prime) % 11) for prime, table in primes], dim=-1))


def test_ids_are_led_to_every_table_that_looks_up_what_a_division_leaves():
    chart = entrance_of(Hashed(), torch.arange(14).reshape(2, 7))

    assert list_led(chart) == ["TABLE LOOKUP"] * 3


class Boxes(nn.Module):
    """Where words stand on a page: the ends of a box and how wide it is, each looked up in a table (LiLT)."""

    def __init__(self):
        super().__init__()
        self.end, self.width = nn.Embedding(11, WIDTH), nn.Embedding(11, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, bbox):
        ends = self.end(bbox[..., 0]) + self.end(bbox[..., 1])
        return self.layers(ends + self.width(bbox[..., 1] - bbox[..., 0]))


def test_ids_are_led_to_the_table_that_looks_up_the_difference_of_two_of_them():
    chart = entrance_of(Boxes(), torch.arange(20).reshape(2, 5, 2) // 2)

    assert list_led(chart) == ["3 LOOKUPS IN 2 TABLES, ADDED UP"]


class OwnIds(nn.Module):
    """Words, and beside them two rows of tables whose ids the model makes itself, added up (MarkupLM)."""

    def __init__(self):
        super().__init__()
        self.words, self.mix = nn.Embedding(11, WIDTH), nn.Linear(4 * 7, WIDTH)
        self.tags, self.places = (nn.ModuleList(nn.Embedding(11, 7) for _ in range(4)) for _ in range(2))
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        own = 3 * torch.ones((*ids.shape, 4), dtype=torch.long)
        tags, places = ([table(own[..., n]) for n, table in enumerate(two)] for two in (self.tags, self.places))
        return self.layers(self.words(ids) + self.mix(torch.cat(tags, dim=-1) + torch.cat(places, dim=-1)).relu())


def test_rows_side_by_side_that_are_added_up_have_a_box_for_the_sum():
    chart = entrance_of(OwnIds(), torch.arange(14).reshape(2, 7) % 11)

    labels = {node.key: node.label for node in chart.nodes}
    (linear,) = (edge.source for edge in chart.edges if labels[edge.target].startswith("LINEAR"))
    assert labels[linear] == "ADDED UP"


class Lines(nn.Module):
    """Puts a line of numbers behind itself."""

    def forward(self, line):
        return torch.cat([line, line])


def test_a_line_of_numbers_that_grows_has_no_rows():
    flow = read_flow(xray.trace(Lines(), torch.rand(7)).passes[0])

    assert list_joined(flow, next(place for place, step in enumerate(flow.steps) if step.op == "cat")) == []


class Paired(nn.Module):
    """Two images as one, the first above the other (SegGPT)."""

    def __init__(self, first):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.layers, self.first = nn.ModuleList(FeedForwardPart() for _ in range(3)), first

    def forward(self, image, *example):
        x = self.patches(torch.cat((self.first(image, *example), image), dim=2)).flatten(2).mT
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("first", "many", "told"),
    [
        (lambda _, example: example, 2, ("2 of 2×3×8×20, put end to end",)),
        (lambda _, example: example.sin(), 2, ()),
        (lambda image: image, 1, ("2×3×8×20 twice, put end to end",)),
    ],
)
def test_given_pieces_that_are_put_together_before_they_are_read_are_told(first, many, told):
    chart = entrance_of(Paired(first), *(torch.rand(2, 3, 8, 20) for _ in range(many)))

    assert next(node.told for node in chart.nodes if node.key == "given") == told
