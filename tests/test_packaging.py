"""What is handed out: archives with all that belongs in them, a lock that fits, licences, bounds, completion."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib.metadata import version
from importlib.util import find_spec

import pytest
import third_party
from conftest import plain_environment
from documents import ROOT, commands_of, read_blocks, run_shell
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = third_party.read_project()
VERSION = PROJECT["version"]
PYTHONS_TESTED = ("3.11", "3.12", "3.13")
"""See docs/reference/versions.md."""
RELEASING = commands_of(read_blocks((ROOT / "RELEASING.md").read_text(encoding="utf-8")))
BUILD = "python -m build --no-isolation"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    """The folder with the source archive, and with the wheel that was built from it."""
    if find_spec("build") is None or find_spec("hatchling") is None:
        pytest.skip("build and hatchling are not installed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, *BUILD.split()[1:], "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(archives):
    return archives / f"transformer_xray-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="session")
def in_wheel(wheel):
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """A folder with nothing in it but the installed wheel."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", folder, wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run_installed(installed, folder, *arguments):
    """`xray` from the installed wheel, in an empty folder."""
    environment = plain_environment(PYTHONPATH=str(installed))
    command = [sys.executable, "-c", "import xray.cli.app as a; print(a.__file__); a.main()", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


# The archives


@pytest.mark.parametrize(
    "name",
    [
        "xray/py.typed",
        "xray/__main__.py",
        "xray/templates/themes/dark.toml",
        "xray/templates/page/page.html",
        "xray/examples/movie_qa.csv",
        f"transformer_xray-{VERSION}.dist-info/licenses/LICENSE",
        f"transformer_xray-{VERSION}.dist-info/entry_points.txt",
    ],
)
def test_the_wheel_holds(in_wheel, name):
    assert name in in_wheel


def test_the_wheel_holds_every_module_and_template(in_wheel):
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "xray").rglob("*.py")}
    templates = {
        f"xray/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "templates").rglob("*") if path.is_file()
    }

    assert (modules | templates) - in_wheel == set()


def test_nothing_else_is_in_the_wheel(in_wheel):
    kinds = {".py", ".toml", ".md", ".html", ".css", ".js", ".csv", ".typed"}
    code = {name for name in in_wheel if not name.startswith(f"transformer_xray-{VERSION}.dist-info/")}

    assert [name for name in code if not name.startswith("xray/") or os.path.splitext(name)[1] not in kinds] == []  # noqa: PTH122


def test_the_wheel_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as file:
        said = Parser().parsestr(file.read(f"transformer_xray-{VERSION}.dist-info/METADATA").decode())

    assert (said["Name"], said["Version"], said["License-Expression"]) == ("transformer-xray", VERSION, "MIT")
    assert said["Requires-Python"] == ">=3.11"
    assert said["Description-Content-Type"] == "text/markdown"
    assert all(said[one] for one in ("Summary", "Author", "Keywords"))
    assert str(said.get_payload()).startswith("# X-Ray")


def test_the_source_archive_can_be_tested_and_documented(archives):
    with tarfile.open(archives / f"transformer_xray-{VERSION}.tar.gz") as file:
        names = {name.split("/", 1)[-1] for name in file.getnames()}

    wanted = {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "RELEASING.md", "THIRD_PARTY.md"}
    wanted |= {"CONTRIBUTING.md", "SECURITY.md"}
    wanted |= {
        "constraints.txt",
        "constraints-lowest.txt",
        "tests/conftest.py",
        "docs/index.md",
        "docs/conf.py",
        "xray/py.typed",
    }
    assert wanted - names == set()
    junk = {name for name in names if "__pycache__" in name or name.startswith((".", "site/", "runs/"))}
    assert junk <= {".gitignore"}  # which the builder itself reads from there


def test_a_wheel_built_from_the_checkout_is_that_from_the_archive(wheel, tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT]
    subprocess.run(command, capture_output=True, check=True)

    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(tmp_path / wheel.name) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


# Installed, outside the checkout


