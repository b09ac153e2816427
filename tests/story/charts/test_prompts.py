"""Ids that a model puts in front of those that came in, and the kinds of all of them (CPM-Ant)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, FeedForwardPart
from story.charts.test_given import entrance_of, list_led
from torch import nn

IDS = torch.arange(14).view(2, 7)
LARGE = 150


class Prompted(nn.Module):
    """Ids in front of which others are put, and a kind for each of all: one for those that were put there."""

    def __init__(self, prompts, kinds=16):
        super().__init__()
        self.words, self.kinds, self.prompts = nn.Embedding(LARGE, WIDTH), nn.Embedding(kinds, WIDTH), prompts
        self.layers = nn.Sequential(*(FeedForwardPart() for _ in range(2)))

    def forward(self, input_ids):
        kinds = torch.where(input_ids != 3, 2, 1)
        front = self.prompts(input_ids)
        ids = torch.cat((front, input_ids), 1)
        kinds = torch.cat((torch.zeros_like(front), kinds), 1)
        return self.layers(self.words(ids) + self.kinds(kinds))


def count_out(input_ids):
    return torch.arange(LARGE - 5, LARGE).repeat(len(input_ids), 1)


def work_out(input_ids):
    return input_ids[:, :5] + LARGE // 2


@pytest.mark.parametrize(
    ("prompts", "told"),
    [(count_out, ("7 given, behind 5 that are always the same",)), (work_out, ("worked out of 7 given",))],
)
def test_ids_that_are_the_same_in_every_run_are_told_in_front_of_those_that_came_in(prompts, told):
    chart = entrance_of(Prompted(prompts), IDS)

    assert next((node.label, node.told) for node in chart.nodes) == ("TOKEN IDS", told)


def test_kinds_of_ids_that_came_in_behind_others_are_led_in():
    assert list_led(entrance_of(Prompted(count_out), IDS)) == ["TABLE LOOKUP", "LOOKUP IN 16 ROWS"]


@pytest.mark.parametrize(("rows", "told"), [(16, "LOOKUP IN 16 ROWS"), (40, "TABLE LOOKUP")])
def test_the_far_smaller_of_two_tables_is_told_by_its_rows(rows, told):
    labels = [node.label for node in entrance_of(Prompted(count_out, rows), IDS).nodes]

    assert sorted(label for label in labels if "LOOKUP" in label) == sorted(["TABLE LOOKUP", told])


def test_kinds_that_ids_pick_are_told():
    (told,) = [node.told for node in entrance_of(Prompted(count_out), IDS).nodes if "16 ROWS" in node.label]

    assert told == ("kind 0 for the first 5, then 2 where the id is not 3, else 1",)


class Kinds(Prompted):
    """Ids and a kind for each, as it is worked out."""

    def forward(self, input_ids):
        return self.layers(self.words(input_ids) + self.kinds(self.prompts(input_ids)))


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (lambda ids: torch.where(ids == 3, 1, 0), ("kind 1 where the id is 3, else 0",)),
        (lambda ids: torch.cat([torch.where(ids == 3, 1, 0)], 1), ()),
        (lambda ids: torch.where(ids[:, :1] == 3, 1, 0).expand(2, 7), ()),
        (lambda ids: torch.where(ids == 3, 1, 0)[:, :1], ()),
        (lambda ids: torch.where(ids[:, torch.arange(6, -1, -1)] == 3, 1, 0), ()),
        (lambda ids: torch.cat([torch.zeros_like(ids[:1]), torch.where(ids[1:] == 3, 1, 0)], 0), ()),
    ],
)
def test_kinds_are_told_where_each_is_known_to_be_of_its_own_id(kinds, told):
    chart = entrance_of(Kinds(kinds), IDS)

    assert [node.told for node in chart.nodes if "16 ROWS" in node.label] == [told]
