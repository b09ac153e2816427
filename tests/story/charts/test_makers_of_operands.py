"""Which linear layers are called those of queries, keys and values, and what stands on the way in its plain words."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, draw
from torch import nn


class Made(nn.Module):
    """Attention of which some layers before, behind or beside make one operand or all of them."""

    def __init__(self):
        super().__init__()
        self.norm, self.fused = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.one, self.other, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def make(self, x):
        return self.fused(x).chunk(3, dim=-1)

    def forward(self, x):
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.make(self.norm(x)))
        found = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
        return x + self.out(found.transpose(1, 2).flatten(2))


class GatedBefore(Made):
    def make(self, x):
        return super().make(x + self.one(x) * self.other(x).sigmoid())


class NetworkOfQueries(Made):
    def make(self, x):
        _, key, value = super().make(x)
        return self.other(self.one(x).relu()), key, value


class GatedQueries(Made):
    def make(self, x):
        _, key, value = super().make(x)
        return self.one(x) * self.other(x).sigmoid(), key, value


class WidenedBefore(Made):
    """Two layers, the first of which makes rows wider, before one that makes all three."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, 17), nn.Linear(17, WIDTH)

    def make(self, x):
        return super().make(self.other(self.one(x)))


class WrittenOver(Made):
    """The first key is one that was learned."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.rand(WIDTH))

    def make(self, x):
        key = self.one(x).clone()
        key[:, 0] = self.first
        return self.other(x), key, x


class MixedValues(Made):
    """Values are mixed with other ones, as much as the sigmoid of a layer of its own says (BS-RoFormer)."""

    def make(self, x):
        query, key, value = super().make(x)
        return query, key, torch.lerp(value, key, self.one(x).sigmoid())


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (MixedValues, ["ONE LINEAR FOR Q, K, V", "LINEAR", "SIGMOID", "LERP V"]),
        (GatedBefore, ["LINEAR", "OPERATIONS", "ONE LINEAR FOR Q, K, V"]),
        (NetworkOfQueries, ["LINEAR", "ReLU Q", "LINEAR Q", "ONE LINEAR FOR K, V"]),
        (GatedQueries, ["LINEAR Q", "LINEAR, SIGMOID, MULTIPLIED Q", "ONE LINEAR FOR K, V"]),
        (WidenedBefore, ["LINEAR", "LINEAR", "ONE LINEAR FOR Q, K, V"]),
        (WrittenOver, ["LINEAR Q", "LINEAR K", "ROWS PUT IN K"]),
    ],
)
def test_a_layer_is_one_of_an_operand_where_no_other_layer_stands_behind_it(kind, told):
    torch.manual_seed(0)
    labels = [node.label for node in draw(nn.Sequential(kind(), kind()).eval(), torch.rand(2, 5, WIDTH))]

    aside = ("LAYER NORM", "LINEAR O", "ADD")
    way = labels[: labels.index("SCORES Q·K^T ÷ √d_k")]
    assert sorted(one for one in way if one not in aside and not one.startswith(("HEADS", "TRANSPOSE"))) == sorted(told)
