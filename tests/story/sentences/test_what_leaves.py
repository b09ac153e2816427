"""What is said to leave a model: all that leaves it, or nothing of it."""

import re

import pytest
import torch
from handwritten import Attention, Layer
from printed import lines_of
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.cards.stations import what_leaves
from xray.story.poster import compose_poster
from xray.story.sentences.of_ends import describe_exit
from xray.story.sheet.columns import read_columns

WIDTH, WORDS = 15, 31


class Reader(nn.Module):
    """Layers on words, and a head that gives numbers for each place (ELECTRA's discriminator)."""

    def __init__(self, numbers: int):
        super().__init__()
        self.words: nn.Module = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.head = nn.Linear(WIDTH, numbers)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.leave(x)

    def leave(self, x):
        return self.head(x)


class ReaderOfTwo(Reader):
    """Numbers of the first row, and before them, perhaps, scores for the words of every row (BERT as pretrained)."""

    def __init__(self, scores_words: bool):
        super().__init__(2)
        self.scores = nn.Linear(WIDTH, WORDS) if scores_words else None

    def leave(self, x):
        pooled = x[:, 0]
        return self.head(pooled) if self.scores is None else (self.scores(x), self.head(pooled))


class ReaderOfCodes(Reader):
    """As many numbers as a table has rows, that are cut up: scores of several codes, a part of the table each (Dia)."""

    def __init__(self, cut: bool):
        super().__init__(33)
        self.words, self.cut = nn.Embedding(33, WIDTH), cut

    def leave(self, x):
        x = self.head(x)
        return x.view(2, 7, 3, 11) if self.cut else x


class Choosing(Reader):
    """The likeliest word of each place, or of the last one alone; along another axis, by mistake, no word at all."""

    def __init__(self, last: bool, axis: int = -1):
        super().__init__(WORDS)
        self.last, self.axis = last, axis

    def leave(self, x):
        x = self.head(x) / 0.5
        return (x[:, -1] if self.last else x).argmax(dim=self.axis)


def test_a_temperature_stands_in_one_box_before_a_word_is_chosen():
    layout = compose_poster(xray.trace(Choosing(last=True).eval(), torch.arange(14).view(2, 7)), text_width)

    titles = [box.lines[0][0].text for box in layout.boxes if "forward/Choosing.div#0" in box.steps]
    assert titles == ["× 2"]


class ChoosingPlaces(Reader):
    """Two numbers for each place, and, beside them, the place of which a third number is the highest."""

    def __init__(self):
        super().__init__(2)
        self.scores = nn.Linear(WIDTH, 1)

    def leave(self, x):
        return self.head(x), self.scores(x).squeeze(-1).argmax(-1)


class ChoosingClasses(Reader):
    """The likeliest of a few classes of what the first row tells."""

    def leave(self, x):
        return self.head(x[:, 0]).argmax(-1)


class Measured(Reader):
    """One number of each sequence, and how far it is from what it should be."""

    def leave(self, x):
        return nn.functional.mse_loss(self.head(x.mean(1)), torch.ones(2, 1))


class Summed(Reader):
    """Numbers of each place that a mask lets through, added up over the places and bent (BEATs), or given as well."""

    def __init__(self, gives_each=False):
        super().__init__(3)
        self.gives_each = gives_each

    def leave(self, x):
        each, hidden = self.head(x), torch.arange(7) > 5
        each[:, hidden] = 0
        whole = torch.sigmoid(each.sum(dim=1) / (~hidden).sum())
        return (each, whole) if self.gives_each else whole


@pytest.mark.parametrize("gives_each", [False, True])
def test_numbers_of_each_place_that_are_added_up_come_out_for_each_only_if_they_are_given_too(gives_each):
    trace = xray.trace(Summed(gives_each).eval(), torch.arange(14).view(2, 7))

    told = " ".join(lines_of(compose_poster(trace, text_width)))
    assert ("3 numbers come out for each place." in told) is gives_each


