"""In a notebook a trace shows its poster, and its tables where pictures are not possible."""

import subprocess
import sys

import pytest

CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import xray
assert not {"torch", "graphviz", "rich"} & set(__import__("sys").modules)
trace = xray.read_trace(PATH)
shown, _ = shell.display_formatter.format(trace)
print(sorted(shown))
print(shown["image/svg+xml"].lstrip()[:5], "T-100" in shown["image/svg+xml"])
print(shown["text/plain"].splitlines()[0].strip())
"""


def test_a_trace_shows_itself(tmp_path, training_trace):
    pytest.importorskip("IPython", reason="IPython is not installed")
    from dataclasses import replace

    from xray.ir.json_form import trace_to_json

    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(replace(training_trace, title="T-100")))

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CELLS.replace("PATH", repr(str(path)))],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['image/svg+xml', 'text/plain']", "<?xml True", "T-100"]


ANATOMY = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import xray
shown, _ = shell.display_formatter.format(xray.anatomy(xray.read_trace(PATH)))
print(sorted(shown), "<table>" in shown["text/html"], "d_ff 128" in shown["text/html"])
print("torch" in __import__("sys").modules)
print(shown["text/plain"])
"""


def test_an_anatomy_shows_its_tables(tmp_path, training_trace):
    pytest.importorskip("IPython", reason="IPython is not installed")
    from xray.ir.json_form import trace_to_json

    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(training_trace))

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ANATOMY.replace("PATH", repr(str(path)))],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['text/html', 'text/plain'] True True",
        "False",
        "Anatomy(encoder 3×32, decoder 3×32; 190,678 parameters)",
    ]
