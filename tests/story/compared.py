"""Small models that compare what two towers make."""

import torch
from handwritten import Attention, Layer
from torch import nn

WIDTH, SHARED = 15, 10


def divided(rows):
    return rows / rows.pow(2).sum(-1, keepdim=True).sqrt()


def times_one_by_root(rows):
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + 1e-6)


class Compares(nn.Module):
    """An image and words, the first row of each brought to one width and compared (CLIP)."""

    def __init__(self, shorten):
        super().__init__()
        self.shorten = shorten
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.eye, self.text = (
            nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2)) for _ in range(2)
        )
        self.seen, self.read = nn.Linear(WIDTH, SHARED), nn.Linear(WIDTH, SHARED)
        self.scale = nn.Parameter(torch.zeros(()))

    def work(self, ids, image):
        """The rows of both, behind their layers."""
        seen, read = self.patches(image).flatten(2).mT, self.words(ids)
        for layer in self.eye:
            seen = layer(seen)
        for layer in self.text:
            read = layer(read)
        return seen, read

    def forward(self, ids, image):
        seen, read = self.work(ids, image)
        seen, read = self.shorten(self.seen(seen[:, 0])), self.shorten(self.read(read[:, 0]))
        return read @ seen.t() * self.scale.exp()


class ComparesTwice(nn.Module):
    """Sound, an image and words; the words are compared with both others."""

    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(20, WIDTH, 3, stride=2, padding=1)
        self.patches, self.words = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Embedding(31, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(*(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))) for _ in range(3)
        )
        self.ends = nn.ModuleList(nn.Linear(WIDTH, SHARED) for _ in range(3))

    def forward(self, ids, image, sound):
        streams = [self.frames(sound).mT, self.patches(image).flatten(2).mT, self.words(ids)]
        ends = []
        for stream, layers, end in zip(streams, self.layers, self.ends, strict=True):
            stream = layers(stream)
            ends.append(nn.functional.normalize(end(stream[:, 0])))
        heard, seen, read = ends
        return read @ heard.t(), read @ seen.t()


def text_of(box):
    return " ".join("".join(run.text for run in line) for line in box.lines)
