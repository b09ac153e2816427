"""A model that somebody's own script has divided: the whole, this rank's part, and what the ranks tell each other."""

import os
from collections import Counter

import pytest
import torch
from sharded import WORDS, divide_by_heads, divide_by_words, make_gpt
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import xray
from xray.ranks.fake_group import fake_ranks
from xray.renderers.page.ranks import pack_ranks
from xray.story.failure.rules import find_misfit


def record_divided(divide, ranks=2):
    with fake_ranks(ranks):
        mesh = torch.distributed.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
        return xray.trace(divide(make_gpt(), mesh), WORDS)


def step_of(trace, name):
    return next(step for step in trace.steps if step.id == name)


def records_of(trace):
    return [(step, record) for step in trace.steps for record in (*step.inputs, *step.outputs)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("divide", [divide_by_heads, divide_by_words])
def test_shape_is_the_whole_wherever_the_placement_is_told(divide, ranks):
    whole = {step.id: step for step in xray.trace(make_gpt(), WORDS).steps}

    divided = record_divided(divide, ranks)  # with four of them, each has one head

    told = 0
    for step in divided.steps:
        if step.id in whole:
            for side in ("inputs", "outputs"):
                for one, other in zip(getattr(step, side), getattr(whole[step.id], side), strict=True):
                    assert one.shape == other.shape or one.placement is None, (step.id, one)
                    told += one.placement is not None
    assert told > 40


@pytest.mark.parametrize("divide", [divide_by_heads, divide_by_words])
def test_nothing_behind_the_first_division_is_left_untold_but_what_is_laid_out_otherwise(divide):
    trace = record_divided(divide)

    untold = {step.op for step, record in records_of(trace) if record.local is not None and record.placement is None}

    assert untold <= {"all_gather", "gpt"}  # which gathers along the first axis, to be cut and joined afterwards


def test_heads_are_divided_through_views_and_attention():
    trace = record_divided(divide_by_heads)

    layer = "layers.0.attention"
    query = step_of(trace, f"{layer}.query#0").outputs[0]
    assert (query.shape, query.local, query.placement) == ((2, 8, 32), (2, 8, 16), "[S(2)]")
    heads = step_of(trace, f"{layer}.transpose#0").outputs[0]
    assert (heads.shape, heads.local, heads.placement) == ((2, 4, 8, 8), (2, 2, 8, 8), "[S(1)]")
    out = step_of(trace, f"{layer}.out#0")
    assert [one.placement for one in (*out.inputs, *out.outputs)] == ["[S(2)]", "[P(sum)]"]
    assert out.settings["weight_placement"] == "[S(1)]"
    assert out.settings["weight_local"] == "32x16"
    total = step_of(trace, f"{layer}.all_reduce#0")
    assert total.inputs[0].source == out.id
    assert total.outputs[0].placement == "[R]"
    assert {key: total.settings[key] for key in ("group", "group_size", "group_ranks", "bytes")} == {
        "group": "tp",
        "group_size": 2,
        "group_ranks": "0, 1",
        "bytes": 2 * 8 * 32 * 4,
    }
    assert step_of(trace, "layers.0.add#0").inputs[1].source == total.id


@pytest.mark.parametrize("divide", [divide_by_heads, divide_by_words])
def test_exchanges_are_those_that_torch_counts(divide):
    with fake_ranks(2):
        mesh = torch.distributed.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        model = divide(make_gpt(), mesh)
        with CommDebugMode() as counted:
            model(WORDS)
        trace = xray.trace(model, WORDS)

    names = {"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter"}
    known = Counter()
    for op, times in counted.get_comm_counts().items():
        name = op.__name__.removeprefix("c10d_functional.")
        known[names.get(name, name)] += times
    assert Counter(step.op for step in trace.steps if "group" in step.settings) == known
    assert known


class Sending(nn.Module):
    """An expert on each rank: half of the words go to the other one, and come back."""

    def __init__(self):
        super().__init__()
        self.expert = nn.Linear(16, 16)

    def forward(self, x):
        world = torch.distributed.group.WORLD
        sent = all_to_all_single_autograd(x, None, None, world)
        return x + all_to_all_single_autograd(self.expert(sent), None, None, world)


def test_words_that_are_sent_to_experts_are_steps_both_ways():
    with fake_ranks(2):
        model = Sending()
        with xray.record(model) as recorder:
            model(torch.rand(8, 16, requires_grad=True)).sum().backward()

    sent = [step for step in recorder.trace.steps if step.op == "all_to_all"]
    assert [step.settings.get("during") for step in sent] == [None, None, "backward", "backward"]
    assert {(step.settings["group_ranks"], step.settings["bytes"]) for step in sent} == {("0, 1", 8 * 16 * 4)}
    expert = step_of(recorder.trace, "expert#0")
    assert expert.inputs[0].source == sent[0].id
    assert sent[1].inputs[0].source == expert.id


def test_a_part_that_does_not_fit_is_told_by_the_sizes_that_met():
    with fake_ranks(2):
        mesh = torch.distributed.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        model = nn.Sequential(nn.Linear(8, 12), nn.Unflatten(1, (3, 4)))
        divided = parallelize_module(model, mesh, {"0": ColwiseParallel()})
        with pytest.raises(RuntimeError) as caught:
            xray.trace(divided, torch.rand(2, 8))

    failed = [step for step in vars(caught.value)["xray_trace"].steps if step.error is not None]
    assert {operand.sizes for operand in find_misfit(failed[-1]).operands} == {(2, 6)}


def test_the_page_tells_of_a_script_what_is_known_without_its_mesh():
    packed = pack_ranks(record_divided(divide_by_heads))

    assert packed is not None
    assert (packed["mesh"], packed["rank"], packed["slices"]) == ({}, None, [])
    assert {one[0] for one in packed["weights"]} >= {"layers.*.up.weight", "layers.*.attention.out.weight"}


def test_the_process_is_alone_again_afterwards():
    before = dict(os.environ)

    for ranks in (2, 4):
        record_divided(divide_by_heads, ranks)

        assert not torch.distributed.is_initialized()
    assert dict(os.environ) == before


def test_a_model_that_nobody_divided_has_no_parts():
    trace = xray.trace(make_gpt(), WORDS)

    assert [record for _, record in records_of(trace) if record.local is not None] == []
