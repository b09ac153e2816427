"""Windows that are rolled back before the last linear layer of an attention, and what stands behind that (GMFlow)."""

import torch
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, SIDE, WINDOW = 16, 8, 4


def cut(rows):
    """Rows of a square as windows, one behind the other."""
    laid = rows.view(-1, SIDE // WINDOW, WINDOW, SIDE // WINDOW, WINDOW, WIDTH)
    return laid.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, WIDTH)


def lay_back(windows):
    laid = windows.view(-1, SIDE // WINDOW, SIDE // WINDOW, WINDOW, WINDOW, WIDTH)
    return laid.permute(0, 1, 3, 2, 4, 5).reshape(-1, SIDE, SIDE, WIDTH)


class Rolled(nn.Module):
    """One sum of an attention in windows and of linear layers that read what it found beside the rows, normed."""

    def __init__(self, step):
        super().__init__()
        self.q, self.k, self.v, self.merge = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.mlp = nn.Sequential(
            nn.Linear(2 * WIDTH, 8 * WIDTH, bias=False), nn.GELU(), nn.Linear(8 * WIDTH, WIDTH, bias=False)
        )
        self.norm1, self.norm2, self.step = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), step

    def forward(self, rows):
        q, k, v = (self.roll(one(rows), -self.step) for one in (self.q, self.k, self.v))
        q, k, v = (cut(one) for one in (q, k, v))
        found = lay_back((q @ k.mT / WIDTH**0.5).softmax(-1) @ v)
        found = self.norm1(self.merge(self.roll(found.view(rows.shape), self.step)))
        return rows + self.norm2(self.mlp(torch.cat([rows, found], -1)))

    def roll(self, rows, step):
        maps = rows.view(-1, SIDE, SIDE, WIDTH)
        return (maps.roll((step, step), (1, 2)) if step else maps).view(rows.shape)


def record():
    torch.manual_seed(0)
    layers = nn.Sequential(*(Rolled(WINDOW // 2 * (number % 2)) for number in range(4)))
    return xray.trace(layers.eval(), torch.rand(2, SIDE * SIDE, WIDTH))


def test_a_roll_before_the_last_linear_layer_leaves_the_feed_forward_apart():
    (tower,) = xray.anatomy(record()).towers

    assert {tuple(one.part for one in stage.branches) for group in tower.groups for stage in group.stages} == {
        ("attention", "feed_forward")
    }


def test_what_is_rolled_back_and_the_norm_behind_all_are_drawn():
    lines = lines_of(compose_poster(record(), text_width))

    assert "LAID OUT IN ONE ROW, ROLLED BACK" in lines
    assert "CONCAT HEADS" not in lines
    assert not [line for line in lines if line.startswith("Not drawn")]