@pytest.mark.parametrize(("cut", "told"), [(True, "vocab 3 × 11"), (False, "vocab 33")])
def test_scores_that_leave_cut_are_of_as_many_codes(cut, told):
    trace = xray.trace(ReaderOfCodes(cut).eval(), torch.arange(14).view(2, 7))

    lines = [" ".join(line.split()) for line in lines_of(compose_poster(trace, text_width))]
    assert [number for line in lines for number in re.findall(r"vocab [\d× ]*\d", line)] == [told]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ReaderOfCodes(cut=True), "33 numbers come out for each place."),
        (ReaderOfCodes(cut=False), "A score for every word."),
        (Choosing(last=True), "Argmax: a word."),
        (Choosing(last=True, axis=0), "A score for every word."),
        (Choosing(last=False), "Argmax: one for each place."),
        (Choosing(last=False, axis=1), "A score for every word."),
        (ChoosingClasses(5), "Argmax: one of the numbers."),
        (Measured(1), "1 number, compared with the target."),
        (Reader(1), "1 number comes out for each place."),
        (Reader(3), "3 numbers come out for each place."),
        (ReaderOfTwo(scores_words=False), "2 numbers come out."),
        (ReaderOfTwo(scores_words=True), "What leaves the tower."),
    ],
)
def test_what_leaves_is_said_whole(model, said):
    told = " ".join(lines_of(compose_poster(xray.trace(model.eval(), torch.arange(14).view(2, 7)), text_width)))
    assert said in told
    assert "come out." not in told.replace(said, "")


class ReaderOfRows(Reader):
    """Rows of numbers come in, and some numbers are made of each row, of those of its axis, or of all rows but one."""

    def __init__(self, way: str):
        super().__init__(3)
        self.words, self.way, self.across = nn.Linear(4, WIDTH), way, nn.Linear(7, 3)

    def leave(self, x):
        if self.way == "cut":
            return self.head(x)[:, 1:]
        if self.way == "kept":
            return self.head(x[:, 0:, :])
        if self.way == "picked":
            return self.head(x[:, [1, 0, 2, 3, 4, 5, 6]])
        return self.across(x.mT) if self.way == "across" else self.head(x.flip(1) if self.way == "turned" else x)


@pytest.mark.parametrize(
    ("way", "is_of_each"),
    [("plain", True), ("kept", True), ("across", False), ("turned", False), ("picked", False), ("cut", False)],
)
def test_numbers_come_out_for_each_place_where_each_row_is_led_by_itself(way, is_of_each):
    head = anatomy(xray.trace(ReaderOfRows(way).eval(), torch.rand(2, 7, 4))).head

    assert (head is not None and head.kind == "numbers") is is_of_each


def test_a_place_that_is_chosen_is_no_word():
    layout = compose_poster(xray.trace(ChoosingPlaces().eval(), torch.arange(14).view(2, 7)), text_width)

    assert "a word" not in " ".join(lines_of(layout))


class Coloured(Reader):
    """One number of each place beside three that are worked out of another linear layer, or alone (IBRNet)."""

    def __init__(self, is_alone: bool):
        super().__init__(1)
        self.is_alone = is_alone
        self.colour = nn.Linear(5, 3)

    def leave(self, x):
        density = self.head(x)
        beside = self.colour(torch.ones(2, 7, 5)).sigmoid()
        return density[..., 0] if self.is_alone else torch.cat((beside, density), -1)


@pytest.mark.parametrize("is_alone", [True, False])
def test_one_number_comes_out_for_each_place_where_no_others_stand_beside_it(is_alone):
    trace = xray.trace(Coloured(is_alone).eval(), torch.arange(14).view(2, 7))

    assert ("1 number comes out for each place." in " ".join(lines_of(compose_poster(trace, text_width)))) is is_alone


class Boxing(Reader):
    """A box of each place beside its kinds, by a head of its own."""

    def __init__(self):
        super().__init__(3)
        self.box = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))

    def leave(self, x):
        box = self.box(x).sigmoid()
        return self.head(x), box


def test_numbers_of_one_head_of_several_are_not_all_that_comes_out():
    assert anatomy(xray.trace(Boxing().eval(), torch.zeros(2, 7, dtype=torch.long))).head is None


class Raising(Reader):
    """Rows of which more are made by a transposed convolution, and fewer of these again, perhaps (NeuCodec's bends)."""

    def __init__(self, step: int):
        super().__init__(3)
        self.more = nn.ConvTranspose1d(WIDTH, 5, 3, stride=3)
        self.fewer = nn.Conv1d(5, 7, 3, stride=step, padding=1)

    def leave(self, x):
        return self.fewer(self.more(x.mT).relu())


@pytest.mark.parametrize(("step", "said"), [(1, "leaves the tower: of each place 3 have been made."), (3, "")])
def test_so_many_are_made_of_each_place_where_none_is_lost_again(step, said):
    told = " ".join(lines_of(compose_poster(xray.trace(Raising(step).eval(), torch.arange(14).view(2, 7)), text_width)))
    assert said in told
    assert ("have been made" in told) == bool(said)


