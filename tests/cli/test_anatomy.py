"""`xray anatomy`: what a network is made of, from any source, as a table or as JSON."""

import json

import pytest
from documents import ROOT

from xray import anatomy
from xray.cli.app import run
from xray.ir.json_form import trace_to_json

GPT = str(ROOT / "examples" / "tiny_gpt.py") + ":build"


@pytest.fixture
def trace_file(training_trace, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(training_trace), encoding="utf-8")
    return path


def test_a_trace_is_read_from_its_file(trace_file, training_trace, tmp_path, capsys):
    assert run(["anatomy", str(trace_file), "-o", str(tmp_path / "a.json")]) == 0

    assert json.loads((tmp_path / "a.json").read_text()) == anatomy(training_trace).to_dict()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("width", ["80", "160"])
def test_the_table_fits_the_terminal(trace_file, monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)

    assert run(["anatomy", str(trace_file)]) == 0

    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= int(width)
    assert "attention to" in said
    assert "encoder is the memory of decoder" in said


def test_any_model_is_recorded_on_the_spot(capsys):
    assert run(["anatomy", GPT, "--meta"]) == 0

    assert "causal" in capsys.readouterr().out


def test_inputs_are_for_models_alone(trace_file, capsys):
    assert run(["anatomy", str(trace_file), "--meta"]) == 2

    assert "--input, --meta, --as, --batch, --seq-len and --image-size are for models" in capsys.readouterr().err


def test_only_json_is_written(capsys):
    assert run(["anatomy", GPT, "-o", "a.svg"]) == 2

    assert "End a.svg in .json" in capsys.readouterr().err


def test_a_run_folder_is_a_source(untrained_run, tmp_path, capsys, monkeypatch):
    asked = []
    (tmp_path / "run.json").write_text("{}")
    trace = untrained_run.trace("training")
    monkeypatch.setattr("xray.cli.recording.record_chatbot", lambda *given: asked.append(given) or (trace, None))

    assert run(["anatomy", str(tmp_path)]) == 0

    assert asked[0][0] == tmp_path
    assert "decoder" in capsys.readouterr().out
