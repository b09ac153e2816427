"""What each step does, in words."""

import pytest
import torch
from handwritten import make_writer
from torch import nn

import xray
from xray.story.roles import tell_roles

IDS = torch.arange(14).view(2, 7)


@pytest.fixture(scope="module")
def roles():
    return tell_roles(xray.trace(make_writer(), IDS))["forward"]


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ("words#0", "embedding: ids to vectors"),
        ("rows.1#0", "layer 2"),
        ("rows.0.three#0", "norm before self-attention"),
        ("rows.0.one#0", "self-attention"),
        ("rows.0.one.second#0", "projection to keys"),
        ("rows.0.one.transpose#1", "split heads: heads before length"),
        ("rows.0.one.transpose#3", "turn the keys: rows become columns"),
        ("rows.0.one.matmul#0", "scores: query times key"),
        ("rows.0.one.masked_fill#0", "hide what may not be seen"),
        ("rows.0.one.softmax#0", "softmax: scores become weights"),
        ("rows.0.one.matmul#1", "weighted sum of the values"),
        ("rows.0.two.0#0", "feed-forward: widen"),
        ("rows.0.two.2#0", "feed-forward: narrow"),
        ("rows.0.add#0", "residual sum after self-attention"),
        ("scores#0", "head: vectors to logits"),
    ],
)
def test_a_step_of_a_transformer_says_its_part(roles, identity, words):
    assert roles[identity] == words


def test_a_norm_of_a_layer_that_norms_afterwards_says_so():
    roles = tell_roles(xray.trace(make_writer(norm="after"), IDS))["forward"]

    assert roles["rows.0.three#0"] == "norm after self-attention"


def test_a_lone_attention_says_its_parts():
    attention = nn.MultiheadAttention(12, 3, batch_first=True)
    x = torch.rand(2, 5, 12)
    trace = xray.trace(attention, x, x, x)

    roles = tell_roles(trace)["forward"]

    assert {"scores: query times key", "projection to queries, keys and values"} <= set(roles.values())


def test_a_native_kernel_says_what_all_of_it_does():
    layer = nn.TransformerEncoderLayer(12, 4, 29, batch_first=True).eval()
    with torch.no_grad():
        trace = xray.trace(layer, torch.rand(2, 5, 12))

    roles = tell_roles(trace)["forward"]

    assert "a whole encoder layer in one kernel: self-attention and feed-forward" in roles.values()
    assert set(roles) <= {step.id for step in trace.steps}


class Plain(nn.Module):
    def forward(self, x):
        left, right = x.split([2, 3], dim=-1)
        return torch.cat([left.expand(4, 3, 2), right.expand(4, 3, 3)], dim=-1)


def test_common_operations_outside_say_what_they_do():
    roles = tell_roles(xray.trace(Plain(), torch.rand(1, 3, 5)))["forward"]

    assert roles["Plain.split#0"] == "split in 2"
    assert roles["Plain.expand#0"] == "broadcast"
    assert roles["Plain.cat#0"] == "join 2 tensors"


def test_what_is_not_known_has_no_role():
    roles = tell_roles(xray.trace(nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)), torch.rand(2, 5)))["forward"]

    assert roles == {}
