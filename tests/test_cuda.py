"""On a GPU all is as on the CPU: the training, the answers, the recording and the poster."""

import re
import runpy
from functools import partial
from pathlib import Path

import pytest
import torch
from small_runs import LESSONS, MODEL, write_pairs
from torch.nn.attention import SDPBackend, sdpa_kernel

import xray
from xray.capture.targets.run import Run
from xray.config import TrainConfig
from xray.data.reading.source import Source
from xray.learn.runs.begin import begin_training, resume_training
from xray.learn.runs.load import load_run, untrained_chatbot
from xray.model.fast.loss import judge_answers

ROOT = Path(__file__).parent.parent
APART = {"llama_405b.py", "lstm.py"}
"""What fits no machine, and what has to have lengths on the processor, and no layers on a stream."""
EXAMPLES = sorted({path.name for path in (ROOT / "examples").glob("*.py")} - APART)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


def shapes_of(trace):
    return [(step.id, [(r.shape, r.axes) for r in step.outputs]) for one in trace.passes for step in one.steps]


def test_a_trace_has_the_shapes_of_the_cpu():
    on_cpu = Run(untrained_chatbot(device="cpu")).trace("training")
    on_gpu = Run(untrained_chatbot(device="cuda")).trace("training")

    assert shapes_of(on_gpu) == shapes_of(on_cpu)
    assert {r.device for step in on_gpu.steps for r in step.outputs} == {"cuda:0"}


class Attends(torch.nn.Module):
    """Causal attention of one tensor to itself, in whatever kernel is chosen."""

    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


def move_to(one, device, kind):
    return one.to(device, kind) if isinstance(one, torch.nn.Module) or one.is_floating_point() else one.to(device)


def test_recording_changes_nothing():
    model = torch.nn.Transformer(32, 4, 1, 1, 64, dropout=0.1, batch_first=True).cuda()
    src, tgt = torch.rand(2, 5, 32, device="cuda"), torch.rand(2, 7, 32, device="cuda")
    torch.manual_seed(3)
    plain, state = model(src, tgt), torch.cuda.get_rng_state()

    torch.manual_seed(3)
    with xray.record(model):
        recorded = model(src, tgt)

    assert torch.equal(plain, recorded)
    assert torch.equal(torch.cuda.get_rng_state(), state)


def but_kernels(anatomy):
    """All that an anatomy tells but the names of the kernels of attention, which are those of a device."""
    return re.sub(r"kernel='scaled_dot_product_\w+'", "kernel=…", repr(anatomy))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:nested_from_padded CUDA kernels")
@pytest.mark.parametrize("script", EXAMPLES)
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_a_model_has_the_anatomy_that_it_has_on_the_cpu(script, kind):
    """Their steps may differ, as one kernel gives more beside than another."""
    pytest.importorskip("transformers", reason="most of the examples are models of transformers")
    traces = []
    for device in ("cpu", "cuda"):
        model, given = runpy.run_path(str(ROOT / "examples" / script))["build"]()
        move = partial(move_to, device=device, kind=getattr(torch, kind))
        keywords = {name: move(one) for name, one in given.items()} if isinstance(given, dict) else {}
        with torch.no_grad():
            traces.append(xray.trace(move(model), *([] if keywords else map(move, given)), **keywords))

    on_cpu, on_gpu = traces
    assert but_kernels(xray.anatomy(on_gpu)) == but_kernels(xray.anatomy(on_cpu))
    assert {one.kind for one in xray.audit(on_gpu).alarms} == {one.kind for one in xray.audit(on_cpu).alarms}


@pytest.mark.parametrize("backend", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"])
def test_every_kernel_of_attention_is_opened_alike(backend):
    query = torch.randn(2, 4, 64, 16, dtype=torch.bfloat16)
    module = Attends()
    on_cpu = xray.trace(module, query)
    with sdpa_kernel(getattr(SDPBackend, backend)):
        on_gpu = xray.trace(module, query.cuda())

    assert shapes_of(on_gpu) == shapes_of(on_cpu)


def test_the_poster_of_a_gpu_is_drawn():
    trace = Run(untrained_chatbot(device="cuda")).trace("both", max_turns=3)

    assert "8×10" in xray.render(trace, "table")
    assert xray.render(trace, "svg").startswith("<?xml")


def test_what_was_trained_on_a_gpu_answers_alike_on_the_cpu(tmp_path):
    source = Source(write_pairs(tmp_path / "pairs.csv"))
    with begin_training(source, tmp_path / "run", MODEL, TrainConfig(**LESSONS), "cuda") as training:
        assert [type(made).__name__ for made in training.go_on()].count("Epoch") == LESSONS["epochs"]

    on_gpu, on_cpu = load_run(tmp_path / "run", "cuda"), load_run(tmp_path / "run", "cpu")

    questions = [pair.question for pair in on_cpu.poster_pairs]
    assert [on_gpu.answer(question) for question in questions] == [on_cpu.answer(question) for question in questions]


@pytest.mark.parametrize(("number_type", "near"), [(torch.float32, 1e-4), (torch.bfloat16, 3e-2)])
def test_the_loss_in_blocks_is_that_of_the_cpu(monkeypatch, number_type, near):
    monkeypatch.setattr("xray.model.fast.loss.BLOCK", 40_000)
    chance = torch.Generator().manual_seed(3)
    made = [torch.randn(*shape, generator=chance) for shape in ((5, 31, 64), (2003, 64), (2003,))]
    targets = torch.randint(2, 2003, (5, 31), generator=chance)
    found = []
    for device, kind in (("cpu", torch.float32), ("cuda", number_type)):
        states, weight, bias = (one.to(device).requires_grad_() for one in made)
        loss = judge_answers(states, weight, bias, targets.to(device), 0.1, kind)
        slopes = torch.autograd.grad(loss, (states, weight, bias))
        found.append([one.detach().cpu() for one in (loss, *slopes)])

    for one, other in zip(*found, strict=True):
        assert (one - other).norm() <= near * one.norm()


def test_a_run_stopped_on_a_gpu_ends_like_one_that_never_stopped(tmp_path):
    source, kept = Source(write_pairs(tmp_path / "pairs.csv")), []
    for name, stops in (("whole", False), ("stopped", True)):
        config = TrainConfig(**{**LESSONS, "average": 2})
        with begin_training(source, tmp_path / name, MODEL, config, "cuda") as training:
            for number, _ in enumerate(training.go_on()):
                if stops and number == 9:
                    break
            training.save()
        with resume_training(tmp_path / name, device="cuda") as training:
            list(training.go_on())
            kept.append(training.checkpoint().tensors)

    assert [name for name, one in kept[0].items() if not torch.equal(one.cpu(), kept[1][name].cpu())] == []
