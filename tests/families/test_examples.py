"""The scripts in examples/: the command in each one's own words runs, and draws what the family is known for."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from xray.cli.app import run
from xray.ir.files import read_trace_file

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
COMMAND = re.compile(r"xray (trace examples/(?P<script>\w+\.py):build[^\n`\"]*)")
SCORES = {
    "nn_transformer.py": {(2, 4, 7, 7): 3, (2, 4, 5, 5): 3, (2, 4, 5, 7): 3},
    "t5.py": {(2, 4, 7, 7): 3, (2, 4, 5, 5): 3, (2, 4, 5, 7): 3},
    "bart.py": {(2, 4, 7, 7): 3, (2, 4, 5, 5): 3, (2, 4, 5, 7): 3},
    "marian.py": {(2, 4, 7, 7): 3, (2, 4, 5, 5): 3, (2, 4, 5, 7): 3},
    "whisper.py": {(2, 4, 20, 20): 3, (2, 4, 5, 5): 3, (2, 4, 5, 20): 3},
    "bert.py": {(2, 4, 7, 7): 3},
    "gpt2.py": {(1, 4, 7, 7): 3},
    "llama.py": {(2, 8, 7, 7): 3},
    "tiny_gpt.py": {(2, 4, 7, 7): 3},
    "vit.py": {(2, 4, 17, 17): 3},
    "resnet.py": {},
    "lstm.py": {},
}
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path, monkeypatch):
    """A folder with the examples in it, as after cloning; what importing them left behind is taken away."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for script in SCRIPTS:
        sys.modules.pop(Path(script).stem, None)


def command_of(script):
    text = (ROOT / "examples" / script).read_text(encoding="utf-8")
    return next(found[1].split() for found in COMMAND.finditer(text) if found["script"] == script)


def scores_in(trace):
    found = {}
    for step in trace.steps:
        if step.op.endswith("softmax") and len(step.outputs[0].shape) == 4:
            shape = step.outputs[0].shape
            found[shape] = found.get(shape, 0) + 1
    return found


def test_every_script_is_tried():
    assert set(SCRIPTS) == {*SCORES, "llama_405b.py"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("script", [name for name in SCRIPTS if name in SCORES])
def test_the_command_of_a_script_draws_it(script, tmp_path):
    command = command_of(script)
    if "-o" not in command:
        command += ["-o", "out.svg"]

    assert run([*command, "-q", "-o", "trace.json"]) == 0

    drawn = ElementTree.parse(tmp_path / command[command.index("-o") + 1]).getroot()
    trace = read_trace_file("trace.json")
    assert drawn.tag.endswith("svg")
    assert len(list(drawn.iter())) > 50
    assert scores_in(trace) == SCORES[script]


def test_the_large_llama_in_small_has_its_scores():
    assert run(["trace", "examples/llama_405b.py:build_small", "-q", "-o", "trace.json"]) == 0

    assert scores_in(read_trace_file("trace.json")) == {(2, 8, 7, 7): 3}


@pytest.mark.slow
def test_the_large_llama_is_drawn_without_storage(tmp_path):
    assert run([*command_of("llama_405b.py"), "-q", "-o", "trace.json"]) == 0

    trace = read_trace_file("trace.json")
    assert trace.steps[0].params == 405_853_388_800
    assert scores_in(trace) == {(1, 128, 8192, 8192): 126}
    assert (tmp_path / "llama_405b.svg").stat().st_size > 10_000


@pytest.mark.parametrize("script", ["gpt2.py", "bert.py"])
def test_a_missing_library_is_named_with_what_to_do(script, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "transformers", None)

    assert run(["trace", f"examples/{script}:build", "-q", "-o", "out.svg"]) == 1

    assert capsys.readouterr().err == (
        f"xray: cannot import examples/{script}: this example needs transformers: pip install transformers.\n"
    )


def test_a_script_gives_the_same_record_each_time():
    for name in ("one.json", "two.json"):
        assert run(["trace", "examples/gpt2.py:build", "-q", "-o", name]) == 0

    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()


def test_what_gpt2_writes_is_a_pass_for_each_word(monkeypatch):
    monkeypatch.syspath_prepend("examples")
    from gpt2 import write

    assert [one.number for one in write(3).passes] == [0, 1, 2]
