"""A stream whose attention has the keys of another tower beside its own: where they come from, and what is hidden."""

from itertools import pairwise

import pytest
import torch
from handwritten import Attention, Layer
from torch import nn

import xray
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention as AttentionFacts
from xray.story.poster import compose_poster
from xray.story.sheet.columns import read_columns

WIDTH, READ, SAID, WORDS = 18, 7, 5, 31
HEADS, HEAD = 3, 6


class Joined(nn.Module):
    """Attention of a stream to itself and to rows from elsewhere, by the same weights (T5Gemma 2), or by `own` ones.

    Queries and keys may be normed, and turned by their places: `turned` says whether "own" ones are, "all", or "joined"
    ones, all at once. Rows from elsewhere may go through a norm before, by which both their keys and their values are
    made.
    """

    def __init__(self, *, own=False, normed=False, turned="", before=False, window=None):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.other_k, self.other_v = (nn.Linear(WIDTH, WIDTH) if own else one for one in (self.k, self.v))
        self.norm, self.before = (
            nn.LayerNorm(wide) if one else None for one, wide in ((normed, HEAD), (before, WIDTH))
        )
        self.turned, self.sliding_window = turned, window

    def forward(self, x, memory, mask):
        memory = memory if self.before is None else self.before(memory)
        late = self.turned == "joined"
        query, key = (self.heads(one) for one in (self.q(x), self.k(x)))
        query, key = self.turn(query, self.turned), self.turn(key, self.turned and not late)
        other = self.turn(self.heads(self.other_k(memory)), self.turned == "all")
        keys = self.turn(torch.cat([key, other], dim=2), late)
        values = torch.cat([self.heads(self.v(x), None), self.heads(self.other_v(memory), None)], dim=2)
        scores = (query @ keys.mT / HEAD**0.5).masked_fill(mask, -torch.inf)
        return self.o((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))

    def heads(self, x, *norm):
        cut = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return cut if norm or self.norm is None else self.norm(cut)

    def turn(self, x, is_turned):
        if not is_turned:
            return x
        angles = torch.arange(x.shape[2])[:, None] * 10 ** -torch.arange(HEAD // 2)
        angles, half = torch.cat([angles, angles], dim=-1), HEAD // 2
        return x * angles.cos() + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * angles.sin()


class Rms(nn.Module):
    """A norm that is written out, and brought to the type of its rows at the end."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)).type_as(x)


class Says(nn.Module):
    """A layer whose attention has keys from elsewhere beside its own."""

    def __init__(self, **look):
        super().__init__()
        self.before, self.look, self.after = nn.LayerNorm(WIDTH), Joined(**look), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 41), nn.GELU(), nn.Linear(41, WIDTH))

    def forward(self, x, memory, mask):
        x = x + self.look(self.before(x), memory, mask)
        return x + self.think(self.after(x))


class ReadsAndSays(nn.Module):
    """An encoder with a last norm, and a decoder that looks at both by one softmax.

    `hide` says which of its own places are hidden. A window may be set in all layers but the second, and be counted
    with where their mask is made.
    """

    def __init__(self, hide, *, window=None, is_counted=True, **look):
        super().__init__()
        self.window, self.is_counted = window, is_counted
        self.hide = hide
        self.words, self.said, self.norm = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH), Rms()
        self.reader = nn.ModuleList(Layer(WIDTH, Attention(WIDTH, 3), norm="before") for _ in range(2))
        self.layers = nn.ModuleList(Says(**look, window=None if number == 1 else window) for number in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, said):
        x, y = self.words(ids), self.said(said)
        for layer in self.reader:
            x = layer(x)
        memory = self.norm(x)
        own, seen = self.hide(torch.ones(SAID, SAID, dtype=torch.bool)), torch.zeros(SAID, READ, dtype=torch.bool)
        for number, layer in enumerate(self.layers):
            hidden = own
            if self.is_counted and self.window and number != 1:
                places = torch.arange(SAID)
                hidden = own | (places[None] <= places[:, None] - self.window)
            y = layer(y, memory, torch.cat([hidden, seen], dim=-1))
        return self.head(y)


def record(hide=lambda every: every.triu(1), **look):
    torch.manual_seed(0)
    return xray.trace(ReadsAndSays(hide, **look), torch.arange(14).view(2, READ), torch.arange(10).view(2, SAID))


def draw(hide):
    return compose_poster(record(hide), text_width)


def find_chart(trace):
    """The chart of the joint attention."""
    panels = (panel for column in read_columns(trace) for frame in column.frames for panel in frame.panels)
    return next(panel.chart for panel in panels if any(node.key == "join0_k" for node in panel.chart.nodes))


def list_joint(trace):
    return [one for one in xray.anatomy(trace).towers[-1].branches if isinstance(one, AttentionFacts)]


def list_texts(layout):
    return ["".join(run.text for run in line) for box in layout.boxes for line in box.lines]


@pytest.mark.parametrize(
    ("hide", "told"),
    [
        (lambda every: every.triu(1), "Places look back, never ahead, and at those of "),
        (lambda every: every.triu(9), "Places look at each other, and at those of "),
    ],
)
def test_a_station_says_whether_its_own_places_look_ahead(hide, told):
    assert any(text.startswith(told) for text in list_texts(draw(hide)))


def test_memory_leaves_from_the_last_norm_be_it_brought_to_another_type():
    layout = draw(lambda every: every.triu(1))

    (norm, *_) = [box for box in layout.boxes if any(run.text == "LAST NORM" for line in box.lines for run in line)]
    starts = {curve.points[0] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert starts == {(norm.x, norm.top)}


@pytest.mark.parametrize(("own", "told"), [(False, "same weights"), (True, "342 parameters")])
def test_boxes_stand_for_what_makes_the_keys_and_values_of_another_stream(own, told):
    chart = find_chart(record(own=own, normed=True))

    others = [node for node in chart.nodes if node.key.startswith("other")]
    assert {node.label for node in others} == {"LINEAR K", "LINEAR V", "HEADS K", "HEADS V", "NORM K"}
    assert {node.extra for node in others if node.label.startswith("LINEAR")} == {told}
    assert {node.surface for node in others} == {"memory"}
    assert {node.record.shape[-2] for node in others if "NORM" in node.label} == {READ}


def test_the_norm_of_another_streams_keys_is_that_of_the_own_ones():
    chart = find_chart(record(normed=True))

    assert chart.node("othernorm0_k").extra == "same weights"


def test_memory_is_led_to_the_linear_layers_and_from_there_to_what_joins():
    chart = find_chart(record(normed=True))

    led = {edge.target: edge.source for edge in chart.edges if edge.source.startswith("other")}
    assert chart.memory == ("otherlinear0_k", "otherlinear0_v")
    assert (led["join0_k"], led["join0_v"]) == ("othernorm0_k", "otherheads0_v")


def test_boxes_of_another_stream_stand_above_the_own_ones_and_below_what_joins():
    chart = find_chart(record(normed=True))

    rows = [[node.row for node in chart.nodes if node.key.startswith(kind)] for kind in ("norm", "other", "join")]
    assert all(max(lower) < min(upper) for lower, upper in pairwise(rows))


def test_what_keys_and_values_of_another_stream_are_both_made_of_stands_there_once():
    chart = find_chart(record(before=True))

    assert [node.label for node in chart.nodes if node.key.endswith("_kv")] == ["NORM K, V"]
    assert chart.memory == ("othernorm0_kv",)
    assert {edge.target for edge in chart.edges if edge.source == "othernorm0_kv"} == {
        "otherlinear0_k",
        "otherlinear0_v",
    }


def test_a_ribbon_ends_at_the_linear_layers():
    layout = compose_poster(record(), text_width)

    brought = [box for box in layout.boxes if box.outline == "ribbon"]
    aims = {box.x for box in brought if any(run.text.startswith("LINEAR") for line in box.lines for run in line)}
    ends = {curve.points[-1][0] for curve in layout.curves if curve.role == curve.kind == "ribbon"}
    assert len(aims) == len(ends & aims) == 2


def test_memory_is_led_to_joint_attentions_that_are_one_box_each_too():
    layout = compose_poster(record(window=64), text_width)

    wholes = [box for box in layout.boxes if any(run.text == "JOINT ATTENTION" for line in box.lines for run in line)]
    ends = [curve.points[-1] for curve in layout.curves if curve.role == curve.kind == "ribbon"]
    aims = [box for box in wholes for x, y in ends if abs(box.left - x) < 2 and box.bottom < y < box.top]
    assert len({box.id for box in aims}) == 2


@pytest.mark.parametrize(
    ("turned", "told"),
    [
        ("own", "queries and keys are turned by their place, but not keys of another stream."),
        ("all", "queries and keys are turned by their place."),
        ("joined", "queries and keys are turned by their place."),
    ],
)
def test_it_is_said_whether_keys_of_another_stream_are_turned_too(turned, told):
    trace = record(turned=turned)

    assert {one.beside_unturned for one in list_joint(trace)} == {True if turned == "own" else None}
    assert " ".join(list_texts(compose_poster(trace, text_width))).count(told) == 1


@pytest.mark.parametrize(("is_counted", "found"), [(True, 4096), (False, None)])
def test_a_window_of_joined_keys_is_told_where_a_mask_counts_with_it(is_counted, found):
    trace = record(window=4096, is_counted=is_counted)

    assert {one.sliding_window for one in list_joint(trace)} == {None, found}
    texts = " ".join(list_texts(compose_poster(trace, text_width)))
    assert ("encoder tower; sliding_window = 4,096 is set, in 2 of 3 layers." in texts) == is_counted


class BothAtOnce(nn.Module):
    """A layer of two streams; one linear layer of each makes its queries, keys and values, and all meet (JoyImage)."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.three, self.out = (nn.ModuleList(nn.Linear(WIDTH, wide) for _ in range(2)) for wide in (3 * WIDTH, WIDTH))
        self.think = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 41), nn.GELU(), nn.Linear(41, WIDTH)) for _ in "xy")

    def forward(self, x, y):
        cut = [
            three(norm(one)).chunk(3, dim=-1) for three, norm, one in zip(self.three, self.norms, (x, y), strict=False)
        ]
        sides = (torch.cat(both, dim=1).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for both in zip(*cut, strict=True))
        found = nn.functional.scaled_dot_product_attention(*sides).transpose(1, 2).flatten(2)
        x, y = x + self.out[0](found[:, : x.shape[1]]), y + self.out[1](found[:, x.shape[1] :])
        return x + self.think[0](self.norms[2](x)), y + self.think[1](self.norms[3](y))


class TwoStreams(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin, self.layers = nn.Linear(11, WIDTH), nn.ModuleList(BothAtOnce() for _ in range(3))
        self.words = nn.Embedding(WORDS, WIDTH)

    def forward(self, given, ids):
        x, y = self.begin(given), self.words(ids)
        for layer in self.layers:
            x, y = layer(x, y)
        return x


def test_one_linear_layer_makes_all_three_where_more_rows_are_put_beside_them_since():
    trace = xray.trace(TwoStreams().eval(), torch.rand(2, 37, 11), torch.arange(10).view(2, SAID))

    assert {
        one.fused for tower in xray.anatomy(trace).towers for one in tower.branches if isinstance(one, AttentionFacts)
    } == {"qkv"}
    assert any(
        text.startswith("One linear layer makes Q, K and V") for text in list_texts(compose_poster(trace, text_width))
    )
