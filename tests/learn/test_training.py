"""Runs begun, stopped at any point, taken up again: the same weights in the end, bit for bit."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from small_runs import PAIRS, begin_small, finish_small, write_pairs

from xray.data.pairs import Pair
from xray.data.reading.source import Source
from xray.errors import ConfigError, DataError, RunError
from xray.learn.runs.begin import begin_training, resume_training
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.run_folder import BEST, LAST, RunFolder
from xray.learn.steps.made import Epoch, Step

STEPS_PER_EPOCH = 6


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finish_small(tmp_path_factory.mktemp("finished"))


def weights_of(run, name=LAST):
    return read_checkpoint(RunFolder(run), name).tensors


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def take_steps(training, steps):
    for made in training.go_on():
        steps -= isinstance(made, Step)
        if not steps:
            return


def test_the_same_seed_gives_the_same_weights(tmp_path, finished):
    assert_same(weights_of(finish_small(tmp_path)), weights_of(finished))


def test_another_seed_gives_other_weights(tmp_path, finished):
    other = weights_of(finish_small(tmp_path, lessons={"seed": 11}))
    assert not torch.equal(other["model.head.weight"], weights_of(finished)["model.head.weight"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("steps", [1, STEPS_PER_EPOCH, STEPS_PER_EPOCH + 1, 4 * STEPS_PER_EPOCH + 5])
def test_a_stopped_run_ends_like_one_that_never_stopped(tmp_path, finished, steps):
    with begin_small(tmp_path) as training:
        take_steps(training, steps)
        training.save()
    with resume_training(tmp_path / "run", device="cpu") as training:
        for _ in training.go_on():
            pass
    assert_same(weights_of(tmp_path / "run"), weights_of(finished))


@pytest.mark.slow
def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, finished):
    program = (
        "import os, pathlib, small_runs, xray.learn.runs.saved_training as t\n"
        "t.SAVE_EVERY_S = 0\n"
        f"with small_runs.begin_small(pathlib.Path({str(tmp_path)!r})) as training:\n"
        "    for number, _ in enumerate(training.go_on()):\n"
        "        if number == 16: os.kill(os.getpid(), 9)\n"
    )
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": tests, "PATH": ""}, check=False)
    assert done.returncode == -9
    with resume_training(tmp_path / "run", device="cpu") as training:
        assert training.trainer.epoch == 2
        for _ in training.go_on():
            pass
    ended, never_stopped = dict(weights_of(tmp_path / "run")), weights_of(finished)
    assert_same(ended, never_stopped)


def test_best_is_kept_when_held_out_loss_is_lowest(tmp_path):
    kept = {}
    with begin_small(tmp_path) as training:
        for made in training.go_on():
            if isinstance(made, Epoch) and made.is_best:
                kept = {f"model.{name}": value.clone() for name, value in training.trainer.model.named_parameters()}
    assert_same(weights_of(tmp_path / "run", BEST), kept)


def test_the_loss_falls(tmp_path):
    with begin_small(tmp_path, lessons={"epochs": 11}) as training:
        epochs = [made for made in training.go_on() if isinstance(made, Epoch)]
    assert epochs[-1].loss < epochs[0].loss


def test_training_leaves_the_callers_chance_and_threads_alone(tmp_path):
    torch.manual_seed(13)
    expected, threads = torch.rand(3), torch.get_num_threads()
    torch.manual_seed(13)
    finish_small(tmp_path)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_one_pair_trains_without_a_validation_set(tmp_path):
    with begin_small(tmp_path, pairs=PAIRS[:1]) as training:
        epochs = [made for made in training.go_on() if isinstance(made, Epoch)]
    assert training.notes == ("no validation set: 1 pair is too few",)
    assert [epoch.valid_loss for epoch in epochs] == [None] * 5


def test_words_beyond_the_vocabulary_are_reported(tmp_path):
    with begin_small(tmp_path, settings={"tgt_vocab": 30}) as training:
        assert training.notes[0].endswith(
            "words of the answers are beyond the vocabulary of 30 and become <unk>: raise --tgt-vocab to keep them"
        )


def test_a_run_is_not_overwritten_unasked(finished):
    with (
        pytest.raises(RunError, match=r"holds a run already\. Go on with it \(--resume\)"),
        begin_small(finished.parent),
    ):
        pass


def test_a_run_is_overwritten_if_asked(tmp_path):
    finish_small(tmp_path)
    with begin_small(tmp_path, overwrite=True) as training:
        assert training.trainer.steps_made == 0


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    with (
        begin_small(tmp_path),
        pytest.raises(RunError, match="is in use: another process trains there"),
        resume_training(tmp_path / "run", device="cpu"),
    ):
        pass


def test_a_bad_corpus_leaves_nothing_behind(tmp_path):
    with pytest.raises(DataError), begin_training(Source(tmp_path / "none.csv"), tmp_path / "run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_bad_configuration_leaves_nothing_behind(tmp_path):
    with pytest.raises(ConfigError, match=r"^heads=5 does not divide d_model=22\. Choose 1, 2, 11 or 22\.$"):
        begin_small(tmp_path, settings={"heads": 5}).__enter__()
    assert not (tmp_path / "run").exists()


def test_an_unwritable_folder_is_found_before_the_first_step(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(RunError, match=r"run: (file exists|not a directory).*\. Choose another folder with --out\.$"):
        begin_small(tmp_path).__enter__()


def test_a_changed_corpus_is_noticed(tmp_path):
    with begin_small(tmp_path):
        pass
    write_pairs(tmp_path / "pairs.csv", (*PAIRS, Pair("New?", "Yes.")))
    with pytest.raises(
        RunError, match=r"^pairs\.csv is not the corpus that .*run was begun with, or has changed since\."
    ):
        resume_training(tmp_path / "run", device="cpu").__enter__()


def test_other_settings_at_resume_are_named(finished):
    with pytest.raises(RunError, match=r"was begun with heads=2, and --resume asks for 11\. Leave the option out"):
        resume_training(finished, wishes={"d_model": 22, "heads": 11}, device="cpu").__enter__()


def test_a_loss_that_is_no_number_stops_and_keeps_what_was_saved(tmp_path):
    with begin_small(tmp_path) as training:
        saved = dict(weights_of(tmp_path / "run"))
        with torch.no_grad():
            training.trainer.model.head.bias.fill_(float("nan"))
        with pytest.raises(
            RunError, match=r"^the loss became nan in epoch 1, step 1: training stopped, .* Lower --lr, now 0\.0025\.$"
        ):
            next(training.go_on())
        with pytest.raises(RunError, match=r"^the weights head\.bias are no longer finite in epoch 1"):
            training.save()
    assert_same(weights_of(tmp_path / "run"), saved)


def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path, monkeypatch):
    with begin_small(tmp_path) as training:
        saved = dict(weights_of(tmp_path / "run"))
        take_steps(training, 2)

        def refuse(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", refuse)
        message = r"cannot save .*last\.safetensors: no space left on device\. What was saved before is untouched\.$"
        with pytest.raises(RunError, match=message):
            training.save()
    assert_same(weights_of(tmp_path / "run"), saved)
    assert list((tmp_path / "run").glob("*.part")) + list((tmp_path / "run").glob(".*.part")) == []


def test_what_a_killed_process_left_aside_is_removed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".last.safetensors.123.part").write_text("half")
    finish_small(tmp_path)
    assert list((tmp_path / "run").glob(".*.part")) == []


def test_training_works_in_a_thread(tmp_path):
    runs = []
    thread = threading.Thread(target=lambda: runs.append(finish_small(tmp_path)))
    thread.start()
    thread.join()
    assert runs == [tmp_path / "run"]


def test_a_run_folder_holds_no_pickle(finished):
    kinds = {path.suffix for path in finished.iterdir() if path.name != ".lock"}
    assert kinds == {".json", ".safetensors", ".arrow"}
