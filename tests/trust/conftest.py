"""What the tests of trust share: a small trained run, its trace, and folders to work in."""

from pathlib import Path

import pytest
from small_runs import finish_small

from xray.capture.targets.run import load
from xray.ir.json_form import trace_to_json


@pytest.fixture(autouse=True)
def one_thread():
    """Two cores serve everyone."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def kept_run(tmp_path_factory):
    """The folder of a small trained run; nobody changes it."""
    return finish_small(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="session")
def small_trace(kept_run):
    """Training and inference of the small run."""
    return load(kept_run, "cpu").trace("both", "Who is Ripley?", max_turns=3)


@pytest.fixture(scope="session")
def trace_text(small_trace):
    return trace_to_json(small_trace)


@pytest.fixture(scope="session")
def trace_file(tmp_path_factory, trace_text):
    path = Path(tmp_path_factory.mktemp("traces")) / "trace.json"
    path.write_text(trace_text, encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def place(here, monkeypatch):
    """A folder with nothing but what a test puts there; whatever else appears is a stray file, compiled ones too."""
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    return here
