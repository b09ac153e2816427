"""Heads as people cut and join them, be it by mistake: what is said of them is what happens."""

import pytest
import torch
from printed import lines_of
from story.body.test_context import WIDTH, Thinks
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, softmax

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
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

    def find(self, x):
        query, key, value = self.make(self.norm(x))
        return self.out(self.join(self.look(query @ key.transpose(-2, -1) * D_K**-0.5, value)))

    def forward(self, x):
        return x + self.find(x)

    def look(self, scores, value):
        return softmax(scores, dim=-1) @ value


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


class RepeatedNoTimes(Attends):
    """More key heads than heads, so that each is repeated no times: torch's kernel takes them, and gives zeros."""

    def make(self, x):
        query, *taken = super().make(x)
        return query, *(one.repeat_interleave(len(query) // (2 * len(query)), dim=1) for one in taken)

    def find(self, x):
        return self.out(self.join(scaled_dot_product_attention(*self.make(self.norm(x)))))


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


class LaysBeside(Attends):
    """The heads of three linear layers side by side in queries and keys: cut, joined, laid flat and cut (DN-DETR)."""

    def __init__(self):
        super().__init__()
        self.more = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def cut(self, x):
        return x.transpose(0, 1).reshape(PLACES, BATCH * HEADS, -1).transpose(0, 1)

    def join(self, found):
        return found.transpose(0, 1).reshape(PLACES, BATCH, WIDTH).transpose(0, 1)

    def lay(self, *made):
        return self.cut(torch.cat([one.view(BATCH, PLACES, HEADS, D_K) for one in made], -1).flatten(2))

    def make(self, x):
        query, key = (
            self.lay(first(x), *(one(x) for one in more))
            for first, more in ((self.query, self.more[:2]), (self.key, self.more[2:]))
        )
        return query, key, self.cut(self.value(x))


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


def test_keys_that_several_layers_make_together_are_not_counted_by_one_of_these():
    trace, told = record(LaysBeside)
    heads = {(one.heads, one.d_k) for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention)}

    assert (heads, GROUPED in told) == ({(HEADS, 3 * D_K)}, False)


def test_a_key_head_that_all_queries_share_is_told():
    _, told = record(Shares)

    assert f"{GROUPED}: one key head serves {HEADS} query heads." in told
    assert SHARED in told
    assert "TRANSPOSE KT" in told


def test_keys_that_are_repeated_no_times_have_no_known_heads():
    model = nn.Sequential(nn.Embedding(31, WIDTH), RepeatedNoTimes(), Thinks()).eval()
    trace = xray.trace(model, torch.randint(0, 31, (BATCH, PLACES)))

    assert next(step for step in trace.steps if step.op == "repeat_interleave").outputs[0].shape[1] == 0
    assert not any(getattr(one, "kv_heads", None) for tower in xray.anatomy(trace).towers for one in tower.branches)


class Says(Attends):
    """A module that says how many heads it has, be that true or not."""

    def __init__(self, heads):
        super().__init__()
        self.num_heads = heads


@pytest.mark.parametrize("said", [HEADS, 2 * HEADS])
def test_no_heads_are_told_where_the_module_says_another_number(said):
    trace, _ = record(lambda: Says(said))

    (tower,) = xray.anatomy(trace).towers
    told = {one.heads for one in tower.branches if isinstance(one, Attention)}
    assert told == {HEADS if said == HEADS else None}


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


class OverQueries(Attends):
    """Weights that sum to 1 along the queries, and weigh values along the keys (a learner's `dim=-2`)."""

    def look(self, scores, value):
        return softmax(scores, dim=-2) @ value


class TurnedWeights(Attends):
    """Weights are turned before they weigh values."""

    def look(self, scores, value):
        return softmax(scores, dim=-1).mT @ value


class OfOtherRows(Attends):
    """Letters by which values are summed along the queries."""

    def look(self, scores, value):
        return torch.einsum("bhts,bhtd->bhsd", softmax(scores, dim=-1), value)


class KeysFirst(Attends):
    """Scores stand with keys first, and weights are turned back."""

    def look(self, scores, value):
        return softmax(scores.mT, dim=-2).mT @ value


class WithSink(Attends):
    """A learned score beside those of the keys, which the weights leave off again (gpt-oss)."""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(1))

    def look(self, scores, value):
        sinks = self.sink.expand(*scores.shape[:-1], 1)
        return softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1] @ value


