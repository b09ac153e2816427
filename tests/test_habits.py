"""What contributors are told is so: the tasks, the hooks, the paths and the options that the guides name."""

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec

import pytest
from documents import ROOT, SET_UP, commands_of, read_blocks

GUIDES = ("CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "docs/explanation/architecture.md")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMANDS = commands_of(read_blocks(CONTRIBUTING))
TASKS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["poe"]["tasks"]


def test_every_task_is_told():
    told = re.findall(r"^\| `poe ([\w-]+)` \|", CONTRIBUTING, flags=re.MULTILINE)

    assert sorted(told) == sorted(TASKS)


def test_the_way_to_set_up_is_that_of_the_readme():
    readme = commands_of(read_blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    (tests,) = (line for line in readme if line.startswith(SET_UP) and line.endswith("-m pytest"))

    install = tests.removesuffix(" && .venv/bin/python -m pytest")
    assert [line for line in COMMANDS if line.startswith(SET_UP)] == [f"{install} && . .venv/bin/activate"]


def test_what_is_to_be_called_is_there(pytestconfig):
    tasks = {task for line in COMMANDS for task in re.findall(r"\bpoe ([\w-]+)", line)}
    options = {name for line in COMMANDS if line.startswith("pytest") for name in re.findall(r"--([\w-]+)", line)}

    assert tasks <= set(TASKS)
    assert options
    assert all(pytestconfig.getoption(name.replace("-", "_")) is not None for name in options)


@pytest.mark.parametrize("guide", GUIDES)
def test_every_path_that_a_guide_names_is_there(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    named = re.findall(r"`((?:xray|tests|docs|templates|examples|benchmarks|\.ci)/[\w./-]*)", text)
    linked = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]

    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [link for link in linked if not (ROOT / guide).parent.joinpath(link).exists()]
    assert missing == []


def test_what_needs_no_test_is_checked_by_one_task():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert "begin check .venv/bin/poe check" in run


@pytest.mark.skipif(find_spec("prek") is None, reason="prek is not installed")
def test_the_hooks_can_be_read():
    command = [sys.executable, "-m", "prek", "validate-config", str(ROOT / ".pre-commit-config.yaml")]

    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_changelog_tells_of_the_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert heads[0] == "Unreleased"
    assert re.fullmatch(re.escape(version) + r", \d{4}-\d{2}-\d{2}", heads[1])


def test_no_file_of_the_package_or_of_the_tests_is_longer_than_400_lines():
    files = (path for folder in ("xray", "tests") for path in (ROOT / folder).rglob("*.py"))
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in files}

    assert {name: count for name, count in lines.items() if count > 400} == {}
