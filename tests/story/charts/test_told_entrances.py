"""Boxes of an entrance say what share is dropped there, and how places are counted."""

import pytest
import torch
from story.body.test_mistaken import BATCH, PLACES, WIDTH, FeedForwardPart
from story.charts.test_dropouts import Looks
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.body.reading import read_passes
from xray.story.entrance.entrance_chart import chart_entrance
from xray.story.poster import compose_poster


class Begins(nn.Module):
    """Words and learned places, a norm, and a dropout there and behind each layer."""

    def __init__(self, share):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH), nn.Embedding(23, WIDTH)
        self.norm, self.drops, self.behind = nn.LayerNorm(WIDTH), nn.Dropout(share), nn.Dropout(0.2)
        self.layers = nn.ModuleList(nn.Sequential(Looks(nn.Identity()), FeedForwardPart()) for _ in range(3))

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        x = self.drops(self.norm(self.words(ids) + self.places(places)))
        for layer in self.layers:
            x = self.behind(layer(x))
        return x


@pytest.mark.parametrize(("share", "told"), [(0.3, ("dropout 0.3, idle",)), (0.0, ())])
def test_a_share_is_told_where_the_entrance_drops_it(share, told):
    torch.manual_seed(0)
    nodes = draw(Begins(share), torch.randint(31, (BATCH, PLACES)))

    assert [(node.label, node.told) for node in nodes if node.told or "NORM" in node.label] == [("LAYER NORM", told)]


class Counted(nn.Module):
    """Words, and places counted by a way of their own."""

    def __init__(self, count, padding):
        super().__init__()
        self.words, self.places = nn.Embedding(31, WIDTH, padding_idx=padding), nn.Embedding(23, WIDTH)
        self.kinds, self.count = nn.Embedding(2, WIDTH), count
        self.layers = nn.ModuleList(nn.Sequential(Looks(nn.Identity()), FeedForwardPart()) for _ in range(3))

    def forward(self, ids):
        x = self.words(ids) + self.kinds(torch.zeros_like(ids)) + self.places(self.count(ids))
        for layer in self.layers:
            x = layer(x)
        return x


def skip(ids):
    kept = ids.ne(3).int()
    return (torch.cumsum(kept, 1).type_as(kept) + 0) * kept


def count_ones(ids):
    ones = torch.ones(ids.shape)
    return (torch.cumsum(ones, 1) * ones).long()


FROM_4 = "counted from 4, id 3 (padding) left out"
WAYS = {
    "an id is left out, and begun behind it": (
        lambda ids: skip(ids).long() + 3,
        FROM_4,
    ),
    "an id is left out": (lambda ids: skip(ids).long(), "counted from 1, id 3 (padding) left out"),
    "numbers fall into buckets": (
        lambda ids: torch.bucketize(torch.arange(ids.shape[1]) / 7, torch.arange(0.2, 1, 0.2)),
        "counted in buckets",
    ),
    "all are counted": (lambda ids: torch.cumsum(torch.ones_like(ids), 1) - 1, None),
    "all are counted from one": (lambda ids: torch.cumsum(torch.ones_like(ids), 1), "from row 1 on"),
    "all are counted, and begun behind two": (lambda ids: count_ones(ids) - 1 + 2, "from row 2 on"),
    "rows are numbered, and begun behind two": (lambda ids: torch.arange(ids.shape[1]) + 2, "from row 2 on"),
    "numbers begin behind five": (lambda ids: torch.arange(5, 5 + ids.shape[1]) - 1, "from row 4 on"),
    "numbers that take no gradient": (lambda ids: torch.arange(ids.shape[1], requires_grad=False), None),
    "numbers begin by name": (lambda ids: torch.arange(end=3 + ids.shape[1], start=3), "from row 3 on"),
    "the first are cut off": (lambda ids: torch.arange(20)[4 : 4 + ids.shape[1]] + 2, None),
    "every other is numbered": (lambda ids: torch.arange(3, 3 + 2 * ids.shape[1], 2), None),
    "some numbers are twice as much": (lambda ids: (torch.arange(ids.shape[1]) + 2) * ids.ne(3).int(), None),
    "one is counted, and not left out": (lambda ids: torch.cumsum(ids.ne(3).int(), 1).long(), None),
    "another one is left out": (lambda ids: (torch.cumsum(ids.ne(3).int(), 1) * ids.ne(5).int()).long(), None),
}


@pytest.mark.parametrize("way", WAYS)
def test_places_say_which_id_is_not_counted(way):
    count, told = WAYS[way]
    torch.manual_seed(0)
    nodes = draw(Counted(count, 3), torch.randint(31, (BATCH, PLACES)))

    assert [node.told for node in nodes if node.label == "PLACE LOOKUP"] == [() if told is None else (told,)]


def test_an_id_of_no_known_meaning_is_no_padding():
    nodes = draw(Counted(lambda ids: skip(ids).long() + 3, 7), torch.randint(31, (BATCH, PLACES)))

    assert [node.told for node in nodes if node.label == "PLACE LOOKUP"] == [("counted from 4, id 3 left out",)]


class Held(Counted):
    """The kind of each word is held for its place, for which ids are counted, or all places; or it is its id's."""

    def __init__(self, count, *, is_of_places=True):
        super().__init__(count, 3)
        self.is_of_places = is_of_places
        self.register_buffer("held", torch.zeros(1, 23, dtype=torch.long))

    def forward(self, ids):
        places = self.count(ids)
        kinds = self.held.expand(len(ids), -1).gather(1, places) if self.is_of_places else ids % 2
        x = self.words(ids) + self.kinds(kinds) + self.places(places)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Held(lambda ids: skip(ids).long() + 3), ("by ids held for 23 places",)),
        (Held(lambda ids: torch.arange(ids.shape[1]).expand(len(ids), -1)), ()),
        (Held(lambda ids: skip(ids).long() + 3, is_of_places=False), ()),
    ],
)
def test_rows_that_places_alone_pick_say_so_where_ids_lead_there(model, told):
    nodes = draw(model, torch.randint(31, (BATCH, PLACES)))

    assert [node.told for node in nodes if node.label == "LOOKUP IN 2 ROWS"] == [told]


def test_parameters_stand_in_a_narrow_box_that_says_more():
    model = Counted(lambda ids: skip(ids).long() + 3, 3).eval()
    layout = compose_poster(xray.trace(model, torch.randint(31, (BATCH, PLACES))), text_width)
    lines = [["".join(run.text for run in line).strip() for line in box.lines] for box in layout.boxes]

    (told,) = [own for own in lines if "PLACE LOOKUP" in own[0]]
    assert f"{model.places.weight.numel():,} parameters" in told
    assert " ".join(told).endswith(FROM_4)


def draw(model, ids):
    reading = read_passes(xray.trace(model.eval(), ids))[0]
    return chart_entrance(reading.flow, reading.towers[0]).nodes
