"""Names on the cards are readable: a path is told by its last part, and a model's name is written smaller, not cut."""

from dataclasses import replace

import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.canvas import Canvas
from xray.story.cards.boxless import find_unsaid
from xray.story.cards.parameters import draw_parameters, shorten
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import gather

WIDTH, WORDS = 15, 31


class Pictures(nn.Module):
    """Convolutions whose results are added (ResNet)."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.rest = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(4))

    def forward(self, x):
        x = self.first(x)
        for layer in self.rest:
            x = torch.relu(x + layer(x))
        return x


class AWriterOfWordsOneBehindTheOtherForConditionalGeneration(nn.Module):
    """Parameters that nothing works with, at paths that begin alike (LED)."""

    def __init__(self):
        super().__init__()
        unused = {name: nn.Linear(WIDTH, WIDTH) for name in ("query_global", "key_global")}
        self.longformer_self_attention = nn.ModuleDict({"words": nn.Embedding(WORDS, WIDTH), **unused})
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))

    def forward(self, ids):
        x = self.longformer_self_attention["words"](ids)
        for layer in self.layers:
            x = layer(x)
        return x


def test_paths_that_begin_alike_are_told_by_their_ends_and_the_name_of_the_model_is_whole():
    model = AWriterOfWordsOneBehindTheOtherForConditionalGeneration().eval()
    layout = compose_poster(xray.trace(model, torch.arange(14).view(2, 7)), text_width)

    told = lines_of(layout)
    assert type(model).__name__ in told
    ends = {line.rpartition(": ")[2].removeprefix("…") for line in told if "unused: " in line}
    assert {"query_global", "key_global"} <= ends


def test_a_name_is_shortened_only_where_it_is_too_wide():
    assert shorten("unused: one.two", 400, text_width) == "unused: one.two"
    assert shorten("unused: one.two", 60, text_width) == "unused: …two"
    assert shorten("unused: one.two.three", 60, text_width) == "unused: …three"
    assert shorten("encoder self-attention × 12", 60, text_width) == "encoder self-attention × 12"


def test_how_many_sets_of_weights_correct_boxes_has_room_beside_the_bars():
    trace = xray.trace(AWriterOfWordsOneBehindTheOtherForConditionalGeneration().eval(), torch.arange(14).view(2, 7))
    name = "decoder boxes corrected × 5, weights of 1"
    told = gather(trace, xray.anatomy(trace), columns := read_columns(trace), find_unsaid(columns))
    canvas = Canvas(text_width)

    draw_parameters(replace(told, shares=((name, "card", 133_924),)), canvas, 0.0)

    assert name in ["".join(run.text for run in line) for box in canvas.boxes for line in box.lines]


def test_what_has_no_attention_is_called_no_transformer():
    writer = AWriterOfWordsOneBehindTheOtherForConditionalGeneration().eval()
    heads = [
        set(lines_of(compose_poster(xray.trace(model, given), text_width))) & {"TRANSFORMER", "NETWORK"}
        for model, given in [(Pictures().eval(), torch.rand(2, 3, 7, 7)), (writer, torch.arange(14).view(2, 7))]
    ]

    assert heads == [{"NETWORK"}, {"TRANSFORMER"}]
