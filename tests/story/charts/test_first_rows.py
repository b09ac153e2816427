"""Rows of each head that are taken from the others on the way to be turned: a class row that has no place (EVA)."""

import torch
from story.body.test_mistaken import BATCH, HEADS, PLACES, WIDTH, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

D_K = WIDTH // HEADS


class TurnsAllButFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("tables", torch.rand(2, PLACES - 1, D_K))

    def turn(self, x):
        first, rows, (cosines, sines) = x[:, :, :1, :], x[:, :, 1:, :], self.tables
        other = torch.cat((-rows[..., D_K // 2 :], rows[..., : D_K // 2]), -1)
        return torch.cat((first, rows * cosines + other * sines), dim=2)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, D_K)).permute(2, 0, 3, 1, 4).unbind(0)
        found = nn.functional.scaled_dot_product_attention(self.turn(q), self.turn(k), v)
        return x + self.out(found.transpose(1, 2).flatten(2))


def test_one_row_of_each_head_is_not_called_heads():
    model = nn.Sequential(nn.Linear(7, WIDTH), TurnsAllButFirst(), FeedForwardPart(), TurnsAllButFirst())

    (column,) = read_columns(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7)))
    nodes = column.frames[0].panels[0].chart.nodes
    taken = [node for node in nodes if node.record is not None and node.record.shape == (BATCH, HEADS, 1, D_K)]
    assert sorted(node.label for node in taken) == [f"1 OF {PLACES} ROWS K", f"1 OF {PLACES} ROWS Q"]
    assert not [node.remark for node in taken if node.remark]
