"""Blocks of one list that do the same are told the same, and what one block adds up is one layer."""

import torch
from handwritten import Attention
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, ROWS = 16, 5


def think():
    return nn.Sequential(nn.Linear(WIDTH, 40), nn.ReLU(), nn.Linear(40, WIDTH))


class AddsToMemory(nn.Module):
    """The second attention is added to the rows that it asks for, not to those of the first (MAT)."""

    def __init__(self, *, moves=False):
        super().__init__()
        self.moves = moves
        self.look, self.ask, self.think = Attention(WIDTH, 2), Attention(WIDTH, 2), think()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, x, memory):
        x = x.view_as(x) if self.moves else x
        x = self.norms[0](x + self.look(x, x))
        x = self.norms[1](memory + self.ask(memory, x))
        return self.norms[2](x + self.think(x))


class AsksWhatWasRead(nn.Module):
    """Rows ask others of their own, then a memory, all in one block (PARSeq)."""

    def __init__(self):
        super().__init__()
        self.look, self.ask, self.think = Attention(WIDTH, 2), Attention(WIDTH, 2), think()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))

    def forward(self, query, content, memory):
        query = query + self.look(self.norms[0](query), self.norms[1](content))
        query = query + self.ask(self.norms[2](query), memory)
        return query + self.think(self.norms[3](query))


class Decoder(nn.Module):
    """Encoded rows, and rows of numbers that blocks of a list work on."""

    def __init__(self, block, count):
        super().__init__()
        self.encoded, self.acted = nn.Linear(7, WIDTH), nn.Linear(3, WIDTH)
        self.blocks, self.count = nn.ModuleList(block() for _ in range(count)), count
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, seen, acted):
        memory, x = self.encoded(seen).relu(), self.acted(acted).relu()
        for block in self.blocks:
            x = block(x, memory)
        return self.head(x)


class Reader(Decoder):
    """The same of learned rows, which look at what was read."""

    def __init__(self, block, count):
        super().__init__(block, count)
        self.asking = nn.Parameter(torch.randn(1, ROWS, WIDTH))

    def forward(self, seen, acted):
        x = self.asking.expand(len(seen), -1, -1)
        for block in self.blocks:
            x = block(x, self.acted(acted).relu(), self.encoded(seen).relu())
        return self.head(x)


def trace_of(model):
    return xray.trace(model.eval(), torch.randn(2, ROWS, 7), torch.randn(2, ROWS, 3))


def test_blocks_that_do_the_same_and_begin_another_stream_each_are_no_layers():
    trace = trace_of(Decoder(AddsToMemory, 2))

    assert not xray.anatomy(trace).towers
    assert compose_poster(trace, text_width) is None


def test_nor_are_they_where_they_move_numbers_in_other_ways():
    model = Decoder(AddsToMemory, 2)
    model.blocks[1] = AddsToMemory(moves=True)

    assert not xray.anatomy(trace_of(model)).towers


def test_what_the_only_block_of_a_list_adds_up_is_one_layer():
    tower = xray.anatomy(trace_of(Reader(AsksWhatWasRead, 1))).towers[-1]

    assert tower.layers == 1
    assert [branch.part for branch in tower.branches] == ["attention", "attention", "feed_forward"]


def test_two_of_them_are_two_layers():
    assert xray.anatomy(trace_of(Reader(AsksWhatWasRead, 2))).towers[-1].layers == 2
