"""Files are whole or untouched; stdout that nobody reads is no catastrophe."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from xray.cli.output import check_writable, make_folder, write_file
from xray.errors import OutputError

as_root = pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")


def test_a_file_is_written_whole(tmp_path):
    write_file(tmp_path / "a.svg", "<svg/>")

    assert (tmp_path / "a.svg").read_text() == "<svg/>"
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


def test_a_new_file_has_the_usual_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "a.svg", b"x")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a.svg").stat().st_mode) == 0o640


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("old")
    path.chmod(0o604)

    write_file(path, "new")

    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o604)


def test_a_link_is_followed_not_replaced(tmp_path):
    (tmp_path / "real.svg").write_text("old")
    (tmp_path / "link.svg").symlink_to("real.svg")

    write_file(tmp_path / "link.svg", "new")

    assert (tmp_path / "link.svg").is_symlink()
    assert (tmp_path / "real.svg").read_text() == "new"


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.svg"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OutputError, match=r"a\.svg: no space left on device\. Nothing was changed\.$"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_device_is_written_to():
    write_file(Path(os.devnull), "x")

    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_missing_folder_is_found_before_any_work(tmp_path):
    with pytest.raises(OutputError, match=r"the folder .*nowhere is missing\. Make it first\.$"):
        check_writable(tmp_path / "nowhere" / "a.svg")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(OutputError, match=re.escape("it is a folder. Name a file in it.")):
        check_writable(tmp_path)


@as_root
def test_a_closed_folder_is_found_before_any_work(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match=r"permission denied"):
        check_writable(tmp_path / "a.svg")


def test_a_file_in_the_place_of_a_folder_is_said(tmp_path):
    (tmp_path / "taken").write_text("")

    with pytest.raises(OutputError, match=r"cannot make the folder .*taken: file exists"):
        make_folder(tmp_path / "taken")


def run_writer(code, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", f"from xray.cli.output import *\n{code}"], check=False, text=True, **kwargs
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_ends_quietly(unbuffered):
    code = (
        "import sys\nfrom xray.cli.output import write_stdout\nimport typer\n"
        "try:\n    write_stdout('x' * 10_000_000)\nexcept typer.Exit as leave:\n    sys.exit(leave.exit_code)"
    )
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    writer.stdout.read(10)
    writer.stdout.close()
    errors = writer.stderr.read()
    writer.stderr.close()

    assert (writer.wait(), errors) == (141, b"")


def test_an_ascii_terminal_gets_escapes():
    result = run_writer(
        "write_stdout('8×4 \\u05d0')", capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )

    assert result.stdout == "8\\xd74 \\u05d0"
