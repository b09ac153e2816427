"""The legend and the title of a model of several towers, of which two share a colour."""

from dataclasses import replace

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.cards.boxless import find_unsaid
from xray.story.cards.legend import GIVEN, list_entries, name_others
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns
from xray.story.sheet.compose import gather

WIDTH, SEEN, HEARD, SPARE, PICTURE, SOUND = 15, 12, 21, 37, 7, 11


def make_layers(width):
    return nn.ModuleList(Layer(width, Attention(width, 3), norm="before") for _ in range(2))


class Perceives(nn.Module):
    """Patches and a sound, each through layers of its own, put where signs stand among words; a part is of no use."""

    def __init__(self):
        super().__init__()
        self.patches, self.eye, self.show = nn.Conv2d(3, SEEN, 4, stride=4), make_layers(SEEN), nn.Linear(SEEN, WIDTH)
        self.frames, self.ear, self.say = nn.Conv1d(5, HEARD, 3), make_layers(HEARD), nn.Linear(HEARD, WIDTH)
        self.words, self.layers, self.head = nn.Embedding(31, WIDTH), make_layers(WIDTH), nn.Linear(WIDTH, 31)
        self.spare = nn.Linear(SPARE, 1, bias=False)

    def forward(self, ids, image, sound):
        seen, heard, x = self.patches(image).flatten(2).mT, self.frames(sound).mT, self.words(ids)
        for layer in self.eye:
            seen = layer(seen)
        for layer in self.ear:
            heard = layer(heard)
        x = x.masked_scatter((ids == PICTURE)[..., None], self.show(seen))
        x = x.masked_scatter((ids == SOUND)[..., None], self.say(heard))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Answers(nn.Module):
    """Words that are read, and others that look at what was read; or at those words themselves, by mistake."""

    def __init__(self, *, forgets=False):
        super().__init__()
        self.forgets = forgets
        self.words, self.layers, self.head = nn.Embedding(31, WIDTH), make_layers(WIDTH), nn.Linear(WIDTH, 31)
        self.asks = nn.ModuleList(nn.TransformerDecoderLayer(WIDTH, 3, SPARE, batch_first=True) for _ in range(2))

    def forward(self, ids, answer):
        read, said = self.words(ids), self.words(answer)
        for layer in self.layers:
            read = layer(read)
        read = self.words(ids) if self.forgets else read
        hidden = nn.Transformer.generate_square_subsequent_mask(answer.shape[1])
        for layer in self.asks:
            said = layer(said, read, tgt_mask=hidden)
        return self.head(said)


@pytest.mark.parametrize(
    ("forgets", "told_of"),
    [
        (False, ["comes from the encoder", "made by the decoder"]),
        (True, ["made by the tokens, or from elsewhere", "made by the decoder"]),
    ],
)
def test_keys_and_values_of_a_memory_come_from_the_tower_whose_colour_they_have_if_they_do(forgets, told_of):
    torch.manual_seed(0)
    trace = xray.trace(Answers(forgets=forgets).eval(), torch.arange(14).view(2, 7), torch.arange(10).view(2, 5))
    boxes = compose_poster(trace, text_width).boxes
    told = ["".join(run.text for run in line) for box in boxes for line in box.lines]

    makers = [text for text in told if text.startswith(("made by", "comes from"))]
    assert makers == told_of


class Begins(Perceives):
    """Words among which stand patches look at rows that are given."""

    def __init__(self):
        super().__init__()
        self.asks = nn.ModuleList(nn.TransformerDecoderLayer(WIDTH, 3, SPARE, batch_first=True) for _ in range(2))

    def forward(self, ids, image, given):
        seen, x = self.patches(image).flatten(2).mT, self.words(ids)
        for layer in self.eye:
            seen = layer(seen)
        x = x.masked_scatter((ids == PICTURE)[..., None], self.show(seen))
        for layer in self.asks:
            x = layer(x, given)
        return x


def test_keys_and_values_that_are_given_come_from_no_tower_be_it_that_another_link_leads_from_one():
    ids = torch.tensor([[1, *[PICTURE] * 4, 2, 3]]).expand(2, -1)
    trace = xray.trace(Begins().eval(), ids, torch.rand(2, 3, 8, 8), torch.rand(2, 5, WIDTH))
    told = ["".join(run.text for run in line) for box in compose_poster(trace, text_width).boxes for line in box.lines]

    assert xray.anatomy(trace).links
    assert sorted(text for text in told if text.startswith(("made by", "comes from"))) == [
        "made by the tokens",
        "made by the vision, or from elsewhere",
    ]


def list_texts():
    torch.manual_seed(0)
    ids = torch.tensor([[1, *[PICTURE] * 4, 2, *[SOUND] * 3, 3]]).expand(2, -1)
    layout = compose_poster(xray.trace(Perceives(), ids, torch.rand(2, 3, 8, 8), torch.rand(2, 5, 5)), text_width)
    return ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]


