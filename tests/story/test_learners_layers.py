"""Decoders as learners write them, with one thing wrong: what the usual writing would say is not said of them."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

WIDTH, HEADS, LENGTH, WORDS = 24, 3, 7, 53
LOWEST = -1e9
IDS = torch.arange(2 * LENGTH).view(2, LENGTH) % WORDS
FUTURE = torch.ones(LENGTH, LENGTH).triu(1).bool()


def split(rows):
    return rows.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def join(found):
    return found.transpose(1, 2).flatten(2)


class Layer(nn.Module):
    """Attention and a feed-forward; what is wrong replaces a function of the usual ones."""

    def __init__(self, **wrong):
        super().__init__()
        self.norm, self.then = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.back = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        usual = {
            "make": lambda layer, x: [split(each(x)) for each in (layer.query, layer.key, layer.value)],
            "lay": lambda keys: keys.transpose(-2, -1),
            "hide": lambda scores: scores.masked_fill(FUTURE, LOWEST),
            "weigh": lambda weights: weights,
            "join": join,
            "after": lambda rows: rows,
            "skip": lambda x, rows: x + rows,
        }
        self.does = usual | wrong

    def forward(self, x):
        query, key, value = self.does["make"](self, self.norm(x))
        scores = query @ self.does["lay"](key) / query.shape[-1] ** 0.5
        weights = self.does["weigh"](torch.softmax(self.does["hide"](scores), dim=-1))
        x = x + self.out(self.does["join"](weights @ value))
        return self.does["skip"](x, self.does["after"](self.back(functional.gelu(self.wide(self.then(x))))))


class Decoder(nn.Module):
    """Words, places, two layers and a head; `put` adds places to words, `score` makes what comes out."""

    def __init__(self, put=None, score=None, **wrong):
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH), nn.Linear(WIDTH, 5)
        self.more, self.drop = nn.Linear(WIDTH, 9), nn.Dropout(0.1)
        self.layers = nn.Sequential(Layer(**wrong), Layer(**wrong))
        self.put = put or (lambda model, words, count: words + model.places(count))
        self.score = score or (lambda model, x: x @ model.words.weight.T)

    def forward(self, ids):
        return self.score(self, self.layers(self.put(self, self.words(ids), torch.arange(ids.shape[1]))))


def read(ids=IDS, **wrong):
    """What the poster of a decoder says, line by line, and beside its boxes."""
    trace = xray.trace(Decoder(**wrong).eval(), ids)
    layout = compose_poster(trace, text_width)
    return ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]


def says(lines, *texts):
    told = " ".join(lines)
    return [text for text in texts if text in told]


def swap_as_it_lies(rows):
    return rows.reshape(*rows.shape[:-2], rows.shape[-1], rows.shape[-2])


def one_for_all(layer, x):
    made = split(layer.query(x))
    return made, made, made


def keys_by_the_layer_of_queries(layer, x):
    return [split(each(x)) for each in (layer.query, layer.query, layer.value)]


def twice(layer, x):
    return split(layer.query(layer.query(x))), split(layer.key(x)), split(layer.value(x))


def keep(*order):
    """Keys and values beside kept ones, in some order."""

    def make(layer, x):
        query, *new = (split(each(x)) for each in (layer.query, layer.key, layer.value))
        return query, *(torch.cat([(KEPT, rows)[number] for number in order], dim=2) for rows in new)

    return make


KEPT = torch.zeros(2, HEADS, 4, WIDTH // HEADS)
LOOKS_BACK, LOOKS_AT_ALL = "Every place looks back, never ahead.", "Every place looks at every other."


def test_the_usual_writing_says_it_all():
    told = ("three views of each place", "lets the heads", LOOKS_BACK, "Each place alone, wider and back.", "TRANSPOSE")
    assert len(says(read(), *told)) == len(told)


def hide_later(scores):
    return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1 + KEPT.shape[2]).bool(), LOWEST)


def test_kept_keys_before_new_ones_are_looked_back_at():
    assert says(read(make=keep(0, 1), hide=hide_later), LOOKS_BACK)


@pytest.mark.parametrize(
    ("wrong", "unsaid"),
    [
        ({"make": one_for_all}, "each takes its slice"),
        ({"make": keys_by_the_layer_of_queries}, "three views of each place"),
        ({"make": twice}, "three views of each place"),
        ({"lay": swap_as_it_lies}, LOOKS_BACK),
        ({"make": keep(1, 0), "hide": hide_later}, LOOKS_BACK),
        ({"skip": lambda x, rows: rows}, "share one set of weights"),
        ({"join": lambda found: found.reshape(2, LENGTH, WIDTH)}, "lets the heads"),
        ({"hide": lambda scores: scores.masked_fill(FUTURE, 1e9)}, LOOKS_AT_ALL),
        ({"hide": lambda scores: scores.masked_fill(FUTURE | torch.eye(LENGTH).bool(), LOWEST)}, LOOKS_BACK),
        ({"hide": lambda scores: scores.mT.masked_fill(FUTURE, LOWEST).mT}, "hides the future"),
        ({"after": lambda rows: rows.transpose(1, 2).reshape(rows.shape)}, "Each place alone"),
        ({"after": lambda rows: swap_as_it_lies(rows).transpose(1, 2)}, "Each place alone"),
        ({"put": lambda model, words, count: words + model.words(count)}, "No places are added"),
        ({"put": lambda model, words, count: words - model.places(count)}, "Learned places are added"),
        ({"score": lambda model, x: x @ model.places.weight.T}, "The table of the words is also"),
        ({"score": lambda model, x: (model.head(x[:, 0]), model.more(x), model.head(x.mean(1)))}, "numbers come out"),
    ],
)
def test_what_is_not_so_is_not_said(wrong, unsaid):
    assert says(read(**wrong), unsaid) == []


def put_words(model, words, count):
    return words


NO_PLACES = "No places are added or turned in: the mask that hides the future alone tells the order."
NUMBERS = torch.linspace(0, 1, LENGTH * WIDTH).view(LENGTH, WIDTH)
BY_LENGTH = nn.LayerNorm((LENGTH, WIDTH))


@pytest.mark.parametrize("put", [put_words, lambda model, words, count: model.drop(words * WIDTH**0.5)])
def test_that_nothing_tells_places_is_said_of_words_alone(put):
    assert says(read(put=put), NO_PLACES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"put": lambda model, words, count: words * NUMBERS},
        {"put": lambda model, words, count: words + words.roll(1, 1)},
        {"put": lambda model, words, count: words.cumsum(1)},
        {"put": lambda model, words, count: BY_LENGTH(words)},
        {"put": lambda model, words, count: words + model.words(count.expand(2, -1))},
        {"after": lambda rows: rows * NUMBERS},
        {"after": lambda rows: BY_LENGTH(rows)},
        {"skip": lambda x, rows: x * NUMBERS + rows},
        {"make": lambda layer, x: [split(each(x) * NUMBERS) for each in (layer.query, layer.key, layer.value)]},
        {"ids": torch.arange(4 * LENGTH).view(2, LENGTH, 2), "put": lambda model, words, count: words.sum(2)},
        {
            "ids": torch.arange(4 * LENGTH).view(2, LENGTH, 2),
            "put": lambda model, words, count: words.flatten(2)[..., ::2],
        },
    ],
)
def test_that_nothing_tells_places_is_not_said_where_something_may(wrong):
    assert not says(read(**{"put": put_words} | wrong), "No places are added")


def test_several_ids_of_each_place_are_not_called_tokens():
    lines = read(ids=torch.arange(4 * LENGTH).view(2, LENGTH, 2), put=lambda model, words, count: words.sum(2))

    assert "IDS" in lines
    assert "TOKEN IDS" not in lines


def test_weights_that_a_mask_multiplies_have_one_box_for_it():
    lines = read(hide=lambda scores: scores, weigh=lambda weights: weights * ~FUTURE)

    assert [line for line in lines if line.startswith("WEIGHTS ")] == ["WEIGHTS MULTIPLIED", "WEIGHTS · V"]


def test_weights_over_their_sum_are_divided():
    assert "WEIGHTS DIVIDED" in read(weigh=lambda weights: weights / weights.sum(-1, keepdim=True))


def test_a_box_says_once_how_many_parameters_it_has():
    lines = read(put=lambda model, words, count: model.drop(words) + model.places(count))

    assert len(says(lines, "1,272 parameters")) == 1
    assert " ".join(lines).count("1,272 parameters") == 1
