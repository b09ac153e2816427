"""Places that an attention adds to its queries and keys itself are how it knows where its places are."""

from dataclasses import replace

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart
from story.charts.test_combined_keys import LENGTH, AsksWithOwn, Detects, Refines
from story.sentences.makers import FALSE, SAMPLED, make_anatomy
from torch import nn

import xray
from xray.ir.flow.dataflow import read_flow
from xray.story.anatomy.attentions import Attention
from xray.story.passages.added_places import label_places, name_addition
from xray.story.sentences.attentions.of_places import describe_added


def read_positions(model, *inputs):
    """What the last tower's attentions are told of places, and what the card says of them."""
    whole = xray.anatomy(xray.trace(model.eval(), *inputs))
    found = [one.positions for one in whole.towers[-1].branches if isinstance(one, Attention)]
    return found, describe_added(whole)


def test_an_attention_that_adds_learned_places_to_queries_and_keys_knows_places_by_them():
    found, told = read_positions(Refines(is_learned=True), torch.rand(2, LENGTH, 4))

    assert found == ["added"]
    assert told == "Places are added to queries and keys in all attentions."


def test_of_points_that_are_sampled_without_keys_nothing_is_said():
    whole = make_anatomy(replace(FALSE, positions="added"), SAMPLED)

    assert describe_added(whole) == "Places are added to queries and keys in attention with keys."


@pytest.mark.parametrize("look", [None, AsksWithOwn], ids=["before linear layers", "behind them"])
def test_rows_that_are_not_proven_to_be_places_leave_it_open(look):
    model = Refines(is_learned=False)
    if look is not None:
        model.look = nn.ModuleList(look() for _ in range(2))

    assert read_positions(model, torch.rand(2, LENGTH, 4)) == ([None], "")


@pytest.mark.parametrize("is_learned", [True, False])
def test_places_that_keys_alone_take_in_are_not_told_of_both(is_learned):
    assert read_positions(Detects(is_learned=is_learned), torch.rand(2, LENGTH, WIDTH)) == (["none", None], "")


def test_an_attention_that_nothing_is_added_in_has_none():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(AttentionPart() for _ in range(3)))

    assert read_positions(model, torch.rand(2, LENGTH, WIDTH))[0] == ["none"]


class Copies(nn.Module):
    """Learned rows are added to copies of a sequence, one for each place, or one for each copy (x-transformers)."""

    def __init__(self, copies, places):
        super().__init__()
        self.first, self.places = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.zeros(1, copies, places, WIDTH))

    def forward(self, x):
        return self.first(x)[:, None] + self.places


@pytest.mark.parametrize(
    ("copies", "places", "told"), [(1, LENGTH, "+ LEARNED PLACES"), (4, LENGTH, "+ LEARNED PLACES"), (4, 1, "")]
)
def test_one_row_for_each_copy_of_a_sequence_tells_no_places(copies, places, told):
    flow = read_flow(xray.trace(Copies(copies, places), torch.rand(2, LENGTH, WIDTH)).passes[0])

    assert [label_places(flow, node) for node in range(len(flow.steps)) if flow.op(node) == "add"] == [told]


class Asks(nn.Module):
    """Learned rows that ask what comes in, and are added to what they find (FlowFormer), or to themselves (EGT)."""

    def __init__(self, *, crosswise, norm=None):
        super().__init__()
        self.rows, self.query = nn.Parameter(torch.rand(3, WIDTH)), nn.Linear(5, WIDTH)
        self.crosswise, self.norm = crosswise, norm or nn.LayerNorm(WIDTH)

    def forward(self, x):
        made = self.query(x)
        if self.crosswise:
            return made[:, :1, None] + (self.rows[:, None] + self.rows[None]) * 0.5
        return self.rows + (self.norm(self.rows) @ made.mT).softmax(-1) @ made


@pytest.mark.parametrize(("crosswise", "norm"), [(False, None), (True, None), (False, nn.GroupNorm(1, WIDTH))])
def test_learned_rows_that_meet_themselves_are_no_places(crosswise, norm):
    flow = read_flow(xray.trace(Asks(crosswise=crosswise, norm=norm), torch.rand(2, LENGTH, 5)).passes[0])

    sums = [label_places(flow, node) for node in range(len(flow.steps)) if flow.op(node) == "add"]
    assert sums[0] == ""


class AddsRows(nn.Module):
    """What is made of rows is added to learned ones that are laid out anew: a stream, or other ones (CrossView)."""

    def __init__(self):
        super().__init__()
        self.rows, self.lay = nn.Parameter(torch.rand(5, WIDTH)), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.lay(x)[:, None] + self.rows.unsqueeze(0).expand(2, -1, -1)[:, None]


@pytest.mark.parametrize(("begun", "told"), [("unsqueeze", "ADDED UP"), ("linear", "+ 5 LEARNED ROWS")])
def test_a_stream_of_learned_rows_is_not_told_as_rows_that_are_added_to_it(begun, told):
    flow = read_flow(xray.trace(AddsRows().eval(), torch.rand(2, 5, WIDTH)).passes[0])
    places = {flow.op(one): one for one in range(len(flow.steps)) if flow.is_leaf(one)}

    assert name_addition(flow, places["add"], places[begun]) == told
