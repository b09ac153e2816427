"""Experts with room for so many places: of others it is not said that they go through what was chosen for them."""

import pytest
import torch
from torch import nn

import xray
from xray import anatomy
from xray.renderers.fonts import text_width
from xray.story.anatomy.branches import Experts
from xray.story.poster import compose_poster

WIDTH, EXPERTS, CHOSEN = 16, 4, 2


class Routed(nn.Module):
    """A router with experts, each of which works on the places that a rule leaves of those that chose it."""

    def __init__(self, keep):
        super().__init__()
        self.keep, self.gate = keep, nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        rows = x.flatten(0, 1)
        weights, chosen = self.gate(rows).softmax(-1).topk(CHOSEN)
        given = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            places, which = torch.where(chosen == number)
            places, which = self.keep(places), self.keep(which)
            given = given.index_add(0, places, expert(rows[places]) * weights[places, which, None])
        return given.view_as(x)


class Layer(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.norm, self.second, self.ways = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.routed = Routed(keep)

    def forward(self, x):
        query, key, value = self.ways(self.norm(x)).chunk(3, dim=-1)
        x = x + (query @ key.mT * WIDTH**-0.5).softmax(-1) @ value
        return x + self.routed(self.second(x))


def record(*keeps):
    torch.manual_seed(0)
    layers = [Layer(keep) for keep in keeps]
    return xray.trace(nn.Sequential(nn.Embedding(9, WIDTH), *layers).eval(), torch.arange(18).view(2, 9) % 9)


def list_chosen(trace):
    branches = (branch for tower in anatomy(trace).towers for branch in tower.branches)
    return [branch.chosen for branch in branches if isinstance(branch, Experts)]


@pytest.mark.parametrize(
    "keep",
    [
        lambda places: places[:5],
        lambda places: places[-5:],
        lambda places: places.narrow(0, 0, min(5, len(places))),
        lambda places: places.split(5)[0],
        lambda places: places[torch.arange(min(5, len(places)))],
    ],
)
def test_places_that_an_expert_has_no_room_for_leave_open_how_many_each_goes_through(keep):
    assert set(list_chosen(record(keep, keep))) == {None}


def test_where_all_have_room_each_place_goes_through_those_that_were_chosen():
    assert list_chosen(record(lambda places: places[:18])) == [CHOSEN]


def test_layers_are_alike_and_parameters_and_experts_of_each_place_told_only_where_all_have_room():
    layout = compose_poster(record(lambda places: places, lambda places: places[:5]), text_width)

    lines = ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]
    assert not [line for line in lines if "used for each place" in line]
    assert not [line for line in lines if line.startswith("Experts")]
