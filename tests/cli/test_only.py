"""`--only` and `--shape`: which steps the tables show, and what is said when there are none."""

import pytest
from small_traces import small_trace

from xray.cli.app import run
from xray.ir.json_form import trace_to_json


@pytest.fixture
def trace_file(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(trace_to_json(small_trace()), encoding="utf-8")
    return str(path)


@pytest.fixture
def draw(trace_file, tmp_path, capsys):
    """The exit code and the talk of `xray draw` with some options, a file asked for beside the tables."""

    def call(*options, to="copy.json"):
        return run(["draw", trace_file, "-o", str(tmp_path / to), *options]), capsys.readouterr().err

    return call


def test_the_tables_show_only_what_was_chosen(draw):
    code, talk = draw("--only", "decoder.*", "--shape", "*x3x*x*")

    assert code == 0
    assert "Only steps at decoder.* with a tensor of shape *x3x*x* are shown" in " ".join(talk.split())
    assert "self_attention.scores" in talk
    assert "feed_forward" not in talk


def test_several_paths_may_be_given(draw):
    _, talk = draw("--only", "head", "--only", "src_mask")

    assert "6 of 123 steps" in " ".join(talk.split())


def test_the_other_files_hold_everything(draw, tmp_path, trace_file):
    draw("--only", "head")

    assert (tmp_path / "copy.json").read_text() == (tmp_path / "trace.json").read_text()


def test_a_table_in_a_file_holds_what_was_chosen(draw, tmp_path):
    draw("-q", "--only", "head", to="table.txt")

    assert "Only steps at head" in (tmp_path / "table.txt").read_text(encoding="utf-8")


def test_nothing_chosen_is_an_error_that_names_what_is_near(draw):
    code, talk = draw("--only", "self_atention")

    assert code == 1
    assert "xray: no step has the path self_atention. Near it: " in talk


def test_the_files_are_written_all_the_same(draw, tmp_path):
    draw("--only", "absent")

    assert (tmp_path / "copy.json").exists()


@pytest.mark.parametrize("command", [["draw", "absent.json"], ["trace", "--run", "absent"]])
def test_what_is_no_shape_is_refused_before_anything_runs(command, capsys):
    assert run([*command, "--shape", "eight by four"]) == 2
    assert capsys.readouterr().err.startswith("xray: the shape 'eight by four' is not understood. Write it as ")
