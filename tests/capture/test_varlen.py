"""Sequences that lie end to end are opened like other attention: each sees its own, nested ones what is there."""

import numpy as np
import pytest
import torch
from story.alarms.planted.pairs import HEADS
from story.alarms.planted.varlen import Packed, attend_apart, run_kernel
from torch import nn
from torch.nn import functional

import xray
from xray.story.alarms.bench import read_cells
from xray.story.recognition.values.value_rules import same_sequence

QUERY_ENDS, KEY_ENDS = torch.tensor([0, 3, 7, 11]), torch.tensor([0, 2, 8, 11])


def trace_of(attend, ends=QUERY_ENDS):
    torch.manual_seed(0)
    with torch.no_grad():
        return xray.trace(Packed(attend).eval(), ids=torch.arange(1, int(ends[-1]) + 1), cu_seqlens=ends)


def step_of(trace, op):
    return next(step for step in trace.steps if step.op == op)


def test_the_scores_are_derived_and_each_sequence_sees_its_own():
    trace = trace_of(attend_apart, torch.tensor([0, 2, 5]))
    mask = step_of(trace, "same_sequence").outputs[0].mask

    assert (mask.kind, mask.cells) == ("custom", ((".ffff", "..fff", "xx.ff", "xx..f", "xx..."),))
    assert step_of(trace, "softmax").outputs[0].shape == (HEADS, 5, 5)
    assert step_of(trace, "softmax").settings["derived"] is True


@pytest.mark.parametrize("causal", [True, False])
def test_the_derived_steps_give_what_the_kernel_gives(causal):
    ran = []

    def attend(q, k, v, ends):
        ran.extend((q, k, v, run_kernel(q, k, v, ends, ends, 4, 4, causal)))
        return ran[-1]

    hidden = read_cells(step_of(trace_of(attend), "same_sequence").outputs[0]) == 0
    q, k, v, made = (one.transpose(0, 1) for one in ran)
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.as_tensor(~hidden))

    assert torch.allclose(mixed, made, atol=1e-6)


@pytest.mark.parametrize(("left", "right", "causal"), [(-1, -1, False), (-1, -1, True), (1, 0, True), (1, 1, False)])
def test_the_mask_that_is_recorded_follows_from_the_ends(left, right, causal):
    trace = trace_of(lambda q, k, v, ends: run_kernel(q, k, v, ends, KEY_ENDS, 4, 6, causal, left, right))
    step = step_of(trace, "same_sequence")

    worked_out = same_sequence(step, [QUERY_ENDS.numpy().astype(float), KEY_ENDS.numpy().astype(float)])

    assert np.array_equal(worked_out, read_cells(step.outputs[0]))


def test_torch_s_own_kernel_is_opened_on_the_meta_device_and_stands_at_the_line_of_the_model():
    varlen = pytest.importorskip("torch.nn.attention.varlen", reason="this torch has no varlen attention")
    with torch.device("meta"):
        model = Packed(lambda q, k, v, ends: varlen.varlen_attn(q, k, v, ends, ends, 4, 4, window_size=(-1, 0)))
        trace = xray.trace(model.eval(), ids=torch.arange(1, 12), cu_seqlens=QUERY_ENDS)
    kernel = step_of(trace, "_varlen_attn")

    assert {record.given for record in kernel.inputs[3:]} == {"cu_seqlens"}
    assert "test_varlen.py" in kernel.location
    assert step_of(trace, "softmax").outputs[0].shape == (HEADS, 11, 11)
    assert step_of(trace, "same_sequence").settings["is_causal"] is True


class Ragged(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(6, 6) for _ in range(3))

    def forward(self, x):
        q, k, v = (one(x).unflatten(-1, (3, 2)).transpose(1, 2) for one in (self.query, self.key, self.value))
        return functional.scaled_dot_product_attention(q, k, v)


@pytest.mark.filterwarnings("ignore")
def test_keys_that_a_nested_tensor_lacks_are_hidden():
    x = torch.nested.nested_tensor([torch.rand(4, 6), torch.rand(2, 6)], layout=torch.jagged)
    with torch.no_grad():
        mask = step_of(xray.trace(Ragged(), x), "mask_scores").inputs[1].mask

    assert (mask.kind, mask.cells) == ("padding", (("....",), ("..pp",)))
