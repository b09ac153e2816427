"""Twins: recorded with the same weights and the same input, one thing changed; what cannot be is refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from xray.capture.targets.inputs import Target
from xray.capture.targets.twins import record_twins
from xray.capture.values import preview_attention
from xray.errors import UsageError


def find_output(trace, path, kind="training"):
    return next(one for one in trace.passes if one.kind == kind).by_id[f"{path}#0"].outputs[0]


def paths_of(trace):
    return {step.path for step in trace.steps}


def test_a_twin_without_scale_has_the_same_scores_and_no_step_of_it(untrained_run):
    trace, twin = (untrained_run.trace("training", values="page", twin=one) for one in (None, "no-scale"))
    first = "encoder.layers.0.self_attention"

    assert find_output(trace, f"{first}.scores").preview == find_output(twin, f"{first}.scores").preview
    assert find_output(trace, f"{first}.softmax").preview != find_output(twin, f"{first}.softmax").preview
    assert paths_of(trace) - paths_of(twin) == {path for path in paths_of(trace) if path.endswith("attention.scale")}
    assert twin.config["twin"] == "no-scale"


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("no-cross-mask", {f"decoder.layers.{layer}.cross_attention.mask" for layer in range(3)}),
        ("no-causal-mask", {"tgt_mask.causal", "tgt_mask.combine"}),
        ("no-embedding-scale", {"encoder.embedding.scale", "decoder.embedding.scale"}),
        (
            "no-positions",
            {f"{one}.embedding.{part}" for one in ("encoder", "decoder") for part in ("positions", "add")},
        ),
    ],
)
def test_a_twin_lacks_what_it_is_called_after_and_nothing_else(untrained_run, training_trace, name, gone):
    assert paths_of(training_trace) - paths_of(untrained_run.trace("training", twin=name)) == gone


def test_a_twin_with_a_cache_is_an_answer_with_a_cache(untrained_run):
    twin = untrained_run.trace("inference", max_turns=3, twin="kv-cache")

    assert twin.passes == untrained_run.trace("inference", max_turns=3, kv_cache=True).passes


def test_the_chatbot_is_as_before_its_twin(untrained_run, training_trace):
    untrained_run.trace("training", twin="no-scale")

    assert untrained_run.trace("training").passes == training_trace.passes


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"twin": "no-cache"}, "the twin 'no-cache' is unknown. Choose kv-cache"),
        ({"twin": "kv-cache", "kv_cache": True}, "with a cache already. Choose the twin no-kv-cache"),
        ({"twin": "no-kv-cache"}, "without a cache anyway. Choose the twin kv-cache"),
        ({"twin": "kv-cache", "phase": "training"}, "a training step keeps no keys"),
    ],
)
def test_a_twin_that_would_be_the_same_is_refused(untrained_run, options, told):
    with pytest.raises(UsageError, match=told):
        untrained_run.trace(**options)


class Attention(nn.Module):
    """One attention, causal or not, by the kernel or by hand."""

    def __init__(self, way):
        super().__init__()
        self.linear = nn.Linear(5, 15)
        self.way = way

    def forward(self, x):
        query, key, value = (part[:, None] for part in self.linear(x).split(5, dim=-1))
        if self.way == "by hand":
            return torch.softmax(query @ key.transpose(-2, -1) / 5**0.5, dim=-1) @ value
        mask = None if self.way != "window" else torch.ones(7, 7).tril().triu(-2).bool()
        return functional.scaled_dot_product_attention(query, key, value, mask, is_causal=self.way == "causal")


def record(way, twin):
    torch.manual_seed(3)
    target = Target(Attention(way), (torch.randn(2, 7, 5),))
    return record_twins(target, preview_attention, [twin], "mine", answers=False)


def weights_of(trace):
    step = next(step for step in trace.steps if step.op == "softmax")
    return torch.tensor(step.outputs[0].preview.values).reshape(-1, 7, 7)


def test_any_model_can_be_recorded_without_its_causal_mask():
    outcome, twins = record("causal", "no-causal-mask")

    assert not bool(weights_of(outcome.trace).triu(1).any())
    assert bool(weights_of(twins["no-causal-mask"]).triu(1).any())


def test_weights_without_scale_are_those_of_larger_scores():
    outcome, twins = record("causal", "no-scale")
    scaled, bare = (weights_of(one).clamp_min(1e-30).log() for one in (outcome.trace, twins["no-scale"]))
    steps = (scaled[..., 6, 1:] - scaled[..., 6, :-1], bare[..., 6, 1:] - bare[..., 6, :-1])

    assert torch.allclose(steps[0] * 5**0.5, steps[1], atol=0.01)


@pytest.mark.parametrize(
    ("way", "twin", "told"),
    [
        ("by hand", "no-scale", "mine never calls scaled_dot_product_attention with a scale. Record it yourself"),
        ("plain", "no-causal-mask", "never calls scaled_dot_product_attention with a causal mask"),
        ("window", "no-causal-mask", "one of its masks hides more than the future and padding"),
        ("plain", "no-cross-mask", "only the chatbot can be recorded so, not mine"),
        ("plain", "kv-cache", "mine is called once, and keeps nothing"),
        ("plain", "bare", "the twin 'bare' is unknown"),
    ],
)
def test_a_twin_that_cannot_be_made_is_refused(way, twin, told):
    with pytest.raises(UsageError, match=told):
        record(way, twin)
