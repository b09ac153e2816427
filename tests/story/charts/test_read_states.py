"""A state that goes from place to place, and how each place reads it."""

import pytest
import torch
from story.charts.entrance_operations import chart_of, rows
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.branches.states import describe_recurrence
from xray.story.recognition.between import list_reading_data
from xray.story.sentences.sentence import say_first
from xray.story.sentences.stations.of_stations import OF_BRANCHES

WIDTH, HELD = 8, 5


class Scan(nn.Module):
    """Each place fades a state, adds to it, and reads it by a product of its own (Mamba)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.keep, self.write, self.read = nn.Linear(WIDTH, HELD), nn.Linear(WIDTH, HELD), nn.Linear(WIDTH, HELD)

    def forward(self, x):
        given = self.first(x)
        keep, write, read = self.keep(given).sigmoid(), self.write(given), self.read(given)
        state, found = torch.zeros(x.shape[0], WIDTH, HELD), []
        for place in range(x.shape[1]):
            state = keep[:, place, None, :] * state + write[:, place, None, :] * given[:, place, :, None]
            found.append(torch.matmul(state, read[:, place, :, None])[:, :, 0])
        return self.last(torch.stack(found, dim=1))


def test_what_each_place_reads_off_a_state_is_one_box_between_it_and_the_rows():
    chart = chart_of(Scan(), rows(WIDTH))
    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}

    state = "STATE, HANDED FROM PLACE TO PLACE"
    (product,) = (node for node in chart.nodes if node.label == "PRODUCT, AT EACH PLACE")
    assert [target for source, target in ways if source == state] == [product.label]
    assert {target for source, target in ways if source == product.label} <= {"STACKED", "LINEAR"}
    assert len([step for step in product.steps if step.op == "matmul"]) == rows(WIDTH).shape[1]


class Heads(nn.Module):
    """Each head has a state of its own, worked out after that of the one before; decays are made for all (Zamba)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.write, self.read = nn.Linear(WIDTH, HELD), nn.Linear(WIDTH, HELD)
        self.decay = nn.Parameter(torch.rand(2, WIDTH, HELD))

    def forward(self, x):
        heads, write, read = self.first(x).chunk(2, dim=-1), self.write(x), self.read(x)
        decay, ways = -torch.exp(self.decay), []
        for given, own in zip(heads, decay, strict=True):
            keep = torch.exp(given.sigmoid()[..., None] * own)
            state, found = torch.zeros(x.shape[0], WIDTH, HELD), []
            for place in range(x.shape[1]):
                state = keep[:, place] * state + write[:, place, None, :] * given[:, place, :, None]
                found.append(torch.matmul(state, read[:, place, :, None])[:, :, 0])
            ways.append(torch.stack(found, dim=1))
        return self.last(torch.cat(ways, dim=-1))


def test_states_of_heads_worked_out_in_turn_are_one_box_read_by_one_product():
    chart = chart_of(Heads(), rows(WIDTH))
    (state,) = (node for node in chart.nodes if node.key.startswith("state"))
    products = [node for node in chart.nodes if node.label.startswith("PRODUCT")]
    places = rows(WIDTH).shape[1]

    assert (state.label, state.extra) == ("2 STATES, HANDED FROM PLACE TO PLACE", f"each changed {places} times")
    assert [node.label for node in products] == ["PRODUCT, AT EACH PLACE"]
    assert len([step for step in products[0].steps if step.op == "matmul"]) == 2 * places


def test_numbers_that_one_step_works_out_for_several_boxes_are_counted_in_the_first():
    boxes = [node for node in chart_of(Heads(), rows(WIDTH)).nodes if "LEARNED NUMBERS" in node.label]

    assert [node.label for node in boxes] == ["× −EXP OF LEARNED NUMBERS"] * 2
    assert [node.extra for node in boxes] == [f"{2 * WIDTH * HELD} parameters", "a part of the same weights"]


class Shifted(nn.Module):
    """Rows are mixed with those of the place before, by learned shares (RWKV)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.shares, self.others = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        before = nn.functional.pad(x, (0, 0, 1, -1))
        first = self.first(x * self.shares + before * (1 - self.shares))
        return first * self.second(x * self.others + before * (1 - self.others))


def test_rows_of_the_place_before_have_a_box_and_shares_count_once_each():
    chart = chart_of(Shifted(), rows(WIDTH))
    labels = {node.key: node.label for node in chart.nodes}
    ways = [labels[edge.target] for edge in chart.edges if labels[edge.source] == "ROWS OF THE PLACE BEFORE"]
    shares = sorted((node.label, node.extra) for node in chart.nodes if "LEARNED" in node.label)

    assert ways == ["× (1 − LEARNED NUMBERS)"] * 2
    assert (
        shares == [("× (1 − LEARNED NUMBERS)", "same weights")] * 2 + [("× LEARNED NUMBERS", f"{WIDTH} parameters")] * 2
    )


class TwoStates(nn.Module):
    """Two sums that each place changes, one of them divided by the other (RWKV)."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        weight, given = self.first(x).exp(), self.second(x)
        above, below, found = torch.zeros(x.shape[0], WIDTH), torch.ones(x.shape[0], WIDTH), []
        for place in range(x.shape[1]):
            above = 0.5 * above + weight[:, place] * given[:, place]
            below = 0.5 * below + weight[:, place]
            found.append(above / below)
        return self.last(torch.stack(found, dim=1))


