"""A run that replaces another: the old one stays until the new one is whole, at whatever moment it stops."""

import json

import pytest
from small_runs import PAIRS, begin_small, finish_small

from xray.errors import ConfigError, RunError
from xray.learn.runs.begin import resume_training
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.load import load_run
from xray.learn.runs.run_folder import BEGUN_WITH, BEST, LAST, NEXT, PREVIOUS, RUN, RunFolder


def epochs_of(folder):
    return json.loads((folder / RUN).read_text())["training"]["epochs"]


@pytest.fixture
def old(tmp_path):
    return finish_small(tmp_path)


def refuse(*_):
    raise OSError(28, "No space left on device")


def test_the_old_run_stays_when_the_new_one_cannot_be(tmp_path, old):
    with pytest.raises(ConfigError):
        begin_small(tmp_path, settings={"heads": 5}, overwrite=True).__enter__()
    assert (epochs_of(old), load_run(old, "cpu").trained) == (5, True)


def test_the_old_run_stays_when_the_disk_is_full(tmp_path, old, monkeypatch):
    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(RunError, match="no space left on device"):
        begin_small(tmp_path, lessons={"epochs": 3}, overwrite=True).__enter__()
    monkeypatch.undo()
    assert (epochs_of(old), load_run(old, "cpu").trained) == (5, True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("moves", range(len(BEGUN_WITH) + 1))
def test_a_move_cut_short_is_taken_up_again(tmp_path, old, monkeypatch, moves):
    """Killed after so many files were put in their place."""
    left = iter(range(moves))
    replace = type(old).replace

    def stop_in_between(path, target):
        if path.parent.name == NEXT and next(left, None) is None:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(type(old), "replace", stop_in_between_writes(stop_in_between, replace))
    with pytest.raises(KeyboardInterrupt):
        begin_small(tmp_path, lessons={"epochs": 3}, overwrite=True).__enter__()
    monkeypatch.undo()
    chatbot = load_run(old, "cpu")
    assert (epochs_of(old), chatbot.trained, (old / NEXT).exists()) == (3, False, False)


def stop_in_between_writes(stop, replace):
    """Only moves out of the prepared folder count, not the renames of files being written within it."""
    return lambda path, target: replace(path, target) if path.name.endswith(".part") else stop(path, target)


def test_nothing_of_the_old_run_is_left(tmp_path, old):
    with begin_small(tmp_path, lessons={"epochs": 3}, overwrite=True):
        names = {path.name for path in old.iterdir()}
    assert names - {".lock"} == {RUN, *BEGUN_WITH}
    assert not names & {BEST, PREVIOUS, NEXT}


def test_files_of_others_stay(tmp_path, old):
    (old / "notes.txt").write_text("mine")
    with begin_small(tmp_path, overwrite=True):
        pass
    assert (old / "notes.txt").read_text() == "mine"


def test_an_unfinished_preparation_is_removed(tmp_path, old):
    (old / NEXT).mkdir()
    (old / NEXT / LAST).write_text("half")
    with resume_training(old, device="cpu"):
        assert not (old / NEXT).exists()
    assert epochs_of(old) == 5


def test_a_run_of_the_format_before_talks_but_cannot_be_resumed(old):
    run = json.loads((old / RUN).read_text())
    source = {**run["origin"]["learn"][0]}
    del source["skip_bad"]
    for name in ("origin", "text", "files", "stored"):
        del run[name]
    (old / RUN).write_text(json.dumps({**run, "format": 1, "source": source}))
    assert load_run(old, "cpu").answer(PAIRS[0].question)
    with pytest.raises(
        RunError, match=r"has the older run format 1, and this xray .* trains format 2: it can be talked"
    ):
        resume_training(old, device="cpu").__enter__()


def test_the_first_checkpoint_is_there_before_the_first_step(tmp_path):
    with begin_small(tmp_path):
        assert read_checkpoint(RunFolder(tmp_path / "run"), LAST).facts["step"] == 0
