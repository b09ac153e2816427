"""By what queries and keys are multiplied before they meet: a box of its own, and the term of the formula."""

from dataclasses import replace

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from story.charts.scaled_attentions import ScaledLast, read_panel
from story.charts.test_heads_first import PLACES, Late
from torch import nn
from torch.nn.functional import softplus

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.cards.formulas import list_factors, list_formulas, wrap_formula, write_operand
from xray.story.charts.chart import WHOLE, Node
from xray.story.layout import Run
from xray.story.passages.channels import MASKED
from xray.story.sheet.columns import read_columns


class Normed(nn.Module):
    """Queries and keys with a norm for each head; queries may be multiplied by learned numbers behind it."""

    def __init__(self, *, scales: bool):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.of_queries, self.of_keys = nn.RMSNorm(WIDTH // HEADS), nn.RMSNorm(WIDTH // HEADS)
        self.by = nn.Parameter(torch.ones(WIDTH // HEADS))
        self.scales = scales

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        query, key = self.of_queries(query), self.of_keys(key)
        if self.scales:
            query = query * softplus(self.by)[None, None, None, :]
        scores = query @ key.transpose(-1, -2)
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class Ready(nn.Module):
    """The attention of torch itself, which multiplies queries and keys alike where no kernel does it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, HEADS)

    def forward(self, x):
        return x + self.inner(x, x, x, need_weights=False)[0]


@pytest.mark.parametrize("scales", [False, True])
def test_learned_numbers_behind_a_norm_with_weights_are_a_box_of_their_own(scales):
    _, _, nodes = read_panel(lambda: Normed(scales=scales))

    labels = {node.label for node in nodes}
    assert {"NORM Q", "NORM K"} <= labels
    assert ("Q × SOFTPLUS OF LEARNED NUMBERS" in labels) == scales


def test_queries_and_keys_that_are_both_divided_by_a_root_of_the_root_are_scaled_by_the_root():
    tower, branch, nodes = read_panel(Ready, device="meta")

    (_, _, line), *_ = list_formulas(tower, branch, nodes)
    assert {"Q ÷ √√d_k", "K ÷ √√d_k"} <= {node.label for node in nodes}
    assert "".join(run.text for run in line) == "softmax( Q·KT / √dk ) · V"


def test_a_factor_behind_a_bias_stands_above_it_and_multiplies_the_sum():
    tower, attention, nodes = read_panel(ScaledLast)

    rows = {node.label: node.row for node in nodes}
    assert rows["SCORES Q·K^T"] < rows["+ BIAS OF RELATIVE PLACES"] < rows["SCORES ÷ √d_k"]
    (_, _, line), *_ = list_formulas(tower, attention, nodes)
    assert "".join(run.text for run in line) == "softmax( ( Q·KT + bias ) / √dk ) · V"


class Bent(nn.Module):
    """Queries times numbers for each place of a head: learned ones, bent and scaled, or as many that nobody learned."""

    def __init__(self, bend, *, learned: bool):
        super().__init__()
        self.bend = bend
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        numbers = torch.ones(WIDTH // HEADS)
        self.by = nn.Parameter(numbers) if learned else nn.Buffer(numbers)

    def forward(self, x):
        query, key, value = (
            way(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for way in (self.query, self.key, self.value)
        )
        query = query * self.bend(self.by)[None, None, None, :]
        weights = (query @ key.transpose(-1, -2)).softmax(-1)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("bend", "learned", "told"),
    [
        (lambda by: by, True, "Q × LEARNED NUMBERS"),
        (softplus, True, "Q × SOFTPLUS OF LEARNED NUMBERS"),
        (lambda by: softplus(by).mul(0.7), True, "Q × SOFTPLUS OF LEARNED NUMBERS · 0.7"),
        (lambda by: softplus(by.mul(0.7)), True, "Q × WHAT IS MADE OF LEARNED NUMBERS"),
        (lambda by: softplus(by, beta=2), True, "Q × WHAT IS MADE OF LEARNED NUMBERS"),
        (softplus, False, "MULTIPLIED Q"),
    ],
)
def test_queries_times_learned_numbers_say_so_and_what_is_made_of_these(bend, learned, told):
    parts = (part for _ in range(2) for part in (Bent(bend, learned=learned), FeedForwardPart()))
    model = nn.Sequential(*parts).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, 5, WIDTH)))
    chart = column.frames[0].panels[0].chart
    assert [node.label for node in chart.nodes if node.key == "scale0_q"] == [told]


@pytest.mark.parametrize(
    ("bend", "formula"),
    [
        (lambda by: by, "softmax( (Q × learned numbers)·KT ) · V"),
        (lambda by: softplus(by).mul(0.7), "softmax( (Q × softplus of learned numbers · 0.7)·KT ) · V"),
    ],
)
def test_numbers_of_each_channel_multiply_queries_and_not_their_product_with_keys(bend, formula):
    tower, branch, nodes = read_panel(lambda: Bent(bend, learned=True))

    (_, _, line), *_ = list_formulas(tower, branch, nodes)
    assert "".join(run.text for run in line) == formula


@pytest.mark.parametrize(("above", "told"), [((), "(Q × learned numbers)"), ((("bias0_q", "+ A BIAS Q"),), "Q")])
def test_queries_stand_for_the_sum_where_something_is_added_behind_learned_numbers(above, told):
    boxes = [("linear0_q", "LINEAR Q"), ("scale0_q", "Q × LEARNED NUMBERS"), *above]

    assert write_operand("Q", [Node(key, label, row, WHOLE) for row, (key, label) in enumerate(boxes)]) == told


@pytest.mark.parametrize("order", [("norm0_q", "scale0_q"), ("scale0_q", "norm0_q")])
def test_queries_stand_for_what_norm_and_learned_numbers_make_of_them(order):
    labels = {"norm0_q": "NORM Q", "scale0_q": "Q × LEARNED NUMBERS"}
    boxes = [("linear0_q", "LINEAR Q"), *((key, labels[key]) for key in order)]

    assert write_operand("Q", [Node(key, label, row, WHOLE) for row, (key, label) in enumerate(boxes)]) == "Q"


def test_a_formula_wider_than_its_card_is_broken_before_its_terms():
    line = (
        Run("softmax( Q·K", 9),
        Run("T", 9, shift="sup"),
        Run(" / √d", 9),
        Run("k", 9, shift="sub"),
        Run(" + mask", 9),
    )

    told = ["".join(run.text for run in one) for one in wrap_formula(line, 17, lambda text, *_: len(text))]
    assert told == ["softmax( Q·KT", " / √dk + mask"]


class Rooted(nn.Module):
    """Keys divided by a root that is a tensor, worked out or held (DeBERTa)."""

    def __init__(self, *, held: bool):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.root = nn.Buffer(torch.tensor(3.0)) if held else None

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        root = torch.sqrt(torch.tensor(WIDTH // HEADS, dtype=torch.float) * 1) if self.root is None else self.root
        scores = query @ (key.transpose(-1, -2) / root)
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("held", "box", "formula"),
    [(False, "K ÷ √d_k", "softmax( Q·KT / √dk ) · V"), (True, "DIVIDED K", "softmax( Q·KT · scaled ) · V")],
)
def test_a_root_that_is_a_tensor_is_told_where_it_follows_from_the_steps(held, box, formula):
    tower, branch, nodes = read_panel(lambda: Rooted(held=held))

    (_, _, line), *_ = list_formulas(tower, branch, nodes)
    assert box in {node.label for node in nodes}
    assert "".join(run.text for run in line) == formula


def test_keys_that_a_mask_multiplies_scale_no_scores():
    _, _, nodes = read_panel(lambda: Rooted(held=True))
    told = {MASKED: [], "DIVIDED": ["· scaled"]}

    for word, factors in told.items():
        named = [replace(one, label=f"{word} K") if one.label == "DIVIDED K" else one for one in nodes]
        assert list_factors(named) == factors


class ScaledInParts(Late):
    """Heads are cut in two parts, each is multiplied by a number, and one of them turned (LongCat)."""

    def __init__(self, *, by):
        super().__init__(turned=True)
        self.three = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(3))
        self.out, self.by = nn.Linear(2 * WIDTH, WIDTH), by

    def turn(self, rows):
        kept, turned = rows.split(rows.shape[-1] // 2, dim=-1)
        return torch.cat([kept * self.by[0], super().turn(turned * self.by[1])], -1)


@pytest.mark.parametrize(("by", "told"), [((3, 3), "· 3"), ((3, 5), None)])
def test_parts_of_a_row_that_are_all_multiplied_by_one_number_are_scaled_before_one_is_turned(by, told):
    model = nn.Sequential(*(part for _ in range(2) for part in (ScaledInParts(by=by), FeedForwardPart()))).eval()
    (column,) = read_columns(xray.trace(model, torch.ones(2, PLACES, WIDTH)))
    chart = column.frames[0].panels[0].chart
    (scale, *_) = [node for node in chart.nodes if node.key == "scale0_q"] or [None]

    assert "ROTATE Q" in {node.label for node in chart.nodes}
    assert (scale and scale.label) == (told and f"Q {told}")
    assert scale is None or ("scale0_q", "rotate0_q") in {(edge.source, edge.target) for edge in chart.edges}


class Tempered(nn.Module):
    """Scores times learned numbers, be they bent first, with a mask that is added twice (Swin V2)."""

    def __init__(self, shape, masked, learned=True):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.by, self.masked = nn.Parameter(torch.ones(shape), requires_grad=learned), masked

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.mT * self.by.clamp(max=4.6).exp()
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        for _ in range(self.masked):
            scores = scores + mask
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("shape", "masked", "learned", "factor", "formula"),
    [
        ((HEADS, 1, 1), 2, True, "· learned by head", "softmax( Q·KT · learned by head + mask + mask ) · V"),
        ((1,), 0, True, "· learned", "softmax( Q·KT · learned ) · V"),
        ((1,), 0, False, "· fixed", "softmax( Q·KT · fixed ) · V"),
    ],
    ids=["of heads", "one", "one that is never learned"],
)
def test_scores_times_numbers_say_of_what_these_are(shape, masked, learned, factor, formula):
    model = nn.Sequential(Tempered(shape, masked, learned), FeedForwardPart()).eval()
    trace = xray.trace(model, torch.ones(2, 5, WIDTH))
    (column,) = read_columns(trace)
    panel = column.frames[0].panels[0]

    branch = panel.staging.branches[0].branch
    assert isinstance(branch, Attention)
    (_, _, line), *_ = list_formulas(xray.anatomy(trace).towers[0], branch, panel.chart.nodes)
    assert next(node.label for node in panel.chart.nodes if "SCORES" in node.label) == f"SCORES Q·K^T {factor}"
    assert "".join(run.text for run in line) == formula
