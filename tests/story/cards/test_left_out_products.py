"""Attention of which a second softmax stands in no box: neither its formula nor what it looks at is told."""

import pytest
import torch
from story.body.test_mistaken import BATCH, HEADS, PLACES, WIDTH, AttentionPart, FeedForwardPart
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.renderers.fonts import text_width
from xray.story.poster import compose_poster

FORMULA, WIDE, LABEL = "softmax( Q·KT / √dk ) · V", 17, "ONE LINEAR FOR Q, K, V"


class Beside(nn.Module):
    """Attention and a feed-forward, of one linear layer and led back by another (timm's ParallelScalingBlock).

    Where it `takes` a second attention off, on halves of queries and keys, that is timm's DiffParallelScalingBlock.
    """

    def __init__(self, takes):
        super().__init__()
        self.norm, self.made = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDE + 3 * WIDTH)
        self.out, self.takes = nn.Linear(WIDE + WIDTH, WIDTH), takes

    def forward(self, x):
        wide, *rows = self.made(self.norm(x)).split((WIDE, WIDTH, WIDTH, WIDTH), -1)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        if self.takes:
            pairs = zip(q.chunk(2, -1), k.chunk(2, -1), strict=True)
            found, taken = (scaled_dot_product_attention(*one, v) for one in pairs)
            made = found - taken * 0.3
        else:
            made = scaled_dot_product_attention(q, k, v)
        return x + self.out(torch.cat((made.transpose(1, 2).flatten(-2), nn.functional.gelu(wide)), -1))


def tell(takes):
    return read(Beside(takes), Beside(takes))


def read(*parts, batch=BATCH, places=PLACES):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, WIDTH), *parts).eval()
    boxes = compose_poster(xray.trace(model, torch.rand(batch, places, 7)), text_width).boxes
    return [" ".join("".join(run.text for run in line) for line in box.lines) for box in boxes]


@pytest.mark.parametrize(
    ("takes", "looks"),
    [(False, "Every place looks at every other."), (True, "Places look at other places.")],
)
def test_what_attention_looks_at_and_its_formula_are_told_only_where_all_that_it_weighs_by_has_boxes(takes, looks):
    told = tell(takes)

    assert any(FORMULA in text for text in told) == (not takes)
    assert any(text.startswith(looks) for text in told)


def test_attention_in_pieces_of_which_one_is_drawn_has_its_formula():
    parts = [part for _ in range(2) for part in (AttentionPart(pieces=2), FeedForwardPart())]
    told = read(*parts, batch=1, places=6)

    assert any(FORMULA in text for text in told)
    assert any(text.startswith("2 pieces lie end to end") for text in told)


def test_sublayers_led_back_by_one_linear_layer_are_not_said_to_be_added_together():
    told = tell(takes=False)

    assert any("one linear layer leads what they give, laid end to end, back to it" in text for text in told)
    assert not any("are added together" in text for text in told)


class Near(nn.Module):
    """A way beside an attention that mixes places near each other; keys and values are made of it (Wave-ViT)."""

    def __init__(self):
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDE)
        self.near, self.asked = nn.Conv1d(WIDE, WIDE, 3, padding=1), nn.Linear(WIDTH, WIDTH)
        self.keyed, self.out = nn.Linear(WIDE, 2 * WIDTH), nn.Linear(WIDTH + WIDE, WIDTH)

    def forward(self, x):
        rows = self.norm(x)
        near = self.near(self.reduce(rows).mT).mT.relu()
        rows = (self.asked(rows), *self.keyed(near).chunk(2, -1))
        heads = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        made = scaled_dot_product_attention(*heads).transpose(1, 2).flatten(-2)
        return x + self.out(torch.cat((made, near), -1))


def test_a_way_beside_attention_that_mixes_places_is_no_feed_forward():
    told = read(Near(), FeedForwardPart(), Near(), FeedForwardPart())

    assert not any("stand side by side" in text or "BESIDE FEED-FORWARD" in text for text in told)


def test_a_linear_layer_that_makes_the_wide_rows_too_is_said_to_make_more():
    assert [text[: text.index("  ")] for text in tell(takes=False) if text.startswith(LABEL)] == [f"{LABEL} AND MORE"]


class Halved(nn.Module):
    """Attention whose values are one half of bent rows; the other half goes past it, and is led back with it."""

    def __init__(self):
        super().__init__()
        self.norm, self.made = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * 5 + 4 * WIDTH)
        self.out = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        query, key, wide, gate = self.made(self.norm(x)).split((5, 5, 2 * WIDTH, 2 * WIDTH), -1)
        past, value = (wide * nn.functional.gelu(gate)).split((WIDTH, WIDTH), -1)
        return x + self.out(torch.cat((past, scaled_dot_product_attention(query, key, value)), -1))


def test_bent_rows_that_attention_and_the_way_past_it_share_stand_in_one_box():
    told = read(Halved(), Halved())

    assert sum(text.startswith("MULTIPLIED") for text in told) == 1
    assert sum(text.startswith("CUT INTO TWO HALVES") for text in told) == 1
    assert not any(text.startswith("HEADS") for text in told)


def test_rows_of_which_one_half_are_values_are_said_to_be_more():
    told = read(Halved(), Halved())

    assert {"GELU V AND MORE", "MULTIPLIED V AND MORE"} <= {text.rpartition(" ")[0] for text in told}
