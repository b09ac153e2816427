"""What becomes of rows behind the last layer: one of them, sums and means, places, streams that become one."""

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import PLACES, WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from story.entrances import HeldPlaces
from story.exit_words import words_of
from torch import nn

import xray
from xray.renderers.sheet.poster import draw_poster
from xray.story.sheet.columns import read_columns


class FirstOnly(Reader):
    """The first row of each sequence is all that a model gives."""

    def forward(self, x, kind=None):
        return super().forward(x, kind)[:, 0, :]


class NormedAfter(nn.Module):
    """A feed-forward that is normalised behind its sum (DPR)."""

    def __init__(self):
        super().__init__()
        self.part, self.norm = FeedForwardPart(), nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.norm(self.part(x))


@pytest.mark.parametrize("part", [FeedForwardPart, NormedAfter])
def test_the_one_row_with_which_all_ends_has_a_box(part):
    labels = []
    for make in (FirstOnly, Reader):
        (column,) = read_columns(xray.trace(make(*(part() for _ in range(3))).eval(), rows()))
        labels.append([] if column.exit is None else [node.label for node in column.exit.nodes])

    assert labels == [["THE FIRST ROW"], ["WHAT LAYER 3 GAVE"]]


class Corrected(Reader):
    """What the layers give is a small change of what they began with (Nemotron 3.5 Transcribe's times of words)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.begin, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, kind=None):
        began = self.project(x)
        x = self.begin(began)
        for layer in self.layers:
            x = layer(x)
        return began + began.new_tensor(0.25) * self.norm(x)


def test_a_sum_with_what_came_before_the_layers_is_drawn_behind_them():
    words = words_of(Corrected)

    above = words[words.index("LAST NORM") :]
    assert [word for word in above if word == "÷ 4" or word.startswith("+ WHAT")] == ["÷ 4", "+ WHAT LINEAR GAVE"]
    assert not [word for word in words if "in no box" in word]


class AsBegun(Corrected):
    """What the first layer read is added."""

    def forward(self, x, kind=None):
        began = x = self.begin(self.project(x))
        for layer in self.layers:
            x = layer(x)
        return began + self.norm(x)


def test_a_sum_with_what_the_first_layer_read_is_called_so():
    assert [word for word in words_of(AsBegun) if word.startswith("+ WHAT")] == ["+ WHAT CAME BEFORE THE LAYERS"]


class Beside(Reader):
    """A head that reads the first row beside the mean of the others (DINOv2)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.head = nn.Linear(2 * WIDTH, 3)

    def forward(self, x, kind=None):
        x = super().forward(x, kind)
        return self.head(torch.cat((x[:, 0], x[:, 1:].mean(dim=1)), dim=1))


class Weighed(Reader):
    """A head that reads the mean of the rows that count (SigLIP 2)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x, kind=None):
        x = super().forward(x, kind)
        counts = torch.ones(len(x), PLACES, 1)
        return self.head((x * counts).sum(dim=1) / counts.sum(dim=1))


def test_what_a_head_reads_of_the_rows_is_told_of_each_of_two_parts():
    assert "THE FIRST ROW BESIDE A MEAN OF ROWS" in words_of(Beside)


def test_a_mean_of_the_rows_that_count_is_told():
    words = words_of(Weighed)

    assert "LINEAR OF A WEIGHED MEAN OF ROWS" in words
    assert "× ONE NUMBER FOR EACH PLACE" not in words
    assert "ADDED UP" not in words


class MeanOfSome(Reader):
    """The mean of the first rows behind the last norm, handed out beside all of them (Pixio)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        return x, x[:, :2, :].mean(dim=1)


class MeanOfAll(MeanOfSome):
    """The mean of all rows."""

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x, kind))
        return x, x.mean(dim=1)


@pytest.mark.parametrize(("make", "told"), [(MeanOfSome, "A MEAN OF THE FIRST 2 ROWS"), (MeanOfAll, "A MEAN OF ROWS")])
def test_a_mean_of_rows_behind_the_last_norm_is_drawn(make, told):
    words = words_of(make)

    assert told in words[words.index("LAST NORM") :]
    assert not [word for word in words if "in no box" in word]


class Shuffled(MeanOfSome):
    """The rows in another order behind the last norm, two of them side by side, their numbers in turn (Muse Spark)."""

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x[:1], kind))[0][torch.arange(PLACES).flip(0)][1:]
        return x.view(-1, 2, WIDTH).permute(0, 2, 1).reshape(-1, 2 * WIDTH)


