"""What stands in the boxes of a state that is changed by pieces: the gate on what is read of it, and the change."""

import pytest
import torch
from story.charts.test_read_states import Pieces
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.anatomy.branches import Convolution, Recurrence
from xray.story.charts.steps.operations_chart import chart_operations
from xray.story.recognition.between import list_reading_data
from xray.story.states.names import name_state_steps, tell_read


class Gated(Pieces):
    """What was read of a state goes on as far as a gate of the same rows lets it through (Qwen 3.5)."""

    def __init__(self, pieces):
        super().__init__(pieces)
        self.gate = nn.Linear(12, 12)
        self.last, self.end = nn.Identity(), nn.Linear(12, 12)  # type: ignore[assignment]  # rows go on as read

    def forward(self, x):
        return self.end(super().forward(x) * nn.functional.silu(self.gate(x)))


class WrittenOut(Pieces):
    """The gate is a part of what one layer gives, and is bent by its own sigmoid (Mamba 2)."""

    def __init__(self, pieces):
        super().__init__(pieces)
        self.first = nn.Linear(12, 24)
        self.last, self.end = nn.Identity(), nn.Linear(12, 12)  # type: ignore[assignment]  # rows go on as read

    def forward(self, x):
        gate, rows = self.first(x).split((12, 12), -1)
        return self.end(super().forward(rows) * (gate * gate.sigmoid()))


class Scaled(Gated):
    """What leads back to the stream is multiplied by one number (Granite 4)."""

    def forward(self, x):
        return super().forward(x) * 0.5


def chart_state(pieces, model=Gated):
    flow = read_flow(xray.trace(model(pieces), torch.rand(2, 30, 12)).passes[0])
    end = max(node for node in range(len(flow.steps)) if flow.is_leaf(node))
    nodes = {node for node in {end, *flow.behind(end)} & list_reading_data(flow) if flow.is_leaf(node)}
    branch = Recurrence("linear attention", (2, 3, 4, 4), by_pieces=True)
    named = name_state_steps(flow, branch, nodes, end)
    return chart_operations(flow, nodes, end, named.labels, folded=named.folded)


def lead_to(chart, label):
    (box,) = (node for node in chart.nodes if node.label == label)
    return sorted(chart.node(edge.source).label for edge in chart.edges if edge.target == box.key)


def test_a_gate_stands_between_what_is_read_of_a_state_and_the_way_back():
    chart = chart_state(1)
    (head,) = (chart.node(edge.source).label for edge in chart.edges if edge.target == chart.heads[0])

    assert head == "× GATE"
    assert lead_to(chart, "× GATE") == ["GATE + SiLU", "ROWS READ OF IT"]


def test_a_gate_that_is_bent_step_by_step_goes_into_no_state():
    chart = chart_state(1, WrittenOut)

    assert lead_to(chart, "× GATE") == ["ROWS READ OF IT", "SiLU"]


def test_a_gate_and_a_state_are_known_before_a_way_back_that_is_scaled():
    labels = {node.label for node in chart_state(1, Scaled).nodes}

    assert {"× GATE", "STATE, HANDED FROM PIECE TO PIECE"} <= labels


def test_all_that_places_of_one_piece_do_with_each_other_stands_in_two_boxes():
    chart = chart_state(1)
    (state,) = (node for node in chart.nodes if node.label.startswith("STATE"))
    (read,) = (node for node in chart.nodes if node.label == "ROWS READ OF IT")

    assert [sum(step.op == "matmul" for step in node.steps) for node in (state, read)] == [2, 3]
    assert not any(node.label == "PRODUCT" for node in chart.nodes)


@pytest.mark.parametrize(("pieces", "told"), [(1, ("changed once",)), (6, ())])
def test_a_box_of_a_state_of_one_piece_says_that_it_is_changed_once(pieces, told):
    (state,) = (node for node in tell_read(chart_state(pieces)).nodes if node.label.startswith("STATE"))

    assert state.told == told


@pytest.mark.parametrize(("filled", "begun"), [((1, 64), ", as it began"), ((2, 64), ""), (None, "")])
def test_rows_that_are_one_piece_read_a_state_as_it_began(filled, begun):
    branch = Recurrence("linear attention", None, by_pieces=True, filled=filled)
    (read,) = (node for node in tell_read(chart_state(1), branch).nodes if node.label == "ROWS READ OF IT")

    assert read.told == ("what rows of a piece give each other, and what is read of it" + begun,)


def test_a_state_of_many_pieces_has_its_gate_too():
    chart = chart_state(6)

    assert any(node.label.startswith("STATE") and node.extra == "changed 6 times" for node in chart.nodes)
    assert "× GATE" in {node.label for node in chart.nodes}


def test_only_a_state_has_such_names():
    flow = read_flow(xray.trace(Gated(1), torch.rand(2, 30, 12)).passes[0])

    assert not name_state_steps(flow, Convolution(None, None), range(len(flow.steps)), 0).labels


class Skipped(nn.Module):
    """Rows meet others of their piece, of which decays are summed up, and a state; rows times numbers are added."""

    def __init__(self, skips=True, lays=False):
        super().__init__()
        self.lays = lays
        self.given, self.fade, self.last = nn.Linear(12, 12), nn.Linear(12, 1), nn.Linear(12, 12)
        self.kept = nn.Parameter(torch.rand(12)) if skips else None

    def forward(self, x):
        rows, sums = nn.functional.silu(self.given(x)), nn.functional.softplus(self.fade(x)).neg().cumsum(1)
        met = (rows @ rows.transpose(1, 2) * (sums - sums.transpose(1, 2)).exp()) @ rows
        state = (rows * sums).transpose(1, 2) @ rows
        found = met + (rows @ state) * sums.exp()
        found = torch.cat([found], 1) if self.lays else found
        return self.last(found if self.kept is None else found + rows * self.kept)


def chart_skipped(*settings):
    flow = read_flow(xray.trace(Skipped(*settings), torch.rand(2, 7, 12)).passes[0])
    end = max(node for node in range(len(flow.steps)) if flow.is_leaf(node))
    nodes = {node for node in {end, *flow.behind(end)} & list_reading_data(flow) if flow.is_leaf(node)}
    named = name_state_steps(flow, Recurrence("state space", None, by_pieces=True), nodes, end)
    return tell_read(chart_operations(flow, nodes, end, named.labels, folded=named.folded))


def test_a_box_of_a_state_that_gives_the_rows_read_of_it_shows_no_shape():
    (state,) = (node for node in chart_skipped().nodes if node.label.startswith("STATE"))

    assert state.record is None


@pytest.mark.parametrize(("skips", "lays"), [(True, False), (False, False), (False, True)])
def test_rows_that_met_no_others_are_added_behind_the_box_of_a_state(skips, lays):
    chart = chart_skipped(skips, lays)
    (state,) = (node for node in chart.nodes if node.label.startswith("STATE"))

    assert state.told == ("what rows of a piece give each other, and what is read of it",)
    assert "× LEARNED NUMBERS" not in lead_to(chart, state.label)
    (head,) = (chart.node(edge.source).label for edge in chart.edges if edge.target == chart.heads[0])
    assert head == ("ADDED UP" if skips else state.label)
    if skips:
        assert lead_to(chart, "ADDED UP") == [state.label, "× LEARNED NUMBERS"]
