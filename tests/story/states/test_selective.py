"""The parts of a split of a selective state are told with what they are to it: Δ, B and C."""

import pytest
import torch
from story.charts.entrance_operations import chart_of
from torch import nn
from torch.nn import functional

ROWS = torch.ones(2, 5, 7)
WIDE, HELD, FEW = 7, 3, 2


class Selective(nn.Module):
    """Mamba's state: rows times B change it turn by turn, C reads it, Δ says how fast; the parts come in some order."""

    def __init__(self, order=("Δ", "B", "C")):
        super().__init__()
        self.order = order
        sizes = {"Δ": FEW, "B": HELD, "C": HELD}
        self.sizes = [sizes[name] for name in order]
        self.first = nn.Linear(WIDE, sum(self.sizes))
        self.step, self.last = nn.Linear(FEW, WIDE), nn.Linear(WIDE, WIDE)
        self.fades = nn.Parameter(torch.ones(WIDE, HELD))

    def forward(self, x):
        parts = dict(zip(self.order, self.first(x).split(self.sizes, -1), strict=True))
        steps = functional.softplus(self.step(parts["Δ"]))
        kept = torch.exp(steps[..., None] * -torch.exp(self.fades))
        taken = (steps * x)[..., None] * parts["B"][:, :, None, :]
        state, found = torch.zeros(2, WIDE, HELD), []
        for place in range(x.shape[1]):
            state = kept[:, place] * state + taken[:, place]
            found.append(self.read(state, parts, place))
        return self.last(torch.stack(found, 1))

    def read(self, state, parts, place):
        return (state @ parts["C"][:, place, :, None])[..., 0]


class ReadByAll(Selective):
    """The same, but what is read of the state is what B gives too: C has no part of its own in it."""

    def read(self, state, parts, place):
        return (state @ (parts["C"] + parts["B"])[:, place, :, None])[..., 0]


def parts_told(model):
    told = [node.told for node in chart_of(model, ROWS).nodes if node.label == "LINEAR"]
    return [words for (words,) in filter(None, told)]


@pytest.mark.parametrize("order", [("Δ", "B", "C"), ("C", "Δ", "B"), ("B", "C", "Δ")])
def test_parts_of_a_selective_state_have_their_names_in_any_order(order):
    names = [f"{FEW if name == 'Δ' else HELD} ({name})" for name in order]

    assert parts_told(Selective(order)) == [f"in parts of {names[0]}, {names[1]} and {names[2]}"]


def test_parts_are_not_named_where_what_reads_the_state_is_made_of_what_changes_it():
    assert parts_told(ReadByAll()) == ["in parts of 2, 3 and 3"]


class InPieces(nn.Module):
    """Mamba 2's: rows, B and C of one split; each row meets those before it, and a state, all at once."""

    def __init__(self, *, moved_by=functional.softplus, wide=WIDE):
        super().__init__()
        self.sizes, self.moved_by = [wide, HELD, HELD], moved_by
        self.first, self.step = nn.Linear(WIDE, sum(self.sizes)), nn.Linear(WIDE, 1)
        self.last = nn.Linear(wide, WIDE)

    def forward(self, x):
        rows, written, read = self.first(x).split(self.sizes, -1)
        rows = rows * self.moved_by(self.step(x))
        met = (read @ written.mT) @ rows
        state = written.mT @ rows
        return self.last(met + read @ state)


def test_rows_b_and_c_of_one_split_are_told_apart_by_what_they_meet():
    assert parts_told(InPieces()) == ["in parts of 7 (x), 3 (B) and 3 (C)"]


@pytest.mark.parametrize("model", [InPieces(moved_by=torch.sigmoid), InPieces(wide=HELD)])
def test_queries_keys_and_values_of_linear_attention_are_no_such_parts(model):
    assert "(B)" not in " ".join(parts_told(model))
