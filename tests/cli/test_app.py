"""The command line as a whole: help, exit codes, one line for every error."""

import subprocess
import sys

import pytest
import typer
from conftest import plain_environment
from trust.outcomes import assert_explained, call

from xray.cli import app
from xray.errors import DataError, RunError, UsageError


def test_a_process_of_its_own_names_every_command_and_ends_with_an_example():
    done = subprocess.run(
        [sys.executable, "-m", "xray", "--help"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=plain_environment(),
    )

    assert done.returncode == 0
    assert all(name in done.stdout for name in ("demo", "train", "trace", "draw", "diff", "chat"))
    assert done.stdout.strip().splitlines()[-1].strip() == "Example: xray demo"


@pytest.mark.parametrize("command", ["demo", "train", "trace", "draw", "worksheet", "diff", "theme", "chat"])
def test_the_help_of_every_command_ends_with_an_example(command):
    done = call(command, "--help")

    assert done.code == 0
    assert done.out.decode().strip().splitlines()[-1].strip().startswith(f"Example: xray {command} ")


def test_help_loads_no_torch():
    code = (
        "import sys\nfrom xray.cli.app import run\nrun(['--help'])\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'datasets', 'tokenizers', 'pygraphviz')))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_the_version_is_the_installed_one():
    from importlib.metadata import version

    assert call("--version").out.decode() == f"xray {version('transformer-xray')}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["dream"], 2, "xray: No such command 'dream'"),
        (["trace", "--phase", "asleep"], 2, "xray: Invalid value for '--phase'"),
        (["trace", "--dpi", "0"], 2, "xray: Invalid value for '--dpi'"),
        (["trace", "--ask", ""], 2, "xray: the question is empty."),
        (["trace", "-o", "poster.jpg"], 2, "xray: cannot tell the format of poster.jpg. End it in .svg, .png,"),
        (["trace", "-o", "nowhere/poster.svg"], 1, "xray: cannot write nowhere/poster.svg: the folder"),
        (["trace", "--run", "runs/absent"], 1, "xray: no trained model in runs/absent"),
        (["trace", "--theme", "pink"], 1, "xray: no theme named 'pink'."),
        (["chat", "--run", "runs/absent"], 1, "xray: no trained model in runs/absent"),
        (["draw", "absent.json"], 1, "xray: cannot read absent.json: no such file or directory."),
        (["diff", "absent.json", "absent.json"], 2, "xray: cannot read absent.json"),
        (["train", "absent.csv"], 1, "xray: cannot read absent.csv: no such file"),
        (["train"], 2, "xray: which pairs?"),
        (["train", "--heads", "5", "{corpus}"], 1, "xray: heads=5 does not divide d_model=32. Choose 1, 2, 4,"),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("question,answer\nhi,hello\n")

    done = call(*(argument.format(corpus="pairs.csv") for argument in arguments))

    assert_explained(done)
    assert (done.code, done.out) == (code, b"")
    assert done.last.startswith(message)
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.csv"]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DataError("pairs.csv is empty. Add pairs."), 1, "xray: pairs.csv is empty. Add pairs."),
        (UsageError("the question is empty."), 2, "xray: the question is empty."),
        (ValueError("two\nlines \x1b[31m"), 1, "xray: unexpected ValueError: two lines \\x1b[31m."),
        (KeyboardInterrupt(), 130, ""),
        (typer.Exit(7), 7, ""),
    ],
)
def test_every_exception_becomes_its_exit_code(monkeypatch, capsys, error, code, line):
    def fail(*_, **__):
        raise error

    if isinstance(error, typer.Exit):
        monkeypatch.setattr(app, "make_app", lambda *_: lambda *_, **__: error.exit_code)
    else:
        monkeypatch.setattr(app, "make_app", lambda *_: fail)

    assert app.run(["trace"]) == code
    assert capsys.readouterr().err.strip().startswith(line)


def test_debug_gives_the_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(RunError, match="no trained model in absent"):
        call("trace", "--run", "absent", "--debug")
