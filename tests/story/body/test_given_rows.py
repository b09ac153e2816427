"""Where keys and values come from, and what a stream begins with: told where nothing else is among them."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH = 15
BESIDE = "Keys and values come from another tensor."
ENCODER = "keys and values come from the encoder."


def make_layers(count):
    return nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(count))


class Asks(nn.Module):
    """A decoder asks what an encoder gives."""

    def __init__(self):
        super().__init__()
        self.words = nn.ModuleList(nn.Embedding(31, WIDTH) for _ in range(3))
        self.encoder, self.layers = make_layers(2), make_layers(2)
        self.ask = nn.ModuleList(Attention(WIDTH, 3) for _ in range(2))
        self.lead, self.rows, self.between = (
            nn.Linear(WIDTH, WIDTH),
            nn.Parameter(torch.rand(1, 4, WIDTH)),
            Attention(WIDTH, 3),
        )

    def remember(self, memory, first):
        return memory

    def encode(self, first, number=0):
        x = self.words[number](first)
        for layer in self.encoder:
            x = layer(x)
        return x

    def forward(self, first, second):
        memory, x = self.remember(self.encode(first), first), self.words[1](second)
        hides = torch.ones(9, 9).triu(1).bool()
        for layer, ask in zip(self.layers, self.ask, strict=True):
            x = layer(x, None, hides)
            x = x + ask(x, memory)
        return x


class LedOn(Asks):
    def remember(self, memory, first):
        return self.lead(memory.relu())


class OtherRowsToo(Asks):
    def remember(self, memory, first):
        return torch.cat([memory, self.words[2](first)], dim=1)


class LearnedRowsToo(Asks):
    def remember(self, memory, first):
        return torch.cat([memory, self.rows.expand(len(memory), -1, -1)], dim=1)


class MixedBetween(Asks):
    def remember(self, memory, first):
        return self.between(memory, memory)


class GatedByOthers(Asks):
    def remember(self, memory, first):
        return self.words[2](first) * self.lead(memory).sigmoid()


def read_words(model):
    torch.manual_seed(0)
    given = (torch.arange(2 * long).view(2, long) % 31 for long in (9, 9))
    return " ".join(" ".join(lines_of(compose_poster(xray.trace(model.eval(), *given), text_width))).split())


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Asks, ENCODER),
        (LedOn, ENCODER),
        (OtherRowsToo, BESIDE),
        (LearnedRowsToo, BESIDE),
        (MixedBetween, BESIDE),
        (GatedByOthers, BESIDE),
    ],
)
def test_keys_are_told_as_of_a_tower_where_no_other_rows_are_among_them(kind, told):
    words = read_words(kind())

    assert [one in words for one in (ENCODER, BESIDE)] == [one == told for one in (ENCODER, BESIDE)]


class Equal(Asks):
    """Two streams of the same layers look at each other."""

    def forward(self, first, second):
        x, y = self.words[0](first), self.words[0](second)
        for layer, ask in zip(self.encoder, self.ask, strict=True):
            x, y = layer(x), layer(y)
            x = x + ask(x, y)
            y = y + ask(y, x)
        return x @ y.mT


def test_of_two_streams_of_the_same_layers_none_is_a_decoder():
    given = (torch.arange(2 * long).view(2, long) % 31 for long in (7, 9))

    towers = xray.anatomy(xray.trace(Equal().eval(), *given)).towers
    assert [one.name for one in towers] == ["tokens", "tokens 2"]


class PutIn(Asks):
    def begin(self, memory, x):
        return x + memory.mean(1, keepdim=True)

    def forward(self, first, second):
        x = self.begin(self.encode(first), self.words[1](second))
        for layer in self.layers:
            x = layer(x)
        return x


class OnlyGates(PutIn):
    def begin(self, memory, x):
        return x * self.lead(memory).sigmoid()


class OnlyAsked(PutIn):
    def begin(self, memory, x):
        return self.between(x, memory)


@pytest.mark.parametrize(("kind", "is_told"), [(PutIn, True), (OnlyGates, False), (OnlyAsked, False)])
def test_what_weighs_rows_or_is_asked_by_them_is_not_put_into_their_stream(kind, is_told):
    assert ("is put into the tokens 2 tower's stream" in read_words(kind())) == is_told


def test_where_what_came_in_is_not_told_keys_of_a_memory_are_those_of_its_tower(training_trace):
    *_, decoder = xray.anatomy(training_trace).towers
    unknown = [getattr(one, "is_of_unknown", None) for one in decoder.branches if hasattr(one, "heads")]

    assert unknown == [False] * len(unknown) != []
