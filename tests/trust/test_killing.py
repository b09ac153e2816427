"""Processes killed at random moments: what was complete stays whole, what is taken up again ends the same.

In CI every test kills a few times; XRAY_FUZZ_CASES=10 kills a hundred times. Each forks from one process that has
everything loaded, so that the moments fall into the work and not into the imports.
"""

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from random import Random

import pytest
import torch
from small_runs import begin_small, finish_small
from trust.amount import try_many

import xray.learn.runs.saved_training
from xray.cli.output import write_file
from xray.cli.screen.stopping import StoppedAtOnce, end_on_sigterm
from xray.errors import RunError
from xray.ir.files import read_trace_file
from xray.learn.runs.begin import resume_training
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.load import load_run
from xray.learn.runs.run_folder import BEST, LAST, PREVIOUS, RunFolder
from xray.scratch import scratch_folder, sweep_folders

FORK = multiprocessing.get_context("fork")
LESSONS = {"epochs": 8}
pytestmark = pytest.mark.skipif(os.name != "posix", reason="kill -9 is a word of POSIX")


@pytest.fixture(scope="module")
def unstopped(tmp_path_factory):
    """The weights of a run that nobody stopped."""
    return read_checkpoint(RunFolder(finish_small(tmp_path_factory.mktemp("unstopped"), lessons=LESSONS)), LAST).tensors


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A place for temporary files that is the test's own."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def kill_after(seconds, work, *arguments, number=signal.SIGKILL):
    """Do some work in a process of its own and end it after so long; its exit code, negative for a signal."""
    started = FORK.Process(target=quietly, args=(work, *arguments))
    started.start()
    time.sleep(seconds)
    os.kill(started.pid, number)
    started.join()
    return started.exitcode


def quietly(work, *arguments):
    torch.set_num_threads(1)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        work(*arguments)
    os._exit(0)


def train_on(folder):
    """Begin a run or go on with it, saving after every epoch."""
    xray.learn.runs.saved_training.SAVE_EVERY_S = 0.0
    if RunFolder(folder / "run").holds_run:
        opened = resume_training(folder / "run", device="cpu")
    else:
        opened = begin_small(folder, lessons=LESSONS)
    with opened as training:
        for _ in training.go_on():
            pass


def assert_whole(run):
    """Every checkpoint that is there is whole, and the chatbot loads and answers."""
    for name in (LAST, PREVIOUS, BEST):
        if (run / name).exists():
            read_checkpoint(RunFolder(run), name)
    assert load_run(run, "cpu").answer("Who is Ripley?") is not None


@pytest.mark.slow
def test_a_training_killed_again_and_again_ends_like_one_that_was_not(tmp_path, temporary, unstopped):
    """Ten kills in CI, a hundred on demand, each in a run that is then taken up, killed again, and ended."""

    def case(chance):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        for _ in range(2):
            kill_after(chance.uniform(0.0, 0.45), train_on, folder)
            if RunFolder(folder / "run").holds_run:
                assert_whole(folder / "run")
        sweep_folders.cache_clear()
        train_on(folder)
        ended = read_checkpoint(RunFolder(folder / "run"), LAST).tensors
        assert [name for name in unstopped if not torch.equal(unstopped[name], ended[name])] == []
        assert [path.name for path in (folder / "run").iterdir() if path.suffix == ".part"] == []
        assert list(temporary.iterdir()) == []
        shutil.rmtree(folder)

    try_many(5, case)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_training_that_is_asked_to_stop_at_any_moment_ends_like_one_that_was_not(
    tmp_path, temporary, unstopped, number, code
):
    def case(chance):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        with begin_small(folder, lessons=LESSONS):
            pass
        ready = FORK.Event()
        started = FORK.Process(target=quietly, args=(by_command, folder, ready))
        started.start()
        ready.wait(30)
        time.sleep(chance.uniform(0.0, 0.4))
        os.kill(started.pid, number)
        started.join()
        assert started.exitcode in (code, 0)
        train_on(folder)
        weights = read_checkpoint(RunFolder(folder / "run"), LAST).tensors
        assert [name for name in unstopped if not torch.equal(unstopped[name], weights[name])] == []
        shutil.rmtree(folder)

    try_many(5, case)


def by_command(folder, ready):
    """`xray train`, with all it does about signals."""
    from xray.cli.app import run

    with end_on_sigterm():
        try:
            ready.set()
            code = run(["train", "--resume", "--run", str(folder / "run")])
        except KeyboardInterrupt:
            code = 130
        except StoppedAtOnce as stopped:
            code = stopped.exit_code
    os._exit(code)


