"""A memory that is made when the decoder has begun, and led once to the width of all layers that look (RETRO)."""

import torch
from story.body.test_turned_memory import HEADS, WIDTH
from story.entrances import make_layers
from torch import nn

import xray
from xray.story.body.reading import read_pass


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.others, self.lead = nn.Embedding(19, WIDTH), nn.Embedding(19, 12), nn.Linear(12, WIDTH)
        self.looking = nn.MultiheadAttention(12, HEADS, batch_first=True, kdim=WIDTH, vdim=WIDTH)
        self.encoder, self.decoder = make_layers(12, 2), make_layers(WIDTH, 2)
        self.crossing = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(2))

    def forward(self, ids, found):
        x, memory = self.words(ids), None
        for layer, cross in zip(self.decoder, self.crossing, strict=True):
            x = layer(x)
            if memory is None:
                memory = self.others(found)
                for one in self.encoder:
                    memory = one(memory)
                    memory = memory + self.looking(memory, x, x)[0]
                memory = self.lead(memory)
            x = x + cross(x, memory, memory)[0]
        return x


def test_what_leads_a_memory_to_all_layers_is_no_part_of_the_first():
    given = [torch.zeros(2, many, dtype=torch.long) for many in (8, 9)]
    reading = read_pass(xray.trace(Late().eval(), *given).passes[0])
    nodes = [node for one in reading.towers for each in one.stagings for node in each.nodes]

    assert [len(one.stagings) for one in reading.towers] == [6, 6]
    assert "lead" not in {reading.flow.steps[node].path for node in nodes}
