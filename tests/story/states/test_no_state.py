"""What has no state that is handed on, and is not told as if it had: keys and values of all places at once."""

import torch
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.branches.states import describe_recurrence

WIDTH, HEADS, D_K, FEATURES, LENGTH = 15, 3, 5, 7, 11


class Performer(nn.Module):
    """Queries and keys times numbers drawn at random, which the model holds, and exp of these (Choromanski 2021)."""

    def __init__(self):
        super().__init__()
        self.ask, self.key, self.value, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("drawn", torch.rand(FEATURES, D_K))

    def cut(self, rows):
        return rows.view(*rows.shape[:2], HEADS, D_K).transpose(1, 2)

    def bend(self, rows):
        drawn = self.drawn[None, None].expand(len(rows), HEADS, -1, -1)
        return torch.einsum("...id,...jd->...ij", rows, drawn).exp()

    def meet(self, query, key, value):
        shares = 1.0 / torch.einsum("...nd,...d->...n", query, key.sum(dim=-2))
        square = torch.einsum("...nd,...ne->...de", key, value)
        return torch.einsum("...de,...nd,...n->...ne", square, query, shares)

    def forward(self, x):
        query, key, value = (self.cut(way(x)) for way in (self.ask, self.key, self.value))
        found = self.meet(self.bend(query), self.bend(key), value)
        return self.last(found.transpose(1, 2).reshape(x.shape))


class Weighted(nn.Module):
    """Values weighed by exp of keys, mixed by a learned number for each two places, by the sum so far (RWKV 1)."""

    def __init__(self):
        super().__init__()
        self.key, self.value, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.mix, self.share = nn.Parameter(torch.rand(HEADS, LENGTH, LENGTH)), nn.Parameter(torch.rand(LENGTH, 1))

    def forward(self, x):
        key = self.key(x).exp()
        held = (key * self.value(x)).view(*x.shape[:2], HEADS, D_K)
        mixed = torch.einsum("htu,buhc->bthc", self.mix * self.share, held).reshape(x.shape)
        return self.last(mixed / key.cumsum(dim=1))


class Scored(nn.Module):
    """Scores with learned rows for each distance added, of which some are written over (Shaw et al. 2018)."""

    def __init__(self):
        super().__init__()
        self.all, self.far, self.last = (
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Embedding(2 * LENGTH, D_K),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(self, x):
        rows = self.all(x).view(*x.shape[:2], 3, HEADS, D_K).permute(2, 0, 3, 1, 4)
        place = torch.arange(LENGTH)
        far = torch.einsum("bhqd,qkd->bhqk", rows[0], self.far(place[None] - place[:, None] + LENGTH))
        scores = rows[0] @ rows[1].transpose(-2, -1) + far
        scores[..., place[None] > place[:, None]] = -torch.inf
        return self.last((scores.softmax(-1) @ rows[2]).transpose(1, 2).reshape(x.shape))


class Repeated(nn.Module):
    """All rows multiplied and added to again and again: no place gives another one anything."""

    def __init__(self):
        super().__init__()
        self.keep = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        held = x
        for _ in range(4):
            held = self.keep * held + x
        return held


class AlongAxis(nn.Module):
    """A running mean along an axis: of the places, or of the numbers that each of them has."""

    def __init__(self, axis):
        super().__init__()
        self.first, self.axis = nn.Linear(WIDTH, WIDTH), axis
        self.keep = nn.Parameter(torch.rand(WIDTH if axis == 1 else LENGTH))

    def forward(self, x):
        rows, keep = self.first(x), self.keep.sigmoid()
        found = [torch.zeros_like(rows[:, 0] if self.axis == 1 else rows[:, :, 0])]
        for turn in range(x.shape[self.axis]):
            found.append(keep * found[-1] + (1 - keep) * (rows[:, turn] if self.axis == 1 else rows[:, :, turn]))
        return torch.stack(found[1:], self.axis)


class Faded(nn.Module):
    """How well places match, times exp of how much fades between them, by running sums: of all pairs (xLSTM)."""

    def __init__(self):
        super().__init__()
        self.ask, self.key, self.value, self.fade = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        so_far = nn.functional.logsigmoid(self.fade(x)).cumsum(dim=1).mean(-1)
        apart = (so_far[:, :, None] - so_far[:, None]).masked_fill(torch.ones(LENGTH, LENGTH).triu(1) > 0, -torch.inf)
        return (self.ask(x) @ self.key(x).mT * apart.exp()) @ self.value(x)


class Spread(nn.Module):
    """Gates that fade along the rows of a map, and then along its columns: neither goes over pieces of the other."""

    def __init__(self):
        super().__init__()
        self.down, self.right = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def fade(self, x, gate, dim):
        so_far = nn.functional.logsigmoid(gate(x)).cumsum(dim=dim)
        return so_far.exp() * (x * (-so_far).exp()).cumsum(dim)

    def forward(self, x):
        rows = x.view(len(x), 1, LENGTH, WIDTH).expand(-1, 3, -1, -1)
        return self.fade(self.fade(rows, self.down, 1), self.right, 2).sum(1)


def read_state(model):
    flow = read_flow(xray.trace(model, torch.rand(2, LENGTH, WIDTH)).passes[0])
    nodes = {node for node in range(1, len(flow.steps)) if flow.is_leaf(node)}
    return describe_recurrence(flow, nodes)


def test_numbers_that_a_model_holds_are_no_state():
    assert read_state(Performer()) is None


def test_a_sum_so_far_of_what_exp_made_is_no_state():
    assert read_state(Weighted()) is None


def test_scores_to_which_others_are_added_are_no_state():
    assert read_state(Scored()) is None


def test_rows_that_are_worked_on_again_and_again_are_no_state():
    assert read_state(Repeated()) is None


def test_what_goes_from_number_to_number_is_no_state_of_places():
    assert [read_state(AlongAxis(axis)) is None for axis in (1, 2)] == [False, True]


def test_what_fades_between_each_two_places_is_no_state():
    assert read_state(Faded()) is None


def test_running_sums_along_two_axes_are_no_state_that_pieces_hand_on():
    assert read_state(Spread()) is None
