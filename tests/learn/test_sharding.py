"""Weights divided among several processes: they learn what whole ones learn, and go on with any number of processes."""

import signal
import sys
from pathlib import Path

import pytest
import torch
from learn.test_processes import small_arguments, start, stop_after_an_epoch
from small_runs import finish_small, write_pairs

from xray.errors import ConfigError, UsageError
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.run_folder import AVERAGE, LAST, RunFolder
from xray.learn.steps.processes import World, check_sharding, join_world

MORE = ("--average", "2", "--best-by", "answers", "--sharing", "decoder", "--accumulate", "2", "--optimiser", "adamw")
LESSONS = {"batch": 5, "average": 2, "best_by": "answers", "accumulate": 2, "optimiser": "adamw"}


@pytest.fixture
def alone(tmp_path):
    """A run of eight epochs that one process has trained, with all of the weights."""
    (tmp_path / "alone").mkdir()
    settings = {"dropout": 0.0, "sharing": "decoder"}
    return finish_small(tmp_path / "alone", settings=settings, lessons={**LESSONS, "epochs": 8})


def finish(folder, processes, *arguments):
    with start(folder, small_arguments(folder, *arguments), processes) as process:
        said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said


def assert_alike(one, other, name):
    """The same tensors within rounding; a key's bias has no gradient but rounding, since softmax does not see it."""
    wanted, found = (read_checkpoint(RunFolder(folder), name) for folder in (one, other))
    assert found.tensors.keys() == wanted.tensors.keys()
    compared = [key for key in wanted.tensors if not key.startswith("random.") and not key.endswith("key.bias")]
    far = [key for key in compared if not torch.allclose(wanted.tensors[key], found.tensors[key], atol=2e-3)]
    assert far == []
    told = [
        [epoch[key] or 0.0 for epoch in one.facts["history"] for key in ("loss", "valid_loss", "right", "mean_loss")]
        for one in (wanted, found)
    ]
    assert told[1] == pytest.approx(told[0], abs=1e-3)


@pytest.mark.slow
def test_divided_weights_learn_what_whole_ones_learn(tmp_path, alone):
    """Three processes cannot divide 22 rows evenly, and share a last batch of a single pair."""
    write_pairs(tmp_path / "pairs.csv")
    said = finish(tmp_path, 3, "--epochs", "8", "--shard", *MORE)
    assert_alike(alone, tmp_path / "run", LAST)
    assert_alike(alone, tmp_path / "run", AVERAGE)
    assert said.count("epoch 8 of 8: ") == 1
    assert "Warning" not in said


@pytest.mark.slow
def test_a_divided_run_goes_on_with_other_processes(tmp_path, alone):
    write_pairs(tmp_path / "pairs.csv")
    said = stop_after_an_epoch(tmp_path, "--epochs", "8", "--shard", *MORE)
    assert "everything is kept. Go on with: xray train --resume" in said
    finish(tmp_path, 3, "--resume", "--shard")
    assert_alike(alone, tmp_path / "run", LAST)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a launcher are found by /proc")
def test_a_divided_run_goes_on_after_one_process_was_killed(tmp_path, alone):
    """The other process cannot go on by itself; what was kept last is whole and taken up by three."""
    write_pairs(tmp_path / "pairs.csv")
    said = stop_after_an_epoch(
        tmp_path, "--epochs", "8", "--shard", *MORE, number=signal.SIGKILL, which=find_last_process
    )
    assert "Signal 9" in said
    assert read_checkpoint(RunFolder(tmp_path / "run"), LAST).facts["epoch"] < 8
    finish(tmp_path, 3, "--resume", "--shard")
    assert_alike(alone, tmp_path / "run", LAST)


def find_last_process(launcher):
    """The process that a launcher started last."""
    return int(Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()[-1])


def test_weights_are_not_divided_among_one():
    with pytest.raises(UsageError, match="this one is alone"), join_world("cpu", shard=True):
        pass


def test_a_torch_that_cannot_divide_is_told_in_one_sentence(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no such\nexchange")

    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
    monkeypatch.setattr(torch.distributed, "reduce_scatter", refuse)
    with pytest.raises(ConfigError, match=r"cannot divide weights on cpu: no such exchange\. Leave --shard out"):
        check_sharding(World(0, 2, shards=True), "cpu")
    with pytest.raises(ConfigError, match="not on mps"):
        check_sharding(World(0, 2, shards=True), "mps")


def test_with_divided_weights_all_take_the_same_number_of_turns():
    turns = [list(World(rank, 3, shards=True).turns("abcdefg")) for rank in range(3)]
    assert [len(one) for one in turns] == [3, 3, 3]
    assert sorted(thing for one in turns for thing, counts in one if counts) == list("abcdefg")
