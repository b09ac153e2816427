"""Experts in loops as they are written by hand, with the signs of a claim that is true of some of them alone."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart
from story.endings import list_labels
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branches import Experts
from xray.story.sentences.of_feed_forwards import describe_routing

COUNT, CHOSEN, D_FF, PLACES = 5, 2, 17, 11


def expert(depth=1):
    between = [layer for _ in range(depth - 1) for layer in (nn.ReLU(), nn.Linear(D_FF, D_FF))]
    return nn.Sequential(nn.Linear(WIDTH, D_FF), *between, nn.ReLU(), nn.Linear(D_FF, WIDTH))


class Sent(nn.Module):
    """Experts one after the other, each given the rows that chose it; `weigh` gives weights and numbers of chosen."""

    def __init__(self, weigh=None, make=expert, most=None):
        super().__init__()
        self.norm, self.score = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, COUNT, bias=False)
        self.noise, self.experts = nn.Linear(WIDTH, COUNT), nn.ModuleList(make() for _ in range(COUNT))
        self.beside = nn.ModuleList(expert() for _ in range(2))
        self.weigh, self.most = weigh or shared_out, most

    def forward(self, x):
        rows = self.norm(x).reshape(-1, WIDTH)
        weights, numbers = self.weigh(self, rows)
        found = torch.zeros_like(rows)
        for number, one in enumerate(self.experts):
            places, order = torch.where(numbers == number)
            places, order = places[: self.most], order[: self.most]
            found.index_add_(0, places, one(rows[places]) * weights[places, order, None])
        return x + found.reshape(x.shape)


class Masked(Sent):
    """Experts that each work on all rows; what they give is multiplied by `mask`, of the weights and who was chosen."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, x):
        return x + self.mix(self.norm(x))

    def mix(self, rows):
        weights, numbers = self.weigh(self, rows)
        return sum(one(rows) * self.mask(weights, numbers == at) for at, one in enumerate(self.experts))


class Beside(Masked):
    """The same beside two feed-forwards that all rows go through."""

    def mix(self, rows):
        return super().mix(rows) + sum(one(rows) for one in self.beside)


class OfSequences(Masked):
    """Experts that are chosen by the mean of a sequence, for all its places."""

    def mix(self, rows):
        weights, numbers = self.weigh(self, rows.mean(1))
        return sum(one(rows) * self.mask(weights, numbers == at)[:, None] for at, one in enumerate(self.experts))


class Choosing(Sent):
    """Experts that each choose the places which they score highest: as many as there are experts, or fewer."""

    def forward(self, x):
        rows = self.norm(x).reshape(-1, WIDTH)
        weights, places = self.score(rows).softmax(dim=-1).t().topk(3, dim=-1)
        found = torch.zeros_like(rows)
        for number, one in enumerate(self.experts):
            found.index_add_(0, places[number], one(rows[places[number]]) * weights[number, :, None])
        return x + found.reshape(x.shape)


def shared_out(one, rows):
    return one.score(rows).softmax(dim=-1).topk(CHOSEN, dim=-1)


def over_places(one, rows):
    return one.score(rows).softmax(dim=0).topk(CHOSEN, dim=-1)


def over_chosen_places(one, rows):
    best, numbers = one.score(rows).topk(CHOSEN, dim=-1)
    return best.softmax(dim=0), numbers


def divided_by_all(one, rows):
    best, numbers = shared_out(one, rows)
    return best / best.sum(), numbers


def twice(one, rows):
    best, numbers = shared_out(one, rows)
    return best.softmax(dim=-1), numbers


def with_chance(one, rows):
    scores = one.score(rows)
    return (scores + torch.randn_like(scores) * functional.softplus(one.noise(rows))).softmax(-1).topk(CHOSEN, dim=-1)


def lowest(one, rows):
    return one.score(rows).softmax(dim=-1).topk(CHOSEN, dim=-1, largest=False)


def trace_of(make, places=PLACES):
    torch.manual_seed(0)
    model = nn.Sequential(*(part for _ in range(2) for part in (AttentionPart(), make()))).eval()
    return xray.trace(model, torch.randn(1, places, WIDTH))


def read(make, places=PLACES):
    (tower,) = xray.anatomy(trace_of(make, places)).towers
    return {one for one in tower.branches if isinstance(one, Experts)}


def labels_of(make):
    return list_labels(trace_of(make))


def weigh_chosen(weights, was_chosen):
    return (weights * was_chosen).sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("weigh", [over_places, over_chosen_places, divided_by_all, twice])
def test_weights_that_are_made_over_places_or_twice_are_not_told(weigh):
    assert describe_routing(xray.anatomy(trace_of(lambda: Sent(weigh)))) == ""


def test_what_is_multiplied_by_who_was_chosen_is_not_weighted():
    labels = labels_of(lambda: Masked(lambda _, was_chosen: was_chosen.any(dim=-1, keepdim=True)))

    assert not [label for label in labels if "WEIGHTED" in label]


def test_experts_that_each_work_on_all_rows_say_so():
    (experts,) = read(lambda: Masked(weigh_chosen))

    assert (experts.chosen, experts.on_all) == (CHOSEN, True)


def test_two_shared_experts_are_two():
    (experts,) = read(lambda: Beside(weigh_chosen))

    assert experts.shared == 2


def test_a_layer_that_says_how_much_chance_counts_is_no_router():
    (router,) = (label for label in labels_of(lambda: Sent(with_chance)) if label.startswith("ROUTER"))

    assert router.startswith(f"ROUTER  {WIDTH * COUNT} parameters")


def test_places_that_an_expert_leaves_out_are_sent_to_an_unknown_number():
    (experts,) = read(lambda: Sent(most=2))

    assert experts.chosen is None


@pytest.mark.parametrize("make", [expert, lambda: nn.Linear(WIDTH, WIDTH), lambda: expert(depth=2)])
def test_experts_alone_that_expand_and_lead_back_are_feed_forwards(make):
    (experts,) = read(lambda: Sent(make=make))

    assert experts.d_ff == (D_FF if make is expert else None)


@pytest.mark.parametrize(
    ("make", "places"),
    [
        (lambda: Choosing(), PLACES),
        (lambda: Choosing(), COUNT),
        (lambda: OfSequences(weigh_chosen), PLACES),
        (lambda: Sent(lowest), PLACES),
    ],
)
def test_experts_of_which_no_place_chooses_the_best_are_not_sent_places(make, places):
    assert read(make, places) == set()


def test_what_takes_the_lowest_does_not_choose_the_highest():
    labels = labels_of(lambda: Sent(lowest))

    assert [label for label in labels if label.startswith("CHOOSE THE LOWEST")]
    assert not [label for label in labels if label.startswith("CHOOSE THE HIGHEST")]
