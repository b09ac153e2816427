"""Which table of words is the last layer too, where each tower has one of its own, or both have the same."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.story.sentences.of_models import describe_tied

WIDTH, WORDS = 15, 31


class Writes(nn.Module):
    """A text, and another one that looks at it; the last layer is the table of the words that are written."""

    def __init__(self, *, shares):
        super().__init__()
        self.read = nn.Embedding(WORDS, WIDTH)
        self.write = self.read if shares else nn.Embedding(WORDS, WIDTH)
        self.reading, self.writing, self.looking = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.write.weight

    def forward(self, ids, written):
        seen = self.read(ids)
        for layer in self.reading:
            seen = layer(seen)
        told = self.write(written)
        for layer, look in zip(self.writing, self.looking, strict=True):
            told = look(layer(told), seen)
        return self.head(told)


@pytest.mark.parametrize(("shares", "of"), [(True, "the"), (False, "the decoder's")])
def test_of_two_tables_of_words_the_one_is_named_that_is_the_last_layer(shares, of):
    model = Writes(shares=shares).eval()
    whole = xray.anatomy(xray.trace(model, torch.arange(14).view(2, 7), torch.arange(10).view(2, 5)))

    assert [tower.vocab for tower in whole.towers] == [WORDS, WORDS]
    assert describe_tied(whole) == f"The table of {of} words is also the last layer: one set of numbers for both."


class Wrapped(nn.Module):
    """Some layers behind a table of words, and what makes scores of their rows, if it is given a size."""

    def __init__(self, table, *layers, scores=None):
        super().__init__()
        self.words, self.layers = table, nn.ModuleList(layers)
        self.head = None if scores is None else nn.Linear(WIDTH, scores, bias=False)

    def forward(self, ids, seen=None):
        told = self.words(ids)
        for layer in self.layers:
            told = layer(told, seen) if seen is not None else layer(told)
        return told if self.head is None else self.head(told)


class Both(nn.Module):
    """Two towers, each in a block of its own, that look words up in one table; the last layer has its own weights."""

    def __init__(self):
        super().__init__()
        table = nn.Embedding(WORDS, WIDTH)
        self.read, self.write = (
            Wrapped(table, *(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)), scores=scores)
            for scores in (None, WORDS)
        )

    def forward(self, ids, written):
        return self.write(written, self.read(ids))


def test_one_table_that_two_towers_look_words_up_in_ties_no_last_layer():
    whole = xray.anatomy(xray.trace(Both().eval(), torch.arange(14).view(2, 7), torch.arange(10).view(2, 5)))

    assert [tower.vocab for tower in whole.towers] == [WORDS, WORDS]
    assert whole.head.tied is False
    assert describe_tied(whole) == ""