def test_rows_laid_side_by_side_behind_the_last_norm_are_drawn():
    words = words_of(Shuffled)

    above = words[words.index("LAST NORM") :]
    assert [word for word in above if "ROWS IN" in word or "SIDE BY SIDE" in word] == [
        "ROWS IN A GIVEN ORDER",
        "2 PLACES SIDE BY SIDE, CHANNEL BY CHANNEL",
    ]


class Summed(Reader):
    """Sums of rows by fixed weights, times a number, and no norm behind the layers (Gemma 4's vision)."""

    def forward(self, x, kind=None):
        weights = torch.ones(len(x), 2, PLACES).softmax(-1)
        return (weights @ super().forward(x, kind)) * 3.5


def test_rows_added_up_by_weights_behind_layers_without_a_last_norm_are_drawn():
    words = words_of(Summed)

    assert [word for word in words if word in ("ROWS WEIGHED, ADDED UP", "× 3.5")] == [
        "ROWS WEIGHED, ADDED UP",
        "× 3.5",
    ]
    assert not [word for word in words if "in no box" in word]


class Placed(MeanOfSome):
    """Rows that get places, which are no parameters, between two layers behind the last norm (Granite Docling)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.one, self.two = nn.Linear(WIDTH, 8), nn.Linear(8, 5)
        self.places = HeldPlaces(torch.rand(PLACES, 8))

    def forward(self, x, kind=None):
        return self.two(self.one(self.norm(Reader.forward(self, x, kind))) + self.places(PLACES))


def test_places_that_are_added_behind_the_last_norm_are_drawn():
    words = words_of(Placed)

    above = words[words.index("LAST NORM") :]
    assert [word for word in above if word in ("LINEAR", "+ PLACES")] == ["LINEAR", "+ PLACES", "LINEAR"]


class Apart(MeanOfSome):
    """Two halves of the rows, each worked on alone, end to end again (HunYuan-VL's vision)."""

    def forward(self, x, kind=None):
        x = Reader.forward(self, x, kind)
        return torch.cat([self.norm(half) for half in (x[:, :2], x[:, 2:4])], dim=1)


def test_each_of_several_pieces_that_are_put_together_again_is_drawn():
    words = words_of(Apart)

    assert words.count("LAYER NORM") + words.count("LAST NORM") == len(("layer", "layer", "half", "half"))
    assert "END TO END" in words


def test_means_of_neighbouring_places_behind_a_map_are_drawn():
    model = nn.Sequential(*(Kept() for _ in range(3)), nn.Conv2d(6, 10, 3), nn.BatchNorm2d(10), nn.AvgPool2d((3, 2)))
    drawn = draw_poster(xray.trace(model.eval(), torch.rand(2, 6, 17, 17)), "svg")

    assert "MEAN POOL 3×2" in drawn


class Kept(nn.Module):
    """A convolution whose result is added to what it reads."""

    def __init__(self):
        super().__init__()
        self.norm, self.convolution = nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x):
        return x + self.convolution(torch.relu(self.norm(x)))


class Gated(nn.Module):
    """Behind its layers rows are multiplied by what a table of their own holds for each word (Gemma 3n)."""

    def __init__(self):
        super().__init__()
        self.words, self.beside = nn.Embedding(23, WIDTH), nn.Embedding(23, 7)
        self.layers = nn.Sequential(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart)))
        self.narrow, self.last = nn.Linear(WIDTH, 7), nn.Linear(7, 23)

    def forward(self, ids):
        beside = self.beside(ids)
        return self.last(nn.functional.gelu(self.narrow(self.layers(self.words(ids)))) * beside)


def test_rows_made_before_the_layers_that_multiply_those_behind_them_are_told():
    (column,) = read_columns(xray.trace(Gated(), torch.arange(10).view(2, 5)))

    labels = [node.label for node in column.exit.nodes]
    assert labels == ["LINEAR", "GELU", "MULTIPLIED", "LINEAR TO VOCABULARY"]


class Weighing(nn.Module):
    """Weights of several streams, worked out of them all; those of a norm are multiplied by what it divides (HY 4)."""

    def __init__(self, count, wide):
        super().__init__()
        self.weigh, self.base = nn.Linear(count * WIDTH, wide, bias=False), nn.Parameter(torch.zeros(wide))

    def forward(self, streams):
        flat = streams.flatten(2)
        scale = torch.rsqrt(flat.square().mean(-1, keepdim=True) + 1e-6)
        return torch.sigmoid(self.weigh(flat) * scale + self.base)


class OfStreams(nn.Module):
    """A sublayer that reads one row of several streams, and gives each of them its share."""

    def __init__(self, layer, count):
        super().__init__()
        self.layer, self.weighing = layer, Weighing(count, 2 * count)

    def forward(self, streams):
        taken, given = self.weighing(streams).chunk(2, -1)
        row = (taken.unsqueeze(-1) * streams).sum(dim=2)
        return given.unsqueeze(-1) * self.layer(row).unsqueeze(-2) + streams


