"""What `xray train` shows and how it ends: the curve, TensorBoard, scores, early stopping, signals."""

import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from small_runs import write_pairs

from xray.cli.app import run
from xray.learn.runs.checkpoint import read_checkpoint
from xray.learn.runs.run_folder import LAST, RunFolder

SMALL = ["--d-model", "22", "--heads", "2", "--d-ff", "13", "--encoder-layers", "1", "--decoder-layers", "1"]


@pytest.fixture
def pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(write_pairs(tmp_path / "pairs.csv"))


def train(pairs, *options):
    return run(["train", pairs, *SMALL, "--valid-share", "0.1", *options])


def test_the_losses_are_drawn_at_the_end_and_kept_as_a_picture(pairs, tmp_path, capsys):
    assert train(pairs, "--epochs", "7") == 0
    assert re.search(r"█ loss \d\.\d{3}   o held out \d\.\d{3}$", capsys.readouterr().err, re.MULTILINE)
    assert ET.fromstring((tmp_path / "runs/pairs/loss.svg").read_text()).tag.endswith("svg")


def test_the_lowest_held_out_loss_is_told(pairs, capsys):
    train(pairs, "--epochs", "30", "--lr", "0.05", "--patience", "3")
    err = capsys.readouterr().err
    assert "stopped early: the held-out loss has not fallen for 3 epochs." in err
    assert re.search(r"^lowest held-out loss \d\.\d{3} after epoch \d+; .*--checkpoint best$", err, re.MULTILINE)


def test_scores_are_told_on_request(pairs, capsys):
    pytest.importorskip("torchmetrics", reason="the extra scores is not installed")
    train(pairs, "--epochs", "2", "--scores")
    pattern = r"^on 1 held-out pairs: letter error rate \d+\.\d%, word error rate \d+\.\d%, BLEU \d+\.\d\.$"
    assert re.search(pattern, capsys.readouterr().err, re.MULTILINE)


def test_losses_go_to_tensorboard_on_request(pairs, tmp_path):
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(pairs, "--epochs", "3", "--tensorboard")
    events = EventAccumulator(str(tmp_path / "runs/pairs/tensorboard")).Reload()
    assert len(events.Scalars("loss/epoch")) == len(events.Scalars("loss/held_out")) == 3


@pytest.mark.parametrize("option", ["tensorboard", "scores"])
def test_a_missing_extra_is_found_before_any_work(pairs, tmp_path, capsys, monkeypatch, option):
    monkeypatch.setattr("xray.cli.watching.find_spec", lambda _: None)
    assert train(pairs, f"--{option}") == 2
    assert f'pip install "transformer-xray[{option}]"' in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_preset_is_where_options_start_from(pairs, tmp_path):
    assert train(pairs, "--preset", "lecture", "--epochs", "1", "--max-len", "20", "--min-frequency", "1") == 0
    facts = read_checkpoint(RunFolder(tmp_path / "runs/pairs"), LAST).facts
    assert (facts["model"]["norm"], facts["model"]["d_model"], facts["training"]["epochs"]) == ("before", 22, 1)
    assert facts["training"]["schedule"] == "constant"


def test_bad_rows_are_counted_on_request(pairs, tmp_path, capsys):
    with (tmp_path / "pairs.csv").open("a") as file:
        file.write("one\none,two,three\n")
    assert train(pairs, "--epochs", "1", "--skip-bad") == 0
    assert "note: 2 rows of pairs.csv cannot be read: left out." in capsys.readouterr().err


def test_pieces_of_words_can_be_learnt(pairs, capsys):
    options = ["--tokeniser", "bpe", "--src-vocab", "70", "--tgt-vocab", "60", "--epochs", "2"]
    assert train(pairs, *options) == 0
    assert "70 words in, 60 out" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_leaves_at_once_and_keeps_what_was_saved(pairs, tmp_path, monkeypatch, number, code):
    def ask_twice(*_):
        signal.raise_signal(number)
        signal.raise_signal(number)

    monkeypatch.setattr("xray.cli.screen.progress.Progress.show_step", ask_twice)
    assert train(pairs, "--epochs", "9") == code
    assert read_checkpoint(RunFolder(tmp_path / "runs/pairs"), LAST).facts["step"] == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_signal_saves_the_step_at_hand(pairs, tmp_path, monkeypatch, number, code):
    monkeypatch.setattr("xray.cli.screen.progress.Progress.show_step", lambda *_: signal.raise_signal(number))
    assert train(pairs, "--epochs", "9") == code
    assert read_checkpoint(RunFolder(tmp_path / "runs/pairs"), LAST).facts["step"] == 1


@pytest.mark.slow
def test_sigterm_while_reading_leaves_nothing(tmp_path):
    """A pipe that nobody writes to: the corpus never comes."""
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen(
        [sys.executable, "-m", "xray", "train", str(tmp_path / "pipe"), "--out", str(tmp_path / "run")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    descriptor = os.open(tmp_path / "pipe", os.O_WRONLY)  # waits until it is read
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    os.close(descriptor)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
