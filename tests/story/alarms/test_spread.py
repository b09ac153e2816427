"""Heads that are turned behind their places before they are joined raise nothing, be there as many of both."""

import pytest
import torch
from story.alarms.planted.pairs import HEADS, WIDTH, Layer
from torch import nn

import xray
from xray.story.alarms.whole import audit


class Joining(Layer):
    """An attention that joins heads turned behind their places, or as they lie."""

    def __init__(self, *, turned, summed="matmul"):
        super().__init__(0, lambda scores, mask, number: scores)
        self.turned, self.summed = turned, summed

    def forward(self, x, mask=None):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        if self.summed == "einsum":
            return x + self.out(torch.einsum("bhqk,bhkd->bqhd", weights, v).reshape(x.shape))
        found = weights @ v
        return x + self.out((found.transpose(1, 2) if self.turned else found).reshape(x.shape))


def list_kinds(model, places):
    return [alarm.kind for alarm in audit(xray.trace(nn.Sequential(model), torch.randn(3, places, WIDTH))).alarms]


@pytest.mark.parametrize("places", [1, HEADS, 7])
def test_heads_that_are_turned_behind_their_places_raise_nothing(places):
    assert list_kinds(Joining(turned=True), places) == []


def test_heads_that_an_einsum_lays_behind_their_places_raise_nothing():
    assert list_kinds(Joining(turned=True, summed="einsum"), HEADS) == []


@pytest.mark.parametrize(("places", "kinds"), [(1, []), (HEADS, ["spread"]), (7, ["spread"])])
def test_heads_that_are_joined_as_they_lie_are_told_where_there_are_several_places(places, kinds):
    assert list_kinds(Joining(turned=False), places) == kinds


def test_it_is_told_in_how_many_rows_lies_what_was_found_for_one_place():
    (alarm,) = audit(xray.trace(Joining(turned=False), torch.randn(3, 7, WIDTH))).alarms

    assert alarm.text.endswith("what they found for the first place stands in 2 of the 7 rows, from row 0 to row 3.")
