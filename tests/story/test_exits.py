"""What stands above the last layer: several heads of one kind, and learned rows beside those of the stream."""

import re

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import PLACES, WIDTH, AttentionPart, FeedForwardPart, Reader, rows
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.renderers.sheet.poster import draw_poster
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

CODES = 3


class Codes(Reader):
    """Scores of each book of codes, one behind the other (MusicGen)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.heads = nn.LayerNorm(WIDTH), nn.ModuleList(nn.Linear(WIDTH, 9) for _ in range(CODES))

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        return torch.stack([head(x) for head in self.heads], dim=1)


class Sings(nn.Module):
    """Ids become scores of codes, by a head for each of several books (MusicGen)."""

    def __init__(self, scored):
        super().__init__()
        self.words = nn.Embedding(11, WIDTH)
        self.layers = nn.ModuleList([AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart()])
        self.norm, self.heads = nn.LayerNorm(WIDTH), nn.ModuleList(nn.Linear(WIDTH, scored) for _ in range(CODES))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return torch.stack([head(x) for head in self.heads], dim=1)


@pytest.mark.parametrize(("scored", "told"), [(9, ["vocab 9", "ids 11"]), (2, ["vocab 11"])])
def test_codes_that_several_heads_score_are_counted_apart_from_the_ids(scored, told):
    layout = compose_poster(xray.trace(Sings(scored).eval(), torch.randint(11, (2, PLACES))), text_width)

    texts = " ".join(run.text for box in layout.boxes for line in box.lines for run in line)
    assert re.findall(r"(?:vocab|ids)  ?\d+", re.sub(" +", " ", texts)) == told


class Marked(Reader):
    """Rows between one that begins and one that ends them, normalised together (HunYuan-VL)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.project, self.norm = nn.Linear(7, WIDTH), nn.LayerNorm(8)
        self.out, self.begin, self.end = nn.Linear(WIDTH, 8), nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))

    def forward(self, x, kind=None):
        x = self.out(super().forward(x, kind))
        begin, end = (one.reshape(1, 1, -1).expand(len(x), 1, -1) for one in (self.begin, self.end))
        return self.norm(torch.cat([begin, x, end], dim=1))


class Mended(Reader):
    """What a linear layer gives, and convolutions over its places that are added to it (FastSpeech 2's postnet)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.out, self.drop = nn.Linear(WIDTH, 8), nn.Dropout(0.5)
        self.one, self.two = nn.Conv1d(8, 13, 3, padding=1), nn.Conv1d(13, 8, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm1d(13), nn.BatchNorm1d(8)])

    def forward(self, x, kind=None):
        x = self.out(super().forward(x, kind))
        y = self.drop(self.norms[0](self.one(x.mT)).tanh())
        return x + self.drop(self.norms[1](self.two(y))).mT


class Convolved(Reader):
    """Rows that become a signal through convolutions, of which one is added to what it reads (Mimi's decoder)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.raise_, self.mix = nn.ConvTranspose1d(WIDTH, 6, 4, stride=2), nn.Conv1d(6, 6, 3, padding=1)
        self.end = nn.Conv1d(6, 1, 3)

    def forward(self, x, kind=None):
        x = self.raise_(super().forward(x, kind).mT)
        return self.end(x + self.mix(nn.functional.elu(x)))


def words_of(make):
    model = make(*(part() for _ in range(2) for part in (AttentionPart, FeedForwardPart))).eval()
    with torch.no_grad():
        drawn = draw_poster(xray.trace(model, rows()), "svg")
    return [word for word in re.split("<[^>]+>", drawn) if word.strip()]


def test_all_heads_that_are_put_together_are_drawn():
    words = words_of(Codes)
    above = words[words.index("LAST NORM") :]

    assert above.count("LINEAR") == CODES
    assert "STACKED" in above
    assert not [word for word in words if "Not drawn" in word]


def test_the_convolutions_by_which_rows_become_a_signal_are_drawn():
    words = words_of(Convolved)

    assert [word for word in words if "CONVOLUTION" in word or word in ("ELU", "ADDED UP")] == [
        "TRANSPOSED CONVOLUTION 4, STEP 2",
        "ELU",
        "CONVOLUTION 3",
        "ADDED UP",
        "CONVOLUTION 3",
    ]
    assert not [word for word in words if "Not drawn" in word]


class Narrowed(Reader):
    """Rows that are normalised, made narrow and go through one convolution, which ends all (Nemotron's speakers)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.out, self.end = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8), nn.Conv1d(8, 16, 3, padding=1)

    def forward(self, x, kind=None):
        return self.end(self.out(self.norm(super().forward(x, kind))).mT).mT


def test_one_convolution_behind_the_last_norm_and_a_linear_layer_ends_the_tower():
    words = words_of(Narrowed)
    above = words[words.index("LAST NORM") :]

    assert above.index("LINEAR") < above.index("CONVOLUTION 3")
    assert not [word for word in words if "Not drawn" in word]


def test_learned_rows_beside_those_of_the_stream_are_told_with_their_number():
    assert f"LEARNED ROWS BESIDE: {PLACES} + 2" in words_of(Marked)


class Biased(Reader):
    """A bias of words that stands apart from the layer that scores them (BART)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 9, bias=False)
        self.register_buffer("final_bias", torch.zeros(1, 9))

    def forward(self, x, kind=None):
        return torch.tanh(self.head(self.norm(super().forward(x, kind))) + self.final_bias)