class ThroughWaists(Attends):
    """Keys and values are made through waists of one width, one for each, or one for both."""

    def __init__(self, count=2):
        super().__init__()
        self.downs = nn.ModuleList(nn.Linear(WIDTH, 4) for _ in range(count))
        self.key, self.value = nn.Linear(4, WIDTH), nn.Linear(4, WIDTH)

    def make(self, x):
        waists = [down(x) for down in self.downs]
        return self.cut(self.query(x)), self.cut(self.key(waists[0])), self.cut(self.value(waists[-1]))


class Fused(Attends):
    """One linear layer for queries, keys and values; beside another attention, or not."""

    def __init__(self, beside=None):
        super().__init__()
        self.all, self.beside = nn.Linear(WIDTH, 3 * WIDTH), beside

    def make(self, x):
        return tuple(self.cut(one) for one in self.all(x).chunk(3, dim=-1))

    def find(self, x):
        return super().find(x) if self.beside is None else super().find(x) + self.beside.find(x)


class InPieces(Fused):
    """The same, places attending within two pieces of the sequence one by one (Qwen2.5-VL's eye)."""

    def find(self, x):
        query, key, value = (one.split(2, dim=-2) for one in self.make(self.norm(x)))
        pieces = [self.look(q @ k.mT * D_K**-0.5, v) for q, k, v in zip(query, key, value, strict=True)]
        return self.out(self.join(torch.cat(pieces, dim=-2)))


@pytest.mark.parametrize("make", [OverQueries, TurnedWeights, OfOtherRows])
def test_weights_that_do_not_sum_to_1_where_values_are_summed_are_those_of_no_attention(make):
    _, told = record(make)

    assert "SCORES" not in told
    assert "each row shares out one whole" not in told


def test_weights_that_are_turned_back_are_those_of_an_attention():
    assert "each row shares out one whole of attention" in record(KeysFirst)[1]


def test_weights_that_leave_a_sink_off_are_those_of_an_attention():
    assert "SCORES" in record(WithSink)[1]


def test_keys_and_values_of_waists_of_their_own_are_not_made_from_one():
    assert "Latent attention" not in record(ThroughWaists)[1]
    assert "keys and values are made from a waist of 4 numbers" in record(lambda: ThroughWaists(1))[1]


def test_one_layer_is_said_to_make_all_where_one_attention_stands_in_a_branch():
    assert "One linear layer makes Q, K and V at once" in record(Fused)[1]
    assert "One linear layer makes Q, K and V at once" not in record(lambda: Fused(Attends()))[1]
    assert "One linear layer makes Q, K and V at once" in record(InPieces)[1]


class FirstAlone(Attends):
    """One layer for keys and values, of the first rows alone, which are cut out behind the norm (TabICL)."""

    def __init__(self):
        super().__init__()
        self.pair = nn.Linear(WIDTH, 2 * WIDTH)

    def make(self, x):
        rows = x.narrow(1, 0, PLACES - 2).reshape(-1, WIDTH)
        key, value = self.pair(rows).view(len(x), -1, 2 * WIDTH).chunk(2, dim=-1)
        return self.cut(self.query(x)), self.cut(key), self.cut(value)


def test_rows_that_are_taken_before_a_layer_are_told_by_how_many_there_are():
    _, told = record(FirstAlone)

    assert f"{PLACES - 2} OF {PLACES} ROWS {BATCH}×{PLACES - 2}×{WIDTH}" in told
    assert "CUT ANEW" not in told
