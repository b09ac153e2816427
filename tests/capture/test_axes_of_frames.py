"""No axis along which places look at each other is the batch, and none that holds frames of several films."""

import pytest
import torch
from capture.recorded_axes import axes_of
from torch import nn
from torch.nn import functional

WIDTH, HEADS = 12, 3


class Attention(nn.Module):
    def __init__(self, *, fused=False):
        super().__init__()
        self.all, self.out, self.fused = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), fused

    def forward(self, x):
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        query, key, value = (one.view(shape).transpose(1, 2) for one in self.all(x).chunk(3, dim=-1))
        if self.fused:
            found = functional.scaled_dot_product_attention(query, key, value)
        else:
            found = (query @ key.mT * 0.5).softmax(-1) @ value
        return x + self.out(found.transpose(1, 2).flatten(2))


class Films(nn.Module):
    """Films of (batch, frames, channels, height, width): attention within each frame, then across the frames."""

    def __init__(self, *, fused=False, across=True):
        super().__init__()
        self.cut = nn.Conv2d(3, WIDTH, 2, stride=2)
        self.within, self.across = Attention(fused=fused), Attention(fused=fused) if across else None

    def forward(self, films):
        x = self.within(self.cut(films.flatten(0, 1)).flatten(2).mT)
        if self.across is None:
            return x
        x = x.view(*films.shape[:2], *x.shape[1:]).transpose(1, 2)
        return self.across(x.flatten(0, 1))


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("batch", "frames"), [(1, 5), (1, 16), (2, 4), (4, 4)])
def test_no_frames_are_the_batch(batch, frames, fused, across):
    found = axes_of(Films(fused=fused, across=across), torch.rand(batch, frames, 3, 8, 8))

    assert found["within.all"] == [("", "", "")]
    assert found.get("across.all", [("", "", "")]) == [("", "", "")]


class Alignment(nn.Module):
    """Ids in rows: attention along each row, then along each column (AlphaFold)."""

    def __init__(self):
        super().__init__()
        self.words, self.rows, self.columns = nn.Embedding(9, WIDTH), Attention(), Attention()

    def forward(self, ids):
        x = self.words(ids)
        x = self.rows(x.flatten(0, 1)).view(x.shape)
        return self.columns(x.transpose(1, 2).flatten(0, 1))


def test_rows_of_an_alignment_are_neither_the_batch_nor_the_words_of_a_sequence():
    found = axes_of(Alignment(), torch.zeros(1, 5, 7, dtype=torch.long))

    assert found["rows.all"] == [("", "seq_len", "")]
    assert found["columns.all"] == [("seq_len", "", "")]


class Words(nn.Module):
    """Plain attention between words, which keeps its batch at any size."""

    def __init__(self):
        super().__init__()
        self.words, self.attention = nn.Embedding(9, WIDTH), Attention()

    def forward(self, ids):
        return self.attention(self.words(ids))


@pytest.mark.parametrize("shape", [(2, 7), (1, 7), (7, 7), (HEADS, HEADS)])
def test_sequences_are_the_batch(shape):
    found = axes_of(Words(), torch.zeros(shape, dtype=torch.long))

    assert found["attention.all"][0][:2] == ("batch", "seq_len")
