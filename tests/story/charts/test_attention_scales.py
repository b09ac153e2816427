"""By what queries and keys are multiplied before they meet: a box of its own, and the term of the formula."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from story.charts.test_heads_first import PLACES, Late
from torch import nn
from torch.nn import functional
from torch.nn.functional import softplus

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.cards.formulas import list_formulas, wrap_formula, write_operand
from xray.story.charts.chart import WHOLE, Node
from xray.story.layout import Run
from xray.story.sentences.of_attentions import describe_alibi
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


def read_panel(part, *, device="cpu"):
    model = nn.Sequential(part(), FeedForwardPart(), part(), FeedForwardPart()).eval().to(device)
    trace = xray.trace(model, torch.ones(5, 2, WIDTH, device=device))
    (column,) = read_columns(trace)
    panel = column.frames[0].panels[0]
    return xray.anatomy(trace).towers[0], panel.staging.branches[0].branch, panel.chart.nodes


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


class ScaledLast(nn.Module):
    """Learned numbers by distance are added to the scores, and both are divided (XLNet)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.near = nn.Embedding(9, HEADS)

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        places = torch.arange(x.shape[1])
        bias = self.near(places[:, None] - places[None, :] + 4).permute(2, 0, 1)[None]
        scores = (query @ key.transpose(-1, -2) + bias) / (WIDTH // HEADS) ** 0.5
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


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
        (softplus, False, "SCALE Q"),
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


class LetThrough(ScaledLast):
    """The same numbers by distance for all rows, each place lets a share of them through (WavLM)."""

    def __init__(self, *, gates: bool):
        super().__init__()
        self.gate = nn.Linear(WIDTH // HEADS, 1) if gates else None

    def forward(self, x):
        batch, length, _ = x.shape
        places = torch.arange(length)
        bias = self.near(places[:, None] - places[None, :] + 4).permute(2, 0, 1).repeat(batch, 1, 1)
        if self.gate is not None:
            bias = self.gate(x.unflatten(-1, (HEADS, -1)).transpose(1, 2)).sigmoid().flatten(0, 1) * bias
        query, key, value = self.qkv(x).reshape(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
        scores = torch.baddbmm(bias, query, key.transpose(-1, -2))
        mixed = (scores.softmax(-1) @ value).unflatten(0, (batch, HEADS))
        return x + self.out(mixed.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("gates", "told"), [(True, "+ GATED BIAS OF RELATIVE PLACES"), (False, "+ BIAS OF RELATIVE PLACES")]
)
def test_a_bias_of_which_each_place_lets_a_share_through_is_told_as_gated(gates, told):
    _, _, nodes = read_panel(lambda: LetThrough(gates=gates))
    (bias,) = (node for node in nodes if "BIAS" in node.label)

    assert bias.label == told
    assert ("linear" in {step.op for step in bias.steps}) == gates


class Sloped(nn.Module):
    """Slopes by distance, and the factor of the scores, in one product that adds (BLOOM)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, places = x.shape[:2]
        query, key, value = (
            one.reshape(batch, places, HEADS, -1).transpose(1, 2).flatten(0, 1) for one in self.qkv(x).chunk(3, -1)
        )
        slopes = torch.pow(torch.full([], 0.5), torch.arange(1, 1 + HEADS))[:, None, None]
        near = (slopes * torch.arange(places)).repeat(batch, 1, 1)
        scores = near.baddbmm(query, key.transpose(1, 2), beta=1, alpha=(WIDTH // HEADS) ** -0.5)
        future = torch.full((places, places), -torch.inf).triu(1)
        weights = (scores.view(batch, HEADS, places, places) + future).softmax(-1)
        return x + self.out((weights.flatten(0, 1) @ value).view(batch, HEADS, places, -1).transpose(1, 2).flatten(2))


def test_slopes_that_a_product_adds_are_no_mask_and_its_factor_is_told():
    tower, branch, nodes = read_panel(Sloped)

    (_, _, line), *_ = list_formulas(tower, branch, nodes)
    labels = [node.label for node in nodes]
    assert [one for one in labels if one.startswith(("SCORES", "+ SLOPES", "MASK"))] == [
        "SCORES Q·K^T ÷ √d_k",
        "+ SLOPES BY DISTANCE (ALiBi)",
        "MASK",
    ]
    assert "".join(run.text for run in line) == "softmax( Q·KT / √dk + bias + mask ) · V"


class SomeSloped(nn.Module):
    """All heads have a slope but the last, to whose scores 0 is added (x-transformers)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        places = torch.arange(x.shape[1])
        far = -(places[None, :] - places[:, None]).abs()
        slopes = 0.5 ** torch.arange(1, HEADS)[:, None, None] * far
        scores = query @ key.transpose(-1, -2) + functional.pad(slopes, (0, 0, 0, 0, 0, 1))
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_heads_without_a_slope_are_told_from_those_that_have_one():
    found = xray.anatomy(xray.trace(nn.Sequential(SomeSloped(), SomeSloped()).eval(), torch.rand(2, 5, WIDTH)))

    (branch,) = found.towers[0].branches
    assert isinstance(branch, Attention)
    assert (branch.positions, branch.sloped) == ("alibi", HEADS - 1)
    told = f"ALiBi: a slope for {HEADS - 1} of the {HEADS} heads makes what is far away count less."
    assert describe_alibi(found) == told


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
    [(False, "K ÷ √d_k", "softmax( Q·KT / √dk ) · V"), (True, "SCALE K", "softmax( Q·KT · scaled ) · V")],
)
def test_a_root_that_is_a_tensor_is_told_where_it_follows_from_the_steps(held, box, formula):
    tower, branch, nodes = read_panel(lambda: Rooted(held=held))

    (_, _, line), *_ = list_formulas(tower, branch, nodes)
    assert box in {node.label for node in nodes}
    assert "".join(run.text for run in line) == formula


class AddingNothing(nn.Module):
    """Zeros are added to the scores, as where a layer has no table of distances (T5)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        nothing = torch.zeros(1, HEADS, x.shape[1], x.shape[1])
        seen = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=nothing)
        return x + self.out(seen.transpose(1, 2).flatten(2))


def test_zeros_that_are_added_to_scores_are_no_mask():
    tower, branch, nodes = read_panel(AddingNothing)

    (_, _, line), *_ = list_formulas(tower, branch, nodes)
    assert not [node.label for node in nodes if node.surface == "mask"]
    assert "".join(run.text for run in line) == "softmax( Q·KT / √dk ) · V"


class Layered(nn.Module):
    """What the heads found, through a linear layer, times learned numbers for each channel (DINOv2)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        found = (query @ key.transpose(-1, -2)).softmax(-1) @ value
        return x + self.end(found.transpose(1, 2).flatten(2))

    def end(self, found):
        return self.out(found) * self.scale


def test_learned_numbers_behind_the_heads_are_told_with_their_count():
    _, _, nodes = read_panel(Layered)

    assert {node.label: node.extra for node in nodes}["× LEARNED NUMBERS"] == f"{WIDTH} parameters"


class CountedFromTheFront(Layered):
    """The axis of the softmax counted from the front (XLNet)."""

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return x + self.end(((query @ key.mT).softmax(3) @ value).transpose(1, 2).flatten(2))


def test_the_axis_of_a_softmax_is_counted_from_behind():
    _, _, nodes = read_panel(CountedFromTheFront)

    assert "SOFTMAX dim −1" in [node.label for node in nodes]


class Shifted(Layered):
    """The same, shifted by other learned numbers (MobileBERT)."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(WIDTH))

    def end(self, found):
        return self.out(found) * self.scale + self.shift


def test_learned_numbers_that_shift_what_the_heads_found_are_told_with_the_others():
    _, _, nodes = read_panel(Shifted)

    assert {node.label: node.extra for node in nodes}["SCALE AND SHIFT"] == f"{2 * WIDTH} parameters"


class TakenFrom(Layered):
    """What lies along another row is taken from what the heads found (NeoMME)."""

    def end(self, found):
        row = torch.tanh(self.scale)
        return self.out(found - (found * row).sum(-1, keepdim=True) * row)


def test_what_something_is_taken_from_is_led_to_the_difference():
    trace = xray.trace(nn.Sequential(TakenFrom(), FeedForwardPart(), TakenFrom()).eval(), torch.ones(5, 2, WIDTH))
    chart = read_columns(trace)[0].frames[0].panels[0].chart

    (taken,) = (node.key for node in chart.nodes if node.label == "SUBTRACTED")
    assert "concat" in {edge.source for edge in chart.edges if edge.target == taken}


class Exclusive(nn.Module):
    """What lies along its own value is taken from what the heads found, and a gate of its own decides (NeoMME)."""

    def __init__(self):
        super().__init__()
        self.rows = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.gate, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.share = nn.Parameter(torch.ones(HEADS))

    def forward(self, x):
        query, key, value = (layer(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for layer in self.rows)
        found = ((query @ key.transpose(-1, -2)).softmax(-1) @ value).transpose(1, 2)
        along = nn.functional.normalize(value.transpose(1, 2), dim=-1)
        share = self.share.tanh().view(1, 1, -1, 1) * (found * along).sum(-1, keepdim=True)
        found = (found - share * along).flatten(2)
        return x + self.out(found * self.gate(x).sigmoid())


def test_what_is_taken_along_its_own_value_and_the_gate_behind_are_told():
    trace = xray.trace(nn.Sequential(Exclusive(), FeedForwardPart(), Exclusive()).eval(), torch.ones(5, 2, WIDTH))
    chart = read_columns(trace)[0].frames[0].panels[0].chart
    extra = {node.label: node.extra for node in chart.nodes}
    names = {node.key: node.label for node in chart.nodes}
    ways = {(names[edge.source], names[edge.target]) for edge in chart.edges}

    assert extra["× SIGMOID OF GATE"] == f"{WIDTH * WIDTH + WIDTH} parameters"
    assert extra["× TANH OF LEARNED NUMBERS, × V ÷ ITS LENGTH"] == f"{HEADS} parameters"
    assert {target for source, target in ways if source == "HEADS V"} == {
        "WEIGHTS · V",
        "× V ÷ ITS LENGTH",
        "× TANH OF LEARNED NUMBERS, × V ÷ ITS LENGTH",
    }
    assert not [label for label in extra if "MULTIPLIED" in label]


class MixedPlaces(Layered):
    """What the heads give is added to what a convolution over the last places makes of it (Inkling)."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 4, padding=3, groups=WIDTH, bias=False)

    def end(self, found):
        given = self.out(found)
        return self.mix(given.mT)[..., : given.shape[1]].mT + given


def test_what_goes_past_a_convolution_behind_the_heads_is_led_to_the_sum_alone_and_its_numbers_are_counted():
    trace = xray.trace(nn.Sequential(MixedPlaces(), FeedForwardPart(), MixedPlaces()).eval(), torch.ones(5, 7, WIDTH))
    chart = read_columns(trace)[0].frames[0].panels[0].chart

    keys = {node.label: node.key for node in chart.nodes}
    led = [edge.source for edge in chart.edges if edge.target == keys["ADDED UP"]]
    assert sorted(led) == sorted([keys["LINEAR O"], keys["CUT ANEW"]])
    assert {node.label: node.extra for node in chart.nodes}["CONVOLUTION OF THE LAST 4 BY CHANNEL"] == (
        f"{4 * WIDTH} parameters"
    )


class AddedTo(nn.Module):
    """Scores are added to rows of zeros, or of learned numbers, by the product itself (GPT-NeoX Japanese, BLOOM)."""

    def __init__(self, *, learned):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.bias = nn.Parameter(torch.ones(HEADS, 5, 5)) if learned else None

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
        to = torch.zeros(len(query), 5, 5) if self.bias is None else self.bias.repeat(len(query) // HEADS, 1, 1)
        scores = torch.baddbmm(to, query, key.transpose(-1, -2), alpha=0.5).unflatten(0, (-1, HEADS))
        return x + self.out((scores.softmax(-1) @ value.unflatten(0, (-1, HEADS))).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("learned", [False, True])
def test_zeros_that_a_product_is_added_to_are_no_bias(learned):
    model = nn.Sequential(AddedTo(learned=learned), FeedForwardPart(), AddedTo(learned=learned), FeedForwardPart())
    (column,) = read_columns(xray.trace(model.eval(), torch.ones(2, 5, WIDTH)))

    assert any("BIAS" in node.label for node in column.frames[0].panels[0].chart.nodes) == learned


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


class Relaxed(Layered):
    """Scores from which the highest of their row is taken while they are divided, which softmax undoes (LayoutLMv3)."""

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (query / query.shape[-1] ** 0.5) @ key.transpose(-1, -2)
        scores = scores + torch.arange(x.shape[1]) * self.scale[:HEADS, None, None]
        small = scores / 32
        found = ((small - small.amax(-1, keepdim=True)) * 32).softmax(-1) @ value
        return x + self.end(found.transpose(1, 2).flatten(2))


def test_the_highest_of_scores_that_is_taken_from_them_is_told_with_their_factor():
    _, _, nodes = read_panel(Relaxed)

    assert "SCORES − THEIR HIGHEST, · 32" in {node.label for node in nodes}


class Kept(nn.Module):
    """Values, or what keys and values are made of, are multiplied by a number and laid behind what a cache holds."""

    def __init__(self, *, shares):
        super().__init__()
        self.shares, self.norm, self.waist = shares, nn.RMSNorm(7), nn.Linear(WIDTH, 7)
        self.query, self.out, self.both = (nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(7, 2 * WIDTH))

    def forward(self, x):
        rows = self.norm(self.waist(x))
        rows = self.keep(rows.unsqueeze(1)).squeeze(1) if self.shares else rows
        parts = self.query(x), *self.both(rows).chunk(2, -1)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in parts)
        value = value if self.shares else self.keep(value)
        found = functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(found.transpose(1, 2).flatten(2))

    def keep(self, rows):
        return torch.cat((torch.empty(0), rows * 0.75), -2)


@pytest.mark.parametrize(("shares", "told"), [(False, "V · 0.75"), (True, "K, V · 0.75")])
def test_by_which_number_values_are_multiplied_that_a_cache_keeps_is_told(shares, told):
    _, _, nodes = read_panel(lambda: Kept(shares=shares))

    labels = [node.label for node in nodes]
    assert told in labels
    assert not [one for one in labels if one.startswith("SCALE")]


class Tempered(nn.Module):
    """Scores times learned numbers, be they bent first, with a mask that is added twice (Swin V2)."""

    def __init__(self, shape, masked):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.by, self.masked = nn.Parameter(torch.ones(shape)), masked

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.mT * self.by.clamp(max=4.6).exp()
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        for _ in range(self.masked):
            scores = scores + mask
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("shape", "masked", "factor", "formula"),
    [
        ((HEADS, 1, 1), 2, "· learned by head", "softmax( Q·KT · learned by head + mask + mask ) · V"),
        ((1,), 0, "· learned", "softmax( Q·KT · learned ) · V"),
    ],
    ids=["of heads", "one"],
)
def test_scores_times_learned_numbers_say_of_what_these_are(shape, masked, factor, formula):
    model = nn.Sequential(Tempered(shape, masked), FeedForwardPart()).eval()
    trace = xray.trace(model, torch.ones(2, 5, WIDTH))
    (column,) = read_columns(trace)
    panel = column.frames[0].panels[0]

    branch = panel.staging.branches[0].branch
    assert isinstance(branch, Attention)
    (_, _, line), *_ = list_formulas(xray.anatomy(trace).towers[0], branch, panel.chart.nodes)
    assert next(node.label for node in panel.chart.nodes if "SCORES" in node.label) == f"SCORES Q·K^T {factor}"
    assert "".join(run.text for run in line) == formula
