"""An expert may take so many places of a sequence at most: those beyond go through none (Switch Transformers)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import Experts
from xray.story.anatomy.wording import name_active
from xray.story.sentences.of_feed_forwards import describe_experts
from xray.story.sentences.stations.of_stations import describe_chosen
from xray.story.sheet.columns import read_columns

EXPERTS, MOST = 4, 3


class Limited(nn.Module):
    """Experts of which each place goes through one, as long as no more than `most` places of its sequence do.

    It is counted along an `axis`: that of places, or that of experts, which says nothing of these. Or flags are
    `misread` as the numbers of experts (NLLB-MoE): the first takes each place once for every one that was not chosen.
    Or each takes the first `cut` of the places that chose it, of whichever sequence (makeMoE).
    """

    def __init__(self, *, most=None, axis=-2, misread=False, weighed=True, cut=None):
        super().__init__()
        self.misread, self.weighed, self.cut = misread, weighed, cut
        self.norm, self.router, self.most, self.axis = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS), most, axis
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        given = self.norm(x)
        scores = self.router(given).softmax(-1)
        chosen = functional.one_hot(scores.argmax(-1), EXPERTS)
        if self.most is not None:
            chosen = chosen * (chosen.cumsum(self.axis) <= self.most)
        flat, found = given.flatten(0, 1), torch.zeros_like(given.flatten(0, 1))
        weights = scores.max(-1).values.flatten() if self.weighed else torch.ones(len(flat))
        for number, expert in enumerate(self.experts):
            flags = chosen.flatten(0, 1)
            (places,) = torch.where(flags[:, number] > 0)
            places = places[: self.cut]
            if self.misread:
                places, _ = torch.where(functional.one_hot(flags, EXPERTS)[..., number] > 0)
                if not len(places):
                    continue
            found = found.index_add(0, places, expert(flat[places]) * weights[places, None])
        return x + found.view(x.shape)


def read(**options):
    torch.manual_seed(0)
    anatomy = xray.anatomy(xray.trace(Reader(AttentionPart(), Limited(**options)).eval(), rows()))
    (found,) = (one for one in anatomy.towers[0].branches if isinstance(one, Experts))
    return found, describe_experts(anatomy)


def test_so_many_places_as_an_expert_takes_at_most_are_told():
    found, told = read(most=MOST)

    assert (found.experts, found.chosen, found.capacity) == (EXPERTS, 1, MOST)
    assert "An expert takes 3 places of a sequence at most; those beyond go through none." in told


@pytest.mark.parametrize("options", [{}, {"most": MOST, "axis": -1}], ids=["no limit", "counted along experts"])
def test_experts_without_such_a_limit_tell_none(options):
    found, told = read(**options)

    assert (found.experts, found.chosen, found.capacity) == (EXPERTS, 1, None)
    assert "at most" not in told


@pytest.mark.parametrize("options", [{"misread": True}, {"cut": 2}], ids=["more rows than places", "first rows alone"])
def test_how_many_are_chosen_and_that_places_go_alone_is_not_told_where_experts_take_other_rows(options):
    found, told = read(**options)

    assert (found.experts, found.chosen) == (EXPERTS, None)
    assert "to 1 of" not in told
    assert describe_chosen(found) == "Places go through experts."


class Slotted(nn.Module):
    """Experts that each take `most` places of a sequence into rows of their own, two chosen for a place (ST-MoE).

    If no comparison says which are beyond, they are still left out: no row is theirs.
    """

    def __init__(self, *, counted=True):
        super().__init__()
        self.counted, self.norm, self.router = counted, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        given = self.norm(x)
        weights, chosen = self.router(given).softmax(-1).topk(2, -1)
        flags = functional.one_hot(chosen, EXPERTS)
        picked, weighed = flags.sum(-2).float(), (flags * weights[..., None]).sum(-2)
        before = (picked.cumsum(-2) - picked) * picked
        if self.counted:
            picked = picked * (before < MOST).float()
        rows = functional.one_hot(before.long().clamp(max=MOST), MOST + 1)[..., :MOST]
        sent = rows * picked[..., None]
        taken = torch.einsum("bnd,bnec->becd", given, sent)
        made = torch.stack([expert(taken[:, number]) for number, expert in enumerate(self.experts)], 1)
        return x + torch.einsum("becd,bnec->bnd", made, sent * weighed[..., None])


@pytest.mark.parametrize("counted", [True, False])
def test_places_go_through_as_many_as_were_chosen_at_most_where_experts_have_rows_for_so_many(counted):
    torch.manual_seed(0)
    anatomy = xray.anatomy(xray.trace(Reader(AttentionPart(), Slotted(counted=counted)).eval(), rows()))
    (found,) = (one for one in anatomy.towers[0].branches if isinstance(one, Experts))
    told = describe_experts(anatomy)

    assert (found.experts, found.chosen, found.capacity) == (EXPERTS, 2 if counted else None, MOST if counted else None)
    assert (
        "to at most 2 of 4. An expert takes 3 places of a sequence at most; it leaves out those beyond." in told
    ) == (counted)
    most = "Each place through at most 2 of 4 experts." if counted else "Places go through experts."
    assert describe_chosen(found) == most
    assert name_active(anatomy) == f"used for each place{', at most' * counted}"


def list_edges(**options):
    (column,) = read_columns(xray.trace(Reader(AttentionPart(), Limited(**options)).eval(), rows()))
    charts = [panel.chart for frame in column.frames for panel in frame.panels]
    return {(edge.source, edge.target) for chart in charts for edge in chart.edges}


@pytest.mark.parametrize(("misread", "led"), [(False, {"expert0"}), (True, {f"expert{one}" for one in range(EXPERTS)})])
def test_where_nobody_knows_how_many_are_chosen_the_choice_leads_to_any_expert(misread, led):
    edges = list_edges(misread=misread)

    assert {target for source, target in edges if target.startswith("expert")} == led


@pytest.mark.parametrize("weighed", [True, False])
def test_a_line_leads_from_the_choice_to_the_sum_that_is_weighted_by_it(weighed):
    edges = list_edges(weighed=weighed)

    assert (("choice", "mixed") in edges) == weighed
    assert any(target in ("mixed", "summed") for _, target in edges)