class Sounding(Reader):
    """Rows that become a signal by convolutions, with numbers drawn by chance, or without (VITS)."""

    def __init__(self, by_chance: bool):
        super().__init__(3)
        self.by_chance, self.sound = by_chance, nn.Conv1d(WIDTH, 5, 3, padding=1)

    def leave(self, x):
        chance = torch.randn_like(x) if self.by_chance else torch.ones_like(x)
        return self.sound((x + x.exp() * chance).mT)


@pytest.mark.parametrize("by_chance", [True, False])
def test_numbers_drawn_by_chance_that_go_into_what_leaves_are_told(by_chance):
    trace = xray.trace(Sounding(by_chance).eval(), torch.arange(14).view(2, 7))
    told = " ".join(lines_of(compose_poster(trace, text_width)))

    assert ("What leaves the tower, with numbers drawn by chance." in told) == by_chance


class Captions(Reader):
    """Words are read, then an image, at which layers of the words look before they are scored (CoCa)."""

    def __init__(self):
        super().__init__(WORDS)
        self.patches = nn.Linear(13, WIDTH)
        self.seeing = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(3))
        self.looking = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, ids, image=None):
        x, seen = self.words(ids), self.patches(image)
        for layer in self.layers:
            x = layer(x)
        for layer in self.seeing:
            seen = layer(seen)
        seen = self.last(seen)
        for layer in self.looking:
            x = layer(x, seen)
        return self.head(x)


def test_scores_are_told_of_the_tower_that_they_are_made_of_be_another_read_after_it_began():
    trace = xray.trace(Captions().eval(), torch.arange(14).view(2, 7), torch.rand(2, 11, 13))
    columns = read_columns(trace)
    told = {column.name: describe_exit(what_leaves(anatomy(trace), column)) for column in columns}

    scored = [name for name, text in told.items() if "score for every word" in text]
    assert len(told) == 2
    assert scored == [column.name for column in columns if column.towering.tower.reads == "ids"]


class Matching(Reader):
    """Two sequences through the same layers and convolution; each place of one is held against each of the other."""

    def __init__(self):
        super().__init__(5)
        self.convolve = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, ids, others=None):
        one, other = self.words(ids), self.words(others)
        for layer in self.layers:
            one, other = layer(one), layer(other)
        return torch.einsum("bdn,bdm->bnm", self.convolve(one.mT), self.convolve(other.mT)) / 4


def test_a_poster_may_end_in_two_towers_held_against_each_other():
    trace = xray.trace(Matching().eval(), torch.arange(14).view(2, 7), torch.arange(18).view(2, 9))
    columns = read_columns(trace)

    assert [chart.node(chart.head).label for phase in columns[-1].phases if (chart := phase.exit)][-1] == (
        "COMPARED WITH THE TOKENS TOWER"
    )
    assert compose_poster(trace, text_width) is not None


class ReaderOfMeans(Reader):
    """Numbers of each place, of which a mean is taken behind the head, or those of the mean of all sequences."""

    def __init__(self, axis: int):
        super().__init__(3)
        self.axis = axis

    def leave(self, x):
        return self.head(x).mean(1) if self.axis else self.head(x.mean(0))


@pytest.mark.parametrize("axis", [0, 1])
def test_numbers_of_a_mean_come_out_neither_for_each_place_nor_once(axis):
    layout = compose_poster(xray.trace(ReaderOfMeans(axis).eval(), torch.arange(14).view(2, 7)), text_width)

    assert not any("come out" in line for line in lines_of(layout))


class Convolving(nn.Module):
    """A convolution of the mean of a map, or of each of its places, behind layers of convolutions (ResNet v2)."""

    def __init__(self, of_mean):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 5, 1)
        self.layers = nn.ModuleList(nn.Conv2d(6, 6, 3, padding=1) for _ in range(3))
        self.pool = nn.AdaptiveAvgPool2d(1) if of_mean else nn.Identity()

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x.relu())
        return self.last(self.pool(x)).flatten(1)


@pytest.mark.parametrize(
    ("of_mean", "said"), [(True, "5 numbers come out."), (False, "What leaves the tower.")], ids=["mean", "places"]
)
def test_a_convolution_of_a_mean_gives_numbers_and_is_the_head(of_mean, said):
    trace = xray.trace(Convolving(of_mean).eval(), torch.rand(2, 3, 9, 9))
    told = lines_of(compose_poster(trace, text_width))

    assert said in told
    assert ("head" in told) is of_mean
