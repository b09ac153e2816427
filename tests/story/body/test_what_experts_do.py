"""What each expert does, step by step, and how what they give is weighed."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, Reader, draw, rows
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.branch_words import describe_weights
from xray.story.anatomy.branches import Experts
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage


class Gated(nn.Module):
    """Experts with a gate, and a norm of what each of them gives before it is weighted (Muse Spark)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4), nn.RMSNorm(WIDTH)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 18)), nn.Parameter(torch.randn(4, 9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        gate, up = torch.bmm(given.expand(4, -1, -1), self.wide).chunk(2, -1)
        made = self.last(torch.bmm(functional.silu(gate) * up, self.back))
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        return x + (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)


def test_the_box_of_gated_experts_shows_what_comes_out_of_the_product():
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Gated()), rows())}

    assert nodes["each"].label == "IN EACH: GATE + SiLU, × UP"
    assert nodes["each"].record.shape[-1] == 9
    assert nodes["each"].extra == f"{4 * WIDTH * 18:,} parameters in all"


class Elsewhere(Gated):
    """Experts that are given rows of their own, and not those that their router scores."""

    def __init__(self):
        super().__init__()
        self.own = nn.Parameter(torch.randn(10, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        gate, up = torch.bmm(self.own.expand(4, -1, -1), self.wide).chunk(2, -1)
        made = self.last(torch.bmm(functional.silu(gate) * up, self.back))
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        return x + (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)


def chart_last(model):
    with torch.no_grad():
        reading = read_pass(xray.trace(model.eval(), rows()).passes[0])
    return chart_stage(reading.flow, reading.towers[0].stagings[-1])


@pytest.mark.parametrize(("experts", "told"), [(Gated, True), (Elsewhere, False)])
def test_a_way_leads_from_the_norm_to_experts_that_read_it_and_to_no_others(experts, told):
    chart = chart_last(Reader(AttentionPart(), experts()))

    named = {node.key: node.label for node in chart.nodes}
    ways = [(named[edge.source], named[edge.target]) for edge in chart.edges]
    assert (("LAYER NORM", "ROUTER") in ways) is told
    assert (("LAYER NORM", "IN EACH: GATE + SiLU, × UP") in ways) is told


def test_the_box_of_a_norm_of_each_expert_counts_its_weights():
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Gated()), rows())}

    assert nodes["back"].label == "AND BACK + RMS NORM"
    assert nodes["back"].extra == f"{4 * 9 * WIDTH + WIDTH} parameters in all"


class Pushed(Gated):
    """Experts chosen by their scores and a number for each, which is learned, or held (DeepSeek-V3)."""

    def __init__(self, *, learned):
        super().__init__()
        self.push = nn.Parameter(torch.ones(4)) if learned else nn.Buffer(torch.ones(4))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        scores = self.router(given).sigmoid()
        chosen = (scores + self.push).topk(2).indices
        gate, up = torch.bmm(given.expand(4, -1, -1), self.wide).chunk(2, -1)
        made = torch.bmm(functional.silu(gate) * up, self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, scores.gather(1, chosen))
        return x + (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)


@pytest.mark.parametrize(("learned", "told"), [(True, "4 parameters"), (False, "")])
def test_learned_numbers_for_the_choice_alone_count_in_its_box(learned, told):
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Pushed(learned=learned)), rows())}

    assert nodes["choice"].label == "2 OF 4 CHOSEN"
    assert nodes["choice"].extra == told
    assert nodes["router"].extra == f"{4 * WIDTH + 4} parameters"


class InTurn(nn.Module):
    """Experts that are worked out one after the other, each for the places that chose it (DBRX)."""

    def __init__(self, *, biased=False):
        super().__init__()
        self.bias = nn.Parameter(torch.ones(WIDTH)) if biased else None
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH)) for _ in range(4)
        )

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        found = torch.zeros_like(given)
        for number, expert in enumerate(self.experts):
            place, rank = torch.where(chosen == number)
            found.index_add_(0, place, expert(given[place]) * weights[place, rank, None])
        return x + (found.view(x.shape) if self.bias is None else found.view(x.shape) + self.bias)


def test_what_each_expert_does_is_drawn_and_the_sum_is_of_all_that_were_chosen():
    chart = chart_last(Reader(AttentionPart(), InTurn()))

    named = {node.key: node.label for node in chart.nodes}
    ways = [(named[edge.source], named[edge.target]) for edge in chart.edges]
    assert [source for source, target in ways if target.startswith("IN EACH")] == ["LAYER NORM", "EXPERT 1", "EXPERT 2"]
    assert ("IN EACH: EXPAND + ReLU, AND BACK", "SUM, WEIGHTED BY THE ROUTER") in ways


@pytest.mark.parametrize(("biased", "told"), [(False, ""), (True, " + A BIAS")])
def test_a_learned_row_that_is_added_to_what_all_experts_give_is_told(biased, told):
    nodes = draw(Reader(AttentionPart(), InTurn(biased=biased)).eval(), rows())

    assert [node.label for node in nodes if node.key == "mixed"] == [f"SUM, WEIGHTED BY THE ROUTER{told}"]


