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
