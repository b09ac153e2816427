"""Somebody's own model at the command line: what it prints, how it may end, what is said of it."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

TALKER = """
import atexit, ctypes, os, subprocess, sys
import torch
from torch import nn

C = ctypes.CDLL(None)

def talk(where):
    print(f"{where} print")
    sys.__stdout__.write(f"{where} kept\\n")
    os.write(1, f"{where} descriptor\\n".encode())
    C.printf(f"{where} library\\n".encode())
    subprocess.run(["echo", f"{where} child"])

class Talker(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 2)
        talk("build")

    def forward(self, x):
        talk("forward")
        return self.out(x)

def build():
    atexit.register(talk, "end")
    return Talker(), torch.ones(2, 3)

talk("import")
"""

LEAVER = """
import sys
import torch
from torch import nn

class Leaver(nn.Module):
    def forward(self, x):
        x = x + 1
        sys.exit(0)

def build():
    return Leaver(), torch.ones(2)
"""


def trace(folder, source, *arguments):
    (folder / "mine.py").write_text(source)
    return python(folder, "-m", "xray", "trace", "mine:build", *arguments)


def python(folder, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.skipif(os.name != "posix", reason="echo and the C library are called as POSIX has them")
def test_stdout_holds_the_drawing_whatever_a_model_prints(tmp_path):
    result = trace(tmp_path, TALKER, "-q")

    assert ElementTree.fromstring(result.stdout).tag.endswith("svg")
    told = [f"{when} {how}" for when in ("import", "build", "forward", "end") for how in ("print", "kept", "library")]
    assert [line for line in told if line not in result.stderr] == []
    assert result.returncode == 0


@pytest.mark.slow
def test_a_model_that_exits_is_an_error_with_a_sentence(tmp_path):
    result = trace(tmp_path, LEAVER, "-q", "-o", "leaver.svg")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1] == (
        "xray: the forward ended the program at Leaver (mine.py:9), with sys.exit(0). Let it return a result. What ran "
        "before it is shown."
    )
    assert (tmp_path / "leaver.svg").exists()


SMALL = {
    "two layers": "nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), torch.randn(4, 3)",
    "an encoder": "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), torch.randn(4, 3, 8)",
}
LOADED = """
import sys
from xray.cli.app import run
code = run([*sys.argv[2:], "-q", "-o", "mine.svg"])
print(code, [name for name in sys.argv[1].split() if name in sys.modules])
"""


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.slow
def test_a_small_model_needs_little_more_than_torch(tmp_path, name):
    """Each of these takes as long to load as all that a small model needs."""
    source = f"import torch\nfrom torch import nn\n\ndef build():\n    return {SMALL[name]}\n"
    (tmp_path / "mine.py").write_text(source)
    heavy = "sympy torch._dynamo torch._inductor pyarrow tokenizers rich jinja2 xray.data xray.learn xray.model"

    assert python(tmp_path, "-c", LOADED, heavy, "trace", "mine:build").stdout == "0 []\n"


@pytest.mark.parametrize("options", [["--phase", "training"], ["--phase", "inference", "--kv-cache"]])
@pytest.mark.slow
def test_the_chatbot_is_traced_without_torchs_compiler(tmp_path, options):
    assert python(tmp_path, "-c", LOADED, "sympy torch._dynamo torch._inductor", "trace", *options).stdout == "0 []\n"