def test_changes_of_a_state_are_counted_where_each_is_made_of_the_one_before():
    (state,) = (node for node in chart_of(Scan(), rows(WIDTH)).nodes if node.key.startswith("state"))

    assert state.extra == f"changed {rows(WIDTH).shape[1]} times"
    assert state.told == ()


def test_sums_of_a_state_in_two_parts_are_not_counted_as_changes():
    states = [node for node in chart_of(TwoStates(), rows(WIDTH)).nodes if node.key.startswith("state")]

    assert states
    assert not any(node.extra for node in states)


def test_all_that_every_turn_does_stands_in_the_box_of_the_state():
    (state,) = (node for node in chart_of(TwoStates(), rows(WIDTH)).nodes if node.key.startswith("state"))
    places, done = rows(WIDTH).shape[1], [step.op for step in state.steps]

    assert (done.count("div"), done.count("add")) == (places, 2 * places)
    assert state.record is not None
    assert state.record.shape == (rows(WIDTH).shape[0], WIDTH)
    assert state.steps[0].op == "div"
    assert state.told == ("what is read of it",)


class Pieces(nn.Module):
    """A matrix for each head, to which keys times what they do not tell yet are added, piece by piece (Qwen 3.5)."""

    def __init__(self, pieces=6):
        super().__init__()
        self.pieces = pieces
        self.query, self.key, self.value, self.last = (nn.Linear(12, 12) for _ in range(4))
        self.fade = nn.Linear(12, 3)

    def forward(self, x):
        query, key, value = (
            one(x).view(2, self.pieces, -1, 3, 4).permute(1, 0, 3, 2, 4) for one in (self.query, self.key, self.value)
        )
        fades = nn.functional.softplus(self.fade(x)).neg().exp().view(2, self.pieces, -1, 3).mean(2)
        state, found = torch.zeros(2, 3, 4, 4), []
        for piece in range(self.pieces):
            new = value[piece] - key[piece] @ state
            found.append(query[piece] @ state + (query[piece] @ key[piece].transpose(2, 3)) @ new)
            state = state * fades[:, piece, :, None, None] + key[piece].transpose(2, 3) @ new
        return self.last(torch.stack(found, 1).permute(0, 1, 3, 2, 4).reshape(2, -1, 12))


class Written(Pieces):
    """The same, with what each piece finds put in its place among zeros, and queries bent before they read."""

    def forward(self, x):
        query, key, value = (
            one(x).view(2, self.pieces, -1, 3, 4).permute(1, 0, 3, 2, 4) for one in (self.query, self.key, self.value)
        )
        query = query.tanh()
        state, found = torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, self.pieces, x.shape[1] // self.pieces, 4)
        for piece in range(self.pieces):
            new = value[piece] - key[piece] @ state
            found[:, :, piece] = query[piece] @ state + (query[piece] @ key[piece].transpose(2, 3)) @ new
            state = state * 0.5 + key[piece].transpose(2, 3) @ new
        return self.last(found.permute(0, 2, 3, 1, 4).reshape(2, -1, 12))


def test_a_state_reads_nothing_of_what_each_piece_found():
    chart = chart_of(Written(), torch.rand(2, 30, 12))
    labels = {node.key: node.label for node in chart.nodes}
    ways = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    (state,) = (node for node in chart.nodes if node.key.startswith("state"))
    (put,) = (node for node in chart.nodes if node.label == "ROWS READ OF IT, TURN BY TURN")

    assert len([step for step in put.steps if step.op == "index_put_"]) == 6
    assert not any(step.op == "index_put_" for step in state.steps)
    assert [target for source, target in ways if source == put.label] == ["LINEAR"]
    assert [source for source, target in ways if target == "LINEAR" and "LINEAR" not in source] == [put.label]
    assert {source for source, target in ways if target == put.label} >= {state.label, "TANH"}
    assert {source for source, target in ways if target == state.label} == {"LINEAR"}
    assert sum(step.op == "matmul" for step in put.steps) == 3 * 6


