"""`xray answer`: a file of questions, line for line."""

import io
import sys

import pytest
from small_runs import PAIRS, finish_small

from xray.cli.app import run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    return str(finish_small(folder, lessons={"epochs": 60, "batch": 5, "learning_rate": 0.01}))


@pytest.fixture
def answer(finished, tmp_path, capsys):
    """Answer a file with these contents; the exit code, and what came on stdout and stderr."""

    def ask(content, *options):
        path = tmp_path / "questions.txt"
        path.write_bytes(content)
        code = run(["answer", str(path), "--run", finished, *options])
        return code, *capsys.readouterr()

    return ask


ASKED = b"Who is Ripley?\nWho is Spock?\n"
SAID = "The bravest woman aboard.\nA Vulcan.\n"


def test_every_line_gets_its_answer(answer):
    code, out, err = answer(ASKED)
    assert (code, out) == (0, SAID)
    assert err.startswith("answered 2 questions in ")


@pytest.mark.parametrize(
    "content", [b"\nWho is Spock?\n\n", b"\r\nWho is Spock?\r\n \t\r\n", b"\xef\xbb\xbf\nWho is Spock?\n\x00"]
)
def test_blank_lines_stay_blank(answer, content):
    assert answer(content)[1] == "\nA Vulcan.\n\n"


def test_odd_line_marks_end_no_line(answer):
    assert answer("Who is\u2028Spock?\x0b\n".encode())[1] == "A Vulcan.\n"


def test_answers_go_into_a_file(answer, tmp_path):
    code, out, _ = answer(ASKED, "-o", str(tmp_path / "answers.txt"))
    assert (code, out, (tmp_path / "answers.txt").read_text()) == (0, "", SAID)


def test_the_size_of_a_batch_changes_nothing(answer):
    many = "\n".join(pair.question for pair in PAIRS).encode()
    assert answer(many, "--batch", "1")[1] == answer(many)[1]


def test_beams_can_be_asked_for(answer):
    assert answer(ASKED, "--beam", "4", "--length-penalty", "0.6")[:2] == (0, SAID)


def test_unknown_words_are_counted(answer):
    assert "note: 1 of 2 questions hold words that were never heard of." in answer(b"Who is Zorg?\nWho is Spock?\n")[2]


def test_long_questions_are_counted(answer):
    assert "note: 1 of 1 questions are too long and were cut." in answer(b"who " * 23)[2]


def test_no_questions_are_no_answers(answer):
    assert answer(b"")[:2] == (0, "")


def test_another_encoding_can_be_given(answer):
    assert answer("Who is Spock?\nWho is Ripley?".encode("utf-16"), "--encoding", "utf-16")[1].startswith("A Vulcan.\n")


def test_stdin_is_a_file_too(finished, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ASKED)))
    assert run(["answer", "-", "--run", finished]) == 0
    assert capsys.readouterr().out == SAID


@pytest.mark.parametrize(
    ("content", "options", "code", "message"),
    [
        (b"hi\n\xff\xfe\n", [], 1, "questions.txt is not UTF-8, in line 2. Save it as UTF-8"),
        (b"hi\n", ["--encoding", "utf-ate"], 2, "the encoding 'utf-ate' is unknown."),
        (b"hi\n", ["--beam", "0"], 2, "beam=0 is too small."),
        (
            b"hi\n",
            ["-o", "/nowhere/answers.txt"],
            1,
            "cannot write /nowhere/answers.txt: the folder /nowhere is missing",
        ),
    ],
)
def test_what_cannot_be_is_one_line(answer, content, options, code, message):
    found, _, err = answer(content, *options)
    assert (found, err.count("\n")) == (code, 1)
    assert err.startswith(f"xray: {message}")


def test_a_missing_file_is_explained(finished, capsys):
    assert run(["answer", "none.txt", "--run", finished]) == 1
    assert capsys.readouterr().err.startswith("xray: cannot read none.txt: no such file")
