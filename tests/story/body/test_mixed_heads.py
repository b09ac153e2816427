"""Talking heads: what all heads have at one pair of places is mixed by a learned table, before softmax or behind it."""

import pytest
import torch
from story.body.test_kept_waist import WIDTH, Layer
from torch import nn

import xray
from xray.ir.flow.attention_sites import list_sites
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.poster import compose_poster
from xray.story.recognition.scored_parts import read_scored

HEADS, D_K, LENGTH = 3, 4, 6
LOWEST = -1e30


class ByLinear(nn.Module):
    """A linear layer over heads, which lie last meanwhile (CaiT in timm)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Linear(HEADS, HEADS)

    def forward(self, x):
        return self.table(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ByEinsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.rand(HEADS, HEADS))

    def forward(self, x):
        return torch.einsum("b h i j, h g -> b g i j", x, self.table)


class ByProduct(ByEinsum):
    def forward(self, x):
        return (x.permute(0, 2, 3, 1) @ self.table).permute(0, 3, 1, 2)


class ByConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Conv2d(HEADS, HEADS, 1, bias=False)

    def forward(self, x):
        return self.table(x)


class Added(ByConvolution):
    """What is mixed is added to what it was (x-transformers)."""

    def forward(self, x):
        return x + self.table(x)


class Normed(ByEinsum):
    """A norm over all heads follows (DeepViT)."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HEADS)

    def forward(self, x):
        return self.norm(super().forward(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NormedByHead(ByConvolution):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(HEADS)

    def forward(self, x):
        return self.norm(self.table(x))


class OverPlaces(nn.Module):
    """A convolution mixes neighbouring pairs of places, too."""

    def __init__(self):
        super().__init__()
        self.table = nn.Conv2d(HEADS, HEADS, 3, padding=1)

    def forward(self, x):
        return self.table(x)


class OverKeys(nn.Module):
    """A linear layer mixes what one place has for all keys."""

    def __init__(self):
        super().__init__()
        self.table = nn.Linear(LENGTH, LENGTH)

    def forward(self, x):
        return self.table(x)


class Turned(ByLinear):
    """Heads are mixed, and queries and keys change places."""

    def forward(self, x):
        return self.table(x.permute(0, 2, 3, 1)).permute(0, 3, 2, 1)


class OfEachHead(nn.Module):
    """Each head is multiplied by a number of its own, and none mixed."""

    def __init__(self):
        super().__init__()
        self.table = nn.Conv2d(HEADS, HEADS, 1, groups=HEADS, bias=False)

    def forward(self, x):
        return self.table(x)


class Talking(nn.Module):
    def __init__(self, before=None, behind=None, *, causal=False, masked_first=False):
        super().__init__()
        self.both = nn.Linear(WIDTH, 3 * HEADS * D_K)
        self.out = nn.Linear(HEADS * D_K, WIDTH)
        self.before, self.behind = before or nn.Identity(), behind or nn.Identity()
        self.causal, self.masked_first = causal, masked_first

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.both(x).view(batch, length, 3, HEADS, D_K).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * D_K**-0.5
        scores = self.hide(self.before(self.hide(scores, self.masked_first)), not self.masked_first)
        seen = self.behind(scores.softmax(-1)) @ v
        return self.out(seen.transpose(1, 2).reshape(batch, length, -1))

    def hide(self, scores, now):
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(future, LOWEST) if self.causal and now else scores


def record(*args, **settings):
    layers = (Layer(Talking(*(one and one() for one in args), **settings)) for _ in range(2))
    return xray.trace(nn.Sequential(nn.Embedding(11, WIDTH), *layers), torch.arange(LENGTH)[None])


def look(trace):
    return next((one for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention)), None)


def read_lines(trace):
    return ["".join(run.text for run in line) for one in compose_poster(trace, text_width).boxes for line in one.lines]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("way", [ByLinear, ByEinsum, ByProduct, ByConvolution, Added])
@pytest.mark.parametrize(("sides", "told"), [((1, 0), "before"), ((0, 1), "behind"), ((1, 1), "both")])
def test_where_heads_are_mixed_is_told_however_it_is_written(way, sides, told, causal):
    found = look(record(*(way if side else None for side in sides), causal=causal))

    assert (found.mixed_heads, found.mixed_norm) == (told, None)
    assert (found.heads, found.kv_heads, found.d_k) == (HEADS, HEADS, D_K)
    assert (found.causal, found.window, found.cap, found.positions) == (causal, None, None, "none")
    assert not found.partial


@pytest.mark.parametrize(
    "sides", [(OverPlaces, None), (OverKeys, None), (Turned, None), (None, OverPlaces), (None, OverKeys)]
)
def test_nothing_is_said_where_places_are_mixed_or_change_places(sides):
    trace = record(*sides)

    assert look(trace) is None
    assert not any("HEADS'" in line or "alking heads" in line for line in read_lines(trace))


def test_a_number_for_each_head_mixes_none():
    assert look(record(OfEachHead)) is None


@pytest.mark.parametrize(
    ("way", "norm", "box", "words"),
    [
        (Normed, "layer", "LAYER NORM OVER HEADS", "; a layer norm over all heads follows"),
        (NormedByHead, "batch", "BATCH NORM OF EACH HEAD", "; a batch norm over each head by itself follows"),
    ],
)
def test_a_norm_behind_mixed_weights_has_a_box_and_is_told(way, norm, box, words):
    trace = record(None, way)
    lines = read_lines(trace)

    assert (look(trace).mixed_heads, look(trace).mixed_norm) == ("behind", norm)
    assert any(line.startswith(box) for line in lines)
    assert words in " ".join(lines)
    assert "norm( mix( softmax( Q·KT / √dk ) ) ) · V" in lines


@pytest.mark.parametrize(
    ("sides", "formula", "boxes"),
    [
        ((ByLinear, None), "softmax( mix( Q·KT / √dk ) + mask ) · V", ["MIX HEADS' SCORES  12 parameters"]),
        ((Added, None), "softmax( mix( Q·KT / √dk ) + mask ) · V", ["+ MIX HEADS' SCORES  9 parameters"]),
        ((None, ByEinsum), "mix( softmax( Q·KT / √dk + mask ) ) · V", ["MIX HEADS' WEIGHTS  9 parameters"]),
        (
            (ByConvolution, ByLinear),
            "mix( softmax( mix( Q·KT / √dk ) + mask ) ) · V",
            ["MIX HEADS' SCORES  9 parameters", "MIX HEADS' WEIGHTS  12 parameters"],
        ),
    ],
)
def test_mixed_heads_have_boxes_a_sentence_and_a_place_in_the_formula(sides, formula, boxes):
    lines = read_lines(record(*sides, causal=True))

    assert [line for line in lines if "MIX HEADS'" in line] == boxes
    assert formula in lines
    assert any(line.startswith("Talking heads: a learned table mixes the ") for line in lines)
    assert any("each row sums to 1" in line for line in lines) == (sides[1] is None)
    assert not any("each head looks on its own" in line for line in lines)
    assert any("back, never ahead" in line for line in lines)


@pytest.mark.parametrize("way", [ByLinear, ByEinsum, ByConvolution])
def test_what_is_hidden_before_heads_are_mixed_is_not_said_to_be_hidden(way):
    trace = record(way, causal=True, masked_first=True)
    lines = read_lines(trace)
    flow = read_flow(trace.passes[0])

    assert look(trace).mixed_heads == "before"
    assert (look(trace).causal, look(trace).window) == (None, None)
    assert [part.kind for part in read_scored(flow, list_sites(flow)[0].scored)][-3:] == [
        "mixed_mask",
        "mix",
        "softmax",
    ]
    assert "softmax( mix( Q·KT / √dk + mask ) ) · V" in lines
    assert not any("ahead" in line or "hides the future" in line for line in lines)


@pytest.mark.parametrize(
    ("open_last", "kinds"), [(True, ["future"]), (False, [])], ids=["open in the last layer", "closed everywhere"]
)
def test_alarms_look_past_mixed_heads(open_last, kinds):
    layers = (Layer(Talking(ByLinear(), Added(), causal=causal)) for causal in (True, True, not open_last))
    model = nn.Sequential(nn.Embedding(11, WIDTH), *layers, nn.Linear(WIDTH, 11))

    found = xray.audit(xray.trace(model, torch.arange(LENGTH)[None])).alarms
    assert [one.kind for one in found] == kinds
