"""What is added to the scores of an attention: a bias, slopes, and zeros that are none."""

import pytest
import torch
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart
from story.charts.scaled_attentions import ScaledLast, read_panel
from torch import nn
from torch.nn import functional

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.cards.formulas import list_formulas
from xray.story.sentences.attentions.of_places import describe_alibi
from xray.story.sheet.columns import read_columns


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


class OfPlacesAndKinds(ScaledLast):
    """Numbers by distance are added, and others by the kinds of both places (XLNet's segments)."""

    def __init__(self):
        super().__init__()
        self.pairs = nn.Embedding(4, HEADS)
        self.register_buffer("kinds", torch.tensor([0, 1]))

    def forward(self, x):
        places = torch.arange(x.shape[1])
        query, key, value = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) + self.near(places[:, None] - places[None, :] + 4).permute(2, 0, 1)
        scores = scores + self.pairs(2 * self.kinds[:, None] + self.kinds).permute(2, 0, 1)
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_only_a_bias_of_places_is_said_to_tell_how_far_apart_two_are():
    _, _, nodes = read_panel(OfPlacesAndKinds)
    told = [(node.label, node.remark) for node in nodes if node.label.startswith("+ ")]

    assert told == [("+ BIAS OF RELATIVE PLACES", "how far apart two are counts too"), ("+ A BIAS", "")]


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


def test_slopes_times_the_place_of_each_key_are_not_said_to_be_distances_that_are_added():
    found = xray.anatomy(xray.trace(nn.Sequential(Sloped(), Sloped()).eval(), torch.rand(2, 5, WIDTH)))

    assert describe_alibi(found) == "ALiBi: a slope for each head, times how far apart two are, counts in their score."


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
    told = f"ALiBi: a slope for {HEADS - 1} of the {HEADS} heads, times how far apart two are, counts in their score."
    assert describe_alibi(found) == told


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


class Padded(nn.Module):
    """A triangle, and what hides padding, filled in wherever one minus it is not 0; both are added up (Bart, once)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, seen):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        length = x.shape[1]
        seen = torch.ones(x.shape[:2]) if seen is None else seen
        hidden = 1.0 - seen[:, None, None].expand(-1, 1, length, length)
        hidden = hidden.masked_fill(hidden.to(torch.bool), -1e9)
        scores = query @ key.mT + (hidden + torch.full((length, length), -1e9).triu(1))
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class Decoding(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(part() for _ in range(2) for part in (Padded, FeedForwardPart))

    def forward(self, x, seen=None):
        for part in self.parts:
            x = part(x, seen) if isinstance(part, Padded) else part(x)
        return x


@pytest.mark.parametrize("seen", [(), (torch.ones(2, 5),)])
def test_nothing_is_left_to_add_of_what_is_filled_wherever_it_is_not_0(seen):
    (column,) = read_columns(xray.trace(Decoding().eval(), torch.rand(2, 5, WIDTH), *seen))
    panel = column.frames[0].panels[0]

    assert [node.label for node in panel.chart.nodes if node.label.startswith(("+", "MASK"))] == ["MASK"]
    assert getattr(panel.staging.branches[0].branch, "causal", None)


class OfPlaces(nn.Module):
    """Keys of places meet the queries, and one learned row, and both are added to the scores (Transformer-XL)."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table, self.led, self.row = (
            nn.Embedding(9, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Parameter(torch.rand(WIDTH)),
        )

    def forward(self, x):
        query, key, value = self.qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        places = self.led(self.table(torch.arange(x.shape[1]))).unflatten(-1, (HEADS, -1)).transpose(0, 1)
        scores = query @ key.mT + query @ places.mT
        scores = scores + self.row.view(HEADS, 1, -1) @ places.mT
        return x + self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


def test_keys_of_places_that_two_biases_read_are_counted_in_the_first_alone():
    _, _, nodes = read_panel(OfPlaces)

    first, second = (node.extra for node in nodes if node.label.startswith("+"))
    assert first == f"{9 * WIDTH + WIDTH * WIDTH + WIDTH:,} parameters"
    assert second == f"{WIDTH:,} parameters"
