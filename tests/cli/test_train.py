"""`xray train`: what it says, what it leaves, and how it ends."""

import os
import re
import signal
import subprocess
import sys

import pytest
from conftest import plain_environment
from small_runs import PAIRS, begin_small, write_pairs

from xray.cli.app import run
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.run_folder import LAST, RunFolder

SMALL = ["--d-model", "22", "--heads", "2", "--d-ff", "13", "--encoder-layers", "1", "--decoder-layers", "1"]


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(write_pairs(tmp_path / "pairs.csv"))


def start(*arguments, **streams):
    return subprocess.Popen(
        [sys.executable, "-m", "xray", "train", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env=plain_environment(PYTHONUNBUFFERED="1"),
        **streams,
    )


def wait_for(process, words):
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"never said {words!r}")


def test_a_run_is_kept_under_the_name_of_its_file(pairs, tmp_path):
    assert run(["train", pairs, *SMALL, "--epochs", "2"]) == 0
    assert RunFolder(tmp_path / "runs" / "pairs").holds_run


def test_training_says_on_stderr_how_it_went(pairs, capsys):
    run(["train", pairs, *SMALL, "--epochs", "2"])
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"^pairs: 17 pairs to learn, 0 held out; [\d,]+ weights, 1\+1 layers, 2 heads", err, re.MULTILINE)
    assert re.search(r"^epoch 2 of 2: loss \d\.\d{3}, [\d,]+ tokens/s, 0 s left$", err, re.MULTILINE)
    assert re.search(r"^trained 2 epochs in \d+ s; answers \d+ of 17 questions word for word", err, re.MULTILINE)


def test_sample_answers_are_shown(pairs, capsys):
    run(["train", pairs, *SMALL, "--epochs", "2"])
    asked = re.findall(r"^  \[[x ]\] ([^?!]+[?!])", capsys.readouterr().err, re.MULTILINE)
    assert len(asked) == 6
    assert set(asked) <= {pair.question for pair in PAIRS}


def test_one_pair_trains_and_says_that_nothing_is_held_out(tmp_path, capsys):
    file = write_pairs(tmp_path / "one.csv", PAIRS[:1])
    assert run(["train", str(file), *SMALL, "--epochs", "2", "--out", str(tmp_path / "run")]) == 0
    assert "note: no validation set: 1 pair is too few." in capsys.readouterr().err


def test_too_long_pairs_are_counted(pairs, capsys):
    run(["train", pairs, *SMALL, "--epochs", "1", "--max-len", "6"])
    assert "note: 3 of 17 pairs are longer than 6 tokens (answers: 5 and <sos>): left out." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.csv"], 1, r"xray: cannot read none\.csv: no such file\. Give a file of pairs\.\n"),
        (
            ["pairs.csv", "--heads", "5"],
            1,
            r"xray: heads=5 does not divide d_model=32\. Choose 1, 2, 4, 8, 16 or 32\.\n",
        ),
        (
            ["pairs.csv", "--epochs", "0"],
            1,
            r"xray: epochs=0 is not possible\. It must be a whole number from 1 to 2,147,483,647\.\n",
        ),
        (["pairs.csv", "--answer-column", "reply"], 1, r'xray: pairs\.csv has no column "reply"; its columns are .*\n'),
        (
            ["pairs.csv", "--out", "pairs.csv"],
            1,
            r"xray: cannot write pairs\.csv: .*\. Choose another folder with --out\.\n",
        ),
        (["pairs.csv", "--resume"], 1, r'xray: no trained model in runs/pairs: run "xray train FILE\.csv" first\.\n'),
        ([], 2, r"xray: which pairs\? Name a file, as in: xray train examples/movie_qa\.csv\n"),
        (
            ["pairs.csv", "--resume", "--overwrite"],
            2,
            r"xray: --resume goes on with a run and --overwrite replaces it\..*\n",
        ),
        (["pairs.csv", "--norm", "sideways"], 2, r"xray: .*'sideways'.*\n"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(pairs, tmp_path, capsys, arguments, code, message):
    assert run(["train", *arguments]) == code
    assert re.fullmatch(message, capsys.readouterr().err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.csv"]


def test_a_second_run_does_not_replace_the_first(pairs, capsys):
    run(["train", pairs, *SMALL, "--epochs", "1"])
    assert run(["train", pairs, *SMALL, "--epochs", "1"]) == 1
    assert "runs/pairs holds a run already. Go on with it (--resume)" in capsys.readouterr().err


def test_a_finished_run_has_nothing_to_resume(pairs, capsys):
    run(["train", pairs, *SMALL, "--epochs", "1"])
    capsys.readouterr()
    assert run(["train", pairs, "--resume"]) == 0
    assert "trained 1 epoch in" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_stopped_training_keeps_everything_and_says_how_to_go_on(pairs, tmp_path, number, code):
    with start(pairs, *SMALL, "--epochs", "100000", "--out", tmp_path / "run") as process:
        wait_for(process, "epoch 1 of 100000")
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == code
    assert re.search(rf"stopped in epoch [\d,]+ .*Go on with: xray train --resume --run {tmp_path}/run$", rest.strip())
    assert read_checkpoint(RunFolder(tmp_path / "run"), LAST).facts["epoch"] >= 1


@pytest.mark.slow
def test_a_closed_stdout_does_not_end_training(pairs, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with start(pairs, *SMALL, "--epochs", "2", "--out", tmp_path / "run", stdout=writer) as process:
        os.close(writer)
        process.stderr.read()
    assert process.returncode == 0


@pytest.mark.slow
def test_a_closed_stderr_does_not_end_training(pairs, tmp_path):
    with start(pairs, *SMALL, "--epochs", "200", "--out", tmp_path / "run") as process:
        process.stderr.close()
    assert process.returncode == 0
    assert read_checkpoint(RunFolder(tmp_path / "run"), LAST).facts["epoch"] == 200


def test_resume_needs_no_file(tmp_path, capsys):
    with begin_small(tmp_path) as training:
        next(training.go_on())
        training.save()
    assert run(["train", "--resume", "--run", str(tmp_path / "run")]) == 0
    assert "going on after epoch 0 of 5, step 1." in capsys.readouterr().err
