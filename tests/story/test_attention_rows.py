"""The rows of an attention's chart: heads are whole before they are turned, and each way comes from where it does."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.anatomy.attentions import Attention
from xray.story.attention.square import is_broadcast
from xray.story.body.reading import read_pass
from xray.story.cards.formulas import list_formulas
from xray.story.charts.stage_chart import chart_stage
from xray.story.sentences.of_attentions import attentions
from xray.story.sentences.of_models import list_sentences
from xray.story.sentences.of_norms import describe_query_factor

WIDTH, HEADS, KEY_HEADS, D_K = 35, 4, 2, 6
IDS = torch.tensor([[1, 2, 3, 4, 5]])


class InHalves(nn.Module):
    """Rows turned in halves that are cut apart and put together again, values repeated along an axis of their own."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, heads * D_K) for heads in (HEADS, KEY_HEADS, KEY_HEADS))
        self.end: nn.Module = nn.Linear(HEADS * D_K, WIDTH)
        angles = torch.arange(5)[:, None] * 0.5 ** torch.arange(3)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turn(self, rows):
        one, other = rows.chunk(2, dim=-1)
        return torch.cat([one * self.cos - other * self.sin, other * self.cos + one * self.sin], dim=-1)

    def forward(self, x):
        query, key, value = (
            made(x).view(*x.shape[:2], -1, D_K).transpose(1, 2) for made in (self.query, self.key, self.value)
        )
        query, key = self.turn(query), self.turn(key)
        key, value = (
            one[:, :, None].expand(-1, -1, HEADS // KEY_HEADS, -1, -1).reshape(query.shape) for one in (key, value)
        )
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.end(seen.transpose(1, 2).reshape(*x.shape[:2], -1))


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.before, self.attention = nn.LayerNorm(WIDTH), attention
        self.think, self.wide, self.back = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 55), nn.Linear(55, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.back(torch.relu(self.wide(self.think(x))))


def trace_of(make):
    return xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), Layer(make()), Layer(make())), IDS)


def chart_of(make):
    (forward,) = trace_of(make).passes
    return chart_stage(read_flow(forward), read_pass(forward).towers[0].stagings[0])


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
    told = "WITH ANOTHER WAY BESIDE IT"

    assert told in {node.label for node in chart_of(BesideRows).nodes}
    assert told not in {node.label for node in chart_of(lambda: BesideRows(joined=False)).nodes}


def test_what_another_way_reads_leads_to_where_its_rows_are_put_beside_the_heads():
    chart = chart_of(BesideRows)
    (box,) = (node for node in chart.nodes if node.label == "WITH ANOTHER WAY BESIDE IT")

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
    (box,) = (node for node in chart_of(SameWeightsBeside).nodes if node.label == "WITH ANOTHER WAY BESIDE IT")

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

    assert "WITH ANOTHER WAY BESIDE IT" in labels
    assert not any("SAME WEIGHTS" in label for label in labels)


class ScaledQueries(InHalves):
    """Queries that are normalised without learned numbers, and multiplied by a number (Muse Glimmer)."""

    def turn(self, rows):
        normed = rows * (rows.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        return super().turn(normed * 3.5 if rows.shape[1] == HEADS else normed)


def test_the_number_that_queries_are_multiplied_by_is_drawn_and_stands_in_the_formula():
    nodes = chart_of(ScaledQueries).nodes
    (tower,) = xray.anatomy(trace_of(ScaledQueries)).towers
    attention = tower.branches[0]
    assert isinstance(attention, Attention)
    (*_, formula), *_ = list_formulas(tower, attention, nodes)

    assert [node.label for node in nodes if node.key == "scale0_q"] == ["Q · 3.5"]
    assert not [node for node in nodes if node.key == "scale0_k"]
    assert "".join(run.text for run in formula) == "softmax( Q·KT · 3.5 / √dk + mask ) · V"


class KeysTimesOne(InHalves):
    """Keys that are multiplied by a setting, which is 1 (Falcon-H1)."""

    def turn(self, rows):
        return super().turn(rows if rows.shape[1] == HEADS else rows * 1.0)


def test_what_keys_are_multiplied_by_is_not_told_where_it_is_one():
    nodes = chart_of(KeysTimesOne).nodes
    (tower,) = xray.anatomy(trace_of(KeysTimesOne)).towers
    attention = tower.branches[0]
    assert isinstance(attention, Attention)
    (*_, formula), *_ = list_formulas(tower, attention, nodes)

    assert not [node.label for node in nodes if node.key.startswith("scale")]
    assert "".join(run.text for run in formula) == "softmax( Q·KT / √dk + mask ) · V"


class TemperedQueries(InHalves):
    """Queries that are multiplied by a number of their place, which grows slowly (Llama 4, Ministral 3)."""

    def turn(self, rows):
        turned = super().turn(rows)
        grown = 1 + torch.log(1 + torch.floor(torch.arange(rows.shape[2]) / 2))
        return turned * grown[None, None, :, None] if rows.shape[1] == HEADS else turned


def test_a_number_of_their_place_that_queries_are_multiplied_by_is_no_part_of_their_turn():
    labels = {node.label for node in chart_of(TemperedQueries).nodes}

    assert {"ROTATE Q", "Q · f(place)", "ROTATE K"} <= labels
    assert "K · f(place)" not in labels


class TemperedByHead(InHalves):
    """The same by learned numbers of each head (Mistral Large 4)."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(HEADS))

    def turn(self, rows):
        turned = super().turn(rows)
        grown = torch.log(1 + torch.arange(rows.shape[2]))[None, :] * self.scale[:, None]
        return turned * grown[None, :, :, None] if rows.shape[1] == HEADS else turned


@pytest.mark.parametrize(
    ("part", "found", "told"),
    [
        (InHalves, None, ""),
        (
            TemperedQueries,
            "place",
            "Queries are multiplied by a number for each place, f(place), which no row changes.",
        ),
        (
            TemperedByHead,
            "head",
            "Queries are multiplied by a number for each place in each head, f(place), which no row changes.",
        ),
    ],
)
def test_a_number_of_their_place_that_queries_are_multiplied_by_is_told(part, found, told):
    whole = xray.anatomy(trace_of(part))

    assert {one.queries_by_place for one in whole.towers[0].branches if isinstance(one, Attention)} == {found}
    assert describe_query_factor(whole) == told


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

    assert {"LINEAR K", "LINEAR ADDED AND BESIDE K"} <= {*labels}
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
