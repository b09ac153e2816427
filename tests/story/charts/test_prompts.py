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
