"""Everything that the README shows is run here, in the order in which it stands there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import plain_environment

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(console|python)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "console" for line in text.strip().splitlines()]
XRAY_COMMANDS = [line for line in COMMANDS if line.startswith("xray ")]
SHORTER = {"xray train": " --epochs 1"}
"""What a test adds to a command so that it does not take a minute."""

pytestmark = pytest.mark.slow


def run(command, folder, answer=""):
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        input=answer,
        capture_output=True,
        text=True,
        check=False,
        env=plain_environment(),
    )


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
    more = next((text for start, text in SHORTER.items() if command.startswith(start)), "")

    result = run(command + more, workplace, answer="Who is Ripley?\n")

    expected = 1 if command.startswith("xray diff") else 0
    assert result.returncode == expected, result.stderr
    for word in shlex.split(command):
        if Path(word).suffix in (".svg", ".pdf", ".json", ".png", ".html"):
            assert (workplace / word).stat().st_size > 1_000


def test_the_python_of_the_readme_runs(workplace):
    code = "\n".join(text for kind, text in BLOCKS if kind == "python")

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
