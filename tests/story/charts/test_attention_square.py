"""The square of an attention: what scores go through is told in the box before which it stands."""

import pytest
import torch
from story.body.arrows import list_unproven
from story.body.test_kept_waist import WIDTH as INDEXED
from story.body.test_kept_waist import Layer
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from story.body.test_seen_keys import Indexed
from torch import nn

import xray
from xray.ir.records import TensorRecord
from xray.renderers.fonts import text_width
from xray.renderers.sheet.poster import draw_poster
from xray.story.anatomy.attentions import Attention as AttentionBranch
from xray.story.attention.square import lies_over
from xray.story.cards.formulas import list_formulas
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns


class Capped(nn.Module):
    """Scores that cannot pass a number which the model holds (Gemma 3n's ear)."""

    def __init__(self, cap=50.0):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("cap", torch.tensor(cap, dtype=torch.float64))

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        cap = self.cap.to(x.dtype)
        scores = torch.tanh(query @ key.transpose(-1, -2) / cap) * cap
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class CappedAsHeld(Capped):
    """The same with the number as it is held, which no step of the pass made (Gemma 4's audio)."""

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.tanh(query @ key.transpose(-1, -2) / self.cap) * self.cap
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("capped", "cap", "name", "told"),
    [
        (Capped, 50.0, "50", "50"),
        (CappedAsHeld, 50.0, "50", "50"),
        (Capped, [50.0], "c", "a number that is held"),
    ],
)
def test_a_cap_by_a_number_that_is_held_has_a_box(capped, cap, name, told):
    model = nn.Sequential(capped(cap), FeedForwardPart(), capped(cap), FeedForwardPart())
    trace = xray.trace(model.eval(), torch.ones(2, 5, WIDTH))
    (column,) = read_columns(trace)
    panel = column.frames[0].panels[0]

    nodes = {node.key: node for node in panel.chart.nodes}
    branch = panel.staging.branches[0].branch
    assert isinstance(branch, AttentionBranch)
    (*_, formula), *_ = list_formulas(column.towering.tower, branch, panel.chart.nodes)

    assert "".join(run.text for run in formula) == f"softmax( {name}·tanh( Q·KT / {name} ) ) · V"
    assert (nodes["cap"].label, nodes["cap"].extra) == ("CAP BY TANH", f"at {told}")
    assert nodes["scores"].label == "SCORES Q·K^T"


