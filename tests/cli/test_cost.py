"""`xray cost` from its command line: what is written, and what is refused in one sentence."""

import json

import pytest
from settings import LLAMA

from xray.cli.app import run

pytest.importorskip("transformers", reason="the library whose models are measured here")

SETTINGS = {**LLAMA, "max_position_embeddings": 100}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SETTINGS))
    return tmp_path


def test_a_plot_and_all_numbers_are_written(folder):
    drawn, numbers = folder / "c.svg", folder / "c.json"

    assert run(["cost", str(folder), "--seq-len", "64", "-o", str(drawn), "-o", str(numbers)]) == 0
    assert "<svg" in drawn.read_text()
    assert json.loads(numbers.read_text())["bytes_per_word"] == 2 * 8 * 4


@pytest.mark.slow
def test_more_words_than_there_are_places_are_remarked(folder, capsys):
    run(["cost", str(folder), "--seq-len", "64,128"])

    assert "Its settings name 100 places; it is not made for more words." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seq-len", "0"], "is no list of numbers from 1 to"),
        (["--batch", "1,x"], "is no list of numbers from 1 to"),
        (["--seq-len", ","], "is no list of numbers from 1 to"),
        (["--seq-len", ",".join(map(str, range(1, 70)))], "69 sizes are too many"),
        (["-o", "costs.txt"], "costs are written as .json or .svg"),
    ],
)
def test_what_cannot_be_told_is_refused(folder, words, message, capsys):
    assert run(["cost", str(folder), *words]) != 0
    assert message in capsys.readouterr().err
