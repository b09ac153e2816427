"""Options that would be passed over are refused, before anything runs; the hint repeats what was asked."""

import shlex

import pytest
from small_traces import small_trace

from xray.cli.app import run
from xray.ir.json_form import trace_to_json

MODEL = """
import torch
from torch import nn

def build():
    return nn.Linear(3, 2), torch.ones(5, 3)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a model and a trace in it, and no run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODEL)
    (tmp_path / "t.json").write_text(trace_to_json(small_trace()), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trace mine:build --ask hi", "--ask: it is for the chatbot, and mine:build is another model."),
        ("trace mine:build --phase both --kv-cache", "--phase, --kv-cache: it is for the chatbot"),
        ("trace mine:build --max-turns 20", "--max-turns: it is for the chatbot"),
        ("trace --input float32[3]", "--input: the chatbot makes its own inputs. Name a model"),
        ("trace --meta", "--meta: the chatbot makes its own inputs."),
        ("trace mine:build -q --only a -o a.svg", "--only: it chooses what the tables show, and -q leaves them out."),
        ("trace mine:build -o a.json --paper a3", "--paper: no picture is drawn. Name a file with -o"),
        ("draw t.json -o a.txt --depth 1 --close a", "--depth, --close: no picture is drawn."),
        (
            "draw t.json -o a.svg --tile a4",
            "--tile: only a PDF is cut into sheets. Name one with -o, such as poster.pdf",
        ),
        ("draw t.json -o a.txt --tile a4", "--tile: no picture is drawn."),
        ("worksheet t.json -o a.png --tile a4", "--tile: only a PDF is cut into sheets."),
        ("diff t.json t.json --layers all", "--layers: no picture is drawn."),
        ("page t.json --max-turns 3", "--max-turns: a trace file is already answered."),
        ("page t.json --phase both", "--phase: a trace file holds what it holds."),
        ("walk t.json --device cpu", "--device: a trace file is already answered."),
        ("attention t.json --run here", "--run: a trace file is already answered."),
        ("attention --kind encoder --turn 2", "--turn: the encoder reads the question once, before the first turn."),
        ("worksheet t.json --phase both", "--phase: a trace file holds what it holds."),
        ("worksheet t.json --ask hi", "--ask: a trace file is already answered."),
        ("chat --length-penalty 0.6", "--length-penalty: one answer alone has no rival"),
        ("answer q.txt --length-penalty 1", "--length-penalty: one answer alone has no rival"),
    ],
)
def test_an_option_that_would_be_passed_over_is_refused(here, capsys, arguments, message):
    before = sorted(here.iterdir())

    assert run(shlex.split(arguments)) == 2
    assert capsys.readouterr().err.startswith(f"xray: {message}")
    assert sorted(here.iterdir()) == before


def test_the_hint_draws_what_was_traced(here, capsys, monkeypatch):
    monkeypatch.setattr("xray.cli.shown.at_terminal", lambda: True)

    assert run(["trace", "mine:build", "--input", "float32[7,3]", "--only", "Lin*"]) == 0
    command = "xray trace mine:build --input 'float32[7,3]' --only 'Lin*'"
    assert capsys.readouterr().err == (
        f"For the picture: {command} -o poster.svg (or .png, .pdf), or send stdout to a file: {command} > out.svg\n"
    )


@pytest.mark.parametrize("wrong", ["absent.json", "mine.py", "."])
def test_a_difference_that_cannot_be_told_ends_with_two(here, capsys, wrong):
    assert run(["diff", "t.json", wrong]) == 2
    assert capsys.readouterr().err.startswith("xray: ")


def test_other_commands_end_with_one_where_a_file_cannot_be_read(here):
    assert run(["draw", "absent.json"]) == 1