def test_what_is_added_and_bent_behind_the_last_layer_is_drawn_in_its_order():
    words = words_of(Biased)

    drawn = [word for word in words[words.index("LAST NORM") :] if word in ("LINEAR", "+ A BIAS", "TANH")]
    assert drawn == ["LINEAR", "+ A BIAS", "TANH"]
    assert not [word for word in words if "in no box" in word]


class Met(Reader):
    """A few rows of what comes in meet what the layers make of all of them."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.bring = nn.LayerNorm(WIDTH), nn.Linear(7, WIDTH)

    def forward(self, x, kind=None):
        return self.bring(x[:, :3]) @ self.norm(super().forward(x, kind)).mT


def test_rows_that_others_meet_are_not_told_as_weighed_and_added_up():
    assert "ROWS WEIGHED, ADDED UP" not in words_of(Met)


class Looked(Reader):
    """Scores by the rows of a table, and a bias of the same head (Perceiver)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm = nn.LayerNorm(WIDTH)
        self.table, self.bias = nn.Parameter(torch.ones(9, WIDTH)), nn.Parameter(torch.zeros(9))

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        return (x.flatten(0, 1) @ self.table.T + self.bias).unflatten(0, x.shape[:2])


def test_the_bias_of_a_product_is_drawn_with_it_alone():
    words = words_of(Looked)

    assert "LINEAR" in words[words.index("LAST NORM") :]
    assert "+ A BIAS" not in words


class KeptAll(nn.Module):
    """What each layer gives through one more norm, and what the last one gives by itself too (Grounding DINO)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="after") for _ in range(3))
        self.norm = nn.LayerNorm(15)

    def forward(self, x):
        kept = []
        for layer in self.layers:
            x = layer(x)
            kept.append(self.norm(x))
        return torch.stack(kept), self.norm(x)


def test_the_norm_of_the_last_layer_is_not_drawn_behind_it_again():
    (column,) = read_columns(xray.trace(KeptAll().eval(), torch.rand(2, 7, 15)))

    assert {node.label for node in column.exit.nodes} == {"LAST NORM"}


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
    assert "LINEAR OF A WEIGHED MEAN OF ROWS" in words_of(Weighed)


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
        self.register_buffer("places", torch.rand(PLACES, 8))

    def forward(self, x, kind=None):
        return self.two(self.one(self.norm(Reader.forward(self, x, kind))) + self.places)


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
    assert labels == ["LINEAR", "GELU", "× ROWS FROM BESIDE", "LINEAR TO VOCABULARY"]


class Sounding(Reader):
    """How strong each frequency is, and where it begins, back to a signal by pieces laid over each other (Vocos)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * 7)
        self.register_buffer("window", torch.hann_window(12))

    def forward(self, x, kind=None):
        strength, phase = self.head(self.norm(super().forward(x, kind))).chunk(2, dim=-1)
        pieces = torch.fft.irfft(torch.polar(self.mix(strength.exp()), phase), 12, dim=-1) * self.window
        size = (1, 3 * (pieces.shape[1] - 1) + 12)
        return nn.functional.fold(pieces.mT, size, kernel_size=(1, 12), stride=(1, 3))[:, 0, 0]

    def mix(self, strength):
        return strength


