"""A stream that begins as some of the rows that were put into a tensor of nothing, where numbers from outside said."""

import torch
from handwritten import Attention, Layer
from torch import nn

import xray

WORDS, ROWS = 5, 7


class Packed(nn.Module):
    """Words and patches of an image in one tensor, cut apart again: each part has layers of its own (Cosmos 3)."""

    def __init__(self):
        super().__init__()
        self.words, self.patches = nn.Embedding(17, 12), nn.Linear(12, 12)
        self.first, self.then = (
            nn.ModuleList(Layer(12, Attention(12, 3), norm="before") for _ in range(2)) for _ in range(2)
        )
        self.out = nn.Linear(12, 3)

    def forward(self, ids, image, said, seen):
        x = torch.zeros(2, WORDS + ROWS, 12)
        x[:, said] = self.words(ids)
        x[:, seen] = self.patches(image.unflatten(-1, (ROWS, 2)).permute(0, 3, 1, 2, 4).flatten(2))
        words, rows = x[:, :WORDS], x[:, WORDS:]
        for one, other in zip(self.first, self.then, strict=True):
            words, rows = one(words), other(rows)
        return self.out(torch.cat([words, rows], dim=1))


def test_words_are_told_of_no_stream_of_which_it_is_not_known_that_they_are_among_its_rows():
    ids, places = torch.arange(2 * WORDS).view(2, WORDS), torch.arange(WORDS + ROWS)
    trace = xray.trace(Packed(), ids, torch.rand(2, 3, 2, 2 * ROWS), places[:WORDS], places[WORDS:])
    towers = xray.anatomy(trace).towers

    assert [(one.reads, one.vocab) for one in towers] == [(None, None)] * 2
