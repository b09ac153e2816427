"""The FLOPs of every kind of product, held to torch's own counter or, where that counts nothing, to the definition."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from measured import count_flops_in_torch
from small_traces import record as make_record
from small_traces import step
from torch import nn

import xray
from xray.ir.work import count_flops, measure_work

record = partial(make_record, batch=2, length=5, d=24, f=52, **{"3": 72})


class Call(nn.Module):
    """A function as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def numbers(*shape):
    return torch.zeros(shape)


def count_in_record(model, *args):
    with torch.no_grad():
        (one_pass,) = xray.trace(model.eval(), *args).passes
    return measure_work(one_pass)[one_pass.steps[0].id]


def einsum(equation):
    return lambda *operands: torch.einsum(equation, *operands)


WORDS = "batch length d"
SDPA = nn.functional.scaled_dot_product_attention
FUNCTIONS = {
    "linear of a vector": (nn.functional.linear, numbers(5), numbers(7, 5)),
    "matmul": (torch.matmul, numbers(2, 3, 5), numbers(5, 7)),
    "bmm": (torch.bmm, numbers(2, 3, 5), numbers(2, 5, 7)),
    "addmm": (torch.addmm, numbers(7), numbers(3, 5), numbers(5, 7)),
    "baddbmm": (torch.baddbmm, numbers(2, 3, 7), numbers(2, 3, 5), numbers(2, 5, 7)),
    "inner": (torch.inner, numbers(3, 5), numbers(7, 5)),
    "scores": (einsum("bhqd,bhkd->bhqk"), numbers(2, 3, 5, 7), numbers(2, 3, 11, 7)),
    "einsum with dots": (einsum("...ij,jk"), numbers(2, 3, 5), numbers(5, 7)),
    "outer einsum": (einsum("i,j->ij"), numbers(3), numbers(5)),
    "einsum of three": (einsum("bij,bj,bi->b"), numbers(2, 3, 5), numbers(2, 5), numbers(2, 3)),
    "einsum that only sums": (einsum("bijk,bl->bi"), numbers(2, 3, 5, 7), numbers(2, 11)),
    "fused attention": (SDPA, numbers(2, 3, 5, 7), numbers(2, 3, 11, 7), numbers(2, 3, 11, 13)),
    "grouped convolution": (
        lambda x, weight: nn.functional.conv2d(x, weight, padding=1, groups=2),
        numbers(2, 4, 9, 8),
        numbers(6, 2, 3, 5),
    ),
    "transposed convolution": (nn.functional.conv_transpose2d, numbers(2, 4, 9, 8), numbers(4, 6, 3, 5)),
}
MODULES = {
    "conv1d": (nn.Conv1d(3, 7, 5), numbers(2, 3, 23)),
    "conv2d": (nn.Conv2d(3, 7, (3, 5), stride=2, padding=1), numbers(2, 3, 17, 19)),
    "depthwise": (nn.Conv2d(6, 6, (3, 5), groups=6), numbers(2, 6, 17, 19)),
    "conv3d": (nn.Conv3d(3, 7, (3, 1, 2), bias=False), numbers(2, 3, 7, 5, 6)),
    "unbatched": (nn.Conv2d(3, 7, 3), numbers(3, 17, 19)),
    "transposed": (nn.ConvTranspose2d(6, 4, (2, 3), stride=2, groups=2), numbers(2, 6, 7, 5)),
    "projected lstm": (nn.LSTM(5, 7, 2, bidirectional=True, proj_size=3), numbers(11, 3, 5)),
    "gru": (nn.GRU(5, 7, 2, batch_first=True), numbers(3, 11, 5)),
    "rnn": (nn.RNN(5, 7), numbers(11, 3, 5)),
    "cell": (nn.LSTMCell(5, 7), numbers(3, 5)),
    "encoder layer": (nn.TransformerEncoderLayer(24, 3, 52, batch_first=True), numbers(2, 5, 24)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_counted_as_torch_counts_it(name):
    function, *args = FUNCTIONS[name]

    assert count_in_record(Call(function), *args).flops == count_flops_in_torch(Call(function), *args)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_counted_as_torch_counts_it(name):
    model, *args = MODULES[name]
    model.eval()

    assert count_in_record(model, *args).flops == count_flops_in_torch(model, *args)


def test_a_recurrent_kernel_that_torch_does_not_count_is_counted_by_definition():
    gates, words, both_ways = 4 * 7, 11 * 3, 2
    first, second = 5 + 7, 2 * 7 + 7

    work = count_in_record(nn.LSTM(5, 7, 2, bidirectional=True), numbers(11, 3, 5))

    assert work.flops == 2 * words * both_ways * gates * (first + second)


def test_attention_between_two_lengths_is_counted_as_torch_counts_it():
    attention, query, key = nn.MultiheadAttention(24, 3, batch_first=True), numbers(2, 7, 24), numbers(2, 5, 24)

    assert count_in_record(attention, query, key, key).flops == count_flops_in_torch(attention.eval(), query, key, key)


def test_the_native_encoder_layer_is_counted_whole():
    src, qkv, inner = (record(*one) for one in (("src", WORDS), ("qkv", "3 d"), ("ffn_weight_1", "f d")))
    layer = step("layer", "_transformer_encoder_layer_fwd", (src, qkv, inner), (replace(src, source="layer#0"),))

    projections, attention, feed_forward = 4 * 24 * 24, 2 * 5 * 24, 2 * 52 * 24
    assert count_flops(layer) == 2 * (2 * 5) * (projections + attention + feed_forward)


@pytest.mark.parametrize(
    ("function", "args", "flops"),
    [
        (torch.mv, (numbers(3, 5), numbers(5)), 2 * 3 * 5),
        (torch.dot, (numbers(5), numbers(5)), 2 * 5),
        (torch.addbmm, (numbers(3, 7), numbers(2, 3, 5), numbers(2, 5, 7)), 2 * 2 * 3 * 5 * 7),
        (nn.functional.bilinear, (numbers(3, 5), numbers(3, 7), numbers(11, 5, 7)), 2 * 3 * 11 * 5 * 7),
    ],
)
def test_products_that_torch_does_not_count_are_counted_by_definition(function, args, flops):
    assert count_in_record(Call(function), *args).flops == flops


def test_a_quantised_linear_layer_counts_as_what_it_stands_for():
    linear = xray.trace(nn.Linear(5, 7), numbers(2, 5)).steps[0]

    assert count_flops(replace(linear, params=0)) == 2 * 2 * 5 * 7  # its weights are packed away


def test_any_kernel_that_names_query_key_and_value_counts_as_attention():
    sizes = {"d": 11, "words": 5, "others": 7, "wide": 13}
    given = [make_record("query", "batch heads words d", **sizes), make_record("key", "batch heads others d", **sizes)]
    made = make_record("out", "batch heads words wide", source="a#0", **sizes)
    flex = step("a", "flex_attention", [*given, make_record("value", "batch heads others wide", **sizes)], [made])

    assert count_flops(flex) == 2 * 2 * 3 * 5 * 7 * (11 + 13)


@pytest.mark.parametrize(
    ("rows", "weights", "flops"),
    [
        ("tokens d", "experts d f", 2 * 6 * 24 * 52),  # a token meets the weights of one expert
        ("experts words d", "experts d f", 2 * 3 * 5 * 24 * 52),
        ("f tokens", "tokens d", 2 * 6 * 24 * 52),  # and so do the gradients of their weights
    ],
)
def test_products_by_groups_count_every_row_once(rows, weights, flops):
    sizes = {"tokens": 6, "experts": 3, "words": 5}
    given = [make_record(name, axes, d=24, f=52, **sizes) for name, axes in (("rows", rows), ("weights", weights))]
    made = make_record("out", "tokens f", source="a#0", f=52, **sizes)

    assert count_flops(step("a", "_grouped_mm", given, [made])) == flops


def test_a_sparse_product_is_not_counted():
    work = count_in_record(Call(torch.matmul), torch.eye(3).to_sparse(), numbers(3, 2))

    assert (work.flops, work.uncounted) == (0, 1)


def test_an_operation_that_nobody_knows_is_not_counted_as_nothing():
    work = count_in_record(Call(lambda x: torch.fft.fft(x)), numbers(2, 8))

    assert (work.flops, work.uncounted) == (0, 1)


def test_a_product_of_no_numbers_takes_no_work():
    assert count_in_record(nn.Linear(5, 7), numbers(0, 5)).flops == 0
