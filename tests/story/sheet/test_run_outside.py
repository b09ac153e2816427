"""What a block holds and others run from outside it is counted once, with what it stands behind or works in."""

import torch
from handwritten import Attention
from story.parameter_bars import bars_of, count, poster_of
from torch import nn

WIDTH = 15


class Keeping(nn.Module):
    """A part that holds the norm of the sum behind it, and does not run it."""

    def __init__(self, part):
        super().__init__()
        self.part, self.norm = part, nn.LayerNorm(WIDTH)

    def forward(self, x):
        return self.part(x, x) if isinstance(self.part, Attention) else self.part(x)


class Normed(nn.Module):
    """A layer that runs the norms that its parts hold (X-MOD)."""

    def __init__(self):
        super().__init__()
        self.look = Keeping(Attention(WIDTH, 3))
        self.wide = Keeping(nn.Sequential(nn.Linear(WIDTH, 41), nn.GELU(), nn.Linear(41, WIDTH)))

    def forward(self, x):
        x = self.look.norm(x + self.look(x))
        return self.wide.norm(x + self.wide(x))


def test_norms_that_parts_hold_and_layers_run_are_counted_once_with_these():
    torch.manual_seed(0)
    layers = [Normed() for _ in range(2)]

    bars = bars_of(poster_of(nn.Sequential(nn.Linear(11, WIDTH), *layers).eval(), torch.rand(2, 7, 11)))

    assert bars["self-attention × 2"] == count(*(layer.look for layer in layers))
    assert bars["feed-forward × 2"] == count(*(layer.wide for layer in layers))


class Handed(nn.Module):
    """A normed branch and its sum, around what it is handed (codertimo's BERT, the Annotated Transformer)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, branch):
        return x + branch(self.norm(x))


class Handing(nn.Module):
    """A layer that hands its parts to others that run them: one as a call of `forward`, one as a module."""

    def __init__(self):
        super().__init__()
        self.look, self.around_look, self.around_wide = Attention(WIDTH, 3), Handed(), Handed()
        self.wide = nn.Sequential(nn.Linear(WIDTH, 41), nn.GELU(), nn.Linear(41, WIDTH))

    def forward(self, x):
        x = self.around_look(x, lambda y: self.look.forward(y, y))
        return self.around_wide(x, self.wide)


def test_parts_that_are_handed_to_a_block_which_runs_them_are_counted_with_it():
    torch.manual_seed(0)
    layers = [Handing() for _ in range(2)]

    bars = bars_of(poster_of(nn.Sequential(nn.Linear(11, WIDTH), *layers).eval(), torch.rand(2, 7, 11)))

    assert bars["self-attention × 2"] == count(*(one for layer in layers for one in (layer.look, layer.around_look)))
    assert bars["feed-forward × 2"] == count(*(one for layer in layers for one in (layer.wide, layer.around_wide)))
    assert "all else" not in bars