def test_towers_of_one_colour_are_named_together_and_no_place_is_said_to_meet_all_of_them():
    told = list_texts()

    makers = sorted(text for text in told if text.startswith("made by"))
    assert makers in (
        ["made by the audio and vision towers", "made by the tokens"],
        ["made by the tokens", "made by the vision and audio towers"],
    )
    assert not any("for each place" in text for text in told)
    assert any("  used " in text for text in told)
    assert "of these used" in told


def test_a_ribbon_that_brings_rows_is_not_called_keys_and_values():
    told = list_texts()

    assert "what a tower gives another" in told
    assert not [text for text in told if text.startswith("memory:")]


def test_ribbons_and_turns_are_told_where_there_are_such():
    ids = torch.tensor([[1, *[PICTURE] * 4, 2, *[SOUND] * 3, 3]]).expand(2, -1)
    trace = xray.trace(Perceives(), ids, torch.rand(2, 3, 8, 8), torch.rand(2, 5, 5))
    told = gather(trace, xray.anatomy(trace), columns := read_columns(trace), find_unsaid(columns))
    ribbon, turn = ("line", "ribbon", GIVEN), ("line", "boundary", "goes on in the next column")

    assert ribbon in list_entries(told)
    assert ribbon not in list_entries(replace(told, has_ribbons=False))
    assert turn not in list_entries(told)
    assert turn in list_entries(replace(told, has_turns=True))


class Asks(Answers):
    """Words that look at rows which are given."""

    def forward(self, ids, answer):
        said = self.words(ids)
        for layer in self.asks:
            said = layer(said, answer)
        return self.head(said)


def test_keys_and_values_that_no_tower_made_come_from_elsewhere():
    torch.manual_seed(0)
    given = torch.arange(10).view(2, 5), torch.rand(2, 7, WIDTH)
    boxes = compose_poster(xray.trace(Asks().eval(), *given), text_width).boxes
    told = ["".join(run.text for run in line) for box in boxes for line in box.lines]

    assert "from elsewhere: keys and values" in told
    assert not [text for text in told if text.startswith("memory:")]


class Talks(nn.Module):
    """Two streams that look at each other, and each at rows that are given; or at each other alone."""

    def __init__(self, *, reads):
        super().__init__()
        self.reads, self.eye, self.ear = reads, nn.Linear(5, WIDTH), nn.Linear(7, WIDTH)
        kinds = ["own", *["read"] * reads, "other"]
        self.looks = nn.ModuleList(
            nn.ModuleDict({f"{side}_{kind}": Attention(WIDTH, 3) for side in ("eye", "ear") for kind in kinds})
            for _ in range(2)
        )
        self.wide, self.narrow = (nn.ModuleList(nn.Linear(*one) for _ in range(4)) for one in ((15, 60), (60, 15)))
        self.norm, self.heads = nn.LayerNorm(WIDTH), nn.ModuleList(nn.Linear(WIDTH, 2) for _ in range(2))

    def forward(self, image, sound, text):
        seen, heard = self.eye(image), self.ear(sound)
        for number, looks in enumerate(self.looks):
            seen, heard = (
                rows + looks[f"{side}_own"](self.norm(rows), self.norm(rows))
                for side, rows in (("eye", seen), ("ear", heard))
            )
            if self.reads:
                seen = seen + looks["eye_read"](self.norm(seen), text)
                heard = heard + looks["ear_read"](self.norm(heard), text)
            one, other = self.norm(seen), self.norm(heard)
            seen, heard = seen + looks["eye_other"](one, other), heard + looks["ear_other"](other, one)
            seen, heard = (
                rows + self.narrow[2 * number + place](self.wide[2 * number + place](self.norm(rows)).relu())
                for place, rows in enumerate((seen, heard))
            )
        return self.heads[0](seen), self.heads[1](heard)


@pytest.mark.parametrize(
    ("reads", "told_of"), [(True, "made by the {}, or from elsewhere"), (False, "comes from the {}")]
)
def test_of_two_towers_that_ask_each_other_and_others_neither_is_said_to_have_made_all(reads, told_of):
    torch.manual_seed(0)
    given = torch.rand(2, 4, 5), torch.rand(2, 6, 7), torch.rand(2, 3, WIDTH)
    trace = xray.trace(Talks(reads=reads).eval(), *given)
    told = list_entries(gather(trace, xray.anatomy(trace), columns := read_columns(trace), find_unsaid(columns)))

    assert [text for kind, _, text in told if kind == "fill"] == [told_of.format("vision"), told_of.format("stack")]


@pytest.mark.parametrize(
    ("givers", "told"),
    [
        ({None}, "elsewhere"),
        (set(), "elsewhere"),
        ({"stack"}, "the stack"),
        ({"stack", None}, "the stack or elsewhere"),
        ({"a", "b", "c", "d"}, "the a or the b or the c or elsewhere"),
    ],
)
def test_towers_of_another_colour_that_give_keys_and_values_are_named(givers, told):
    assert name_others(givers) == told
