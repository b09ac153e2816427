"""A convolution of the values that is added to what the heads found: led there from the values, and told."""

import pytest
from printed import words_of
from story.body.test_mistaken import HEADS, WIDTH, FeedForwardPart, Reader, rows
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import xray
from xray.ir.flow.dataflow import read_flow
from xray.renderers.fonts import text_width
from xray.story.anatomy.attentions import Attention
from xray.story.body.reading import read_pass
from xray.story.charts.stage_chart import chart_stage
from xray.story.poster import compose_poster

TOLD = (
    "A convolution over 5 places mixes the values of each head too, and what it gives is added to what the head found."
)


class Convolves(nn.Module):
    """Attention beside a convolution of its values, of each head by itself (Nyströmformer), or `of_keys`."""

    def __init__(self, kernel=(5, 1), groups=HEADS, *, of_keys=False):
        super().__init__()
        self.norm, self.of_keys = nn.LayerNorm(WIDTH), of_keys
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        sides = tuple(one // 2 for one in kernel)
        self.near = nn.Conv2d(HEADS, HEADS, kernel, padding=sides, groups=groups, bias=False)

    def forward(self, x):
        given = self.norm(x)
        query, key, value = (
            made(given).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for made in (self.query, self.key, self.value)
        )
        found = scaled_dot_product_attention(query, key, value) + self.near(key if self.of_keys else value)
        return x + self.out(found.transpose(1, 2).flatten(2))


class ConvolvesOneOfThree(Convolves):
    """The same, of one of the three parts of what one layer makes."""

    def __init__(self, number):
        super().__init__()
        self.all, self.number = nn.Linear(WIDTH, 3 * WIDTH), number

    def forward(self, x):
        parts = self.all(self.norm(x)).chunk(3, dim=-1)
        three = [one.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for one in parts]
        found = scaled_dot_product_attention(*three) + self.near(three[self.number])
        return x + self.out(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("number", "told"), [(0, "+ CONVOLUTION 5×1"), (2, "+ CONVOLUTION 5×1 OF V")])
def test_a_convolution_of_queries_is_none_of_the_values_of_the_same_layer(number, told):
    parts = (part for _ in range(2) for part in (ConvolvesOneOfThree(number), FeedForwardPart()))
    trace = xray.trace(Reader(*parts), rows())
    (one_pass,) = trace.passes
    chart = chart_stage(read_flow(one_pass), read_pass(one_pass).towers[0].layers[0][0])

    assert told in {node.label for node in chart.nodes}
    assert read_convolved(trace) == {5 if number == 2 else None}


def record(**more):
    return xray.trace(Reader(Convolves(**more), FeedForwardPart(), Convolves(**more), FeedForwardPart()), rows())


def read_convolved(trace):
    return {one.convolved for one in xray.anatomy(trace).towers[0].branches if isinstance(one, Attention)}


def test_a_convolution_of_values_is_told_with_the_places_that_it_reaches():
    trace = record()

    assert read_convolved(trace) == {5}
    assert TOLD in words_of(compose_poster(trace, text_width))


def test_what_adds_a_convolution_of_values_is_led_from_the_values():
    (one_pass,) = record().passes
    flow = read_flow(one_pass)
    chart = chart_stage(flow, read_pass(one_pass).towers[0].layers[0][0])
    ways = {(chart.node(one.source).label, chart.node(one.target).label) for one in chart.edges}

    assert {source for source, target in ways if target == "+ CONVOLUTION 5×1 OF V"} == {"WEIGHTS · V", "HEADS V"}


@pytest.mark.parametrize(
    "more", [{"kernel": (1, 5)}, {"groups": 1}, {"of_keys": True}], ids=["of numbers", "of heads together", "of keys"]
)
def test_another_convolution_is_not_told_as_one_of_the_values(more):
    trace = record(**more)

    assert read_convolved(trace) == {None}
    assert "mixes the values" not in words_of(compose_poster(trace, text_width))
