"""Bytes are counted where something is stored, and nowhere else."""

import pytest
import torch
from measured import measure_storage_in_torch
from torch import nn

import xray
from xray.ir.storage import bytes_per_element, measure_storage


class Call(nn.Module):
    """A function as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


FUNCTIONS = {
    "a view": lambda x: x.view(2, 15),
    "a transpose": lambda x: x.transpose(1, 2),
    "a reshape in order": lambda x: x.reshape(6, 5),
    "a reshape of a transpose": lambda x: x.transpose(1, 2).reshape(10, 3),
    "a reshape that a transpose does not hinder": lambda x: x.transpose(0, 1).reshape(3, 2, 5, 1),
    "a flattened permute": lambda x: x.permute(2, 0, 1).flatten(),
    "contiguous of what is": lambda x: x.contiguous(),
    "contiguous of what is not": lambda x: x.mT.contiguous(),
    "a cast to the same type": lambda x: x.float(),
    "a cast to another type": lambda x: x.to(torch.bfloat16),
    "an expansion": lambda x: x[:, None].expand(2, 7, 3, 5),
    "a reshape of an expansion": lambda x: x[:, None].expand(2, 7, 3, 5).reshape(14, 3, 5),
    "slices": lambda x: x[:, 1:, ::2],
    "picking by a tensor": lambda x: x[torch.tensor([1, 0, 1])],
    "picking by whole numbers": lambda x: x[torch.tensor(1), :, torch.tensor(2, dtype=torch.int32)],
    "picking by a whole number and a tensor": lambda x: x[torch.tensor(1), torch.tensor([0, 1])],
    "picking by a number of one axis": lambda x: x[torch.tensor([1])],
    "picking by a bool": lambda x: x[torch.tensor(True)],
    "picking by a byte": lambda x: x[torch.tensor(1, dtype=torch.uint8)],
    "halves": lambda x: x.chunk(2, dim=-1)[1].unbind(0),
    "in place": lambda x: x.clone().add_(1).relu_(),
    "a module in place": lambda x: nn.functional.relu(x + 1, inplace=True),
    "joining": lambda x: torch.cat([x, x], dim=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operation_stores_what_it_stores_in_torch(name):
    model, x = Call(FUNCTIONS[name]), torch.ones(2, 3, 5)
    (one_pass,) = xray.trace(model, x).passes

    assert sum(measure_storage(one_pass).values()) == measure_storage_in_torch(model, x)


def test_a_module_that_works_in_place_stores_nothing():
    (one_pass,) = xray.trace(nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True)), torch.ones(2, 3)).passes

    assert measure_storage(one_pass) == {"0#0": 2 * 5 * 4}


def test_what_a_fused_kernel_never_stores_is_not_counted():
    class Attention(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x)

    (one_pass,) = xray.trace(Attention(), torch.ones(2, 3, 5, 7)).passes

    assert sum(measure_storage(one_pass).values()) == 2 * 3 * 5 * 7 * 4


def test_gradients_are_no_activations(training_trace):
    assert "backward#0" not in measure_storage(training_trace.passes[0])


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("float32", 4),
        ("bfloat16", 2),
        ("bool", 1),
        ("complex64", 8),
        ("float8_e4m3fn", 1),
        ("float32 sparse_coo", 4),
        ("nothing", None),
    ],
)
def test_the_name_of_a_type_tells_its_size(dtype, size):
    assert bytes_per_element(dtype) == size