def draw_over(trace_file, target):
    """`xray draw` onto a file, again and again."""
    from xray.cli.app import run

    while True:
        run(["draw", str(trace_file), "-q", "-o", str(target)])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".svg", ".json", ".html"])
def test_a_drawing_killed_at_any_moment_leaves_a_whole_file(tmp_path, temporary, trace_file, suffix):
    from xray.cli.app import run

    target = tmp_path / f"a{suffix}"
    assert run(["draw", str(trace_file), "-q", "-o", str(target)]) == 0
    whole = target.read_bytes()

    def case(chance):
        kill_after(chance.uniform(0.0, 0.6), draw_over, trace_file, target)
        assert target.read_bytes() == whole

    try_many(2, case)
    sweep_folders.cache_clear()
    assert run(["draw", str(trace_file), "-q", "-o", str(target)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [target.name, "tmp"]
    assert [path for path in temporary.iterdir() if path.name.startswith("xray-")] == []


def write_over(target):
    data = b"x" * 300_000
    while True:
        write_file(target, data)


def test_a_file_that_is_written_again_and_again_is_whole_at_every_moment(tmp_path):
    target = tmp_path / "a.txt"
    write_file(target, b"x" * 300_000)

    def case(chance):
        kill_after(chance.uniform(0.0, 0.03), write_over, target)
        assert target.read_bytes() == b"x" * 300_000

    try_many(20, case)
    write_file(target, b"done")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def record_over(run_folder, target):
    """`xray trace` onto a file, again and again."""
    from xray.cli.app import run

    while True:
        run(["trace", "--run", str(run_folder), "-q", "-o", str(target)])


@pytest.mark.slow
def test_a_recording_killed_at_any_moment_leaves_a_whole_trace(tmp_path, temporary, kept_run):
    from xray.cli.app import run

    target = tmp_path / "a.json"
    assert run(["trace", "--run", str(kept_run), "-q", "-o", str(target)]) == 0

    def case(chance):
        kill_after(chance.uniform(0.0, 0.8), record_over, kept_run, target)
        read_trace_file(target)

    try_many(3, case)
    assert run(["trace", "--run", str(kept_run), "-q", "-o", str(target)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "tmp"]


def hold_scratch():
    with scratch_folder() as place:
        (place / "corpus").write_text("large")
        time.sleep(60)


def test_what_a_killed_process_kept_for_a_while_is_removed_by_the_next(temporary):
    kill_after(0.3, hold_scratch)
    assert len(list(temporary.iterdir())) == 1
    sweep_folders.cache_clear()
    with scratch_folder() as place:
        assert list(temporary.iterdir()) == [place]
    assert list(temporary.iterdir()) == []


def test_what_a_living_process_keeps_for_a_while_stays(temporary):
    with scratch_folder() as first:
        sweep_folders.cache_clear()
        with scratch_folder() as second:
            assert first.is_dir()
        assert (first.is_dir(), second.exists()) == (True, False)


def test_folders_of_others_and_links_to_them_are_never_swept(temporary, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").write_text("")
    (temporary / "xray-scratch-link").symlink_to(tmp_path / "mine")
    (temporary / "xray-notes").mkdir()
    (temporary / "other-1").mkdir()
    sweep_folders.cache_clear()
    with scratch_folder():
        pass
    assert (tmp_path / "mine" / "kept").exists()
    assert sorted(path.name for path in temporary.iterdir()) == ["other-1", "xray-notes", "xray-scratch-link"]


def hold_run(folder):
    with begin_small(folder, lessons={"epochs": 1000}) as training:
        for _ in training.go_on():
            time.sleep(0.01)


def test_a_second_process_on_a_run_folder_is_refused_plainly(tmp_path):
    begun = FORK.Process(target=quietly, args=(hold_run, tmp_path))
    begun.start()
    while not RunFolder(tmp_path / "run").holds_run:
        time.sleep(0.01)
    with pytest.raises(RunError, match=r"run is in use: another process trains there\. Wait for it, or choose another"):
        resume_training(tmp_path / "run", device="cpu").__enter__()
    assert load_run(tmp_path / "run", "cpu").answer("Hello!") is not None
    begun.kill()
    begun.join()
    with resume_training(tmp_path / "run", device="cpu"):
        pass


def test_two_processes_that_write_one_file_both_end_and_leave_it_whole(tmp_path):
    target = tmp_path / "a.txt"
    chance = Random(1)
    writers = [FORK.Process(target=quietly, args=(write_some, target, size)) for size in (100_000, 200_000)]
    for writer in writers:
        writer.start()
        time.sleep(chance.random() / 100)
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(target.read_bytes()) in (100_000, 200_000)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def write_some(target, size):
    for _ in range(60):
        write_file(target, b"y" * size)
