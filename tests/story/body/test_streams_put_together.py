"""Where streams of several towers are put end to end a tower begins; a row that each turn looks up begins none."""

import torch
from handwritten import Attention, Layer
from printed import lines_of, text_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, TURNS = 15, 3


def make_layers(count):
    return nn.Sequential(*(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(count)))


class EndToEnd(nn.Module):
    """Words and patches go through layers of their own, and then, one behind the other, through more (Flux)."""

    def __init__(self):
        super().__init__()
        self.words, self.patches = nn.Embedding(31, WIDTH), nn.Conv2d(3, WIDTH, 4, stride=4)
        self.text, self.eye, self.both = make_layers(2), make_layers(3), make_layers(2)

    def forward(self, ids, image):
        return self.both(torch.cat([self.text(self.words(ids)), self.eye(self.patches(image).flatten(2).mT)], dim=1))


class Turns(nn.Module):
    """One layer in turns, before each of which the row of the turn is looked up and added (Universal Transformers)."""

    def __init__(self):
        super().__init__()
        self.words, self.turns = nn.Embedding(31, WIDTH), nn.Embedding(TURNS, WIDTH)
        self.layer = make_layers(1)

    def forward(self, ids):
        x = self.words(ids)
        for turn in range(TURNS):
            x = self.layer(x + self.turns(torch.tensor(turn)))
        return x


class ReadsBoth(nn.Module):
    """A decoder asks the rows of two encoders, one behind the other."""

    def __init__(self):
        super().__init__()
        self.words = nn.ModuleList(nn.Embedding(31, WIDTH) for _ in range(3))
        self.encoders = nn.ModuleList(make_layers(2) for _ in range(2))
        self.ask = nn.ModuleList(Attention(WIDTH, 3) for _ in range(2))
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))

    def forward(self, first, second, ids):
        memory = torch.cat(
            [run(look(one)) for run, look, one in zip(self.encoders, self.words, (first, second), strict=False)], 1
        )
        x, hides = self.words[2](ids), torch.ones(5, 5).triu(1).bool()
        for layer, ask in zip(self.layers, self.ask, strict=True):
            x = layer(x, None, hides)
            x = x + ask(x, memory)
        return x


def list_towers(model, *given):
    columns = read_columns(xray.trace(model.eval(), *given))
    return [(column.name, len(column.towering.layers)) for column in columns]


def test_layers_behind_two_streams_that_are_put_end_to_end_are_a_tower():
    given = torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8)

    assert list_towers(EndToEnd(), *given) == [("tokens", 2), ("vision", 3), ("stack", 2)]


def test_the_box_that_puts_both_end_to_end_is_led_to_from_each():
    given = torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8)
    layout = compose_poster(xray.trace(EndToEnd().eval(), *given), text_width)
    (box,) = (one for one in layout.boxes if any("END TO END: 7 + 4" in text_of(line) for line in one.lines))
    ends = [one.points[-1] for one in layout.curves if one.kind == "ribbon" and one.head]

    assert len([x for x, y in ends if box.left - 1 <= x <= box.right + 1 and box.bottom - 1 <= y <= box.top + 1]) == 2


def test_what_such_a_tower_begins_with_is_said():
    trace = xray.trace(EndToEnd().eval(), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8))

    told = " ".join(" ".join(lines_of(compose_poster(trace, text_width))).split())
    assert "The stack tower's stream begins with what the vision and tokens towers give." in told


def test_a_layer_that_each_turn_gives_a_row_of_its_own_is_one_tower():
    assert list_towers(Turns(), torch.arange(14).view(2, 7)) == [("tokens", TURNS)]


def test_all_whose_rows_a_decoder_asks_at_once_are_encoders():
    given = (torch.arange(2 * long).view(2, long) % 31 for long in (7, 9, 5))

    assert [name for name, _ in list_towers(ReadsBoth(), *given)] == ["encoder", "encoder 2", "decoder"]
