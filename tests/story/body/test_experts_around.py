"""What stands around all experts alike: a linear layer before them, and one behind; and one expert alone."""

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
from xray.story.sheet.columns import read_columns


class Latent(nn.Module):
    """Experts that work on rows of their own width, be it with one beside them that all rows go through."""

    def __init__(self, *, shared=False, gated=False):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)
        self.gate = nn.Linear(WIDTH, 1) if gated else None
        self.down, self.up, self.inner = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH), nn.RMSNorm(8)
        self.wide, self.back = nn.Parameter(torch.randn(4, 8, 9)), nn.Parameter(torch.randn(4, 9, 8))
        self.beside = nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH)) if shared else None

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        each = self.inner(self.down(given)).expand(4, -1, -1)
        made = torch.bmm(functional.relu(torch.bmm(each, self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        found = self.up((made * shares.t().unsqueeze(-1)).sum(0))
        if self.beside is not None:
            beside = self.beside(given)
            found = found + (beside if self.gate is None else self.gate(given).sigmoid() * beside)
        return x + found.view(x.shape)


def test_the_linear_layers_around_all_experts_are_drawn():
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Latent()), rows())}

    assert nodes["down"].record.shape[-1] == nodes["mixed"].record.shape[-1] == 8
    assert nodes["down"].label == "LINEAR + NORM"
    assert nodes["down"].extra == f"{WIDTH * 8 + 8 + 8} parameters"
    assert nodes["up"].record.shape[-1] == WIDTH
    assert nodes["mixed"].label == "SUM, WEIGHTED BY THE ROUTER"


def test_an_expert_beside_them_is_added_behind_the_last_of_these():
    labels = [node.label for node in draw(Reader(AttentionPart(), Latent(shared=True)), rows())]

    assert "ADD SHARED EXPERT" in labels
    assert "SUM, WEIGHTED BY THE ROUTER + SHARED EXPERT" not in labels


@pytest.mark.parametrize("gated", [False, True])
def test_an_expert_beside_them_tells_its_parameters_and_its_gate(gated):
    nodes = {node.key: node for node in draw(Reader(AttentionPart(), Latent(shared=True, gated=gated)), rows())}

    held = WIDTH * 9 + 9 + 9 * WIDTH + WIDTH + gated * (WIDTH + 1)
    assert nodes["shared"].record.shape[-1] == WIDTH
    assert nodes["shared"].told == (f"{held} parameters", *["× a sigmoid gate"] * gated)
    assert nodes["router"].row == nodes["shared"].row < nodes["choice"].row


class Weighed(nn.Module):
    """Two experts for all rows beside those that are chosen, which the router scores and weighs too (Inkling)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 6)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))
        self.up, self.down = nn.Parameter(torch.randn(2, WIDTH, 7)), nn.Parameter(torch.randn(2, 7, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        scores = self.router(given).sigmoid()
        picked, chosen = scores[:, :4].topk(2)
        weights = torch.cat([picked, scores[:, 4:]], dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights[:, :2])
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        always = functional.relu(torch.bmm(given.expand(2, -1, -1), self.up)) * weights[:, 2:].t().unsqueeze(-1)
        found = (made * shares.t().unsqueeze(-1)).sum(0) + torch.bmm(always, self.down).sum(0)
        return x + found.view(x.shape)


def test_experts_for_all_rows_that_the_router_weighs_are_told_and_drawn():
    model = Reader(AttentionPart(), Weighed())
    nodes = {node.key: node for node in draw(model, rows())}
    branches = [branch for one in xray.anatomy(xray.trace(model, rows())).towers for branch in one.branches]

    assert nodes["shared"].label == "2 SHARED EXPERTS"
    assert nodes["shared"].told[-1] == "× their scores"
    assert nodes["mixed"].label == "SUM, WEIGHTED BY THE ROUTER + 2 SHARED EXPERTS"
    assert [one.shared for one in branches if isinstance(one, Experts)] == [2]


@pytest.mark.parametrize("weighed", [False, True])
def test_the_router_leads_to_experts_for_all_rows_that_it_weighs(weighed):
    experts = Weighed() if weighed else Latent(shared=True, gated=True)
    with torch.no_grad():
        reading = read_pass(xray.trace(Reader(AttentionPart(), experts), rows()).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[1])

    assert (("choice", "shared") in {(edge.source, edge.target) for edge in chart.edges}) is weighed
    assert (chart.node("shared").row > chart.node("choice").row) is weighed


class Lonely(nn.Module):
    """A router with one expert, whose weights are turned before rows meet them (Hunyuan's default)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1)
        self.wide, self.back = nn.Parameter(torch.randn(1, 9, WIDTH)), nn.Parameter(torch.randn(1, WIDTH, 9))
        self.beside = nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(1)
        made = torch.bmm(functional.relu(torch.bmm(given[None], self.wide.mT)), self.back.mT)[0]
        shares = torch.zeros(len(given), 1).scatter(1, chosen, weights)
        return x + (made * shares + self.beside(given)).view(x.shape)


def test_one_expert_of_one_is_told():
    trace = xray.trace(Reader(AttentionPart(), Lonely()).eval(), rows())
    experts = [one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts)]

    assert [(one.experts, one.chosen, one.shared, one.d_ff) for one in experts] == [(1, 1, 1, 9)]


