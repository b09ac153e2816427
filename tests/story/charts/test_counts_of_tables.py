"""Tables at the entrance count their parameters once, however often they are read."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns


class Twice(nn.Module):
    """Two inputs through one layer, each by itself, and then end to end (PaddleOCR-VL)."""

    def __init__(self):
        super().__init__()
        self.lay, self.layers = nn.Linear(7, WIDTH), nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, first, second):
        return self.layers(torch.cat([self.lay(first), self.lay(second)], dim=1))


def test_a_layer_that_works_twice_counts_its_parameters_once():
    (column,) = read_columns(xray.trace(Twice().eval(), torch.rand(2, 3, 7), torch.rand(2, 5, 7)))

    told = [node.extra for node in column.entrance.nodes if node.label == "LINEAR"]
    assert told == [f"{8 * WIDTH} parameters", "same weights"]


class Places(nn.Embedding):
    """A table whose rows are looked up by places."""

    def forward(self, ids):
        places = torch.arange(ids.shape[1]).expand_as(ids)
        return super().forward(places), places


class PlacedTwice(nn.Module):
    """Ids, their places, and the next ones, looked up past the module that holds the table, end to end (ProphetNet)."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, WIDTH), Places(13, WIDTH)
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        rows, places = self.places(ids)
        following = nn.functional.embedding(places + 1, self.places.weight)
        return self.layers(torch.cat([self.words(ids) + rows, following], dim=1))


def test_a_table_that_is_read_past_its_module_too_counts_its_parameters_once():
    (column,) = read_columns(xray.trace(PlacedTwice().eval(), torch.randint(11, (2, 5))))

    told = [node.extra for node in column.entrance.nodes if node.label.endswith("LOOKUP")]
    assert told == [f"{13 * WIDTH} parameters", "same weights", f"{11 * WIDTH} parameters"]


class Foretells(PlacedTwice):
    """Two streams of the next places, each with a row of its own out of one table (ProphetNet)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(2, WIDTH)

    def forward(self, ids):
        rows, places = self.places(ids)
        following = nn.functional.embedding(places + 1, self.places.weight)
        streams = [self.rows.weight[number] + following for number in (1, 0)]
        return self.layers(torch.cat([self.words(ids) + rows, *streams], dim=1))


def test_rows_of_one_table_are_counted_each_beside_a_table_that_is_read_again():
    (column,) = read_columns(xray.trace(Foretells().eval(), torch.randint(11, (2, 5))))

    told = [node.extra for node in column.entrance.nodes if node.label == "+ A LEARNED ROW"]
    assert told == [f"{WIDTH} parameters"] * 2


class WithPlaces(nn.Module):
    """Words, and the places that stand in a table of their own, which no ids that come in look up (BART, OPT)."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, WIDTH), nn.Parameter(torch.rand(13, WIDTH))
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        places = nn.functional.embedding(torch.arange(ids.shape[1]) + 2, self.places)
        return self.layers(self.words(ids) + places)


def test_places_looked_up_in_a_table_are_counted_there_and_not_again_where_they_are_added():
    (column,) = read_columns(xray.trace(WithPlaces().eval(), torch.arange(10).reshape(2, 5)))

    boxes = [(node.label, node.extra) for node in column.entrance.nodes]
    assert ("PLACE LOOKUP", f"{13 * WIDTH} parameters") in boxes
    assert boxes[-1] == ("ADDED UP", "")


class Held(nn.Module):
    """Ids looked up in a table by no module, and places worked out added to them (M2M-100)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.rand(11, WIDTH))
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, ids):
        places = torch.arange(WIDTH) * torch.arange(ids.shape[1])[:, None]
        return self.layers(nn.functional.embedding(ids, self.table) * WIDTH**0.5 + places.sin())


def test_words_looked_up_in_a_table_of_no_module_tell_its_parameters():
    (column,) = read_columns(xray.trace(Held().eval(), torch.randint(11, (2, 5))))

    assert [(node.label, node.extra) for node in column.entrance.nodes if node.key == "words"] == [
        ("EMBED × √d_model", f"{11 * WIDTH} parameters")
    ]


class Placed(nn.Module):
    """Rows to which a learned row and a table, resized to so many rows as there are, are added before layers."""

    def __init__(self):
        super().__init__()
        self.cut = nn.Linear(3, WIDTH)
        self.row, self.table = nn.Parameter(torch.ones(1, 1, WIDTH)), nn.Parameter(torch.ones(1, WIDTH, 2))
        self.layers = nn.ModuleList(part() for part in 2 * (AttentionPart, FeedForwardPart))

    def forward(self, x):
        places, others = self.table, x.shape[1] - 1
        if others != places.shape[-1]:
            places = nn.functional.interpolate(places, size=others)  # type: ignore[assignment]
        x = self.cut(x) + torch.cat((self.row, places.transpose(1, 2)), 1)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize(("count", "told"), [(3, f"{3 * WIDTH} parameters"), (5, "")])
def test_a_box_that_reads_a_resized_table_counts_no_part_of_what_it_reads(count, told):
    (column,) = read_columns(xray.trace(Placed(), torch.randn(2, count, 3)))

    (extra,) = (node.extra for node in column.entrance.nodes if "LEARNED" in node.label and " + " in node.label)
    assert extra == told


class Summed(nn.Module):
    """Two learned tables are added up first, and the words to what comes out of that (SAM 2's places)."""

    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(13, WIDTH), nn.Sequential(*(FeedForwardPart() for _ in range(2)))
        self.places, self.same = nn.Parameter(torch.rand(1, 5, WIDTH)), nn.Parameter(torch.rand(1, 1, WIDTH))

    def forward(self, ids):
        return self.layers(self.words(ids) + (self.places + self.same))


def test_a_sum_of_what_other_boxes_give_has_no_weights():
    (column,) = read_columns(xray.trace(Summed().eval(), torch.randint(13, (2, 5))))

    told = {node.steps[0].id: node.extra for node in column.entrance.nodes if node.steps[0].op == "add"}
    assert told == {"Summed.add#0": f"{6 * WIDTH} parameters", "Summed.add#1": ""}


class PlacedMaps(nn.Module):
    """One table of places, fitted once to two pictures and added to each; they go on end to end (SegGPT)."""

    def __init__(self):
        super().__init__()
        self.lay = nn.Conv2d(3, WIDTH, 4, 4)
        self.pos_embed = nn.Parameter(torch.rand(1, WIDTH, 2, 2))
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, first, second):
        places = nn.functional.interpolate(self.pos_embed, size=(3, 3), mode="bicubic").permute(0, 2, 3, 1)
        first, second = (self.lay(one).permute(0, 2, 3, 1) + places for one in (first, second))
        return self.layers(torch.cat([first, second]))


def test_a_table_that_is_fitted_once_and_added_twice_counts_its_parameters_once():
    (column,) = read_columns(xray.trace(PlacedMaps().eval(), *torch.rand(2, 2, 3, 12, 12)))

    told = [node.extra for node in column.entrance.nodes if "LEARNED PLACES" in node.label]
    assert told == [f"{4 * WIDTH} parameters", "same weights"]
