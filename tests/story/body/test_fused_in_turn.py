"""Two streams that look at each other in blocks of one list, between layers of each in lists of their own."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH, WIDE, HEADS, PATCHES, DEPTH = 12, 18, 3, 7, 3


class Fusion(nn.Module):
    """Rows of a picture and words that look at each other, both normed first, and both as they came in."""

    def __init__(self):
        super().__init__()
        self.norm_v, self.norm_l = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.of_words, self.of_picture = Attention(WIDTH, HEADS), Attention(WIDTH, HEADS)

    def forward(self, seen, words):
        seen, words = self.norm_v(seen), self.norm_l(words)
        return seen + self.of_words(seen, words), words + self.of_picture(words, seen)


class RowsFirst(nn.Module):
    """Attention of rows that stand before the batch."""

    def __init__(self):
        super().__init__()
        self.inner = Attention(WIDTH, HEADS)

    def forward(self, x, memory, mask=None):
        return self.inner(x.transpose(0, 1), memory.transpose(0, 1)).transpose(0, 1)


class Grounding(nn.Module):
    """A picture and words, of which these stand before the batch in layers of their own (Grounding DINO)."""

    def __init__(self):
        super().__init__()
        self.table, self.lead = nn.Embedding(11, WIDE), nn.Linear(WIDE, WIDTH)
        self.picture = nn.Linear(4, WIDTH)
        self.bert = nn.ModuleList(Layer(WIDE, Attention(WIDE, HEADS), norm="after") for _ in range(2))
        self.fusion = nn.ModuleList(Fusion() for _ in range(DEPTH))
        self.text = nn.ModuleList(Layer(WIDTH, RowsFirst(), norm="after") for _ in range(DEPTH))
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, HEADS), norm="after") for _ in range(DEPTH))

    def forward(self, patches):
        words = self.table(torch.tensor([[1, 2, 3, 4, 5]]))
        for layer in self.bert:
            words = layer(words)
        seen, words = self.picture(patches), self.lead(words)
        for fusion, text, layer in zip(self.fusion, self.text, self.layers, strict=True):
            seen, words = fusion(seen, words)
            words = text(words.transpose(0, 1)).transpose(0, 1)
            seen = layer(seen)
        return seen, words


def read():
    return xray.trace(Grounding().eval(), torch.rand(1, PATCHES, 4))


def test_streams_of_which_one_stands_before_the_batch_in_between_are_whole():
    towers = xray.anatomy(read()).towers

    assert [(tower.layers, {len(group.stages) for group in tower.groups}) for tower in towers] == [
        (2, {2}),
        (DEPTH, {3}),
        (DEPTH, {3}),
    ]


def test_what_words_are_led_by_that_no_data_came_to_is_counted_with_their_tower():
    trace = read()
    columns = read_columns(trace)
    shares = {name: count for name, _, count in list_shares(columns, trace)}

    assert shares["tokens to stack"] == (WIDE + 1) * WIDTH + 2 * WIDTH