def test_the_installed_wheel_says_its_version(installed, tmp_path):
    done = run_installed(installed, tmp_path, "--version")

    assert done.stdout.splitlines() == [str(installed / "xray" / "cli" / "app.py"), f"xray {VERSION}"]


def test_the_installed_wheel_draws_an_untrained_chatbot(installed, tmp_path):
    done = run_installed(installed, tmp_path, "trace", "--phase", "training", "-q", "-o", "p.svg", "-o", "p.html")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert (tmp_path / "p.html").stat().st_size > 1_000_000


# Versions and licences


def test_the_version_is_that_of_the_installation():
    assert version("transformer-xray") == VERSION


def test_the_lock_names_what_is_installed_and_nothing_else():
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    found = third_party.find_closure(wanted, PROJECT)
    lock = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]

    pinned = dict(line.split("==") for line in lock)
    assert {canonicalize_name(name): pin for name, pin in pinned.items()} == {
        name: third_party.public_version(one) for name, one in found.items()
    }


def test_the_lowest_versions_are_those_that_the_project_allows():
    lowest = {}
    for requirement in map(Requirement, PROJECT["dependencies"]):
        (bound,) = (one.version for one in requirement.specifier if one.operator in (">=", "=="))
        lowest[canonicalize_name(requirement.name)] = Version(bound)
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pinned = {canonicalize_name(name): Version(pin) for name, _, pin in (one.partition("==") for one in lines) if pin}
    del pinned[canonicalize_name("click")]  # typer's, not ours

    assert pinned == lowest


def test_only_tested_pythons_are_named():
    named = [one.split(" :: ")[-1] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]

    assert tuple(named) == PYTHONS_TESTED
    page = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    assert [one for one in named if f"| {one}." not in page] == []


def test_the_licences_of_others_are_listed():
    packages = sorted(third_party.runtime_packages(), key=lambda one: canonicalize_name(one.name))

    assert (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8") == third_party.write_table(packages)


def test_the_release_procedure_makes_its_lists(tmp_path):
    for name in ("docs", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    made = [command for command in RELEASING if command != BUILD]

    assert [run_shell(command, tmp_path).returncode for command in made] == [0, 0]
    assert (tmp_path / "THIRD_PARTY.md").read_text() == (ROOT / "THIRD_PARTY.md").read_text()
    bill = json.loads((tmp_path / "sbom.json").read_text())
    assert {one["name"] for one in bill["components"]} >= {"torch", "rich", "pygraphviz"}


def test_no_package_is_without_a_licence():
    assert [one.name for one in third_party.runtime_packages() if third_party.licence_of(one) == "not stated"] == []


def test_mypy_and_ruff_look_at_the_lowest_python():
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert whole["tool"]["mypy"]["python_version"] == "3.11"
    assert whole["tool"]["ruff"]["target-version"] == "py311"


# Completion


@pytest.mark.parametrize(
    ("shell", "words", "wanted"),
    [
        ("bash", {"COMP_WORDS": "xray wo", "COMP_CWORD": "1"}, "worksheet"),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "xray wo"}, "worksheet"),
        ("fish", {"_TYPER_COMPLETE_ARGS": "xray wo", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "worksheet"),
        ("bash", {"COMP_WORDS": "xray trace --pha", "COMP_CWORD": "2"}, "--phase"),
        ("bash", {"COMP_WORDS": "xray walk --phase inf", "COMP_CWORD": "3"}, "inference"),
    ],
)
def test_a_shell_completes(shell, words, wanted):
    environment = plain_environment(_XRAY_COMPLETE=f"complete_{shell}", **words)
    done = subprocess.run([sys.executable, "-m", "xray"], capture_output=True, text=True, check=False, env=environment)

    assert wanted in done.stdout, done.stderr


@pytest.mark.parametrize(("shell", "wanted"), [("bash", "complete -o"), ("zsh", "#compdef xray"), ("fish", "complete")])
def test_a_shell_is_shown_what_to_read(shell, wanted):
    environment = plain_environment(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    done = subprocess.run(
        [sys.executable, "-m", "xray", "--show-completion", shell],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )

    assert wanted in done.stdout, done.stderr
    assert "_XRAY_COMPLETE" in done.stdout
