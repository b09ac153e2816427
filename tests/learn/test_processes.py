"""Several processes that train one model: what they learn, how they stop, and who speaks."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT, plain_environment
from small_runs import PAIRS, finish_small, write_pairs

from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.run_folder import LAST, RunFolder
from xray.learn.steps.processes import World

TESTS = ROOT / "tests"


def start(folder, program, processes=2):
    """Start `program` in several processes, as torchrun does."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [*torchrun, *program],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=plain_environment(
            PYTHONPATH=os.pathsep.join((str(TESTS), str(ROOT))), OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1"
        ),
    )


def small_arguments(folder, *more):
    sizes = ["--d-model", "22", "--heads", "2", "--d-ff", "13", "--encoder-layers", "1", "--decoder-layers", "2"]
    lessons = ["--batch", "5", "--valid-share", "0.1", "--seed", "7", "--max-len", "19"]
    return ["-m", "xray", "train", str(folder / "pairs.csv"), "--out", str(folder / "run"), *sizes, *lessons, *more]


def stop_after_an_epoch(folder, *arguments, number=signal.SIGTERM, which=lambda launcher: launcher):
    """Begin training, send the signal to one of the processes once an epoch is done; what all said until they ended."""
    with start(folder, small_arguments(folder, *arguments)) as process:
        before = []
        for line in process.stdout:
            before.append(line)
            if line.startswith("epoch 1 of "):
                break
        os.kill(which(process.pid), number)
        return "".join(before) + process.stdout.read()


@pytest.fixture
def together(tmp_path):
    """A small run trained by two processes, and what they said."""
    write_pairs(tmp_path / "pairs.csv")
    with start(tmp_path, small_arguments(tmp_path, "--epochs", "2")) as process:
        said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return tmp_path / "run", said


@pytest.fixture
def alone(tmp_path_factory):
    lessons = {"epochs": 2, "batch": 5}
    return finish_small(tmp_path_factory.mktemp("alone"), settings={"dropout": 0.0}, lessons=lessons)


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(together, alone):
    """Within rounding; a key's bias has no gradient but rounding, since softmax does not see it."""
    run, said = together
    one, two = (read_checkpoint(RunFolder(folder), LAST) for folder in (alone, run))
    wanted = {name: one.tensors[name] for name in one.tensors if name.startswith("model.")}
    far = [name for name, tensor in wanted.items() if not torch.allclose(tensor, two.tensors[name], atol=2e-3)]
    assert [name for name in far if not name.endswith("key.bias")] == []
    losses = [[(epoch["loss"], epoch["valid_loss"]) for epoch in each.facts["history"]] for each in (one, two)]
    assert losses[1] == [pytest.approx(epoch, abs=1e-4) for epoch in losses[0]]
    assert len(re.findall(r"^epoch 2 of 2: ", said, re.MULTILINE)) == 1


@pytest.mark.slow
def test_all_processes_stop_together_and_keep_everything(tmp_path):
    write_pairs(tmp_path / "pairs.csv")
    said = stop_after_an_epoch(tmp_path, "--epochs", "100000")
    assert "everything is kept. Go on with: xray train --resume" in said
    assert said.count("Traceback") <= 1  # torchrun's own
    assert read_checkpoint(RunFolder(tmp_path / "run"), LAST).facts["epoch"] >= 1


@pytest.mark.slow
def test_a_corpus_that_cannot_be_read_ends_all_with_one_line(tmp_path):
    with start(tmp_path, small_arguments(tmp_path)) as process:
        said, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert said.count("xray: cannot read") == 1
    assert list(tmp_path.iterdir()) == []


LEAVE = """
import pathlib, sys, torch
from xray.config import ModelConfig, TrainConfig
from xray.learn.steps.optimiser import make_optimiser
from xray.learn.steps.processes import join_world
from xray.model.fast.forward import FastForward
from xray.model.fast.packed_weights import PackedWeights
from xray.model.fast.sharded_weights import ShardedWeights
from xray.model.transformer import Transformer

def learn(world):
    model = Transformer(ModelConfig(src_vocab=7, tgt_vocab=7, d_model=6, heads=2, d_ff=5))
    device = torch.device("cpu")
    weights = ShardedWeights(model, device, world.rank, world.size) if world.shards else PackedWeights(model)
    ids = torch.tensor([[2, 5, 3]])
    weights.go_backward(weights.inside("", FastForward(weights), ids, ids).sum())
    weights.gather_gradients()
    make_optimiser(weights, TrainConfig()).step()
    assert world.add_numbers(1.0) == (2.0,)

with join_world("cpu", shard="shard" in sys.argv) as world:
    learn(world)
names = [(task / "comm").read_text() for task in pathlib.Path("/proc/self/task").iterdir()]
(pathlib.Path("threads") / str(world.rank)).write_text("".join(names))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the names of threads stand in /proc")
@pytest.mark.parametrize("how", ["whole", "shard"])
def test_no_thread_of_the_group_outlives_it(tmp_path, how):
    """One that still lets go of a tensor while the interpreter ends would abort the process, its work done."""
    (tmp_path / "leave.py").write_text(LEAVE)
    (tmp_path / "threads").mkdir()
    with start(tmp_path, ["leave.py", how]) as process:
        said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    left = [path.read_text() for path in (tmp_path / "threads").iterdir()]
    assert [len(left), *(name for names in left for name in names.split() if "gloo" in name)] == [2]


def test_alone_a_process_does_everything():
    world = World()
    assert (world.is_writer, world.share([3, 5, 7]), world.add_numbers(2.0, 3.0)) == (True, [3, 5, 7], (2.0, 3.0))


def test_shares_are_all_pairs_once():
    shares = [World(rank, 3).share(range(11)) for rank in range(3)]
    assert sorted(number for share in shares for number in share) == list(range(11))


def test_a_wish_to_stop_is_granted_at_once_where_one_is_alone():
    world = World()
    world.stop_wanted = True
    assert world.stop_agreed


def test_a_wish_to_stop_waits_for_the_others():
    world = World(0, 2)
    world.stop_wanted = True
    assert not world.stop_agreed


def test_no_pair_is_lost_when_a_batch_is_smaller_than_the_world():
    assert [list(World(rank, 3).share(PAIRS[:2])) for rank in range(3)] == [[PAIRS[0]], [PAIRS[1]], []]