class Learned(Sounding):
    """The same with learned shares of frequencies: more than a way back."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.shares = nn.Linear(7, 7)

    def mix(self, strength):
        return self.shares(strength)


def test_the_way_back_from_frequencies_to_a_signal_is_drawn():
    words = words_of(Sounding)
    above = words[words.index("LAST NORM") :]

    assert "INVERSE FOURIER TRANSFORM" in above
    assert "PIECES LAID OVER EACH OTHER" in above
    assert "A signal comes out." in words
    assert not [word for word in words if "in no box" in word]
    assert "PIECES LAID OVER EACH OTHER" not in words_of(Learned)


def test_what_convolutions_add_to_a_head_ends_in_their_sum():
    words = words_of(Mended)

    assert "ADDED UP" in words[max(place for place, word in enumerate(words) if word == "BATCH NORM") :]
    assert not [word for word in words if "in no box" in word]


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


class ScoresByTable(nn.Module):
    """Learned rows that look at words, and scores by the table of these words, or one as large (Perceiver)."""

    def __init__(self, is_one):
        super().__init__()
        self.rows, self.words = nn.Parameter(torch.zeros(5, 15)), nn.Embedding(11, 15)
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(3))
        self.table = self.words.weight if is_one else nn.Parameter(torch.zeros(11, 15))

    def forward(self, ids):
        x, read = self.rows.expand(len(ids), -1, -1), self.words(ids)
        for layer in self.layers:
            x = layer(x, read)
        return (x.flatten(0, 1) @ self.table.T).unflatten(0, x.shape[:2])


@pytest.mark.parametrize("is_one", [True, False])
def test_a_head_by_the_table_of_words_that_the_layers_look_at_says_so(is_one):
    trace = xray.trace(ScoresByTable(is_one).eval(), torch.arange(14).view(2, 7) % 11)

    told = [run.text for box in compose_poster(trace, text_width).boxes for line in box.lines for run in line]
    assert ("The table of the words is also the last layer" in " ".join(told)) == is_one
    assert ("vocab " in told) == is_one
    assert xray.anatomy(trace).head.tied is (True if is_one else None)


@pytest.mark.parametrize(
    ("is_one", "told"),
    [
        (True, ("LINEAR TO VOCABULARY", "same weights as the table of the words", (2, 5, 11), "vocab")),
        (False, ("LINEAR", "165 parameters", (10, 11), "")),
    ],
)
def test_a_product_with_the_table_of_words_says_so_and_gives_scores_for_each_row(is_one, told):
    (column,) = read_columns(xray.trace(ScoresByTable(is_one).eval(), torch.arange(14).view(2, 7) % 11))
    node = column.exit.nodes[-1]

    assert (node.label, node.extra, node.record.shape, node.record.axes[-1]) == told


class TableAndBias(nn.Module):
    """Layers of words, and scores by the table of the words with a bias that is added behind (ESM-2)."""

    def __init__(self):
        super().__init__()
        self.words, self.bias = nn.Embedding(11, 15), nn.Parameter(torch.zeros(11))
        self.layers = nn.ModuleList(Layer(15, Attention(15, 3), norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.linear(x, self.words.weight) + self.bias


def test_of_a_product_with_the_table_of_words_the_bias_alone_is_its_own():
    (column,) = read_columns(xray.trace(TableAndBias().eval(), torch.arange(14).view(2, 7) % 11))

    assert column.exit.nodes[-1].extra == "same weights as the table of the words, 11 parameters of its own"


class Twice(Reader):
    """Two linear layers of the same rows, which are no words (AIMv2)."""

    def __init__(self, *layers):
        super().__init__(*layers)
        self.norm, self.ways = nn.LayerNorm(WIDTH), nn.ModuleList(nn.Linear(WIDTH, 23) for _ in range(2))

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        return tuple(way(x) for way in self.ways)


def test_layers_of_the_same_rows_score_no_words_where_none_came_in():
    trace = xray.trace(Twice(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart()).eval(), rows())

    told = [run.text for box in compose_poster(trace, text_width).boxes for line in box.lines for run in line]
    assert "vocab " not in told


class Scored(Reader):
    """A norm behind all layers, and a score for each of its rows; what is normalised may be handed out too."""

    def __init__(self, *layers, both):
        super().__init__(*layers)
        self.norm, self.score, self.both = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1), both

    def forward(self, x, kind=None):
        x = self.norm(super().forward(x, kind))
        return (self.score(x), x) if self.both else self.score(x)


@pytest.mark.parametrize(("both", "told"), [(True, ("handed out too",)), (False, ())])
def test_what_is_read_above_the_layers_and_handed_out_says_so(both, told):
    parts = (AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
    (column,) = read_columns(xray.trace(Scored(*parts, both=both).eval(), rows()))

    assert [(node.label, node.told) for node in column.exit.nodes] == [("LAST NORM", told), ("LINEAR", ())]


class TakenApart(Scored):
    """What is normalised leaves moved, or cut into its first row and others, beside the scores of its rows."""

    def __init__(self, *layers, take):
        super().__init__(*layers, both=False)
        self.take = take

    def forward(self, x, kind=None):
        x = self.norm(Reader.forward(self, x, kind))
        return self.score(x), *self.take(x)


@pytest.mark.parametrize(
    ("take", "told"),
    [
        (lambda x: (x.flatten(0, 1),), ("handed out too",)),
        (lambda x: (x[:, 0], x[:, 1:]), ("handed out too",)),
        (lambda x: (x[:, 1:],), ("some of its rows are handed out too",)),
        (lambda x: (x + 1,), ()),
    ],
)
def test_what_is_handed_out_moved_or_cut_says_so_where_it_is_made(take, told):
    parts = (AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
    (column,) = read_columns(xray.trace(TakenApart(*parts, take=take).eval(), rows()))

    assert next(node.told for node in column.exit.nodes if "NORM" in node.label) == told


class LeftBehind(Scored):
    """Rows are normalised behind the layers, and scored as they were before, or moved by their norm's numbers."""

    def __init__(self, *layers, read):
        super().__init__(*layers, both=False)
        self.read = read

    def forward(self, x, kind=None):
        x = Reader.forward(self, x, kind)
        return self.read(self.norm(x), x, self.score)


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda normed, rows, score: (rows, score(normed)), ()),
        (lambda normed, rows, score: rows, ("read by nothing",)),
        (lambda normed, rows, score: (rows, normed.flatten()), ()),
    ],
)
def test_a_last_norm_that_nothing_reads_says_so(read, told):
    parts = (AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
    (column,) = read_columns(xray.trace(LeftBehind(*parts, read=read).eval(), rows()))

    assert next(node.told for node in column.exit.nodes if "NORM" in node.label) == told