class Closed(nn.Module):
    """Experts whose sum is multiplied by one number, normed, and multiplied by another one (Beam)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4), nn.RMSNorm(WIDTH)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, 9)), nn.Parameter(torch.randn(4, 9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        weights, chosen = self.router(given).softmax(-1).topk(2)
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        found = (made * shares.t().unsqueeze(-1)).sum(0) * 2.5
        return x + self.last(found.view(x.shape)) * 0.5


def test_what_multiplies_and_norms_what_all_experts_give_is_drawn_in_its_order():
    nodes = draw(Reader(AttentionPart(), Closed()), rows())

    keys = [node.key for node in nodes]
    labels = [node.label for node in nodes][keys.index("mixed") :]
    assert labels[:4] == ["SUM, WEIGHTED BY THE ROUTER, × 2.5", "RMS NORM", "÷ 2", "ADD"]


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
    assert ("LAYER NORM", "ROUTER") in ways
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


class Set(nn.Module):
    """Experts with a router of their own, as wide inside as is said."""

    def __init__(self, inner):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4)
        self.wide, self.back = nn.Parameter(torch.randn(4, WIDTH, inner)), nn.Parameter(torch.randn(4, inner, WIDTH))

    def forward(self, given):
        weights, chosen = self.router(given).softmax(-1).topk(2)
        made = torch.bmm(functional.relu(torch.bmm(given.expand(4, -1, -1), self.wide)), self.back)
        shares = torch.zeros(len(given), 4).scatter(1, chosen, weights)
        return (made * shares.t().unsqueeze(-1)).sum(0)


class Parted(nn.Module):
    """Two sets of experts: some places go through the one, all others through the other (ERNIE 4.5 VL)."""

    def __init__(self):
        super().__init__()
        self.norm, self.one, self.other = nn.LayerNorm(WIDTH), Set(9), Set(14)
        self.beside = nn.Sequential(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, WIDTH))

    def forward(self, x):
        given = self.norm(x).flatten(0, 1)
        is_one = torch.arange(len(given)) < 3
        found = torch.zeros_like(given)
        found[is_one] = self.one(given[is_one])
        found[~is_one] = self.other(given[~is_one])
        return x + (found + self.beside(given)).view(x.shape)


def test_two_sets_of_experts_for_places_of_their_own_are_told_and_drawn_apart():
    trace = xray.trace(Reader(AttentionPart(), Parted()).eval(), rows())
    (experts,) = [one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts)]

    assert [(one.experts, one.chosen, one.d_ff) for one in experts.sets] == [(4, 2, 9), (4, 2, 14)]
    assert experts.shared == 1
    labels = [node.label for node in draw(Reader(AttentionPart(), Parted()), rows())]
    assert [labels.count(one) for one in ("ROUTER", "AND BACK", "SHARED EXPERT")] == [2, 2, 1]
    assert [one for one in labels if one.endswith("ROWS")] == ["3 OF 10 ROWS", "7 OF 10 ROWS"]
    assert "BOTH PUT TOGETHER + SHARED EXPERT" in labels


class ByKinds(Parted):
    """The same, the places parted by their kinds."""

    def forward(self, x, kinds):  # type: ignore[override]
        given = self.norm(x)
        is_one = kinds.bool()[..., None].expand_as(given)
        found = torch.zeros_like(given)
        found[is_one] = self.one(given[is_one].view(-1, WIDTH)).flatten()
        found[~is_one] = self.other(given[~is_one].view(-1, WIDTH)).flatten()
        return x + (found + self.beside(given))


class ToldApart(nn.Module):
    """Words whose kinds, which are given, say through which of two sets of experts they go."""

    def __init__(self):
        super().__init__()
        self.words, self.look, self.parts = nn.Embedding(17, WIDTH), AttentionPart(), ByKinds()

    def forward(self, ids, kinds):
        return self.parts(self.look(self.words(ids)), kinds)


def test_where_two_sets_meet_it_is_told_by_which_argument_places_are_parted():
    ids = torch.arange(14).view(2, 7)
    (column,) = read_columns(xray.trace(ToldApart().eval(), ids, (ids % 3 == 0).long()))

    nodes = {node.label: node for frame in column.frames for panel in frame.panels for node in panel.chart.nodes}
    assert nodes["BOTH PUT TOGETHER + SHARED EXPERT"].told == ("parted by kinds",)
    assert nodes["5 OF 14 ROWS"].record.shape == (5, WIDTH)
    assert "9 OF 14 ROWS" in nodes


def test_two_sets_that_all_places_go_through_are_not_called_parted():
    class Both(Parted):
        def forward(self, x):
            given = self.norm(x).flatten(0, 1)
            return x + (self.one(given) + self.other(given)).view(x.shape)

    trace = xray.trace(Reader(AttentionPart(), Both()).eval(), rows())
    assert all(one.others is None for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Experts))


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


class Weighing(nn.Module):
    """A small network whose last layer scores experts."""

    def __init__(self):
        super().__init__()
        self.narrow, self.norm, self.score = nn.Linear(WIDTH, 5), nn.RMSNorm(5), nn.Linear(5, 4)

    def forward(self, x):
        return self.score(functional.gelu(self.norm(self.narrow(x))))


class GatedNorm(nn.Module):
    """A norm that is multiplied by shares that are worked out of itself (A.X K2)."""

    def __init__(self):
        super().__init__()
        self.norm, self.narrow, self.wide = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 3), nn.Linear(3, WIDTH)

    def forward(self, x):
        normed = self.norm(x)
        return normed * self.wide(self.narrow(normed)).sigmoid()


@pytest.mark.parametrize("gated", [False, True])
def test_how_wide_the_expert_is_that_all_go_through_is_told(gated):
    layer = Latent(shared=True, gated=gated)
    layer.register_module("beside", nn.Sequential(nn.Linear(WIDTH, 13), nn.ReLU(), nn.Linear(13, WIDTH)))
    _, think = xray.anatomy(xray.trace(Reader(AttentionPart(), layer), rows())).towers[0].branches

    assert isinstance(think, Experts)
    assert (think.d_ff, think.shared, think.shared_d_ff) == (9, 1, 13)


def draw_led(layer):
    """The labels of a stage's boxes, and of the boxes that each leads to."""
    with torch.no_grad():
        reading = read_pass(xray.trace(Reader(AttentionPart(), layer), rows()).passes[0])
    chart = chart_stage(reading.flow, reading.towers[0].stagings[1])
    names = {node.key: node.label for node in chart.nodes}
    return list(names.values()), [(names[edge.source], names[edge.target]) for edge in chart.edges]


