"""`xray draw`: papers and resolutions of what it draws."""

import re

import pytest

from xray.cli.app import run
from xray.ir.json_form import trace_to_json


@pytest.fixture(scope="module")
def trace_file(training_trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    path.write_text(trace_to_json(training_trace), encoding="utf-8")
    return str(path)


def test_the_paper_can_be_chosen(trace_file, tmp_path):
    assert run(["draw", trace_file, "-q", "--paper", "a4", "-o", str(tmp_path / "poster.svg")]) == 0
    assert re.search(r'width="59\dpt" height="84\dpt"', (tmp_path / "poster.svg").read_text(encoding="utf-8"))


def test_an_unknown_paper_is_wrong_usage(trace_file, capsys):
    assert run(["draw", trace_file, "--paper", "letter"]) == 2
    assert "'letter' is not one of 'a0'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["draw", "absent.json"], ["trace", "--run", "absent"]])
def test_too_many_dots_are_refused_before_anything_runs(tmp_path, capsys, command):
    assert run([*command, "--paper", "a0", "--dpi", "600", "-o", str(tmp_path / "poster.png")]) == 2
    assert capsys.readouterr().err.startswith(
        "xray: A0 at 600 dpi has 19,866 x 28,087 dots. A PNG may have 150,000,000"
    )


def test_a_pdf_has_no_dots_to_count(trace_file, tmp_path):
    assert run(["draw", trace_file, "-q", "--paper", "a0", "--dpi", "600", "-o", str(tmp_path / "poster.pdf")]) == 0
