"""What is said of towers that ask others: of all that they ask, and of no more; what they are called by it."""

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, WORDS = 15, 31


def layers():
    return nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))


class Reads(nn.Module):
    """Ids, or an image, through layers, with a norm behind them."""

    def __init__(self, entrance):
        super().__init__()
        self.entrance, self.layers, self.norm = entrance, layers(), nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = self.entrance(x)
        x = x.flatten(2).mT if x.dim() == 4 else x
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Asks(nn.Module):
    """Words that look at what others read: at all of them joined, or at one."""

    def __init__(self, join, *entrances):
        super().__init__()
        self.read = nn.ModuleList(Reads(one) for one in entrances)
        self.words, self.layers, self.looking = nn.Embedding(WORDS, WIDTH), layers(), layers()
        self.join, self.head = join, nn.Linear(WIDTH, 7)

    def forward(self, asked, *given):
        seen = self.join([read(one) for read, one in zip(self.read, given, strict=True)])
        x = self.words(asked)
        for layer, look in zip(self.layers, self.looking, strict=True):
            x = look(layer(x), seen)
        return self.head(x)


def table():
    return nn.Embedding(WORDS, WIDTH)


IDS, MORE, IMAGE = torch.arange(10).view(2, 5), torch.arange(14).view(2, 7), torch.rand(2, 3, 8, 8)


@pytest.mark.parametrize("join", [sum, lambda seen: torch.cat(seen, dim=1)], ids=["added", "end to end"])
def test_all_towers_that_keys_and_values_are_made_of_are_named(join):
    trace = xray.trace(Asks(join, table(), table()).eval(), IDS, MORE, MORE)
    told = " ".join(lines_of(compose_poster(trace, text_width)))

    names = sorted(tower.name for tower in xray.anatomy(trace).towers[:2])
    assert f"keys and values come from the {names[0]} and the {names[1]}." in told


@pytest.mark.parametrize(
    ("entrance", "given", "names"),
    [
        (nn.Conv2d(3, WIDTH, 2, stride=2), IMAGE, ["vision", "tokens"]),
        (table(), MORE, ["encoder", "decoder"]),
    ],
)
def test_words_that_see_each_other_and_ask_an_image_are_a_text_and_no_decoder(entrance, given, names):
    whole = xray.anatomy(xray.trace(Asks(lambda seen: seen[0], entrance).eval(), IDS, given))

    assert [tower.name for tower in whole.towers] == names
    assert whole.towers[1].causal is False


class PutIn(nn.Module):
    """The mean of what an image gives is added to each word before the first layer."""

    def __init__(self):
        super().__init__()
        self.read, self.words, self.layers = Reads(nn.Conv2d(3, WIDTH, 2, stride=2)), table(), layers()

    def forward(self, image, ids):
        x = self.words(ids) + self.read(image).mean(1, keepdim=True)
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_stream_in_which_words_go_too_does_not_begin_with_what_an_image_gives():
    told = " ".join(lines_of(compose_poster(xray.trace(PutIn().eval(), IMAGE, IDS), text_width)))

    assert "What the vision tower gives is put into the tokens tower's stream." in told
    assert "begins with" not in told


class Swapped(nn.Module):
    """Words whose second attention takes queries of another text, and keys and values of their own, by mistake."""

    def __init__(self):
        super().__init__()
        self.read, self.words = Reads(table()), table()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.own, self.other = (
            nn.ModuleList(nn.MultiheadAttention(WIDTH, 3, batch_first=True) for _ in range(2)) for _ in range(2)
        )

    def forward(self, ids, given):
        seen, x = self.read(given), self.words(ids)
        for number in range(2):
            here = self.norms[2 * number](x)
            x = x + self.own[number](here, here, here, need_weights=False)[0]
            here = self.norms[2 * number + 1](x)
            x = x + self.other[number](seen, here, here, need_weights=False)[0]
        return x


def test_an_attention_with_queries_of_another_tower_is_no_self_attention_like_the_one_before():
    layout = compose_poster(xray.trace(Swapped().eval(), MORE, MORE), text_width)

    titles = [line for line in lines_of(layout) if "ATTENTION" in line and "BLOCK" not in line]
    assert [title for title in titles if title.startswith("ATTENTION")]
    assert [title for title in titles if "boxes as at" in title] == []
