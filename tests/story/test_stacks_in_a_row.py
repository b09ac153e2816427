"""Stacks that follow one another, each on what the one before gives: what stands between them is drawn once."""

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, FRAMES = 15, 3


def make_layers(count):
    return nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(count))


class Video(nn.Module):
    """Patches of each picture look at each other, then pictures at each patch, then all at all (VideoPrism)."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv3d(3, WIDTH, (1, 4, 4), stride=(1, 4, 4))
        self.stacks = nn.ModuleList(make_layers(count) for count in (3, 2, 2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.places = nn.Parameter(torch.zeros(1, FRAMES, WIDTH))

    def forward(self, video):
        batch = len(video)
        x = self.patches(video).flatten(3).permute(0, 2, 3, 1).reshape(batch * FRAMES, -1, WIDTH)
        x = self.go(x, 0).view(batch, FRAMES, -1, WIDTH).transpose(2, 1).reshape(-1, FRAMES, WIDTH)
        x = self.go(x + self.places, 1).view(batch, -1, FRAMES, WIDTH).transpose(1, 2).contiguous()
        return self.go(x.view(batch, -1, WIDTH), 2)

    def go(self, x, number):
        for layer in self.stacks[number]:
            x = layer(x)
        return self.norms[number](x)


@pytest.fixture(scope="module")
def layout():
    torch.manual_seed(0)
    return compose_poster(xray.trace(Video(), torch.rand(2, 3, FRAMES, 8, 8)), text_width)


def text_of(box):
    return " ".join("".join(run.text for run in line) for line in box.lines)


def test_places_at_the_entrance_of_a_second_stack_do_not_stand_above_the_first(layout):
    words = [text_of(box) for box in layout.boxes]

    assert len([one for one in words if one.startswith("+ LEARNED PLACES")]) == 1
    assert not [one for one in words if one.startswith("ADDED UP")]


def test_what_a_stack_gives_leads_to_one_that_begins_with_it_at_once(layout):
    ends = {curve.points[-1] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    boxes = {(box.left, box.y): text_of(box) for box in layout.boxes}

    first, second = sorted(boxes[end] for end in ends)
    assert first.startswith("ROWS REGROUPED: 2·3×4 → 2·4×3")
    assert second.startswith("ROWS REGROUPED: 2·4×3 → 2×3·4")


def test_it_is_said_of_every_stack_where_what_it_gives_goes(layout):
    told = "The stack 2 tower's stream begins with what the stack tower gives. The stack 3 tower's stream begins with"

    assert [box for box in layout.boxes if told in text_of(box)]


class Memory(nn.Module):
    """Layers that run once for each piece of the words, each time with rows that the turn before left (RMT)."""

    def __init__(self, detach):
        super().__init__()
        self.words, self.memory = nn.Embedding(31, WIDTH), nn.Parameter(torch.rand(2, WIDTH))
        self.layers, self.norm, self.detach = make_layers(2), nn.LayerNorm(WIDTH), detach

    def forward(self, ids):
        memory, found = self.memory.expand(len(ids), -1, -1), []
        for piece in ids.chunk(3, 1):
            x = torch.cat([memory.detach() if self.detach else memory, self.words(piece)], 1)
            for layer in self.layers:
                x = layer(x)
            x = self.norm(x)
            memory = x[:, :2]
            found.append(x[:, 2:])
        return torch.cat(found, 1) @ self.words.weight.T


@pytest.mark.parametrize("detach", [False, True])
def test_layers_that_read_other_words_each_time_are_a_tower_each_time(detach):
    towers = xray.anatomy(xray.trace(Memory(detach).eval(), torch.arange(30).view(2, 15))).towers

    assert [tower.layers for tower in towers] == [2, 2, 2]
