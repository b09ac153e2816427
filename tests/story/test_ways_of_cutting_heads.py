"""Heads as people cut and join them, be it by mistake: what is said of them is what happens."""

import pytest
import torch
from printed import lines_of
from story.body.test_context import WIDTH, Thinks
from torch import nn
from torch.nn.functional import softmax

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

HEADS, PLACES, BATCH = 3, 7, 2
D_K = WIDTH // HEADS
SHARED = "each key head is shared by several query heads"
LOOKS_AT_ALL, GROUPED = "Every place looks at every other.", "Grouped queries"


class Attends(nn.Module):
    """Attention with heads that are brought before the places, and laid side by side again."""

    def __init__(self):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def cut(self, x):
        return x.unflatten(-1, (HEADS, D_K)).transpose(1, 2)

    def join(self, found):
        return found.transpose(1, 2).flatten(2)

    def make(self, x):
        return self.cut(self.query(x)), self.cut(self.key(x)), self.cut(self.value(x))

    def forward(self, x):
        query, key, value = self.make(self.norm(x))
        found = softmax(query @ key.transpose(-2, -1) * D_K**-0.5, dim=-1) @ value
        return x + self.out(self.join(found))


class Unturned(Attends):
    """Numbers of several places are cut into heads as they lie, with no turn."""

    def cut(self, x):
        return x.view(len(x), HEADS, -1, D_K)


class AmongHeads(Attends):
    """Heads of one place look at each other: they were not brought before the places."""

    def cut(self, x):
        return x.unflatten(-1, (HEADS, D_K))

    def join(self, found):
        return found.flatten(2)


class OneForBoth(Attends):
    """Keys are values too."""

    def make(self, x):
        key = self.cut(self.key(x))
        return self.cut(self.query(x)), key, key


class OfSlots(Attends):
    """Keys and values are learned, and the same for each sequence."""

    def __init__(self):
        super().__init__()
        self.slots = nn.Parameter(torch.rand(1, 5, WIDTH))

    def make(self, x):
        key, value = (self.cut(one(self.slots)).repeat(len(x), 1, 1, 1) for one in (self.key, self.value))
        return self.cut(self.query(x)), key, value


class OfEveryThird(Attends):
    """Keys and values of every third place, each as often as there are places for it."""

    def make(self, x):
        few = x[:, ::3]
        key, value = (self.cut(one(few)).repeat_interleave(3, dim=2)[:, :, :PLACES] for one in (self.key, self.value))
        return self.cut(self.query(x)), key, value


class Shares(Attends):
    """One key head for all queries."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(WIDTH, D_K), nn.Linear(WIDTH, D_K)

    def make(self, x):
        key, value = (one(x).unsqueeze(1).expand(-1, HEADS, -1, -1) for one in (self.key, self.value))
        return self.cut(self.query(x)), key, value


class InOneAxis(Attends):
    """Heads lie behind one another in the axis of the batch, and are cut apart again."""

    def cut(self, x):
        return torch.cat(x.chunk(HEADS, dim=-1))

    def join(self, found):
        return torch.cat(found.chunk(HEADS), dim=-1)


class OfFewerKeys(Attends):
    """Linear layers make few keys and values of those of all places (Linformer)."""

    def __init__(self):
        super().__init__()
        self.fewer = nn.Linear(PLACES, 4)

    def make(self, x):
        key, value = (self.cut(self.fewer(one(x).mT).mT) for one in (self.key, self.value))
        return self.cut(self.query(x)), key, value


def record(make):
    torch.manual_seed(0)
    layers = [one for _ in range(2) for one in (make(), Thinks())]
    trace = xray.trace(nn.Sequential(nn.Embedding(31, WIDTH), *layers).eval(), torch.randint(0, 31, (BATCH, PLACES)))
    return trace, " ".join(" ".join(lines_of(compose_poster(trace, text_width))).split())


@pytest.mark.parametrize("make", [OneForBoth, OfSlots, OfEveryThird])
def test_key_heads_are_as_many_as_heads_where_something_else_is_shared(make):
    _, told = record(make)

    assert "HEADS Q" in told
    assert GROUPED not in told
    assert SHARED not in told


def test_a_key_head_that_all_queries_share_is_told():
    _, told = record(Shares)

    assert f"{GROUPED}: one key head serves {HEADS} query heads." in told
    assert SHARED in told
    assert "TRANSPOSE KT" in told


def test_numbers_of_several_places_are_no_heads():
    _, told = record(Unturned)

    assert "CUT ANEW Q" in told
    assert "HEADS Q" not in told
    assert LOOKS_AT_ALL not in told


def test_heads_of_one_place_that_look_at_each_other_are_no_places():
    trace, told = record(AmongHeads)

    scores = next(step for step in trace.steps if step.op == "matmul")
    assert scores.outputs[0].axes == ("batch", "seq_len", "heads", "heads")
    assert "SCORES" not in told
    assert LOOKS_AT_ALL not in told
    assert f"heads {PLACES}" not in told


def test_heads_that_lie_in_the_axis_of_the_batch_are_joined_as_wide_as_all():
    _, told = record(InOneAxis)

    assert f"CONCAT HEADS {BATCH}×{PLACES}×{WIDTH}" in told
    assert "TRANSPOSE KT" in told
    assert "HEADS FIRST" not in told


def test_axes_that_are_swapped_before_a_layer_are_not_cut_anew():
    _, told = record(OfFewerKeys)

    assert "AXES SWAPPED K" in told
    assert "CUT ANEW" not in told