@pytest.mark.parametrize("shared", [False, True])
def test_what_leads_to_a_router_alone_is_drawn(shared):
    layer = Latent(shared=shared)
    layer.register_module("router", Weighing())
    labels, led = draw_led(layer)

    assert labels[:5] == ["LAYER NORM", "LINEAR", "RMS NORM", "GELU", "ROUTER"]
    assert ("LAYER NORM", "LINEAR") in led
    assert ("GELU", "ROUTER") in led
    assert ("LAYER NORM", "ROUTER") not in led


def test_the_gate_of_a_norm_stands_before_router_and_experts():
    layer = Latent(shared=True)
    layer.register_module("norm", GatedNorm())
    labels, led = draw_led(layer)

    assert labels[:5] == ["RMS NORM", "LINEAR", "LINEAR", "SIGMOID", "× GATE"]
    assert {target for source, target in led if source == "RMS NORM"} == {"LINEAR", "× GATE"}
    assert {target for source, target in led if source == "× GATE"} == {"ROUTER", "LINEAR + NORM", "SHARED EXPERT"}


def test_the_gate_of_a_norm_stands_before_queries_keys_and_values():
    layer = AttentionPart()
    layer.register_module("norm", GatedNorm())
    labels, led = draw_led(layer)

    assert labels[:6] == ["RMS NORM", "LINEAR", "LINEAR", "SIGMOID", "× GATE", "ONE LINEAR FOR Q, K, V"]
    assert ("× GATE", "ONE LINEAR FOR Q, K, V") in led


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
