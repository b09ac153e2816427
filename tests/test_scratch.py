"""Files written aside: whole at every moment, whoever looks, and kept from those who clean up."""

import stat
from contextlib import suppress

import pytest

from xray.scratch import ASIDE, sweep_files, write_aside


def test_the_old_content_is_there_until_the_new_one_is_whole(tmp_path):
    target = tmp_path / "a.json"
    target.write_bytes(b"old")

    with write_aside(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"

    assert target.read_bytes() == b"new"


def test_what_was_there_goes_on_under_another_name(tmp_path):
    target, keep = tmp_path / "last", tmp_path / "previous"
    for data in (b"1", b"2", b"3"):
        with write_aside(target, keep) as file:
            file.write(data)

    assert (target.read_bytes(), keep.read_bytes()) == (b"3", b"2")


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    target = tmp_path / "a.json"
    target.write_bytes(b"old")
    target.chmod(0o600)

    with write_aside(target):
        (aside,) = tmp_path.glob(f".*{ASIDE}")
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_whatever_goes_wrong_nothing_changes(tmp_path):
    target = tmp_path / "a.json"
    target.write_bytes(b"old")

    with suppress(KeyboardInterrupt), write_aside(target) as file:
        file.write(b"ne")
        raise KeyboardInterrupt

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.json", b"old")]


def test_what_is_being_written_is_not_swept_away(tmp_path):
    pytest.importorskip("fcntl", reason="nothing is swept where nothing can be locked")
    (tmp_path / f".a.json.0{ASIDE}").write_bytes(b"of a killed process")

    with write_aside(tmp_path / "a.json"):
        sweep_files(tmp_path, ".", ASIDE)
        assert len(list(tmp_path.iterdir())) == 1

    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
