"""Queries, keys and values of a state: where they are cut into heads, and what they go through on their way to it."""

from dataclasses import replace

import pytest
import torch
from story.states.delta import (
    D_K,
    D_V,
    KEYS,
    PIECE,
    VALUES,
    WIDTH,
    Bent,
    Delta,
    Fading,
    InTurn,
    PadsLast,
    Plain,
    chart_state,
    read_rows,
    read_state,
    shapes_of,
)
from torch import nn

from xray.story.anatomy.branches import StateHeads
from xray.story.charts.chart import CENTRE, LEFT, RIGHT


@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.parametrize("model", [Delta, InTurn])
def test_heads_of_a_state_that_is_corrected_in_order_are_known(model, pieces):
    *_, branch = read_state(model, pieces)

    told = StateHeads(KEYS, VALUES, D_K, D_V, by_length=True, corrects=True, in_order=True, fades=True)
    assert branch.heads == replace(told, writes="sigmoid")


@pytest.mark.parametrize("pieces", [1, 4])
def test_what_a_state_does_not_do_is_not_known_of_it(pieces):
    *_, branch = read_state(Plain, pieces)

    assert branch.heads == StateHeads(KEYS, VALUES, D_K, D_V, fades=True, writes="sigmoid")


class Whole(Delta):
    """What a row writes is multiplied by a number that may be anything."""

    def share(self, rows):
        return rows * 0.5


@pytest.mark.parametrize("pieces", [1, 4])
def test_how_much_is_written_is_not_known_where_no_sigmoid_says_so(pieces):
    *_, branch = read_state(Whole, pieces)

    assert branch.heads.writes is None


@pytest.mark.parametrize(("length", "filled"), [(PIECE - 2, (1, PIECE)), (4 * PIECE - 3, (4, PIECE)), (PIECE, None)])
def test_pieces_are_known_that_rows_of_0_fill_up(length, filled):
    *_, branch = read_rows(Delta, length)

    assert branch.filled == filled


class Keeps(Delta):
    """What was there is multiplied by one learned number alone: no row says how much of it fades."""

    def keep(self, fade):
        return self.kept.exp()


class Grows(Delta):
    """What was there is multiplied by exp of what may be above 0 (xLSTM's gate)."""

    def keep(self, fade):
        return (fade + 1).exp()


class Swells(Delta):
    """What was there is multiplied by exp of what is never below 0."""

    def keep(self, fade):
        return fade.neg().exp()


class Bounded(Delta):
    """How much fades is said by a sigmoid and a fixed number below 0 (Bailing)."""

    def keep(self, fade):
        return (torch.sigmoid(fade) * -5.0).exp()


class WrittenOut(Delta):
    """How much fades is softplus, written out (Kimi Linear)."""

    def keep(self, fade):
        return (torch.where(fade > 20.0, fade, torch.log(1.0 + torch.exp(fade))) * -self.kept.exp().mean()).exp()


class WrongWay(Delta):
    """The same, but where numbers are far below 0 they are taken as they are."""

    def keep(self, fade):
        return torch.where(fade > -20.0, fade, torch.log(1.0 + torch.exp(fade))).neg().exp()


@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.parametrize(
    ("model", "fades"),
    [(Grows, False), (Swells, False), (WrongWay, False), (Bounded, True), (WrittenOut, True)],
)
def test_a_state_is_told_to_fade_where_no_factor_is_above_one(model, fades, pieces):
    *_, branch = read_state(model, pieces)

    assert branch.heads.fades is fades


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_state_of_which_no_row_says_how_much_fades_is_not_told_to_fade(pieces):
    *_, branch = read_state(Keeps, pieces)

    told = StateHeads(KEYS, VALUES, D_K, D_V, by_length=True, corrects=True, in_order=True, fades_alike=True)
    assert branch.heads == replace(told, writes="sigmoid")


class Lightning(nn.Module):
    """Each head holds a query, a key and a value, and a state shrinks by a number that is held (MiniMax)."""

    def __init__(self):
        super().__init__()
        self.rows, self.last = nn.Linear(WIDTH, KEYS * 3 * D_K), nn.Linear(KEYS * D_K, WIDTH)
        self.register_buffer("slope", torch.rand(KEYS, 1, 1))
        self.register_buffer("within", torch.rand(KEYS, PIECE, PIECE))

    def forward(self, x):
        batch, length, _ = x.shape
        rows = nn.functional.silu(self.rows(x)).reshape(batch, length, KEYS, 3 * D_K)
        query, key, value = (one.transpose(1, 2) for one in rows.split(D_K, dim=3))
        state, found = torch.zeros(batch, KEYS, D_K, D_K), []
        for start in range(0, length, PIECE):
            q, k, v = (one[:, :, start : start + PIECE] for one in (query, key, value))
            found.append(q @ state + (q @ k.transpose(-1, -2) * self.within) @ v)
            state = state * torch.exp(-self.slope * PIECE) + k.transpose(-1, -2) @ v
        return self.last(torch.cat(found, dim=2).transpose(1, 2).reshape(batch, length, -1))