class Streams(nn.Module):
    """Layers over several streams, which become one row behind them."""

    def __init__(self, count=3):
        super().__init__()
        self.project, self.count, self.norm = nn.Linear(7, WIDTH), count, nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(
            OfStreams(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31), nn.ReLU(), nn.Linear(31, WIDTH)), count)
            for _ in range(3)
        )
        self.last = Weighing(count, count)

    def forward(self, x):
        streams = self.project(x).unsqueeze(2).expand(-1, -1, self.count, -1).contiguous()
        for layer in self.layers:
            streams = layer(streams)
        return self.norm((self.last(streams).unsqueeze(-1) * streams).sum(dim=2))


def test_streams_begin_as_copies_of_one_row():
    (column,) = read_columns(xray.trace(Streams(count=3).eval(), rows()))
    assert column.entrance is not None

    assert [node.label for node in column.entrance.nodes][-2:] == ["LINEAR", "3 COPIES, SIDE BY SIDE"]
    assert column.entrance.node(column.entrance.heads[0]).label == "3 COPIES, SIDE BY SIDE"


def test_streams_become_one_row_behind_the_last_layer_in_one_box_with_what_weighs_them():
    model = Streams(count=3).eval()
    (column,) = read_columns(xray.trace(model, rows()))
    assert column.exit is not None
    told = [(node.label, node.extra) for node in column.exit.nodes]

    assert column.towering.tower.streams == 3
    assert told == [("3 STREAMS INTO ONE", f"{3 * WIDTH * 3 + 3} parameters"), ("LAST NORM", f"{2 * WIDTH} parameters")]


class Padded(nn.Module):
    """An encoder of rows and three of nothing behind them; the decoder looks at all of them, or at the first (LED)."""

    def __init__(self, *, cuts):
        super().__init__()
        self.cuts, self.lead, self.words = cuts, nn.Linear(7, 15), nn.Embedding(11, 15)
        self.first, self.second = (
            nn.ModuleList(Layer(15, Attention(15, 3), norm="after") for _ in range(count)) for count in (3, 4)
        )

    def forward(self, rows, ids):
        x, y = nn.functional.pad(self.lead(rows), (0, 0, 0, 3)), self.words(ids)
        for layer in self.first:
            x = layer(x)
        x = x[:, :-3] if self.cuts else x
        for number, layer in enumerate(self.second):
            y = layer(y, x if number % 2 else None)
        return y


@pytest.mark.parametrize(("cuts", "told"), [(True, ["ALL ROWS BUT THE LAST 3"]), (False, [])])
def test_rows_that_alone_are_a_memory_have_a_box_behind_the_last_layer(cuts, told):
    first, *_ = read_columns(xray.trace(Padded(cuts=cuts).eval(), torch.rand(2, 5, 7), torch.randint(11, (2, 6))))

    assert ([node.label for node in first.exit.nodes] if first.exit else []) == told


class NormedAgain(Reader):
    """A norm behind all layers, a linear layer, and a norm of what that gives (Muse Spark's audio)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.out, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 11), nn.RMSNorm(11)

    def forward(self, x, kind=None):
        return self.last(self.out(self.norm(super().forward(x, kind))))


def test_a_norm_behind_which_another_one_stands_is_not_called_the_last():
    (column,) = read_columns(xray.trace(NormedAgain(AttentionPart(), FeedForwardPart()).eval(), rows()))

    assert [node.label for node in column.exit.nodes] == ["LAYER NORM", "LINEAR", "RMS NORM"]


class Bent(nn.Module):
    """A feed-forward with a bend behind its sum (ResNet)."""

    def __init__(self):
        super().__init__()
        self.part = FeedForwardPart()

    def forward(self, x):
        return torch.relu(self.part(x))


class MeanInFront(MeanOfSome):
    """The mean of all rows stands in front of them (the pool of CLIP's ResNet)."""

    def forward(self, x, kind=None):
        made = Reader.forward(self, x, kind)
        return self.norm(torch.cat((made.mean(1, keepdim=True), made), dim=1))


def test_rows_that_are_bent_last_lead_to_their_mean_and_to_what_lays_it_in_front():
    (column,) = read_columns(xray.trace(MeanInFront(*(Bent() for _ in range(3))).eval(), rows()))

    labels = {node.key: node.label for node in column.exit.nodes}
    assert [labels[key] for key in column.exit.feet] == [f"MEAN OF {PLACES}", "END TO END"]
