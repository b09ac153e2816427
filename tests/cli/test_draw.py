"""`xray draw`: papers and resolutions of what it draws."""

import re
from dataclasses import replace

import pytest
from pypdf import PdfReader

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


def test_a_pdf_can_be_cut_into_sheets(trace_file, tmp_path, capsys):
    sheets, whole = tmp_path / "sheets.pdf", tmp_path / "whole.svg"
    assert run(["draw", trace_file, "-q", "--tile", "a4", "-o", str(sheets), "-o", str(whole)]) == 0
    assert len(PdfReader(sheets).pages) == 4
    assert capsys.readouterr().err == f"wrote {sheets}, 4 sheets of A4\nwrote {whole}\n"


def test_blocks_are_opened_as_deep_as_asked(trace_file, tmp_path):
    picture = tmp_path / "blocks.svg"
    assert run(["draw", trace_file, "-q", "--depth", "1", "--open", "decoder.layers.*", "-o", str(picture)]) == 0
    drawn = picture.read_text(encoding="utf-8")
    assert ">cross_attention_norm<" in drawn
    assert ">self_attention_norm<" in drawn
    assert "closed block" in drawn


def test_a_block_can_be_kept_closed(trace_file, tmp_path):
    picture = tmp_path / "blocks.svg"
    assert run(["draw", trace_file, "-q", "--depth", "3", "--close", "encoder", "-o", str(picture)]) == 0
    assert "encoder.layers" not in re.sub(
        "<title>.*?</title>", "", picture.read_text(encoding="utf-8"), flags=re.DOTALL
    )


def test_a_pattern_that_fits_no_block_is_wrong_usage(trace_file, tmp_path, capsys):
    assert run(["draw", trace_file, "-q", "--open", "layers", "-o", str(tmp_path / "blocks.svg")]) == 2
    assert capsys.readouterr().err.startswith("xray: open='layers' fits no block. Near it: ")


def test_a_depth_below_0_is_wrong_usage(trace_file, capsys):
    assert run(["draw", trace_file, "--depth", "-1"]) == 2
    assert "Invalid value for '--depth'" in capsys.readouterr().err


def test_a_row_that_sees_nothing_is_said_on_stderr(training_trace, tmp_path, capsys):
    def blind(record):
        if record.mask is None or record.mask.cells is None:
            return record
        cells = tuple((*matrix[:-1], "p" * len(matrix[-1])) for matrix in record.mask.cells)
        return replace(record, mask=replace(record.mask, cells=cells))

    whole = training_trace.passes[0]
    steps = tuple(
        replace(step, inputs=tuple(map(blind, step.inputs)), outputs=tuple(map(blind, step.outputs)))
        for step in whole.steps
    )
    path = tmp_path / "blind.json"
    path.write_text(trace_to_json(replace(training_trace, passes=(replace(whole, steps=steps),))), encoding="utf-8")

    assert run(["draw", str(path), "-q", "-o", str(tmp_path / "poster.svg")]) == 0
    assert "xray: warning: 320 of the 320 rows of the scores (8, 4, 10, 10) see nothing" in capsys.readouterr().err


@pytest.mark.slow
def test_a_file_that_cannot_be_made_does_not_keep_back_the_others(trace_file, tmp_path, monkeypatch, capsys):
    files = [tmp_path / name for name in ("first.svg", "page.html", "last.json")]
    monkeypatch.setattr("xray.renderers.page.page.MOST_BYTES", 10, raising=True)

    code = run(["draw", trace_file, "-q", *(part for file in files for part in ("-o", str(file)))])

    assert code == 1
    assert [file.exists() for file in files] == [True, False, True]
    assert capsys.readouterr().err.splitlines()[1] == f"could not write {files[1]}"


@pytest.mark.parametrize(("suffix", "begins"), [(".md", "# "), (".csv", "pass,turn,"), (".mmd", "---\ntitle: ")])
def test_tables_and_graphs_are_written_by_their_suffix(trace_file, tmp_path, suffix, begins):
    target = tmp_path / f"out{suffix}"

    assert run(["draw", trace_file, "-q", "-o", str(target)]) == 0
    assert target.read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize("suffix", [".md", ".csv"])
def test_only_chosen_steps_stand_in_tables_of_every_form(trace_file, tmp_path, suffix):
    target = tmp_path / f"out{suffix}"

    assert run(["draw", trace_file, "-q", "--only", "head", "-o", str(target)]) == 0
    assert "self_attention" not in target.read_text(encoding="utf-8")
