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


class LooksInTwoParts(nn.Module):
    """All rows are cut into heads; the first look at each other, and so do the others (ProphetNet's streams)."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.three = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        normed = self.norm(x)
        cut = [
            one(normed).unflatten(-1, (HEADS, D_K)).transpose(1, 2).split((2, PLACES - 2), dim=2) for one in self.three
        ]
        found = [self.out(self.look(*part).transpose(1, 2).flatten(2)) for part in zip(*cut, strict=True)]
        return x + torch.cat(found, dim=1)

    def look(self, query, key, value):
        return (query @ key.mT / D_K**0.5).softmax(-1) @ value


def test_heads_of_which_some_rows_go_on_are_whole_and_the_rows_have_a_box():
    model = nn.Sequential(nn.Linear(7, WIDTH), LooksInTwoParts(), FeedForwardPart(), LooksInTwoParts())

    (column,) = read_columns(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7)))
    shapes = {node.label: node.record.shape for node in column.frames[0].panels[0].chart.nodes}
    assert {shapes[f"HEADS {one}"] for one in "QKV"} == {(BATCH, HEADS, PLACES, D_K)}
    assert {shapes[f"2 OF {PLACES} ROWS {one}"] for one in "QKV"} == {(BATCH, HEADS, 2, D_K)}


class LooksInFilledBlocks(nn.Module):
    """Queries stand in blocks, the last one filled up with zeros; keys have zeros around them (Gemma 3n)."""

    block = 2

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.three = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def fill(self, x, before, behind):
        front, back = (x.new_zeros(BATCH, count, HEADS, D_K) for count in (before, behind))
        return torch.cat((front, x, back), dim=1)

    def forward(self, x):
        query, key, value = (one(self.norm(x)).unflatten(-1, (HEADS, D_K)) for one in self.three)
        query = self.fill(query * D_K**-0.5, 0, PLACES % self.block)
        key, value = (self.fill(one, 1, 1 + PLACES % self.block) for one in (key, value))
        query, key, value = (one.transpose(1, 2) for one in (query, key, value))
        found = ((query @ key.mT).softmax(-1) @ value).transpose(1, 2)[:, :PLACES]
        return x + self.out(found.flatten(2))


def test_zeros_that_are_put_around_queries_and_keys_are_padding_and_no_scale_or_join():
    model = nn.Sequential(nn.Linear(7, WIDTH), LooksInFilledBlocks(), FeedForwardPart(), LooksInFilledBlocks())

    (column,) = read_columns(xray.trace(model.eval(), torch.rand(BATCH, PLACES, 7)))
    shapes = {node.label: node.record.shape[1] for node in column.frames[0].panels[0].chart.nodes if node.record}
    filled = PLACES + PLACES % 2
    assert shapes["Q ÷ √d_k"] == PLACES
    assert [shapes[f"PAD {one}"] for one in "QKV"] == [filled, filled + 2, filled + 2]
    assert not [label for label in shapes if label.startswith("JOIN")]
