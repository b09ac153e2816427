"""The rows of an attention's chart: heads are whole before they are turned, and each way comes from where it does."""

import pytest
import torch
from story.halves import D_K, HEADS, KEY_HEADS, WIDTH, InHalves, chart_of, trace_of
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.attention.square import is_broadcast
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.where import attentions


def test_heads_are_shown_whole_before_their_halves_are_turned():
    shapes = {node.label: node.record.shape for node in chart_of(InHalves).nodes}

    assert shapes["HEADS Q"] == shapes["ROTATE Q"] == (1, HEADS, 5, D_K)
    assert shapes["HEADS K"] == shapes["ROTATE K"] == (1, KEY_HEADS, 5, D_K)


def test_the_axis_along_which_values_are_repeated_belongs_to_the_repeat():
    shapes = {node.label: node.record.shape for node in chart_of(InHalves).nodes}

    assert shapes["HEADS V"] == (1, KEY_HEADS, 5, D_K)
    assert shapes["REPEAT V ×2"] == (1, HEADS, 5, D_K)


class BesideTheWaist(nn.Module):
    """Keys of which one part goes through a waist, and another goes past it (DeepSeek)."""

    def __init__(self):
        super().__init__()
        self.query, self.down, self.up = nn.Linear(WIDTH, 2 * 8), nn.Linear(WIDTH, 9), nn.Linear(6, 2 * (5 + 7))
        self.norm, self.out = nn.LayerNorm(6), nn.Linear(2 * 7, WIDTH)

    def forward(self, x):
        waist, past = self.down(x).split([6, 3], dim=-1)
        both = self.up(self.norm(waist)).view(*x.shape[:2], 2, 12).transpose(1, 2)
        key, value = both.split([5, 7], dim=-1)
        beside = past.view(x.shape[0], 1, x.shape[1], 3).expand(-1, 2, -1, -1)
        key = torch.cat([key, beside], dim=-1)
        query = self.query(x).view(*x.shape[:2], 2, 8).transpose(1, 2)
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(*x.shape[:2], -1))


def test_what_goes_past_a_waist_is_not_drawn_out_of_it():
    chart = chart_of(BesideTheWaist)
    ways = {(chart.node(one.source).label, chart.node(one.target).label) for one in chart.edges}

    assert ("DOWN TO A WAIST FOR K, V", "CUT ANEW K") in ways
    assert ("UP TO K, V", "SIDE BY SIDE K") in ways
    assert ("UP TO K, V", "HEADS K") not in ways


class BesideRows(InHalves):
    """Heads beside which stand rows that were made by another way (ConvBERT)."""

    def __init__(self, joined=True):
        super().__init__()
        self.joined, self.other = joined, nn.Linear(WIDTH, WIDTH - HEADS * D_K)
        self.end = nn.Identity() if joined else nn.Linear(HEADS * D_K, WIDTH)

    def forward(self, x):
        seen = super().forward(x)
        return torch.cat([seen, self.other(x).tanh()], dim=-1) if self.joined else seen


def test_rows_of_another_way_are_told_where_they_are_put_beside_the_heads():
    told = "SIDE BY SIDE"

    assert told in {node.label for node in chart_of(BesideRows).nodes}
    assert told not in {node.label for node in chart_of(lambda: BesideRows(joined=False)).nodes}


def test_what_another_way_reads_leads_to_where_its_rows_are_put_beside_the_heads():
    chart = chart_of(BesideRows)
    (box,) = (node for node in chart.nodes if node.label == "SIDE BY SIDE")

    led = {chart.node(edge.source).label for edge in chart.edges if edge.target == box.key}
    assert {step.op for step in box.steps} >= {"cat", "linear", "tanh"}
    assert box.extra == f"{(WIDTH + 1) * (WIDTH - HEADS * D_K):,} parameters"
    assert "LAYER NORM" in led or box.key in chart.feet


class MixedBeside(InHalves):
    """Heads beside which stand rows that are mixed with their neighbours, by weights of each place or by one set."""

    def __init__(self, anew=True):
        super().__init__()
        self.anew, self.kernel, self.end = anew, nn.Linear(WIDTH, 3 if anew else WIDTH), nn.Identity()
        self.other, self.held = nn.Linear(WIDTH, WIDTH - HEADS * D_K), nn.Parameter(torch.rand(3))

    def forward(self, x):
        batch, places, _ = x.shape
        weights = self.kernel(x).reshape(-1, 3, 1) if self.anew else self.held[:, None].expand(batch * places, 3, 1)
        rows = self.other(x).transpose(1, 2).unsqueeze(-1)
        near = nn.functional.unfold(rows, (3, 1), padding=(1, 0)).transpose(1, 2)
        mixed = near.reshape(batch * places, -1, 3) @ weights.softmax(1)
        return torch.cat([super().forward(x), mixed.reshape(batch, places, -1)], dim=-1)


