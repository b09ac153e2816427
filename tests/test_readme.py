"""Everything that the README shows is run here, in the order in which it stands there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, commands_of, read_blocks, run_shell, shorten

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = read_blocks(README)
COMMANDS = commands_of(BLOCKS)
XRAY_COMMANDS = [line for line in COMMANDS if line.startswith("xray ")]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workplace(demo_folder):
    if not (demo_folder / "examples").exists():
        (demo_folder / "examples").symlink_to(ROOT / "examples")
    return demo_folder


def test_there_are_two_set_up_commands_and_they_differ_in_what_they_run():
    set_up = [line for line in COMMANDS if "pip install" in line]

    assert [line.split("&&")[-1].strip() for line in set_up] == [".venv/bin/xray demo", ".venv/bin/python -m pytest"]
    assert all(line.startswith("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt ") for line in set_up)


def test_the_first_screen_has_the_picture_and_the_command():
    first = README.splitlines()[:14]

    assert any(line.startswith("![") for line in first)
    assert any(line.endswith("xray demo") for line in first)
    assert (ROOT / re.search(r"!\[.*?\]\((.*?)\)", README)[1]).is_file()


def test_the_demo_writes_what_the_readme_says(workplace):
    named = re.findall(r"`([a-z]+\.(?:svg|png|pdf|html|txt|json))`", README.split("## What do I see")[0])

    assert sorted(named) == sorted(path.name for path in (workplace / "xray-demo").iterdir())
    assert "answers 1,0" in (workplace / "demo.log").read_text()


@pytest.mark.parametrize("number", range(len(XRAY_COMMANDS)), ids=XRAY_COMMANDS)
def test_every_xray_command_runs(workplace, number):
    command = XRAY_COMMANDS[number]

    result = run_shell(shorten(command), workplace, answer="Who is Ripley?\n")

    expected = 1 if command.startswith("xray diff") else 0
    assert result.returncode == expected, result.stderr
    for word in shlex.split(command):
        if Path(word).suffix in (".svg", ".pdf", ".json", ".png", ".html"):
            assert (workplace / word).stat().st_size > 1_000


def test_the_python_of_the_readme_runs(workplace):
    code = "\n".join(block.text for block in BLOCKS if block.kind == "python")

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=workplace,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )

    assert done.returncode == 0, done.stderr
    assert "Transformer" in done.stdout