class CappedFirst(Capped):
    """A known cap, before the mask (Gemma 2)."""

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.tanh(query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 / 30.0) * 30.0
        future = torch.full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
        return x + self.out(((scores + future).softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_a_cap_stands_before_a_mask_that_is_added_behind_it():
    model = nn.Sequential(CappedFirst(), FeedForwardPart(), CappedFirst(), FeedForwardPart())
    trace = xray.trace(model.eval(), torch.ones(2, 5, WIDTH))
    (column,) = read_columns(trace)
    nodes = {node.key: node for node in column.frames[0].panels[0].chart.nodes}

    assert nodes["scores"].label == "SCORES Q·K^T ÷ √d_k"
    assert (nodes["cap"].label, nodes["cap"].extra) == ("CAP BY TANH", "at 30")
    assert nodes["scores"].row < nodes["cap"].row < nodes["mask0"].row < nodes["softmax"].row
    assert list_unproven(read_columns(trace)) == []


class Gated(nn.Module):
    """Learned numbers by distance, which a gate made of each place multiplies before scores are added (WavLM)."""

    def __init__(self, *, gates: bool, turns: bool):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.near, self.gate = nn.Embedding(9, HEADS), nn.Linear(WIDTH, HEADS)
        self.gates, self.turns = gates, turns

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        places = torch.arange(x.shape[1])
        bias = self.near(places[:, None] - places[None, :] + 4).permute(2, 0, 1)[None]
        if self.gates:
            bias = bias.repeat(x.shape[0], 1, 1, 1) * self.gate(x).sigmoid().transpose(1, 2)[..., None]
        if self.turns:
            rows, places = x.transpose(0, 1), bias.expand(x.shape[0], -1, -1, -1).flatten(0, 1)
            query, key, value = self.qkv.weight.chunk(3)
            learned = (torch.empty(0), self.qkv.bias, None, None, False, 0.0, self.out.weight, self.out.bias, False)
            found, _ = nn.functional.multi_head_attention_forward(
                *(rows, rows, rows, WIDTH, HEADS, *learned),
                attn_mask=places,
                use_separate_proj_weight=True,
                q_proj_weight=query,
                k_proj_weight=key,
                v_proj_weight=value,
            )
            return x + found.transpose(0, 1)
        scores = query @ key.transpose(-1, -2) + bias
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class Entered(nn.Sequential):
    """Layers behind an entrance whose argument has a name."""

    def forward(self, values):
        return super().forward(values)


def read_bias(*, gates, turns=False):
    layers = (part for _ in range(2) for part in (Gated(gates=gates, turns=turns), FeedForwardPart()))
    model = Entered(nn.Linear(7, WIDTH), nn.Dropout(0.1), *layers)
    (column,) = read_columns(xray.trace(model.eval(), torch.ones(2, 5, 7)))
    (found,) = (node for node in column.frames[0].panels[0].chart.nodes if "BIAS" in node.label)
    return found


def test_a_bias_that_a_gate_multiplies_is_told_as_it_is_added():
    plain, gated = read_bias(gates=False), read_bias(gates=True)

    assert (plain.beside, plain.extra) == (None, f"{9 * HEADS:,} parameters")
    assert (gated.beside, gated.extra) == (None, f"{9 * HEADS + WIDTH * HEADS + HEADS:,} parameters")
    turned = read_bias(gates=True, turns=True)  # whose gate reads the rows before their axes are swapped
    assert (turned.extra, turned.told) == (gated.extra, ())


class Far(nn.Module):
    """How far apart two places are is multiplied by what the query says of it, and by a number then (Conformers)."""

    def __init__(self, seen=None):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.near, self.seen = nn.Embedding(9, WIDTH // HEADS), seen

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        places = torch.arange(x.shape[1])
        near = self.near(places[:, None] - places[None, :] + 4)
        bias = torch.einsum("bhld,lrd->bhlr", query, near) * 0.25
        bias = bias if self.seen is None else bias.masked_fill_(self.seen.logical_not(), -torch.inf)
        return x + self.out(
            nn.functional.scaled_dot_product_attention(query, key, value, bias).transpose(1, 2).flatten(2)
        )


def test_a_number_that_multiplies_what_is_added_to_scores_stands_in_its_box():
    model = nn.Sequential(Far(), FeedForwardPart(), Far(), FeedForwardPart())
    boxes = compose_poster(xray.trace(model.eval(), torch.ones(2, 5, WIDTH)), text_width).boxes

    (added,) = [box for box in boxes if box.lines and "BIAS" in box.lines[0][0].text]
    assert {one.rpartition(".")[2] for one in added.steps} >= {"einsum#0", "mul#0"}
    assert not any("in no box" in run.text for box in boxes for line in box.lines for run in line)


def test_of_a_bias_and_a_mask_in_one_tensor_each_has_the_steps_that_make_it():
    seen = torch.ones(5, 5, dtype=torch.bool).tril()
    model = nn.Sequential(Far(seen), FeedForwardPart(), Far(seen), FeedForwardPart())
    (column,) = read_columns(xray.trace(model.eval(), torch.ones(2, 5, WIDTH)))
    bias, mask = (node for node in column.frames[0].panels[0].chart.nodes if node.key in ("bias0", "mask1"))

    assert {step.op for step in bias.steps} == {"mask_scores", "arange", "sub", "add", "embedding", "einsum", "mul"}
    assert {step.op for step in mask.steps} == {"mask_scores", "logical_not", "masked_fill_"}


def panel_of(attention):
    """The labels, the parameters and the lines of an attention's boxes."""
    model = nn.Sequential(nn.Embedding(11, INDEXED), *(Layer(attention()) for _ in range(2)))
    (column,) = read_columns(xray.trace(model.eval(), torch.arange(5).repeat(2, 1)))
    chart = column.frames[0].panels[0].chart
    labels = {node.key: node.label for node in chart.nodes}
    lines = {(labels[edge.source], labels[edge.target]) for edge in chart.edges}
    return {node.label: node.extra for node in chart.nodes}, lines


def test_other_scores_that_choose_keys_have_a_box_with_their_parameters():
    extras, lines = panel_of(Indexed)

    assert extras["OTHER SCORES"] == f"{2 * (INDEXED * INDEXED + INDEXED):,} parameters"
    assert {("LAYER NORM", "OTHER SCORES"), ("OTHER SCORES", "MASK OF CHOSEN KEYS")} <= lines


class Placed(nn.Module):
    """Queries meet places too, each brought to the width of queries by a layer of its own (Conformers)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(INDEXED, 3 * INDEXED), nn.Linear(INDEXED, INDEXED)
        self.places = nn.Linear(INDEXED, INDEXED, bias=False)

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        places = torch.arange(x.shape[1] * INDEXED).reshape(1, x.shape[1], INDEXED).float().sin()
        places = self.places(places).reshape(1, x.shape[1], HEADS, -1).permute(0, 2, 3, 1)
        scores = query @ key.transpose(-1, -2) + query @ places
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_what_queries_meet_beside_keys_is_led_from_them_and_counted():
    extras, lines = panel_of(Placed)
    (bias,) = (label for label in extras if "BIAS" in label)

    assert extras[bias] == f"{INDEXED * INDEXED:,} parameters"
    assert ("HEADS OF Q, K, V", bias) in lines


class Silenced(nn.Module):
    """What hidden keys got is made 0 behind the softmax, so that a row that sees nothing has none (CPM-Ant)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, given):
        x, hidden = given
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (query @ key.transpose(-1, -2)).masked_fill(hidden, -1e9)
        weights = scores.softmax(-1).masked_fill(hidden, 0.0)
        return x + self.out((weights @ value).transpose(1, 2).flatten(2)), hidden


def test_what_makes_weights_zero_behind_the_softmax_has_a_box():
    hidden = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    hidden[..., 3:] = True
    (column,) = read_columns(
        xray.trace(nn.Sequential(Silenced(), Silenced()).eval(), (torch.rand(2, 5, WIDTH), hidden))
    )
    chart = column.frames[0].panels[0].chart

    box = chart.node("zeroed")
    assert (box.label, box.surface, box.beside.shape) == ("0 WHERE A MASK SAYS SO", "own", (2, 1, 1, 5))
    assert {("softmax", "zeroed"), ("zeroed", "values")} <= {(edge.source, edge.target) for edge in chart.edges}


def test_rows_of_which_some_are_made_zero_are_not_said_to_sum_to_one():
    hidden = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    trace = xray.trace(nn.Sequential(Silenced(), Silenced()).eval(), (torch.rand(2, 5, WIDTH), hidden))
    drawn = draw_poster(trace, "svg")

    assert "0 where a mask says so )" in drawn
    assert "each row sums to 1" not in drawn


class Multiplied(nn.Module):
    """Scores of hidden keys are made 0 by a product, and then a low number is added to them (GPT)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.seen = nn.Buffer(torch.ones(9, 9).tril()[None, None])

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        seen = self.seen[:, :, : x.shape[1], : x.shape[1]]
        scores = query @ key.transpose(-1, -2) / 2 * seen + -1e4 * (1 - seen)
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_a_product_with_a_mask_is_not_said_to_push_scores_down():
    (column,) = read_columns(xray.trace(nn.Sequential(Multiplied(), Multiplied()).eval(), torch.rand(2, 5, WIDTH)))
    chart = column.frames[0].panels[0].chart

    said = {node.label: node.remark for node in chart.nodes if node.surface == "mask"}
    assert said == {"0 WHERE A MASK SAYS SO": "", "MASK": "what may not be seen is pushed far down"}
    assert ("zeroed0", "mask1") in {(edge.source, edge.target) for edge in chart.edges}


@pytest.mark.parametrize(
    ("shape", "is_over"),
    [((16, 1, 10), True), ((4, 7, 10), True), ((10,), True), ((2, 200, 72, 1, 8), False), ((2, 10, 7), False)],
)
def test_what_is_added_is_told_by_its_shape_where_it_lies_over_the_scores(shape, is_over):
    given, scores = (
        TensorRecord("in", one, ("",) * len(one), "float32", "meta", "activation") for one in (shape, (2, 8, 7, 10))
    )

    assert lies_over(given, scores) == is_over
    assert not lies_over(None, scores)
