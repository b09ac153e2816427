"""Models that others wrap, compile, checkpoint, quantise, divide or change: recorded inside, computed as ever."""

import copy
import gc

import pytest
import torch
from capture.hard_models import Model, ops
from capture_invariants import run_twice
from torch import nn

from xray.capture.recorder import record, trace


@pytest.mark.parametrize(
    "wrap", [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm], ids=["weight", "spectral"]
)
def test_parametrised_weights_are_recorded_and_their_state_moves_once(wrap):
    torch.manual_seed(3)
    model = nn.Sequential(wrap(nn.Linear(5, 7)), nn.ReLU())
    twin, x = copy.deepcopy(model), torch.randn(2, 5)
    expected = twin(x)

    with record(model) as recorder:
        out = model(x)

    assert torch.equal(out, expected)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True))
    assert "parametrized_linear" in ops(recorder.trace)


def test_batch_norm_moves_its_statistics_once():
    model = nn.Sequential(nn.BatchNorm1d(3))
    twin, x = copy.deepcopy(model), torch.randn(5, 3)
    twin(x)

    trace(model, x)

    assert torch.equal(model[0].running_mean, twin[0].running_mean)  # type: ignore[arg-type]
    assert model[0].num_batches_tracked == 1


def test_functional_call_shows_the_parameters_it_was_given():
    model = nn.Linear(3, 5)
    given = {"weight": torch.zeros(5, 3), "bias": torch.ones(5)}
    with record(model) as recorder:
        out = torch.func.functional_call(model, given, (torch.ones(2, 3),))

    assert out.unique().tolist() == [1]
    assert recorder.trace.steps[0].outputs[0].shape == (2, 5)


def test_gradients_inside_the_forward_are_the_same():
    model = Model(lambda x: torch.func.grad(lambda one: (one * one).sum())(x) + 1)

    recorded = run_twice(model, torch.arange(3.0))

    assert "add" in ops(recorded)


def test_masks_under_vmap_are_not_read():
    model = Model(lambda x, mask: torch.vmap(lambda one, mask: one.masked_fill(mask, 0.0))(x, mask))

    recorded = run_twice(model, torch.ones(2, 3, 3), torch.ones(2, 3, 3).bool())

    assert "masked_fill" in ops(recorded)


def test_a_compiled_part_is_recorded_inside_and_stays_compiled():
    inner = torch.compile(nn.Linear(3, 3), backend="eager")
    model, x = nn.Sequential(inner, nn.ReLU()), torch.ones(2, 3)  # type: ignore[call-overload]
    model(x)
    count = torch._dynamo.utils.counters["stats"]["unique_graphs"]

    recorded = run_twice(model, x)

    assert ops(recorded)[-2:] == ["linear", "relu"]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == count


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_block_is_recorded_once_in_both_modes(reentrant):
    from torch.utils.checkpoint import checkpoint

    linear = nn.Linear(3, 3)
    model = Model(lambda x: checkpoint(linear, x, use_reentrant=reentrant), linear=linear)
    x = torch.ones(2, 3, requires_grad=True)
    with record(model) as recorder:
        model(x).sum().backward()

    assert ops(recorder.trace).count("linear") == 1
    assert x.grad.shape == (2, 3)


@pytest.mark.parametrize("quantise", [True, False])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_dynamically_quantised_layers_are_recorded(quantise):
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    if quantise:
        torch.backends.quantized.engine = torch.backends.quantized.supported_engines[-1]
        model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)

    recorded = run_twice(model, torch.ones(2, 8))

    assert [step.outputs[0].shape for step in recorded.steps][-2:] == [(2, 4), (2, 4)]


def test_autocast_shows_the_types_that_were_computed_in():
    model = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        recorded = run_twice(model, torch.ones(2, 3))

        plain = str(model(torch.ones(2, 3)).dtype).removeprefix("torch.")

    assert [step.outputs[0].dtype for step in recorded.steps] == [plain, "bfloat16", plain]


def test_a_model_wrapped_for_data_parallel_is_recorded_inside():
    recorded = run_twice(nn.DataParallel(nn.Linear(3, 5)), torch.ones(2, 3))

    assert [step.path for step in recorded.steps] == ["DataParallel", "module"]


def test_a_model_wrapped_for_distributed_training_is_recorded_inside(tmp_path):
    def record_step():
        model = nn.parallel.DistributedDataParallel(nn.Linear(3, 5))
        with record(model) as recorder:
            model(torch.ones(2, 3)).sum().backward()
        return recorder.trace

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        steps = record_step().steps
    finally:
        gc.collect()  # a group that a model still holds ends with the model, and may then wait for itself for ever
        torch.distributed.destroy_process_group()

    paths = [step.path for step in steps]
    assert paths[:2] == ["DistributedDataParallel", "module"]
    assert paths[-2:] == ["backward", "all_reduce"]
    assert steps[-1].parent == steps[-2].id


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flexible_attention_runs_and_its_inputs_are_seen():
    from torch.nn.attention.flex_attention import flex_attention

    model = Model(lambda q: flex_attention(q, q, q) + 1)
    x = torch.randn(1, 2, 16, 16)
    with record(model) as recorder:
        out = model(x)

    assert out.shape == x.shape
    assert ops(recorder.trace)[-1] == "add"