class Gates(nn.Module):
    """Each place writes its key times its value, by a gate of its own, less the larger of both (xLSTM)."""

    taken = staticmethod(torch.maximum)

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, KEYS * one) for one in (D_K, D_K, D_V))
        self.write, self.keep, self.last = nn.Linear(WIDTH, KEYS), nn.Linear(WIDTH, KEYS), nn.Linear(21, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        rows = (one(x).reshape(batch, length, KEYS, -1).transpose(1, 2) for one in (self.query, self.key, self.value))
        query, key, value = rows
        write, keep = (one(x).transpose(1, 2)[..., None] for one in (self.write, self.keep))
        state, most, found = torch.zeros(batch, KEYS, D_K, D_V), torch.zeros(batch, KEYS, 1), []
        for place in range(length):
            kept = nn.functional.logsigmoid(keep[:, :, place]) + most
            most = self.taken(kept, write[:, :, place])
            new = key[:, :, place, :, None] @ value[:, :, place, None, :]
            shares = [torch.exp(one - most)[..., None] for one in (kept, write[:, :, place])]
            state = shares[0] * state + shares[1] * new
            found.append((query[:, :, place, None, :] @ state).squeeze(2))
        return self.last(torch.stack(found, dim=2).transpose(1, 2).reshape(batch, length, -1))


class Divided(Gates):
    """What is read is divided by the size of what is read of a sum of keys, or by 1 where that is larger (xLSTM)."""

    def forward(self, x):
        batch, length, _ = x.shape
        rows = (one(x).reshape(batch, length, KEYS, -1).transpose(1, 2) for one in (self.query, self.key, self.value))
        query, key, value = rows
        write, keep = (one(x).sigmoid().transpose(1, 2)[..., None] for one in (self.write, self.keep))
        state, keys, found = torch.zeros(batch, KEYS, D_K, D_V), torch.zeros(batch, KEYS, D_K), []
        for place in range(length):
            new = key[:, :, place, :, None] @ value[:, :, place, None, :]
            state = keep[:, :, place, :, None] * state + write[:, :, place, :, None] * new
            keys = keep[:, :, place] * keys + write[:, :, place] * key[:, :, place]
            asked = query[:, :, place, None, :]
            found.append((asked @ state).squeeze(2) / self.measure(asked, keys, key[:, :, place]))
        return self.last(torch.stack(found, dim=2).transpose(1, 2).reshape(batch, length, -1))

    def measure(self, asked, keys, key):
        return torch.maximum((asked @ keys[..., None]).squeeze(2).abs(), torch.ones(1))


class ByOneKey(Divided):
    """The same by what one key alone gives for the query."""

    def measure(self, asked, keys, key):
        return torch.maximum((asked @ key[..., None]).squeeze(2).abs(), torch.ones(1))


@pytest.mark.parametrize(("model", "by_keys"), [(Divided, True), (ByOneKey, False), (Gates, False)])
def test_a_second_state_of_keys_is_known_by_which_what_is_read_is_divided(model, by_keys):
    *_, branch = read_state(model, 1)

    assert branch.heads.by_keys is by_keys


class Smaller(Gates):
    """The same less the smaller of both: what was there may grow."""

    taken = staticmethod(torch.minimum)


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_heads_are_known_that_hold_a_query_a_key_and_a_value_each(pieces):
    *_, branch = read_state(Lightning, pieces)

    assert branch.heads == StateHeads(KEYS, KEYS, D_K, D_K, fades_alike=True)
    assert (branch.kind, branch.state, branch.by_pieces) == ("linear attention", (2, KEYS, D_K, D_K), True)


def test_queries_keys_and_values_that_heads_hold_together_have_a_box_each():
    shapes = shapes_of(chart_state(Lightning, 1))

    assert [shapes[f"HEADS {letter}"] for letter in "QKV"] == [(2, KEYS, PIECE, D_K)] * 3


@pytest.mark.parametrize(("model", "fades"), [(Gates, True), (Smaller, False)])
def test_a_state_that_each_place_writes_to_by_a_gate_has_heads(model, fades):
    *_, branch = read_state(model, 1)

    assert branch.heads == StateHeads(KEYS, KEYS, D_K, D_V, fades=fades, writes="exp")
    assert (branch.kind, branch.by_pieces) == ("linear attention", False)


def test_heads_are_not_known_where_what_is_written_is_no_sum_of_values():
    *_, branch = read_state(Bent, 4)

    assert (branch.kind, branch.heads) == ("linear attention", None)


@pytest.mark.parametrize("pieces", [1, 4])
def test_queries_keys_and_values_have_boxes_from_their_heads_to_the_state(pieces):
    length, shapes = pieces * PIECE, shapes_of(chart_state(Delta, pieces))

    assert [shapes[f"HEADS {letter}"] for letter in "QKV"] == [
        (2, length, KEYS, D_K),
        (2, length, KEYS, D_K),
        (2, length, VALUES, D_V),
    ]
    assert [shapes[f"REPEAT {letter} ×2"] for letter in "QK"] == [(2, length, VALUES, D_K)] * 2
    assert shapes["Q ÷ ITS LENGTH, ÷√5"] == shapes["K ÷ ITS LENGTH"] == (2, VALUES, length, D_K)


def test_what_rows_of_a_piece_do_with_each_other_has_boxes_where_there_are_several_pieces():
    chart = chart_state(Delta, 4)
    shapes = shapes_of(chart)
    ways = {(chart.node(edge.source).label, chart.node(edge.target).label) for edge in chart.edges}

    assert shapes["Q·K^T × DECAYS"] == shapes["K·K^T × DECAYS"] == (2, VALUES, 4, PIECE, PIECE)
    assert (shapes["TRIANGULAR SOLVE K"][-1], shapes["TRIANGULAR SOLVE V"][-1]) == (D_K, D_V)
    assert {source for source, target in ways if target == "Q·K^T × DECAYS"} >= {
        "Q ÷ ITS LENGTH, ÷√5",
        "K ÷ ITS LENGTH",
    }
    assert ("HEADS V", "TRIANGULAR SOLVE V") in ways
    assert ("HEADS V", "TRIANGULAR SOLVE K") not in ways
    assert ("Q ÷ ITS LENGTH, ÷√5", "K·K^T × DECAYS") not in ways


@pytest.mark.parametrize(("model", "told"), [(Delta, True), (InTurn, False)])
def test_the_box_of_a_state_by_one_piece_says_where_a_triangular_system_is_solved(model, told):
    (state,) = (node for node in chart_state(model, 1).nodes if node.label.startswith("STATE"))

    assert ("a triangular system is solved inside" in state.told) is told


@pytest.mark.parametrize(("pieces", "changed"), [(1, "changed once"), (2, "changed 2 times")])
def test_what_is_read_of_a_state_of_few_pieces_has_a_box_behind_its_own(pieces, changed):
    chart = chart_state(Delta, pieces)
    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    (state,) = (node for node in chart.nodes if node.label == "STATE, HANDED FROM PIECE TO PIECE")
    (read,) = (node for node in chart.nodes if node.label == "ROWS READ OF IT")

    assert (state.record.shape, state.told[0]) == ((2, VALUES, D_K, D_V), changed)
    assert read.record.shape == (2, VALUES, pieces, PIECE, D_V)
    assert read.told == ("what rows of a piece give each other, and what is read of it",)
    assert {source for source, target in ways if target == state.label} == {
        "K ÷ ITS LENGTH",
        "HEADS V",
        "SIGMOID",
        "SOFTPLUS",
    }
    assert {source for source, target in ways if target == read.label} == {
        "Q ÷ ITS LENGTH, ÷√5",
        "K ÷ ITS LENGTH",
        state.label,
    }
    assert {target for source, target in ways if source == read.label} == {"LINEAR"}


@pytest.mark.parametrize(("make", "does_fade"), [(Fading, True), (Delta, False)])
def test_what_a_state_fades_by_is_led_to_what_is_read_of_it_too(make, does_fade):
    chart = chart_state(make, 2)
    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    own = {("SOFTPLUS", "RUNNING SUM"), ("RUNNING SUM", "STATE, HANDED FROM PIECE TO PIECE")}

    assert (own | {("RUNNING SUM", "ROWS READ OF IT")} <= ways) == does_fade
    assert ("RUNNING SUM" in labels.values()) == does_fade


def test_keys_that_fill_a_piece_lead_to_what_is_read_too():
    chart = chart_state(PadsLast, 1, less=2)
    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}

    assert {source for source, target in ways if target == "ROWS READ OF IT"} == {
        "Q ÷ ITS LENGTH, ÷√5",
        "K ÷ ITS LENGTH",
        "STATE, HANDED FROM PIECE TO PIECE",
    }


