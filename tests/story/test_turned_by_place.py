"""Queries and keys are said to be turned by their place only where their angles are worked out of places."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention

HEADS, PLACES = 3, 13
EACH = WIDTH // HEADS
SPEEDS = 10_000.0 ** -(torch.arange(0, EACH, 2) / EACH)


def turn(rows, cosines, sines):
    first, second = rows.chunk(2, -1)
    return rows * cosines + torch.cat([-second, first], -1) * sines


class Turns(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.query, self.key, self.value, self.out = (
            nn.LayerNorm(WIDTH),
            *(nn.Linear(WIDTH, WIDTH) for _ in range(4)),
        )

    def forward(self, x, cosines, sines):
        given = self.norm(x)
        query, key, value = (
            one(given).unflatten(-1, (HEADS, EACH)).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        query, key = (turn(one, cosines, sines) for one in (query, key))
        weights = (query @ key.mT / EACH**0.5).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(-2))


class Turned(nn.Module):
    """Layers whose angles `lay` works out before the first of them, of rows or of what else comes in."""

    def __init__(self, lay):
        super().__init__()
        self.lay, self.lead, self.angles = lay, nn.Linear(5, WIDTH), nn.Linear(1, EACH // 2)
        self.layers = nn.ModuleList(Turns() for _ in range(2))
        self.thinking = nn.ModuleList(FeedForwardPart() for _ in range(2))

    def forward(self, x, given):
        angles = torch.cat([self.lay(self, x, given)] * 2, -1)
        angles = angles[:, None] if len(angles.shape) > 2 else angles
        x = self.lead(x)
        for layer, thinks in zip(self.layers, self.thinking, strict=True):
            x = thinks(layer(x, angles.cos(), angles.sin()))
        return x


class OfPositions(Turned):
    def forward(self, x, position_ids):
        return super().forward(x, position_ids)


def read_positions(model, given):
    torch.manual_seed(0)
    (tower,) = xray.anatomy(xray.trace(model.eval(), torch.rand(2, PLACES, 5), given)).towers
    return {branch.positions for branch in tower.branches if isinstance(branch, Attention)}


OTHERS = {
    "times that came in": lambda model, x, given: given[..., None] * SPEEDS,
    "one time of each sequence": lambda model, x, given: (given[:, :1, None] * SPEEDS).expand(2, PLACES, -1),
    "what a layer made": lambda model, x, given: model.angles(given[..., None]),
    "ranks": lambda model, x, given: given.argsort(1)[..., None] * SPEEDS,
    "numbers of the rows": lambda model, x, given: x[..., :1] * SPEEDS,
}


@pytest.mark.parametrize("lay", OTHERS.values(), ids=OTHERS)
def test_angles_of_anything_else_are_of_no_places(lay):
    assert read_positions(Turned(lay), torch.rand(2, PLACES)) == {None}


def test_angles_of_numbers_that_were_counted_out_are_of_places():
    model = Turned(lambda model, x, given: torch.arange(PLACES)[:, None] * SPEEDS)

    assert read_positions(model, torch.rand(2, PLACES)) == {"rotary"}


def test_angles_of_an_argument_that_is_called_one_of_positions_are_of_places():
    model = OfPositions(OTHERS["times that came in"])

    assert read_positions(model, torch.arange(PLACES).expand(2, -1).clone()) == {"rotary"}
