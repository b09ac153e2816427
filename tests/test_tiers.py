"""Which tests run when: the README's command runs the fast ones, `.ci/run` the same command with all of them."""

import subprocess
import tomllib

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
