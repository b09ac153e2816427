"""`xray worksheet`: two files from one command, and one line for everything that cannot be asked."""

import pytest

from xray.cli.app import run
from xray.ir.json_form import trace_to_json


@pytest.fixture(scope="module")
def trace_file(training_trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    path.write_text(trace_to_json(training_trace), encoding="utf-8")
    return path


@pytest.fixture
def ask(trace_file, tmp_path, monkeypatch, capsys):
    """Runs the command in an empty folder; gives its exit code, its last line on stderr, and the files it left."""
    monkeypatch.chdir(tmp_path)

    def called(*arguments, trace=trace_file):
        code = run(["worksheet", str(trace), *arguments])
        said = capsys.readouterr()
        assert said.out == ""
        return code, said.err.strip().splitlines()[-1], {path.name for path in tmp_path.iterdir()}

    return called


def test_the_answers_lie_beside_the_sheet(ask):
    assert ask("-o", "lesson.svg", "--stations", "2") == (
        0,
        "wrote lesson-answers.svg, the answers",
        {"lesson.svg", "lesson-answers.svg"},
    )


def test_without_a_name_it_is_a_pdf(ask, tmp_path):
    assert ask("--stations", "3")[2] == {"worksheet.pdf", "worksheet-answers.pdf"}
    assert (tmp_path / "worksheet.pdf").read_bytes().startswith(b"%PDF")


def test_the_answers_may_have_a_name_of_their_own(ask):
    assert ask("-o", "sheet.svg", "--answers", "key.svg", "--stations", "1-3,6")[2] == {"sheet.svg", "key.svg"}


@pytest.mark.slow
def test_the_same_seed_makes_the_same_files(ask, tmp_path):
    ask("-o", "a.svg", "--seed", "7")
    ask("-o", "b.svg", "--seed", "7")
    ask("-o", "c.svg", "--seed", "8")
    sheets = [(tmp_path / f"{name}.svg").read_bytes() for name in "abc"]
    assert sheets[0] == sheets[1] != sheets[2]


def test_only_the_answers_hold_the_answers(ask, tmp_path):
    ask("-o", "a.svg", "--stations", "2", "--share", "1")
    assert "8×4×10×10" not in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "8×4×10×10" in (tmp_path / "a-answers.svg").read_text(encoding="utf-8")


def test_it_is_made_for_print(ask, tmp_path):
    ask("-o", "a.svg", "--stations", "2")
    assert 'stroke="none"' in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert '<path fill="#ffffff" stroke="none"' in (tmp_path / "a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--stations", "12"], 2, "xray: station 12 of this trace has no shapes to ask for. Choose among 1, 2"),
        (["--stations", "0"], 2, "xray: 0 is no station. They count from 1, as in --stations 2,5."),
        (["--stations", "two"], 2, "xray: --stations two is no list of stations. Write numbers, as in 2,5 or 5-7."),
        (["--stations", "5-"], 2, "xray: --stations 5- is no list of stations."),
        (["--stations", "7-5"], 2, "xray: --stations 7-5 is no list of stations."),
        (["--stations", "9"], 2, "xray: station 9 of this trace has no shapes to ask for. Choose among 1, 2"),
        (["--share", "0"], 2, "xray: share=0 is out of range. It must be above 0 and at most 1, all of them."),
        (["-o", "sheet.jpg"], 2, "xray: cannot tell the format of sheet.jpg. End it in .pdf, .svg, .png."),
        (["-o", "a.svg", "--answers", "b.pdf"], 2, "xray: sheet and answers have one format. End b.pdf in .svg."),
        (["-o", "a.svg", "--answers", "a.svg"], 2, "xray: sheet and answers would both be a.svg. Name another file"),
        (["-o", "a.png", "--paper", "a0", "--dpi", "600"], 2, "xray: A0 at 600 dpi has 19,866 x 28,087 dots."),
        (["-o", "none/a.svg"], 1, "xray: cannot write none/a.svg: the folder"),
        (["--theme", "pink"], 1, "xray: no theme named 'pink'."),
        (["--ask", "Who?"], 2, "xray: --ask: a trace file is already answered"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_line(ask, arguments, code, message):
    result, line, files = ask(*arguments)
    assert result == code
    assert line.startswith(message)
    assert files == set()


def test_another_models_trace_is_refused(ask, tmp_path_factory):
    from small_traces import small_trace

    path = tmp_path_factory.mktemp("other") / "other.json"
    path.write_text(trace_to_json(small_trace()), encoding="utf-8")
    code, line, files = ask(trace=path)
    assert (code, files) == (1, set())
    assert line.startswith("xray: a worksheet is made from a poster, and")
