"""Multiplications are counted from shapes, and a cache saves what the arithmetic says."""

import pytest
import torch
from torch import nn

import xray
from xray.ir.work import add_up_multiplications, count_multiplications


def test_a_linear_layer_multiplies_every_output_by_its_inputs():
    step = xray.trace(nn.Linear(5, 7), torch.ones(2, 3, 5)).steps[0]

    assert count_multiplications(step) == 2 * 3 * 7 * 5


@pytest.mark.parametrize("product", [torch.matmul, torch.bmm])
def test_a_matrix_product_multiplies_every_output_by_the_inner_axis(product):
    class Product(nn.Module):
        def forward(self, left, right):
            return product(left, right)

    steps = list(xray.trace(Product(), torch.ones(2, 3, 5), torch.ones(2, 5, 11)).steps)

    assert count_multiplications(steps[-1]) == 2 * 3 * 11 * 5


def test_a_sum_multiplies_nothing(training_trace):
    assert count_multiplications(training_trace.passes[0].by_id["encoder.embedding.add#0"]) == 0


def test_blocks_are_not_counted_twice():
    trace = xray.trace(nn.Sequential(nn.Linear(5, 7), nn.Sequential(nn.Linear(7, 3))), torch.ones(2, 5))

    assert add_up_multiplications(trace.passes[0]) == 2 * 7 * 5 + 2 * 3 * 7


def test_the_cache_saves_what_the_trace_of_recomputing_costs(untrained_run):
    cached = untrained_run.trace("inference", max_turns=4, kv_cache=True)
    plain = untrained_run.trace("inference", max_turns=4)

    assert cached.config["multiplications"] == sum(map(add_up_multiplications, cached.passes))
    assert cached.config["multiplications_without_cache"] == sum(map(add_up_multiplications, plain.passes))
    assert cached.config["multiplications"] < cached.config["multiplications_without_cache"]
