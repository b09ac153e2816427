"""Words and the codes of an image in one row, as DALL-E has them: rows shifted before each part, two softmaxes in one.

The first layer sees all rows; those behind it let words look at words, and each line, or column, of the image at the
words and at itself.
"""

import torch
from torch import nn
from torch.nn.functional import pad

WIDTH, HEADS, WORDS, SIDE, TABLE, CODES = 24, 6, 7, 5, 29, 31
TEXT, IMAGE = WORDS + 1, SIDE * SIDE


def shift(x):
    """Rows of words with half of the word before, those of the image with a quarter of the place above, and before."""
    text, image = x[:, :TEXT], pad(x[:, TEXT:], (0, 0, 0, 1)).reshape(len(x), SIDE, SIDE, WIDTH)
    before, own = text.chunk(2, dim=-1)
    above, left, *rest = image.chunk(4, dim=-1)
    above, left = pad(above, (0, 0, 0, 0, 1, -1)), pad(left, (0, 0, 1, -1))
    image = torch.cat((above, left, *rest), dim=-1).reshape(len(x), IMAGE, WIDTH)[:, :-1]
    return torch.cat((torch.cat((pad(before, (0, 0, 1, -1)), own), dim=-1), image), dim=1)


def weigh(scores):
    hidden = torch.ones(scores.shape[-2:]).triu_(scores.shape[-1] - scores.shape[-2] + 1).bool()
    return scores.masked_fill(hidden, -torch.finfo(scores.dtype).max).softmax(dim=-1)


class Looks(nn.Module):
    """Attention of all rows to all before them."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def cut(self, rows):
        heads = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(rows).chunk(3, dim=-1))
        return [one.reshape(-1, rows.shape[1], WIDTH // HEADS) for one in heads]

    def join(self, found, batch):
        return self.out(found.reshape(batch, HEADS, -1, WIDTH // HEADS).transpose(1, 2).reshape(batch, -1, WIDTH))

    def forward(self, x):
        q, k, v = self.cut(shift(self.norm(x)))
        found = torch.einsum("bij,bjd->bid", weigh(torch.einsum("bid,bjd->bij", q, k) / (WIDTH // HEADS) ** 0.5), v)
        return x + self.join(found, len(x))


class LooksInParts(Looks):
    """Words look at words, and a place of the image at all words and those of its line, or column, up to itself."""

    def __init__(self, *, along_columns, is_bent=False):
        super().__init__()
        self.along_columns, self.is_bent = along_columns, is_bent

    def lay(self, rows):
        laid = rows.reshape(-1, SIDE, SIDE, WIDTH // HEADS)
        return laid.permute(0, 2, 1, 3) if self.along_columns else laid

    def forward(self, x):
        q, k, v = self.cut(pad(shift(self.norm(x)), (0, 0, 0, 1)))
        q = q / (WIDTH // HEADS) ** 0.5
        (words, image), (keys, others), (values, more) = ((one[:, :-IMAGE], one[:, -IMAGE:]) for one in (q, k, v))
        said = torch.einsum("bij,bjd->bid", weigh(torch.einsum("bid,bjd->bij", words, keys)), values)
        image, others, more = map(self.lay, (image, others, more))
        near = torch.einsum("bxid,bxjd->bxij", image, others)
        near = near.tanh() if self.is_bent else near
        weights = weigh(torch.cat((torch.einsum("bxid,bjd->bxij", image, keys), near), dim=-1))
        seen = torch.einsum("bxij,bxjd->bxid", weights[..., TEXT:], more)
        seen = seen + torch.einsum("bxij,bjd->bxid", weights[..., :TEXT], values)
        seen = seen.permute(0, 2, 1, 3) if self.along_columns else seen
        found = self.join(torch.cat((said, seen.reshape(-1, IMAGE, WIDTH // HEADS)), dim=1), len(x))
        return x + found[:, : x.shape[1]]


class LinePlaces(nn.Module):
    """A learned row for each line of an image, and one for each column, added up."""

    def __init__(self):
        super().__init__()
        self.lines = nn.Parameter(torch.rand(1, SIDE, 1, WIDTH))
        self.columns = nn.Parameter(torch.rand(1, 1, SIDE, WIDTH))

    def forward(self, x):
        laid = (one.expand(len(x), SIDE, SIDE, WIDTH).reshape(x.shape) for one in (self.lines, self.columns))
        return sum(laid)[:, : x.shape[1]]


class Thinks(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 41), nn.Linear(41, WIDTH)

    def forward(self, x):
        return x + self.back(nn.functional.gelu(self.wide(shift(self.norm(x)))))


class Draws(nn.Module):
    """Scores for the next word, or code; where no word stands, an id of its place does."""

    def __init__(self, *more):
        super().__init__()
        self.words, self.places = nn.Embedding(TABLE + WORDS, WIDTH), nn.Embedding(TEXT, WIDTH)
        self.codes, self.lines = nn.Embedding(CODES, WIDTH), LinePlaces()
        kinds = (Looks(), LooksInParts(along_columns=False), LooksInParts(along_columns=True), *more)
        self.layers = nn.Sequential(*(part for one in kinds for part in (one, Thinks())))
        self.last, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TABLE + WORDS + CODES)

    def forward(self, ids, codes):
        ids = pad(torch.where(ids == 0, torch.arange(WORDS) + TABLE, ids), (1, 0))
        text = self.words(ids) + self.places(torch.arange(TEXT))
        image = self.codes(codes)
        image = image + self.lines(image)
        return self.scores(self.last(self.layers(torch.cat((text, image), dim=1)[:, :-1])))
