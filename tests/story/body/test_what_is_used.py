"""What of a model is used in a pass, what of it is drawn, and what is looked up that no word is."""

import torch
from story.body.test_kept_waist import WIDTH, LatentAttention, Layer
from story.body.test_mistaken import FeedForwardPart
from story.parameter_bars import bars_of, poster_of
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])
SPARE = 5 * 7 + 7


class Words(nn.Module):
    """Two layers, a spare part that nothing runs, and heads on the table of the words."""

    def __init__(self, heads=1, book=False, every=1):
        super().__init__()
        self.every = every
        self.words = nn.Embedding(13, WIDTH)
        self.book = nn.Embedding(5, WIDTH) if book else None
        self.spread = nn.Linear(4, 5) if book else None
        self.layers = nn.Sequential(*(Layer(LatentAttention("nothing")) for _ in range(2)))
        self.spare = nn.Linear(5, 7)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 13, bias=False) for _ in range(heads))
        self.heads[0].weight = self.words.weight

    def forward(self, given):
        x = self.words(given) if self.book is None else self.book(self.spread(given).argmax(dim=-1))
        x = self.layers(x)
        return [head(x) for head in self.heads][:: self.every]


def test_weights_that_two_blocks_share_are_used_once():
    trace = xray.trace(Words(), IDS)

    assert trace.unused == {"spare": SPARE}
    assert xray.anatomy(trace).active_params == xray.anatomy(trace).params - SPARE


def test_where_nothing_is_chosen_parameters_are_used_and_not_for_each_place():
    drawn = xray.render(xray.trace(Words(), IDS), "svg")

    assert "of these used" in drawn
    assert "for each place" not in drawn


def test_one_of_several_heads_is_not_what_comes_out():
    assert xray.anatomy(xray.trace(Words(), IDS)).head.kind == "vocabulary"
    assert xray.anatomy(xray.trace(Words(heads=2), IDS)).head is None


def test_what_is_not_drawn_is_named_and_nothing_else():
    told = "Not drawn, with parameters"

    assert told not in xray.render(xray.trace(Words(), IDS), "svg")
    assert told not in xray.render(xray.trace(Words(heads=2), IDS), "svg")
    assert told in xray.render(xray.trace(Words(heads=3, every=2), IDS), "svg")


class OfOneTask(Words):
    """One row of a table of many is added, by its number: that of the task at hand (IPT)."""

    def __init__(self):
        super().__init__()
        self.tasks = nn.Embedding(6, WIDTH)

    def forward(self, given):
        return self.heads[0](self.layers(self.words(given) + self.tasks.weight[1]))


def test_rows_of_a_table_are_not_used_where_one_alone_is_taken_by_its_number():
    found = xray.anatomy(xray.trace(OfOneTask(), IDS))

    assert found.active_params == found.params - SPARE - 5 * WIDTH


class InShares(FeedForwardPart):
    """What two ways give is added up in learned shares, each read by its number and out of all (AST)."""

    def __init__(self):
        super().__init__()
        self.shares = nn.Parameter(torch.ones(2))

    def forward(self, x):
        first, second = (self.shares[way].exp() / self.shares.exp().sum() for way in range(2))
        wide = self.wide(self.norm(x))
        return x + self.back(self.bend(wide) * first + wide.relu() * second)


def test_numbers_that_are_read_one_by_one_and_all_at_once_count_once():
    model = nn.Sequential(InShares(), InShares())
    (column,) = read_columns(xray.trace(model, torch.rand(2, 3, 12)))

    assert [frame.params for frame in column.frames] == [sum(one.numel() for one in model[0].parameters())]


class Extended(Words):
    """A part is asked for what it may add to the words, and has nothing to add (Phi-4 multimodal)."""

    def __init__(self):
        super().__init__()
        self.extend = Extend()

    def forward(self, given):
        return self.heads[0](self.layers(self.extend(self.words(given))))


class Extend(nn.Module):
    """What is added to words where there is an image."""

    def __init__(self):
        super().__init__()
        self.image = nn.Linear(5, WIDTH)

    def forward(self, x, image=None):
        seen = x[..., :1] > 0
        return x if image is None else x + seen * self.image(image)


def test_a_part_that_uses_none_of_its_parameters_is_unused_and_not_one_that_is_not_drawn():
    trace = xray.trace(Extended(), IDS)

    drawn = xray.render(trace, "svg")
    assert xray.anatomy(trace).untold == ()
    assert "Not drawn, with parameters" not in drawn
    assert "unused: extend" in drawn


def test_a_book_of_codes_holds_no_words_and_no_places():
    tower = xray.anatomy(xray.trace(Words(book=True), torch.zeros(2, 3, 4))).towers[0]

    assert tower.vocab is None
    assert tower.reads != "ids"
    assert {part.part for part in tower.entrance} == {"table"}


class Peeked(nn.Module):
    """A table of places whose weights are laid another way for nothing before it is looked into (Unlimited OCR)."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(13, WIDTH), nn.Embedding(5, WIDTH)
        self.layers = nn.Sequential(*(Layer(LatentAttention("nothing")) for _ in range(2)))

    def forward(self, ids):
        self.places.weight.unsqueeze(0)
        return self.layers(self.words(ids) + self.places(torch.arange(ids.shape[1])))


def test_weights_that_are_moved_for_nothing_are_counted_where_they_work():
    bars = bars_of(poster_of(Peeked(), IDS))

    assert bars["entrance"] == 13 * WIDTH + 5 * WIDTH
    assert "all else" not in bars