@pytest.mark.parametrize(
    ("before", "behind", "told"),
    [
        (0.25, 1, "scores times 0.25, then sigmoid of each score, divided by the sum of the chosen"),
        (1, 2.5, "sigmoid of each score, divided by the sum of the chosen, times 2.5"),
    ],
)
def test_a_number_before_a_bend_is_told_before_it_and_one_behind_the_sum_behind_that(before, behind, told):
    class Scaled(InTurn):
        def forward(self, x):
            given = self.norm(x).flatten(0, 1)
            weights, chosen = (self.router(given) * before).sigmoid().topk(2)
            weights = weights / weights.sum(-1, keepdim=True) * behind
            found = torch.zeros_like(given)
            for number, expert in enumerate(self.experts):
                place, rank = torch.where(chosen == number)
                found.index_add_(0, place, expert(given[place]) * weights[place, rank, None])
            return x + found.view(x.shape)

    trace = xray.trace(Reader(AttentionPart(), Scaled()).eval(), rows())
    experts = [one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts)]

    assert [describe_weights(one) for one in experts] == [told]


@pytest.mark.parametrize(("cap", "told"), [(1, "sigmoid of tanh of each score"), (30, "")])
def test_of_scores_that_are_multiplied_between_two_bends_nothing_is_told(cap, told):
    class Capped(InTurn):
        def forward(self, x):
            given = self.norm(x).flatten(0, 1)
            weights, chosen = ((self.router(given) / cap).tanh() * cap).sigmoid().topk(2)
            found = torch.zeros_like(given)
            for number, expert in enumerate(self.experts):
                place, rank = torch.where(chosen == number)
                found.index_add_(0, place, expert(given[place]) * weights[place, rank, None])
            return x + found.view(x.shape)

    trace = xray.trace(Reader(AttentionPart(), Capped()).eval(), rows())
    experts = [one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts)]

    assert [describe_weights(one) for one in experts] == [told]


class Entering(nn.Module):
    """Experts that get each row times its score, and whose results are added up as they are (Llama 4)."""

    def __init__(self, *, weighed_behind):
        super().__init__()
        self.norm, self.router, self.weighed_behind = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4), weighed_behind
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        scores, chosen = self.router(given).topk(2)
        shares = torch.full((len(given), 4), -torch.inf).scatter(1, chosen, scores).sigmoid().t().unsqueeze(-1)
        before, behind = (torch.ones(()), shares) if self.weighed_behind else (shares, torch.ones(()))
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1) * before, self.wide)), self.back)
        return x + (made * behind).sum(0).view(x.shape)


@pytest.mark.parametrize(("weighed_behind", "label"), [(False, "SUM"), (True, "SUM, WEIGHTED BY THE ROUTER")])
def test_a_sum_of_experts_is_weighted_only_where_the_router_weighs_it(weighed_behind, label):
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Entering(weighed_behind=weighed_behind)), rows())}

    total = nodes["mixed" if weighed_behind else "summed"]
    assert total.label == label
    assert bool(total.remark) is weighed_behind  # "by how much they were wanted"
    assert ("entering" in nodes) is not weighed_behind
    if not weighed_behind:
        assert nodes["entering"].label == "WHAT GOES IN × ITS SCORE"
        assert [step.op for step in nodes["entering"].steps] == ["mul"]


class Naming(AttentionPart):
    """Attention that leaves the number of each word behind."""

    def forward(self, x):
        self.ids = (x[..., 0].flatten() * 0).long()
        return super().forward(x)


class Listed(Entering):
    """Experts that a table names for each word, weighed by what the router says of these (DeepSeek-V4)."""

    def __init__(self, words):
        super().__init__(weighed_behind=True)
        self.words = [words]
        self.register_buffer("table", torch.arange(22).view(11, 2) % 4)

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        named = self.table[self.words[0].ids]
        weights = self.router(given).softmax(-1).gather(1, named)
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, named, weights / weights.sum(-1, keepdim=True))
        return x + (made * shares.t().unsqueeze(-1)).sum(0).view(x.shape)


def test_a_router_weighs_experts_that_a_table_names():
    words = Naming()
    nodes = {node.key: node for node in draw(Reader(words, Listed(words)), rows())}

    assert nodes["choice"].label == "2 OF 4, BY A TABLE OF WORDS"
    assert nodes["choice"].remark == "named for each word, by a table"
    assert nodes["mixed"].label == "SUM, WEIGHTED BY THE ROUTER"


class Dealt(nn.Module):
    """Rows dealt out to experts by a product with what says who goes where; no expert has a gate (nanoMoE)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        best, chosen = self.router(given).topk(2)
        scores = torch.full((len(given), 4), -torch.inf).scatter(1, chosen, best).softmax(-1)
        sent = torch.diag_embed(scores.t())
        dealt = sent.bool().type_as(given) @ given
        made = torch.bmm(functional.gelu(torch.bmm(dealt, self.wide)), self.back)
        return x + (sent.transpose(0, 1).flatten(1) @ made.flatten(0, 1)).view(x.shape)


def test_what_deals_places_out_to_experts_is_none_of_their_weights():
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Dealt()), rows())}

    assert (nodes["each"].label, nodes["each"].extra) == (
        "IN EACH: EXPAND + GELU",
        f"{4 * WIDTH * 9:,} parameters in all",
    )
    assert nodes["each"].record.shape[-1] == 9
