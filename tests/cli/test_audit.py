"""`xray audit`: where masks go, what is wrong with them, and an exit code that a script can ask."""

import json

import pytest
from story.alarms.planted import meaning
from story.alarms.planted.pairs import PAIRS, trace_pair

from xray.cli.app import run
from xray.ir.json_form import trace_to_json

BUG = next(one for one in PAIRS if one.place is meaning.fill_with_zero)


def write_trace(build, folder):
    path = folder / "trace.json"
    path.write_text(trace_to_json(trace_pair(BUG, build)), encoding="utf-8")
    return str(path)


@pytest.fixture
def sound(tmp_path):
    return write_trace(BUG.good, tmp_path)


@pytest.fixture
def faulty(tmp_path):
    return write_trace(BUG.bad, tmp_path)


def test_without_an_alarm_the_exit_code_is_0(sound, capsys):
    assert run(["audit", sound]) == 0

    assert "no alarm, 3 attentions" in capsys.readouterr().out


@pytest.mark.parametrize("width", ["80", "160"])
def test_an_alarm_is_told_with_its_line_and_its_remedy(faulty, monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)

    assert run(["audit", faulty]) == 1

    lines = capsys.readouterr().out.splitlines()
    said = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= int(width)
    assert "attention_mask (3, 7) reaches 3 of 3" in said
    assert "a mask hides too little story/alarms/planted/meaning.py:" in said
    assert "Fill with float('-inf')" in said


def test_alarms_are_written_by_kind_step_and_line(faulty, tmp_path):
    assert run(["audit", faulty, "-o", str(tmp_path / "a.json")]) == 1

    (alarm,) = json.loads((tmp_path / "a.json").read_text())["alarms"]
    assert (alarm["kind"], alarm["step"], alarm["mask"]) == ("weak", "layers.0.masked_fill#0", "attention_mask")
    assert alarm["location"].startswith("story/alarms/planted/meaning.py:")


def test_an_error_is_told_from_an_alarm_by_its_exit_code(capsys):
    assert run(["audit", "nowhere.json"]) == 2

    assert "cannot read nowhere.json" in capsys.readouterr().err


def test_only_json_is_written(sound, capsys):
    assert run(["audit", sound, "-o", "a.svg"]) == 2

    assert "End a.svg in .json" in capsys.readouterr().err
