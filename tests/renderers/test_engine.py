"""Graphviz that takes a library for granted which the system lacks, as it does in a slim container."""

import sys

import pytest

from xray.cli.app import main
from xray.errors import DrawError
from xray.renderers.engine import load_graphviz

LACKING = "libgobject-2.0.so.0: cannot open shared object file: No such file or directory"


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A function that puts a Graphviz in the way which ends with that error when it is loaded."""

    def breaks(said):
        (tmp_path / "pygraphviz.py").write_text(f"raise ImportError({said!r})", encoding="utf-8")
        for name in [one for one in sys.modules if one.split(".")[0] == "pygraphviz"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(tmp_path)

    return breaks


def test_a_library_that_is_missing_is_named_with_what_installs_it(broken):
    broken(LACKING)

    with pytest.raises(DrawError, match=r"libgobject-2\.0\.so\.0 is not, .*apt-get install .*libglib2\.0-0 .*dnf"):
        load_graphviz()


def test_another_failure_is_told_as_it_is(broken):
    broken("no module of that name")

    with pytest.raises(ImportError, match="no module of that name"):
        load_graphviz()


@pytest.mark.parametrize("command", [["demo"], ["trace", "-o", "poster.svg"]])
def test_it_is_said_before_anything_runs(broken, tmp_path, monkeypatch, capsys, command):
    broken(LACKING)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    with pytest.raises(SystemExit) as ended:
        main(command)

    assert ended.value.code == 1
    assert "libgobject-2.0.so.0" in capsys.readouterr().err
    assert list((tmp_path / "here").iterdir()) == []
