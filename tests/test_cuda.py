"""On a GPU all is as on the CPU: the training, the answers, the recording and the poster."""

import pytest
import torch
from small_runs import LESSONS, MODEL, write_pairs

import xray
from xray.capture.run import Run
from xray.config import TrainConfig
from xray.data.reading.source import Source
from xray.learn.runs.begin import begin_training
from xray.learn.runs.load import load_run, untrained_chatbot

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


def shapes_of(trace):
    return [(step.id, [(r.shape, r.axes) for r in step.outputs]) for one in trace.passes for step in one.steps]


def test_a_trace_has_the_shapes_of_the_cpu():
    on_cpu = Run(untrained_chatbot(device="cpu")).trace("training")
    on_gpu = Run(untrained_chatbot(device="cuda")).trace("training")

    assert shapes_of(on_gpu) == shapes_of(on_cpu)
    assert {r.device for step in on_gpu.steps for r in step.outputs} == {"cuda:0"}


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
