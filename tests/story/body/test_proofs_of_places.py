"""What attentions do with places is told where their steps prove it: rolled back, heads cut, all asked, a waist."""

from functools import partial

import pytest
import torch
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.sentences.stations.of_stations import describe_station

WIDTH, PLACES, HEADS, WINDOW = 12, 20, 3, 4


class Looking(nn.Module):
    """Attention, of which `attend` says what the linear layers read, and how rows lie."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        return x + self.attend(self.norm(x))

    def look(self, rows, keys=None):
        keys = rows if keys is None else keys
        three = ((self.query, rows), (self.key, keys), (self.value, keys))
        q, k, v = (one(given).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one, given in three)
        found = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return self.out(found.transpose(1, 2).flatten(2))


class Rolls(Looking):
    """Windows of places that are rolled before, and rolled by something behind."""

    def __init__(self, axis, behind):
        super().__init__()
        self.axis, self.behind = axis, behind

    def attend(self, x):
        found = self.look(x.roll(-1, self.axis).reshape(-1, WINDOW, WIDTH)).view(x.shape)
        return found.roll(self.behind, self.axis) if self.behind else found


class Narrow(Looking):
    """Queries, keys and values are all made of what one linear layer makes narrow (no latent attention)."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(WIDTH, 5), nn.Linear(5, WIDTH)

    def attend(self, x):
        return self.look(self.up(self.down(x)))


class Strides(Looking):
    """Places at the same distance look at each other, with no heads: they stand where heads would."""

    def attend(self, x):
        q, k, v = (one(x).unflatten(1, (-1, WINDOW)).transpose(1, 2) for one in (self.query, self.key, self.value))
        found = (q @ k.mT / WIDTH**0.5).softmax(-1) @ v
        return self.out(found.transpose(1, 2).flatten(1, 2))


class Beside(Looking):
    """Places of a window look at each other, and at some rows that all windows are given."""

    def attend(self, x):
        few = nn.functional.avg_pool1d(x.mT, 10).mT.repeat_interleave(PLACES // WINDOW, 0)
        windows = x.reshape(-1, WINDOW, WIDTH)
        return self.look(windows, torch.cat([windows, few], 1)).view(x.shape)


class Highest(Looking):
    """Each row keeps the highest of its scores."""

    def attend(self, x):
        q, k, v = (one(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query, self.key, self.value))
        scores = q @ k.mT / 2
        scores = scores.masked_fill(scores < scores.topk(5, -1).values[..., -1:], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def read(make):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, WIDTH), *(make() for _ in range(3))).eval()
    trace = xray.trace(model, torch.rand(2, PLACES, 7))
    (tower,) = xray.anatomy(trace).towers
    branch = next(one for one in tower.branches if isinstance(one, Attention))
    boxes = compose_poster(trace, text_width).boxes
    told = [" ".join(run.text for line in box.lines for run in line) for box in boxes]
    return branch, describe_station(tower, branch), " / ".join(told)


@pytest.mark.parametrize(("axis", "behind", "rolled"), [(1, 1, True), (1, -1, False), (1, 0, False), (0, 1, False)])
def test_windows_are_cut_elsewhere_where_places_are_rolled_and_rolled_back_by_as_much(axis, behind, rolled):
    branch, _, told = read(partial(Rolls, axis, behind))

    assert (branch.window, bool(branch.rolled)) == (WINDOW, rolled)
    assert ("ROLLED BACK" in told, "rolled before" in told) == (rolled, rolled)
    assert ("PLACES ROLLED" in told) == (axis == 1)


def test_a_waist_of_queries_too_is_no_latent_attention():
    branch, _, told = read(Narrow)

    assert branch.latent is None
    assert "WAIST" not in told


def test_places_where_heads_would_stand_are_none():
    _, _, told = read(Strides)

    assert not [word for word in ("HEADS Q", "HEADS K", "CONCAT HEADS") if word in told]


def test_no_place_of_a_window_looks_at_every_other():
    _, station, _ = read(Beside)

    assert station == "Places look at other places."


def test_scores_that_are_kept_are_written_nowhere():
    assert "read back" not in read(Highest)[2]
