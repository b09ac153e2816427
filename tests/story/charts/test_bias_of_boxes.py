"""A bias by how far boxes lie from each other, which are an argument, made before all layers, and met by queries.

What queries that convolutions made are multiplied by is learned alone: what they are made of is none of the bias.
"""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sentences.attentions.of_places import describe_relative
from xray.story.sheet.columns import read_columns

LAYERS, FAR, SIDES = 3, 29, 4


class Near(nn.Module):
    """Attention with a number for two rows each, or with a product of each query and a row for two (BROS)."""

    def __init__(self, *, by_query):
        super().__init__()
        self.by_query = by_query
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, near):
        query, key, value = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.mT
        scores = scores + (torch.einsum("bnid,bijd->bnij", query, near) if self.by_query else near)
        weights = (scores / query.shape[-1] ** 0.5).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


class Stack(nn.Module):
    """Layers that read ids, and boxes by how far these lie from each other: by a linear layer, or a table (UDOP)."""

    def __init__(self, *, by_query):
        super().__init__()
        self.words = nn.Embedding(31, WIDTH)
        self.near = nn.Linear(SIDES, WIDTH // HEADS, bias=False) if by_query else nn.Embedding(FAR, HEADS)
        self.looking = nn.ModuleList(Near(by_query=by_query) for _ in range(LAYERS))
        self.wide = nn.ModuleList(FeedForwardPart() for _ in range(LAYERS))

    def forward(self, ids, bbox):
        apart, x = bbox[:, :, None] - bbox[:, None], self.words(ids)
        is_table = isinstance(self.near, nn.Embedding)
        near = self.near(apart[..., 0] + FAR // 2).permute(0, 3, 1, 2) if is_table else self.near(apart.float())
        for look, widen in zip(self.looking, self.wide, strict=True):
            x = widen(look(x, near))
        return x


@pytest.mark.parametrize(
    ("by_query", "told"),
    [
        (True, f"queries × rows made of bbox, {SIDES * WIDTH // HEADS} parameters outside"),
        (False, f"made of bbox, {FAR * HEADS} parameters outside"),
    ],
)
def test_a_bias_that_is_made_of_an_argument_says_so(by_query, told):
    boxes = torch.arange(2 * 7 * SIDES).view(2, 7, SIDES) % 11
    trace = xray.trace(Stack(by_query=by_query).eval(), torch.arange(14).view(2, 7), bbox=boxes)

    (column,) = read_columns(trace)

    (bias,) = [node for node in column.frames[0].panels[0].chart.nodes if "BIAS" in node.label]
    assert bias.told == (told,)
    assert describe_relative(xray.anatomy(trace)).startswith(
        "Relative places: a number that depends on how far apart two are in bbox"
    )


class Convolved(nn.Module):
    """Attention whose queries are made by a convolution, and meet learned rows beside the keys (VITS)."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(4))
        self.near = nn.Parameter(torch.ones(7, WIDTH // HEADS))

    def forward(self, x):
        query, key, value = (make(x.mT).unflatten(1, (HEADS, -1)).mT for make in (self.q, self.k, self.v))
        size = query.shape[-1] ** 0.5
        scores = (query / size) @ key.mT + (query / size) @ self.near.mT
        return x + self.out((scores.softmax(-1) @ value).mT.flatten(1, 2)).mT


def test_what_queries_are_made_of_is_none_of_what_they_meet():
    layers = (one for _ in range(LAYERS) for one in (Convolved(), FeedForwardPart()))
    trace = xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers), torch.arange(14).view(2, 7))

    (column,) = read_columns(trace)

    (bias,) = [node for node in column.frames[0].panels[0].chart.nodes if "BIAS" in node.label]
    assert bias.told == ()


class Waves(Stack):
    """How far boxes lie from each other, as waves of learned middles and widths, which are moved first (Uni-Mol)."""

    def __init__(self):
        super().__init__(by_query=False)
        self.middles, self.widths = nn.Embedding(1, FAR), nn.Embedding(1, FAR)
        self.heads = nn.Linear(FAR, HEADS)

    def forward(self, ids, bbox):
        apart, x = (bbox[:, :, None] - bbox[:, None])[..., :1].float().expand(-1, -1, -1, FAR), self.words(ids)
        middles, widths = self.middles.weight.view(-1), self.widths.weight.view(-1)
        near = self.heads(torch.exp(-0.5 * ((apart - middles) / widths) ** 2)).permute(0, 3, 1, 2)
        for look, widen in zip(self.looking, self.wide, strict=True):
            x = widen(look(x, near))
        return x


def test_learned_numbers_that_are_moved_before_boxes_meet_them_count_with_the_bias():
    boxes = torch.arange(2 * 7 * SIDES).view(2, 7, SIDES) % 11
    (column,) = read_columns(xray.trace(Waves().eval(), torch.arange(14).view(2, 7), bbox=boxes))

    (bias,) = [node for node in column.frames[0].panels[0].chart.nodes if "BIAS" in node.label]
    assert bias.told == (f"made of bbox, {2 * FAR + (FAR + 1) * HEADS} parameters outside",)
