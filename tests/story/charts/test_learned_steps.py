"""Learned numbers that rows meet outside of linear layers stand in a box of their own, with their count."""

import pytest
import torch
from story.charts.entrance_operations import chart_of, rows
from story.charts.test_operations_chart import WIDTH
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.charts.steps.drawn_steps import meets_alone


class Meets(nn.Module):
    """A linear layer, what comes out of which meets learned numbers before another."""

    def __init__(self, meet):
        super().__init__()
        self.meet, self.first, self.last = meet, nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.held = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        return self.last(self.meet(self.first(x), self.held))


@pytest.mark.parametrize(
    ("meet", "told"),
    [
        (lambda x, held: x * held, "× LEARNED NUMBERS"),
        (lambda x, held: -held.float().exp() * x, "× −EXP OF LEARNED NUMBERS"),
        (lambda x, held: x * held.exp(), "× EXP OF LEARNED NUMBERS"),
        (lambda x, held: x * (1 - held), "× (1 − LEARNED NUMBERS)"),
        (lambda x, held: x * (2 - held), "× WHAT IS MADE OF LEARNED NUMBERS"),
        (lambda x, held: x / held.exp(), "÷ EXP OF LEARNED NUMBERS"),
        (lambda x, held: held.exp() / x, "EXP OF LEARNED NUMBERS, DIVIDED"),
        (lambda x, held: x.tanh() + held, "LEARNED NUMBERS ADDED"),
    ],
)
def test_learned_numbers_that_rows_meet_have_a_box_with_their_count(meet, told):
    boxes = {node.label: node.extra for node in chart_of(Meets(meet), rows()).nodes}

    assert boxes[told] == f"{WIDTH} parameters"


def test_learned_numbers_that_are_added_to_all_that_a_layer_gives_are_its_bias():
    nodes = chart_of(Meets(lambda x, held: x + held), rows()).nodes

    assert [(node.label, node.extra) for node in nodes] == [("LINEAR", f"{WIDTH * (WIDTH + 1)} parameters")] * 2


class Column(Meets):
    """Weights that rows are multiplied with as columns, and a bias that is one too (Mamba)."""

    def forward(self, x):
        return self.last((self.first.weight @ x.mT + self.held[:, None]).mT.relu())


def test_a_column_that_is_added_to_columns_is_their_bias():
    nodes = chart_of(Column(None), rows()).nodes

    assert [node.extra for node in nodes if node.extra] == [f"{WIDTH * (WIDTH + 1)} parameters"] * 2


@pytest.mark.parametrize("meet", [lambda x, held: x * held[:1], lambda x, held: x * torch.arange(1.0, WIDTH + 1)])
def test_one_learned_number_and_those_that_are_not_learned_have_none(meet):
    assert [node.label for node in chart_of(Meets(meet), rows()).nodes] == ["LINEAR"] * 2


class Joined(nn.Module):
    """A layer whose weights are laid together out of two, and its bias (MobileBERT)."""

    def __init__(self):
        super().__init__()
        self.one, self.other, self.bias = (nn.Parameter(torch.rand(*size)) for size in ((WIDTH, 3), (WIDTH, 4), (7,)))

    def forward(self, x):
        return x.tanh() @ torch.cat((self.one, self.other), dim=1) + self.bias


def test_weights_that_are_laid_together_are_counted_with_the_bias():
    assert chart_of(Joined(), rows()).nodes[-1].extra == f"{7 * WIDTH + 7} parameters"


def test_a_number_by_which_what_was_bent_is_multiplied_stands_behind_the_bend():
    labels = [node.label for node in chart_of(Meets(lambda x, _: -5 * x.sigmoid()), rows()).nodes]

    assert labels == ["LINEAR", "SIGMOID × −5", "LINEAR"]


@pytest.mark.parametrize(("before", "told"), [(7, "7 · TANH( EACH / 7 )"), (5, "TANH × 7")])
def test_a_number_that_what_was_bent_cannot_pass_is_told_of_a_cap_alone(before, told):
    labels = [node.label for node in chart_of(Meets(lambda x, _: 7 * torch.tanh(x / before)), rows()).nodes]

    assert labels == ["LINEAR", told, "LINEAR"]


def test_learned_numbers_that_rows_meet_at_each_turn_of_a_loop_have_none():
    flow = read_flow(xray.trace(Meets(lambda x, held: x.tanh() + held).eval(), rows()).passes[0])
    (added,) = [place for place, step in enumerate(flow.steps) if step.op == "add"]

    assert meets_alone(flow, added, (), turns=())
    assert not meets_alone(flow, added, (), turns=(flow.steps[added].location,))


def test_a_part_of_what_was_multiplied_that_is_shifted_is_not_scaled_and_shifted():
    model = Meets(lambda x, held: (x * torch.arange(2.0, WIDTH + 2)).tensor_split(2, -1)[0] + held[: WIDTH // 2])
    model.last = nn.Linear(WIDTH // 2, WIDTH)

    assert "SCALE AND SHIFT" not in [node.label for node in chart_of(model, rows()).nodes]


class Grouped(nn.Module):
    """A norm of channels by groups, which are laid together before they are scaled (Mamba 2)."""

    def __init__(self, groups):
        super().__init__()
        self.groups, self.weight = groups, nn.Parameter(torch.rand(12))

    def forward(self, x):
        parts = x.view(2, 5, self.groups, -1)
        parts = parts * torch.rsqrt(parts.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * parts.view(2, 5, 12)


@pytest.mark.parametrize(("groups", "told"), [(3, "RMS NORM IN 3 GROUPS"), (1, "RMS NORM")])
def test_a_norm_by_groups_tells_how_many(groups, told):
    nodes = chart_of(nn.Sequential(nn.Linear(12, 12), Grouped(groups)), rows(12)).nodes

    assert [(node.label, node.extra) for node in nodes[1:]] == [(told, "12 parameters")]


class OverChannels(nn.Module):
    """A norm of all channels of maps, whose weights are laid along these (MobileNetV5)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        return x * self.weight.reshape(1, -1, 1, 1)


def test_weights_that_are_laid_along_channels_make_no_groups():
    nodes = chart_of(nn.Sequential(nn.Conv2d(3, 4, 1), OverChannels()), torch.rand(2, 3, 6, 24)).nodes

    assert [node.label for node in nodes][1:] == ["RMS NORM"]