def test_what_is_worked_out_of_a_state_is_no_change_of_it():
    (state,) = (node for node in chart_of(Pieces(), torch.rand(2, 30, 12)).nodes if node.key.startswith("state"))

    assert state.extra == "changed 6 times"


def test_a_state_that_several_places_change_at_once_goes_from_piece_to_piece():
    (state,) = (node for node in chart_of(Pieces(), torch.rand(2, 30, 12)).nodes if node.key.startswith("state"))
    (other,) = (node for node in chart_of(Scan(), rows(WIDTH)).nodes if node.key.startswith("state"))
    flow = read_flow(xray.trace(Pieces(), torch.rand(2, 30, 12)).passes[0])
    found = describe_recurrence(flow, range(len(flow.steps)))

    assert (state.label, other.label) == (
        "STATE, HANDED FROM PIECE TO PIECE",
        "STATE, HANDED FROM PLACE TO PLACE",
    )
    assert (
        say_first(OF_BRANCHES, found) == "A state goes from one piece of the rows to the next and is changed by each."
    )


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_state_that_all_places_change_at_once_goes_from_piece_to_piece(pieces):
    flow = read_flow(xray.trace(Pieces(pieces), torch.rand(2, 30, 12)).passes[0])
    last = max(node for node in range(len(flow.steps)) if flow.is_leaf(node))
    found = describe_recurrence(flow, {last, *flow.behind(last)} & list_reading_data(flow))

    assert found.by_pieces
    assert found.one_piece == (pieces == 1 or None)


class OnceAlone(Pieces):
    """The same, where one of several pieces alone is written into the state."""

    def forward(self, x):
        query, key, value = (
            one(x).view(2, self.pieces, -1, 3, 4).permute(1, 0, 3, 2, 4) for one in (self.query, self.key, self.value)
        )
        state = torch.zeros(2, 3, 4, 4)
        found = [one @ state for one in query[:-1]]
        state = state * 0.5 + key[0].transpose(2, 3) @ value[0]
        rows_found = torch.stack([*found, query[-1] @ state])
        return self.last(rows_found.permute(1, 0, 3, 2, 4).reshape(2, -1, 12))


def test_a_state_that_is_changed_once_is_not_said_to_be_changed_by_all_rows_if_some_write_nothing():
    flow = read_flow(xray.trace(OnceAlone(3), torch.rand(2, 30, 12)).passes[0])
    last = max(node for node in range(len(flow.steps)) if flow.is_leaf(node))
    found = describe_recurrence(flow, {last, *flow.behind(last)} & list_reading_data(flow))

    assert (found.by_pieces, found.one_piece) == (True, None)


def test_a_state_that_one_place_changes_goes_from_place_to_place():
    flow = read_flow(xray.trace(Pieces(1), torch.rand(2, 1, 12)).passes[0])

    assert not describe_recurrence(flow, range(len(flow.steps))).by_pieces


def test_keys_times_values_added_up_piece_by_piece_are_linear_attention():
    flow = read_flow(xray.trace(Pieces(), torch.rand(2, 30, 12)).passes[0])

    assert describe_recurrence(flow, range(len(flow.steps))).kind == "linear attention"


class BegunAnew(nn.Module):
    """A gated state that begins anew at some places."""

    def __init__(self, *places):
        super().__init__()
        self.keep, self.new, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.places = places

    def forward(self, x):
        keep, new, state, found = self.keep(x).sigmoid(), self.new(x), torch.zeros_like(x[:, 0]), []
        for place in range(x.shape[1]):
            state = torch.zeros_like(state) if place in self.places else state
            state = keep[:, place] * state + new[:, place]
            found.append(state)
        return self.last(torch.stack(found, 1))


@pytest.mark.parametrize(
    ("places", "states", "changes"), [((), "STATE", "changed 14 times"), ((7,), "2 STATES", "each changed 7 times")]
)
def test_a_state_that_begins_anew_goes_from_place_to_place(places, states, changes):
    (state,) = (node for node in chart_of(BegunAnew(*places), torch.rand(2, 14, WIDTH)).nodes if "STATE" in node.label)

    assert (state.label, state.extra) == (f"{states}, HANDED FROM PLACE TO PLACE", changes)


def test_how_often_a_state_changes_is_untold_where_it_begins_anew_after_as_many_places_not_always():
    (state,) = (node for node in chart_of(BegunAnew(4, 8, 12), torch.rand(2, 14, WIDTH)).nodes if "STATE" in node.label)

    assert (state.label, state.extra) == ("STATE, HANDED FROM PLACE TO PLACE", "")
