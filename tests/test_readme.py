"""Everything that the README shows is run here, in the order in which it stands there.

In a process of its own runs what sets up (the demo) and what sends its output elsewhere; the rest runs in this one.
"""

import re
import shlex
from pathlib import Path

import pytest
from documents import ROOT, Reader, commands_of, read_blocks
from small_runs import finish_small

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = read_blocks(README)
COMMANDS = commands_of(BLOCKS)
WRITTEN = (".svg", ".pdf", ".json", ".png", ".html")


def test_there_are_two_set_up_commands_and_they_differ_in_what_they_run():
    set_up = [line for line in COMMANDS if "pip install" in line]

    assert [line.split("&&")[-1].strip() for line in set_up] == [".venv/bin/xray demo", ".venv/bin/python -m pytest"]
    assert all(line.startswith("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt ") for line in set_up)


def test_the_first_screen_has_the_picture_and_the_command():
    first = README.splitlines()[:14]

    assert any(line.startswith("![") for line in first)
    assert any(line.endswith("xray demo") for line in first)
    assert (ROOT / re.search(r"!\[.*?\]\((.*?)\)", README)[1]).is_file()


@pytest.mark.slow
def test_the_demo_writes_what_the_readme_says(taught_folder):
    named = re.findall(r"`([a-z]+\.(?:svg|png|pdf|html|txt|json))`", README.split("## What do I see")[0])

    assert sorted(named) == sorted(path.name for path in (taught_folder / "xray-demo").iterdir())


@pytest.mark.slow
def test_every_command_runs_and_writes_what_it_names(workplace):
    reader, found = Reader(), {}

    for command in COMMANDS:
        code, said = reader.run_command(command)
        found[command] = code, said[-500:] if code not in (0, 1) else ""
        for word in shlex.split(command) if command.startswith("xray ") else ():
            if Path(word).suffix in WRITTEN:
                assert (workplace / word).stat().st_size > 1_000, said

    assert found == {command: (1 if command.startswith("xray diff") else 0, "") for command in COMMANDS}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    finish_small(tmp_path).rename("runs/movie_qa")
    reader = Reader()

    for block in BLOCKS:
        if block.kind == "python":
            reader.follow(block)

    assert "Transformer" in reader.said
