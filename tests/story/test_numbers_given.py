"""Numbers that come in beside what a tower reads first: each has a box with its name, led to what reads it."""

import pytest
import torch
from handwritten import Attention
from story.entrances import OTHER, WIDTH, make_layers
from story.layered import Layered, list_arrows, read
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Timed(Layered):
    """Rows, and one number of each sequence, the time of a diffusion, led to the width by itself or as waves."""

    def __init__(self, waves):
        super().__init__()
        self.see, self.lead, self.waves = nn.Linear(OTHER, WIDTH), nn.Linear(6 if waves else 1, WIDTH), waves

    def enter(self, seen, time):
        time = time[:, None]
        if self.waves:
            angles = time * torch.exp(-torch.arange(3))
            time = torch.cat([angles.cos(), angles.sin()], dim=-1)
        return self.see(seen) + self.lead(time)[:, None]


@pytest.mark.parametrize(("waves", "above"), [(False, {"LINEAR"}), (True, {"COS", "SIN"})])
def test_one_number_of_each_sequence_has_a_box_that_is_led_to_what_reads_it(waves, above):
    chart = read(lambda: Timed(waves), torch.rand(2, 7, OTHER), torch.rand(2)).entrance

    assert [node.told for node in chart.nodes if node.label == "NUMBERS"] == [("arg1",)]
    assert {target for source, target in list_arrows(chart) if source == "NUMBERS"} == above


class Weighed(Layered):
    """Rows, and numbers of which each is multiplied by a learned row of its own (FT-Transformer)."""

    def __init__(self):
        super().__init__()
        self.see, self.rows = nn.Linear(OTHER, WIDTH), nn.Parameter(torch.rand(5, WIDTH))

    def enter(self, seen, numbers):
        return torch.cat([self.see(seen), numbers[..., None] * self.rows], dim=1)


def test_numbers_by_which_learned_rows_are_multiplied_have_a_box():
    chart = read(Weighed, torch.rand(2, 7, OTHER), torch.rand(2, 5)).entrance

    assert ("NUMBERS", "× LEARNED NUMBERS") in list_arrows(chart)
    assert "× ONE NUMBER FOR EACH PLACE" not in {node.label for node in chart.nodes}


class Pointed(Weighed):
    """A learned row where a number that comes in is 1, and zeros elsewhere (the points of EfficientSAM)."""

    def enter(self, seen, numbers):
        return torch.cat([self.see(seen), (numbers == 1)[..., None] * self.rows], dim=1)


def test_learned_rows_are_set_to_zeros_where_numbers_that_come_in_are_others():
    chart = read(Pointed, torch.rand(2, 7, OTHER), torch.rand(2, 5).round()).entrance

    assert "ROWS OF A MASK SET TO 0" in {node.label for node in chart.nodes}


class TwoLed(nn.Module):
    """An encoder and a decoder that lead what comes in by one layer, and what came in beside it by another one."""

    def __init__(self):
        super().__init__()
        self.see, self.time = nn.Linear(OTHER, WIDTH), nn.Linear(4, WIDTH)
        self.layers, self.others = make_layers(WIDTH, 2), make_layers(WIDTH, 2)
        self.ask = nn.ModuleList(Attention(WIDTH, 3) for _ in range(2))

    def forward(self, seen, times, said, others):
        memory, x = self.see(seen) + self.time(times), self.see(said) + self.time(others)
        for layer in self.layers:
            memory = layer(memory)
        for layer, ask in zip(self.others, self.ask, strict=True):
            x = layer(x)
            x = x + ask(x, memory)
        return x


def test_what_comes_in_has_its_name_and_no_weights():
    given = torch.rand(2, 7, OTHER), torch.rand(2, 7, 4), torch.rand(2, 5, OTHER), torch.rand(2, 5, 4)
    encoder, decoder = read_columns(xray.trace(TwoLed().eval(), *given))

    told = [{node.extra for node in one.entrance.nodes if node.label == "VECTORS"} for one in (encoder, decoder)]
    assert told == [{"seen", "times"}, {"said", "others"}]
    assert {node.extra for node in decoder.entrance.nodes if node.label == "LINEAR"} == {"same weights"}


class Filtered(Layered):
    """Rows that are multiplied by numbers of which each was worked out of learned ones alone (MEGA)."""

    def __init__(self):
        super().__init__()
        self.see, self.much = nn.Linear(OTHER, WIDTH), nn.Parameter(torch.rand(WIDTH, 3, 1))
        self.far = nn.Parameter(torch.rand(WIDTH, 3, 7))

    def enter(self, seen):
        kept = self.much.sigmoid() * torch.exp(self.far)
        return self.see(seen) * torch.einsum("dnl->ld", kept)


def test_learned_numbers_of_which_one_is_for_each_of_a_row_are_multiplied_by_no_number_for_each_place():
    chart = read(Filtered, torch.rand(2, 7, OTHER)).entrance

    assert "× ONE NUMBER FOR EACH PLACE" not in {node.label for node in chart.nodes}


class Spoken(Layered):
    """Words of the one code that comes in, and one row of a voice that is added to all of them (MetaVoice)."""

    def __init__(self):
        super().__init__()
        self.words, self.voice, self.head = nn.Embedding(31, WIDTH), nn.Linear(OTHER, WIDTH), nn.Linear(WIDTH, 31)

    def enter(self, codes, voice):
        return self.words(codes[:, 0, :]) + self.voice(voice)

    def leave(self, x):
        return self.head(x)


def test_one_row_that_is_added_to_all_words_is_not_what_is_read():
    given = torch.randint(31, (2, 1, 7)), torch.rand(2, 1, OTHER)
    (tower,) = xray.anatomy(xray.trace(Spoken().eval(), *given)).towers

    assert (tower.reads, tower.vocab) == ("ids", 31)
    assert {("TOKEN IDS", "TABLE LOOKUP"), ("VECTORS", "LINEAR")} <= list_arrows(read(Spoken, *given).entrance)


class Degrees(Layered):
    """Nodes of a graph, each with a row of the number of its neighbours (Graphormer)."""

    def __init__(self):
        super().__init__()
        self.see, self.degrees = nn.Embedding(OTHER, WIDTH), nn.Embedding(8, WIDTH)

    def enter(self, nodes, adjacency):
        return self.see(nodes) + self.degrees(adjacency.sum(-1))


def test_numbers_of_which_sums_are_looked_up_are_no_ids():
    chart = read(Degrees, torch.tensor([[1, 2, 0, 3]]), torch.randint(0, 2, (1, 4, 4))).entrance

    assert [(node.label, node.told) for node in chart.nodes if node.row == 0] == [
        ("TOKEN IDS", ()),
        ("NUMBERS", ("arg1",)),
    ]
