"""What is told of a rank that is not there is what two and four real processes measure of themselves."""

import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers, whose models these are, is not installed")

import torch

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 8):
    pytest.skip("the library divides models with torch 2.8 and newer", allow_module_level=True)

from conftest import make_once
from rank_specimens import SPECIMENS
from torch.distributed.tensor.debug import CommDebugMode

from xray.capture.targets.training import find_loss
from xray.ranks.dividing import divide
from xray.ranks.fake_group import fake_ranks
from xray.ranks.mesh import parse_mesh
from xray.ranks.recording import Share, record_rank, take_share

TESTS = Path(__file__).parents[1]
CASES = [
    ("GPT", "tp=2"),
    ("GPT", "tp=4"),
    ("GPT", "fsdp=2"),
    ("GPT", "fsdp=2,tp=2"),
    ("Llama", "tp=2"),
    ("Llama", "tp=4"),
    ("Llama", "fsdp=2"),
    ("Llama", "fsdp=2,tp=2"),
    ("Llama", "dp=2,tp=2"),
    ("Mixtral", "tp=2"),
    ("Mixtral", "fsdp=2"),
    ("Mixtral", "fsdp=2,tp=2"),
    ("Mixtral", "ep=2"),
    ("Mixtral", "ep=4"),
    ("Mixtral", "tp=2,ep=2"),
]
BACK = [
    ("GPT", "tp=2"),
    ("GPT", "fsdp=2"),
    ("GPT", "dp=2"),
    ("GPT", "dp=2,tp=2"),
    ("Llama", "fsdp=2"),
    ("Llama", "fsdp=2,tp=2"),
    ("Llama", "dp=2,fsdp=2"),
    ("Mixtral", "fsdp=2"),
    ("Mixtral", "ep=2"),
]
NAMES = {
    "all_gather_into_tensor": "all_gather",
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
}


def record(name, mesh, rank=0, *, trains=False):
    specimen = SPECIMENS[name]
    outcome = record_rank(specimen.target(), Share(parse_mesh(mesh), rank, specimen.plan, trains))
    assert outcome.error is None
    return outcome.trace


def exchanges_of(trace):
    return [step for step in trace.steps if "group" in step.settings]


@pytest.fixture(scope="session")
def measure(tmp_path_factory):
    """What each of so many real processes tells of every case with as many ranks, by how many they are."""

    @cache
    def told(count):
        folder = make_once(tmp_path_factory, f"ranks-{count}", partial(run_processes, count))
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(count)]

    return told


def run_processes(count, folder):
    """So many real processes, of which each writes into a folder what it measures."""
    cases = [f"{name}:{mesh}" for name, mesh in CASES if parse_mesh(mesh).count == count]
    cases += [f"{name}:{mesh}:back" for name, mesh in BACK if parse_mesh(mesh).count == count]
    places = os.pathsep.join((str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")))
    env = {**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    worker = [sys.executable, str(TESTS / "ranks" / "gloo_worker.py"), str(count), str(folder), *cases]
    ended = subprocess.run(worker, env=env, capture_output=True, text=True, check=False, timeout=500)
    assert ended.returncode == 0, ended.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mesh"), CASES)
def test_real_processes_see_the_same(measure, name, mesh):
    for rank, measured in enumerate(measure(parse_mesh(mesh).count)):
        told, trace = measured[f"{name}:{mesh}"], record(name, mesh, rank)
        check_shapes(told, trace)
        found = exchanges_of(trace)
        amounts = Counter()
        for step in found:
            amounts[step.op] += step.settings["bytes"]
        assert Counter(step.op for step in found) == told["times"]
        assert amounts == told["bytes"]
        assert told["recorded"], "a recording in the real process tells other exchanges"
        assert told["same"], "recording changed the numbers"
        assert told["distance"] < 1e-4, "the divided model does not compute what the whole does"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mesh"), BACK)
def test_real_processes_exchange_the_same_on_the_way_back(measure, name, mesh):
    for rank, measured in enumerate(measure(parse_mesh(mesh).count)):
        told, trace = measured[f"{name}:{mesh}:back"], record(name, mesh, rank, trains=True)
        amounts = Counter()
        for step in exchanges_of(trace):
            amounts[step.op] += step.settings["bytes"]
        assert Counter(step.op for step in exchanges_of(trace)) == told["times"]
        assert amounts == told["bytes"]
        assert {step.settings.get("during") for step in exchanges_of(trace)} >= {"backward"}
        gradients = next(step for step in trace.steps if step.op == "backward").outputs
        assert {one.name.removesuffix(".grad"): list(one.local) for one in gradients} == told["gradients"]
        assert told["recorded"], "a recording in the real process tells other exchanges"
        assert told["compared"] > 3
        assert told["distance"] < 1e-3, "the divided model does not learn what the whole does"


def check_shapes(told, trace):
    """Hold what the processes' own hooks saw to what is told of modules and of weights."""
    steps = {step.path: step for step in reversed(trace.steps) if step.module}
    gathered = {step.inputs[0].source for step in trace.steps if step.op == "all_gather"}
    compared = 0
    for path, made in told["shapes"].items():
        if path in steps and made is not None:
            record = steps[path].outputs[0]
            last = record.shape if steps[path].id in gathered else record.local
            assert [*record.local[:-1], *last[-1:]] == made, path
            compared += 1
    assert compared > 12
    for path, shape in told["weights"].items():
        owner, _, weight = path.rpartition(".")
        if owner in steps and f"{weight}_local" in steps[owner].settings:
            assert steps[owner].settings[f"{weight}_local"] == "x".join(map(str, shape)), path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*ackward hook:UserWarning")  # says torch's own counter
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module:UserWarning")
@pytest.mark.parametrize(
    ("name", "mesh", "trains"), [*((*one, False) for one in CASES), *((*one, True) for one in BACK)]
)
def test_exchanges_are_those_that_torch_counts(name, mesh, trains):
    specimen, asked = SPECIMENS[name], parse_mesh(mesh)
    with fake_ranks(asked.count):
        model = divide(specimen.make(), asked, specimen.plan, trains=trains)
        given = take_share(specimen.target(model), asked, 0)
        with torch.set_grad_enabled(trains), CommDebugMode() as counted:
            made = model(**given)
            if trains:
                find_loss(made).backward()

    known = Counter()
    for op, times in counted.get_comm_counts().items():
        known[NAMES[op.__name__.rpartition(".")[2]]] += times
    assert Counter(step.op for step in exchanges_of(record(name, mesh, trains=trains))) == known
    assert known