@pytest.mark.parametrize(("anew", "places"), [(True, 3), (False, None)])
def test_places_mixed_beside_the_heads_by_weights_of_each_are_told(anew, places):
    torch.manual_seed(0)
    found = xray.anatomy(trace_of(lambda: MixedBeside(anew)))

    assert {one.mixed_anew for one in attentions(found)} == {places}
    assert any("Beside the heads, 3 places are mixed" in text for text in list_sentences(found)) is anew


class SameWeightsBeside(InHalves):
    """Heads beside which stand rows that the linear layer behind the heads made as well (ProphetNet)."""

    def forward(self, x):
        rows, half = super().forward(x), WIDTH // 2
        return torch.cat([rows[..., :half], self.end(x[..., : HEADS * D_K]).tanh()[..., half:]], dim=-1)


def test_weights_of_another_way_that_are_those_of_a_box_are_not_counted_again():
    (box,) = (node for node in chart_of(SameWeightsBeside).nodes if node.label == "SIDE BY SIDE")

    assert box.extra == "same weights"


class Twice(nn.Module):
    """The same queries and keys weigh one half of the values, and the other; what both give lies side by side."""

    def __init__(self, same=True):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, HEADS * D_K) for _ in range(3))
        self.end, self.other = nn.Linear(2 * HEADS * D_K, WIDTH), None if same else nn.Linear(WIDTH, HEADS * D_K)

    def forward(self, x):
        def cut(made):
            return made(x).view(*x.shape[:2], HEADS, D_K).transpose(1, 2)

        query, key = cut(self.query), cut(self.key)
        other = query if self.other is None else cut(self.other)
        halves = (half.repeat(1, 2, 1, 1) for half in cut(self.value).chunk(2, dim=1))
        seen = [
            scaled_dot_product_attention(one, key, value, is_causal=True).transpose(1, 2)
            for one, value in zip((query, other), halves, strict=True)
        ]
        return self.end(self.join(torch.cat(seen, dim=-1)).reshape(*x.shape[:2], -1))

    def join(self, rows):
        return rows


