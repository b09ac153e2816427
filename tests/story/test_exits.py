"""What stands above the last layer: several heads of one kind, and learned rows beside those of the stream."""

import re

import pytest
import torch
from handwritten import Attention, Layer
from story.body.test_mistaken import PLACES, WIDTH, AttentionPart, FeedForwardPart, Reader
from story.exit_words import words_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
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
