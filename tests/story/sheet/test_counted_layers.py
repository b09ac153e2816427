"""What stands in no box counts once for each layer that does it, also where the first one's stream is scaled before."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from torch import nn
from unsaid import list_unsaid

import xray
from xray.story.sheet.columns import read_columns

PLACES, LAYERS = 7, 4


class Look(nn.Module):
    """Attention that sees a few places before each one, or all of them, and weighs what it found."""

    def __init__(self, seen):
        super().__init__()
        self.seen, self.norm = seen, nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        read = self.norm(x)
        q, k, v = (make(read).unflatten(-1, (3, -1)).transpose(1, 2) for make in (self.q, self.k, self.v))
        far = torch.full((PLACES, PLACES), float("-inf"))
        hidden = far.triu(1) + far.tril(-self.seen) if self.seen else far.triu(1)
        made = (q @ k.mT / 2 + hidden).softmax(-1) @ v
        made = made / torch.cos(made).detach().abs().sum(-1, keepdim=True).clamp(1, 9)
        return self.give(x, self.o(made.transpose(1, 2).flatten(2)))

    def give(self, x, found):
        return x * 1.0 + found


class Words(nn.Module):
    """Layers behind words, which are multiplied first or are not."""

    def __init__(self, *seen, scale=1.0):
        super().__init__()
        self.words, self.scale = nn.Embedding(31, WIDTH), scale
        self.layers = nn.ModuleList(part for one in seen for part in (Look(one), FeedForwardPart()))

    def forward(self, ids):
        x = self.words(ids) * self.scale if self.scale != 1 else self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x


def count_of(model, op):
    found = list_unsaid(read_columns(xray.trace(model.eval(), torch.arange(2 * PLACES).view(2, PLACES))))
    return {name: ops[op] for name, ops in found if ops[op]}


def test_a_first_layer_whose_stream_is_scaled_counts_with_those_like_it():
    assert count_of(Words(*[0] * LAYERS, scale=3.0), "cos") == {"self-attention": LAYERS}


def test_layers_whose_boxes_stand_at_others_of_another_name_count_by_their_own():
    assert count_of(Words(3, 0, 3, 0), "cos") == {"self-attention in windows of 3": 2, "self-attention": 2}


class Found(Look):
    """What the attention finds alone, for whoever adds it."""

    def give(self, x, found):
        return found


class Twice(nn.Module):
    """A layer that looks twice in parts of two names, and thinks."""

    def __init__(self):
        super().__init__()
        self.start, self.end, self.think = Found(3), Found(3), FeedForwardPart()

    def forward(self, x):
        x = x + self.start(x)
        return self.think(x + self.end(x))


def test_parts_that_do_the_same_under_other_names_count_where_boxes_of_one_stand_for_both():
    model = nn.Sequential(nn.Embedding(31, WIDTH), Twice(), Twice(), Twice())

    assert count_of(model, "cos") == {"self-attention in windows of 3": 6}


class Placed(Look):
    """The same, queries with places added that are made behind the norm."""

    def forward(self, x, places):  # type: ignore[override]
        read = self.norm(x)
        asks = read + places()
        q, k, v = (
            make(one).unflatten(-1, (3, -1)).transpose(1, 2)
            for make, one in ((self.q, asks), (self.k, read), (self.v, read))
        )
        made = (q @ k.mT / 2).softmax(-1) @ v
        return x + self.o(made.transpose(1, 2).flatten(2))


class First(nn.Module):
    """Layers of which the first one's places are worked out, the others' are given, or worked out too."""

    def __init__(self, *, all_worked_out):
        super().__init__()
        self.all_worked_out, self.words, self.make = all_worked_out, nn.Embedding(31, WIDTH), nn.Linear(5, WIDTH)
        self.looks = nn.ModuleList(Placed(0) for _ in range(LAYERS))
        self.thinks = nn.ModuleList(FeedForwardPart() for _ in range(LAYERS))

    def forward(self, ids, first, later):
        x = self.words(ids)
        for number, (look, think) in enumerate(zip(self.looks, self.thinks, strict=True)):
            is_made = number == 0 or self.all_worked_out
            x = think(look(x, (lambda: self.make(first.cos())) if is_made else (lambda: later)))
        return x


@pytest.mark.parametrize(("all_worked_out", "times"), [(True, LAYERS), (False, 1)])
def test_what_stands_beside_the_first_layer_alone_counts_once(all_worked_out, times):
    given = torch.arange(2 * PLACES).view(2, PLACES), torch.rand(2, PLACES, 5), torch.rand(2, PLACES, WIDTH)
    trace = xray.trace(First(all_worked_out=all_worked_out).eval(), *given)

    assert sum(ops["cos"] for _, ops in list_unsaid(read_columns(trace))) == times