class Taken(Twice):
    """What half of the heads found is taken off the other, times a number made of learned ones (DiffLlama)."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Parameter(torch.rand(D_K)), nn.Parameter(torch.rand(D_K))
        self.end = nn.Linear(HEADS * D_K, WIDTH)

    def join(self, rows):
        half, other = rows.chunk(2, dim=2)
        return nn.functional.rms_norm(half - torch.exp((self.one * self.two).sum()) * other, (2 * D_K,))


def test_learned_numbers_of_which_one_is_made_count_where_it_multiplies_a_half():
    (box,) = (node for node in chart_of(Taken).nodes if "SUBTRACTED" in node.label)

    assert (box.label, box.extra) == ("ONE HALF × ONE NUMBER, SUBTRACTED", f"{2 * D_K} parameters")


class ExpsTaken(Taken):
    """The number is e to a sum of products of learned ones, less another such, and a known one added (DiffLlama)."""

    def join(self, rows):
        one, other = (torch.exp((self.one * two).sum()) for two in (self.two, self.one))
        half, taken = rows.chunk(2, dim=2)
        return half - (one - other + 0.25) * taken


class OwnTaken(Taken):
    """What half of the heads found is taken off itself, times a number."""

    def join(self, rows):
        half, _ = rows.chunk(2, dim=2)
        return half - torch.exp((self.one * self.two).sum()) * half


@pytest.mark.parametrize(("make", "told"), [(Twice, None), (Taken, "learned"), (ExpsTaken, "exps"), (OwnTaken, None)])
def test_half_of_the_heads_that_is_taken_off_the_other_is_told(make, told):
    trace = trace_of(make)
    (tower,) = xray.anatomy(trace).towers
    attention = tower.branches[0]
    said = " ".join(list_sentences(xray.anatomy(trace)))

    assert isinstance(attention, Attention)
    assert attention.taken_off == told
    assert ("Differential attention: half of what the heads found is taken off" in said) == bool(told)
    assert ("e to a sum of products" in said) == (told == "exps")


def test_what_is_cut_for_that_stands_in_a_box_that_says_so():
    assert "CUT INTO TWO HALVES" in [node.label for node in chart_of(Taken).nodes]


def test_weights_that_meet_the_other_half_of_the_values_too_are_led_there():
    chart = chart_of(Twice)
    ways = {(chart.node(one.source).label, chart.node(one.target).label) for one in chart.edges}
    told = "WITH THE SAME WEIGHTS · OTHER HALF OF V BESIDE IT"
    (box,) = (node for node in chart.nodes if node.label == told)

    assert box.told == ("the other half of V is repeated ×2 before",)
    assert ("HEADS V", "REPEAT HALF OF V ×2") in ways
    assert {source for source, target in ways if target == told} == {"AXES SWAPPED", "SOFTMAX dim −1", "HEADS V"}


def test_other_queries_make_other_weights():
    labels = {node.label for node in chart_of(lambda: Twice(same=False)).nodes}

    assert "WITH ANOTHER ATTENTION BESIDE IT" in labels
    assert not any("SAME WEIGHTS" in label for label in labels)


class PlacesBeside(nn.Module):
    """Keys beside which stand places that a linear layer of their own made (Conditional DETR)."""

    def __init__(self):
        super().__init__()
        self.query, self.out = nn.Linear(WIDTH, 2 * HEADS * D_K), nn.Linear(HEADS * D_K, WIDTH)
        self.value, self.content, self.places = (nn.Linear(WIDTH, HEADS * D_K) for _ in range(3))

    def forward(self, x):
        content, value, places = self.content(x), self.value(x), self.places(x.roll(1, dims=1))
        content, places = ((content + places).unflatten(-1, (HEADS, -1)), places.unflatten(-1, (HEADS, -1)))
        key = torch.cat([content, places], dim=-1).transpose(1, 2)
        query, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (self.query(x), value))
        return self.out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


def test_a_linear_layer_of_places_that_stand_beside_keys_leads_neither_up_nor_down():
    labels = [node.label for node in chart_of(PlacesBeside).nodes]

    assert {"LINEAR K", "OPERATIONS K"} <= {*labels}
    assert not [label for label in labels if label.startswith(("UP", "DOWN"))]


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((1, 1, 7, 7), True),
        ((7, 7), True),
        ((2, 3, 7, 7), False),
        ((2, 7, 7, 3), False),  # laid out anew
        ((2, 7, 1, 3), False),  # a part of what it is worked out of (SAM 3's distances to boxes)
    ],
)
def test_what_is_added_to_scores_is_said_to_be_broadcast_where_it_is_repeated_along_axes(shape, told):
    assert is_broadcast(shape, (2, 3, 7, 7)) is told


class BesideTwice(BesideRows):
    """Heads beside which stand what a convolution made, and then, of that, what came in, as a flow (FlowFormer)."""

    def __init__(self):
        super().__init__(joined=False)
        self.near, self.last = nn.Conv1d(WIDTH, 5, 3, padding=1), nn.Linear(2 * WIDTH + 5, WIDTH)

    def forward(self, x):
        joined = torch.cat([super().forward(x), self.near(x.mT).mT], dim=-1)
        return self.last(torch.cat([joined.tanh(), x.exp()], dim=-1))


def test_what_stands_beside_heads_is_a_convolution_only_where_one_made_it():
    told = [node.label for node in chart_of(BesideTwice).nodes if "SIDE" in node.label]

    assert told == ["WITH A CONVOLUTION BESIDE IT", "SIDE BY SIDE"]


class WithAnother(nn.Module):
    """What another attention finds in learned rows, times a gate of each head, is added to what the own one did."""

    def __init__(self):
        super().__init__()
        self.own, self.query = nn.Linear(WIDTH, 3 * HEADS * D_K), nn.Linear(WIDTH, HEADS * D_K)
        self.rows, self.gate = nn.Parameter(torch.rand(1, 11, WIDTH)), nn.Parameter(torch.rand(HEADS))
        self.both, self.out = nn.Linear(WIDTH, 2 * HEADS * D_K), nn.Linear(HEADS * D_K, WIDTH)

    def cut(self, rows, count):
        return rows.unflatten(-1, (count, HEADS, D_K)).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x):
        own = scaled_dot_product_attention(*self.cut(self.own(x), 3)).transpose(1, 2)
        other = scaled_dot_product_attention(*self.cut(self.query(x), 1), *self.cut(self.both(self.rows), 2))
        both = own + other.transpose(1, 2) * self.gate.tanh().view(1, 1, -1, 1)
        return self.out(both.flatten(2))


def test_what_another_attention_found_is_added_in_a_box_that_counts_its_parameters():
    (box,) = (node for node in chart_of(WithAnother).nodes if node.label == "+ ANOTHER ATTENTION")
    model = WithAnother()
    counted = sum(one.numel() for part in (model.query, model.both) for one in part.parameters())

    assert box.extra == f"{counted + model.rows.numel() + HEADS:,} parameters"
