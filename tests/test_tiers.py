"""Which tests run when: the README's command runs the fast ones, `.ci/run` the same command with all of them."""

import subprocess
import tomllib

import pytest
from conftest import pytest_collection_modifyitems
from documents import ROOT, SET_UP, commands_of, read_blocks

RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_what_is_checked_is_the_test_command_of_the_readme():
    commands = commands_of(read_blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    told = [line for line in commands if line.startswith(SET_UP) and line.endswith("pytest")]
    (finding,) = (line for line in RUN if line.startswith("test_command="))

    found = subprocess.run(
        ["bash", "-c", f'{finding}; printf %s "$test_command"'], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert [found.stdout] == told


def test_all_tiers_are_checked():
    assert [line for line in RUN if line.startswith("eval ")] == ["eval \"$test_command -m ''\""]


def test_the_slow_tier_waits_until_it_is_asked_for():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]

    assert "-m 'not slow'" in settings["addopts"]


class Item:
    """One case of a test that is marked so."""

    path, originalname = ROOT / "tests" / "test_tiers.py", "test_many_things"

    def __init__(self, *marks):
        self.marks = [mark.mark for mark in marks]

    def get_closest_marker(self, name):
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark):
        self.marks.append(mark.mark)


def test_of_a_sampled_test_the_fast_tier_does_the_first_and_every_so_manyth():
    always = [Item(pytest.mark.sampled(3), pytest.mark.slow)]
    items = [*always, *(Item(pytest.mark.sampled(3)) for _ in range(8)), Item()]

    pytest_collection_modifyitems(items)

    fast = [place for place, item in enumerate(items) if item.get_closest_marker("slow") is None]
    assert fast == [1, 4, 7, 9]


@pytest.mark.parametrize("ends", [0, 3])
def test_what_goes_on_beside_the_tests_is_told_and_counts(ends):
    start = next(place for place, line in enumerate(RUN) if line.startswith("said="))
    end = next(place for place, line in enumerate(RUN) if line.startswith("begin lowest"))
    aside = f"go_on() {{ echo half; (exit {ends}); echo whole; }}\nbegin some go_on\necho beside\nfinish some\necho on"

    found = subprocess.run(
        ["bash", "-c", "\n".join(["set -euo pipefail", *RUN[start:end], aside])], capture_output=True, text=True
    )

    assert found.returncode == ends
    assert found.stdout.split() == ["beside", "half", *(() if ends else ("whole", "on"))]


def test_all_that_goes_on_is_waited_for():
    assert sorted(line.split()[1] for line in RUN if line.startswith("begin ")) == sorted(
        line.split()[1] for line in RUN if line.startswith("finish ")
    )
