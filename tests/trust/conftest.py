"""What the tests of trust share: a small trained run, and its trace."""

from collections import Counter
from pathlib import Path

import pytest
from small_runs import finish_small

from xray.capture.targets.run import load
from xray.ir.json_form import trace_to_json

EVERY = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a bad input that many commands are given, the fast tier tries it on every third."""
    seen = Counter()
    for item in items:
        if item.path == Path(__file__).with_name("test_bad_inputs.py"):
            if seen[item.originalname] % EVERY:
                item.add_marker(pytest.mark.slow)
            seen[item.originalname] += 1


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
