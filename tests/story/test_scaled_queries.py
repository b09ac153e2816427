"""Numbers that queries and keys are multiplied by, fixed, of a place or of a head."""

import pytest
import torch
from story.halves import D_K, HEADS, InHalves, chart_of, trace_of
from torch import nn

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.cards.formulas import list_formulas
from xray.story.sentences.of_norms import describe_query_factor


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


class ScalableQueries(InHalves):
    """Queries that are multiplied by what two layers make of their number and of themselves (TabPFN)."""

    def __init__(self):
        super().__init__()
        self.by_themselves = nn.Sequential(nn.Linear(D_K, 13), nn.GELU(), nn.Linear(13, D_K))

    def turn(self, rows):
        if rows.shape[1] != HEADS:
            return super().turn(rows)
        return super().turn(rows * 3.5 * (1 + torch.tanh(self.by_themselves(rows))))


def test_factors_that_are_made_of_queries_are_no_second_layer_for_them():
    labels = [node.label for node in chart_of(ScalableQueries).nodes]

    assert [label for label in labels if label.startswith("LINEAR")].count("LINEAR Q") == 1
    assert "OPERATIONS Q" in labels
