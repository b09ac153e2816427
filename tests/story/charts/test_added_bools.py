"""A bool that is added to scores, 1 for yes and 0 for no, hides nothing; handed on as a mask it hides (Phi-4)."""

import pytest
import torch
from story.charts.test_bias_tables import HEADS, WIDTH, Biased
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.story.anatomy.attentions import Attention
from xray.story.sheet.columns import read_columns

KINDS = ("bool and table", "table and bool", "bool", "numbers", "low numbers", "masked", "plain mask")


class Attends(nn.Module):
    """Attention by the kernel, whose mask is handed to it."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, seen, mask):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        if mask is None:
            return x + self.out(((q @ k.mT + seen).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + self.out(scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


class Triangle(nn.Module):
    """Attention whose scores are multiplied by a square that the model holds, and then pushed down by it (GPT)."""

    def __init__(self, square):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.square = nn.Buffer(square.view(1, 1, *square.shape), persistent=False)

    def forward(self, x, seen, mask):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        shown = self.square[:, :, : x.shape[1], : x.shape[1]]
        weights = (q @ k.mT * shown + -1e4 * (1 - shown)).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


class Seen(Biased):
    """Who may see whom: a triangle. Either the bool is added to scores, or what is made of it hides."""

    def __init__(self, kind):
        super().__init__(second=False)
        self.kind, self.layers = kind, nn.ModuleList(Attends() for _ in range(3))

    def forward(self, ids, bbox):
        places = torch.arange(ids.shape[1])
        seen = (places[:, None] >= places)[None, None]
        bias = self.look_up(self.places, places.expand_as(ids))
        low, there = torch.where(seen, 0.0, -1e9), (ids >= 0).float()
        mask = {
            "bool and table": seen + bias,
            "table and bool": bias + seen,
            "bool": None,
            "numbers": seen.float(),
            "low numbers": low + bias,
            "masked": bias.masked_fill(~seen, -1e9),
            "plain mask": seen,
            "groups": (1 - torch.einsum("qk,bk->bqk", places[:, None] == places, there)[:, None]) * -1e9,
        }[self.kind]
        x = self.words(ids) + bbox.sum() * 0
        for attends, thinks in zip(self.layers, self.thinks, strict=True):
            x = thinks(attends(x, seen, mask))
        return x


def record(kind):
    torch.manual_seed(0)
    return xray.trace(Seen(kind).eval(), torch.arange(10).view(2, 5), torch.arange(40).view(2, 5, 4) % 6)


def read_attention(trace):
    return next(one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention))


def has_mask(trace):
    (column,) = read_columns(trace)
    return any(node.surface == "mask" for node in column.frames[0].panels[0].chart.nodes)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_a_bool_that_is_added_to_scores_is_no_mask(kind):
    trace = record(kind)

    assert not has_mask(trace)
    assert read_attention(trace).causal is False


@pytest.mark.parametrize("kind", KINDS[4:])
def test_a_bool_by_which_scores_are_pushed_down_is_a_mask(kind):
    trace = record(kind)

    assert has_mask(trace)
    assert read_attention(trace).causal is True


@pytest.mark.parametrize(
    ("square", "causal"), [(torch.ones(11, 11).tril(), True), (torch.ones(11, 11).tril().flip(0), None)]
)
def test_a_triangle_that_a_model_holds_hides_what_its_zeros_push_down(square, causal):
    torch.manual_seed(0)
    model = Seen("bool").eval()
    model.layers = nn.ModuleList(Triangle(square) for _ in range(3))

    trace = xray.trace(model, torch.arange(10).view(2, 5), torch.arange(40).view(2, 5, 4) % 6)

    assert read_attention(trace).causal is causal


def test_a_product_with_a_bool_that_pushes_scores_down_is_a_mask_and_no_bias():
    """So it is with groups of series, times which of their places are there (Chronos-2)."""
    trace = record("groups")
    (column,) = read_columns(trace)
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]

    assert [label for label in labels if label == "MASK" or label.startswith("+")] == ["MASK"]
    assert read_attention(trace).positions != "relative"


class Counted(Attends):
    """Slopes times how many places each sees up to another one, counted out by the mask, are added (labml's ALiBi)."""

    def forward(self, x, seen, mask):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        slopes = 0.5 ** torch.arange(1, HEADS + 1)
        scores = q @ k.mT + seen.cumsum(-1) * slopes[:, None, None]
        return x + self.out((scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_slopes_of_distances_that_a_mask_counts_out_are_no_mask():
    torch.manual_seed(0)
    model = Seen("bool").eval()
    model.layers = nn.ModuleList(Counted() for _ in range(3))

    trace = xray.trace(model, torch.arange(10).view(2, 5), torch.arange(40).view(2, 5, 4) % 6)

    (column,) = read_columns(trace)
    labels = [node.label for node in column.frames[0].panels[0].chart.nodes]
    told = [label for label in labels if label == "MASK" or label.startswith("+")]
    assert told == ["+ SLOPES BY DISTANCE (ALiBi)", "MASK"]
    assert (read_attention(trace).positions, read_attention(trace).causal) == ("alibi", True)


class Sorted(Attends):
    """Numbers made of each row are picked by how far apart places are, of far ones by a logarithm (ProphetNet)."""

    def __init__(self):
        super().__init__()
        self.near = nn.Linear(WIDTH, HEADS * 8)

    def forward(self, x, seen, mask):
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(self.norm(x)).chunk(3, dim=-1))
        places = torch.arange(x.shape[1])
        far = torch.maximum(places[:, None] - places, torch.zeros(1, dtype=places.dtype)).int()
        kinds = torch.where(far < 4, far, (4 + torch.log(far.float() / 4)).int())  # of 0 the lowest number there is
        made = self.near(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        scores = q @ k.mT + made.gather(-1, kinds.long().expand(*made.shape[:-1], -1))
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_low_numbers_among_those_by_which_distances_are_sorted_hide_nothing():
    torch.manual_seed(0)
    model = Seen("bool").eval()
    model.layers = nn.ModuleList(Sorted() for _ in range(3))

    trace = xray.trace(model, torch.arange(10).view(2, 5), torch.arange(40).view(2, 5, 4) % 6)

    assert not has_mask(trace)
    assert read_attention(trace).positions == "relative"
