"""A network that several blocks run and none of them holds."""

import torch
from torch import nn

import xray
from xray.story.sheet.columns import read_columns
from xray.story.sheet.shares import list_shares

WIDTH = 15


class Biased(nn.Module):
    """An attention that runs a network of biases that it does not hold (x-transformers)."""

    def __init__(self):
        super().__init__()
        self.all, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, biases):
        q, k, v = (one.unflatten(-1, (3, -1)).transpose(1, 2) for one in self.all(x).chunk(3, dim=-1))
        places = torch.arange(x.shape[1])
        bias = biases((places[:, None] - places)[..., None].float()).permute(2, 0, 1)
        weights = (q @ k.mT / (WIDTH // 3) ** 0.5 + bias).softmax(-1)
        return self.back((weights @ v).transpose(1, 2).flatten(2))


class BiasedByOne(nn.Module):
    """Layers that all run the same network of biases."""

    def __init__(self):
        super().__init__()
        self.words, self.biases = nn.Embedding(31, WIDTH), nn.Sequential(nn.Linear(1, 7), nn.SiLU(), nn.Linear(7, 3))
        self.looks, self.norms = (nn.ModuleList(make() for _ in range(3)) for make in (Biased, self.make_norm))
        self.wide = nn.ModuleList(nn.Linear(WIDTH, 29) for _ in range(3))
        self.back = nn.ModuleList(nn.Linear(29, WIDTH) for _ in range(3))

    @staticmethod
    def make_norm():
        return nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.words(ids)
        for look, norm, wide, back in zip(self.looks, self.norms, self.wide, self.back, strict=True):
            x = x + look(norm(x), self.biases)
            x = x + back(torch.relu(wide(x)))
        return x


def test_a_network_that_blocks_run_and_do_not_hold_is_counted_beside_what_they_hold():
    torch.manual_seed(0)
    model = BiasedByOne()
    trace = xray.trace(model, torch.arange(14).view(2, 7))
    found = {name: count for name, _, count in list_shares(read_columns(trace), trace)}

    own = sum(one.numel() for part in (model.looks, model.norms) for one in part.parameters())
    assert found["self-attention × 3, in common"] == sum(one.numel() for one in model.biases.parameters())
    assert found["self-attention × 3, of their own"] == own
    assert "all else" not in found