def test_a_state_of_one_piece_of_which_nothing_is_read_has_one_box_with_what_is():
    labels = [node.label for node in chart_state(Lightning, 1).nodes]

    assert labels.count("STATE, HANDED FROM PIECE TO PIECE") == 1
    assert "ROWS READ OF IT" not in labels


def test_rows_that_keep_their_length_have_no_box_for_it():
    labels = shapes_of(chart_state(Plain, 1)).keys()

    assert {"HEADS Q", "REPEAT Q ×2", "HEADS K", "HEADS V"} <= labels
    assert not any("LENGTH" in label or "SOLVE" in label for label in labels)


@pytest.mark.parametrize("pieces", [1, 4])
def test_queries_keys_and_values_stand_in_lanes_above_all_that_does_not_read_them(pieces):
    chart = chart_state(Delta, pieces)
    lanes = {
        letter: {node.place for node in chart.nodes if node.label.startswith(f"HEADS {letter}")} for letter in "QKV"
    }
    (row,) = {node.row for node in chart.nodes if node.label.startswith("HEADS")}

    assert lanes == {"Q": {LEFT}, "K": {CENTRE}, "V": {RIGHT}}
    assert [node.label for node in chart.in_row(row)] == ["HEADS Q", "HEADS K", "HEADS V"]
    assert all(chart.node(edge.source).row < chart.node(edge.target).row for edge in chart.edges)
    assert {node.row for node in chart.nodes} == set(range(chart.rows))
