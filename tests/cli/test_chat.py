"""`xray chat`: on a pipe and at a terminal."""

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console
from small_runs import finish_small

from xray.cli import conversation
from xray.cli.app import run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    return str(finish_small(folder, lessons={"epochs": 60, "batch": 5, "learning_rate": 0.01}))


@pytest.fixture
def chat(finished, monkeypatch, capsys):
    """Chat with these bytes on stdin; the exit code, and what came on stdout and stderr."""

    def say(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
        return (run(["chat", "--run", finished]), *capsys.readouterr())

    return say


@pytest.fixture
def talk(finished, monkeypatch, capsys):
    """Chat as at a terminal; each line is a text to type, or an exception that the keyboard raises."""

    def type_lines(*lines):
        typed = iter(lines)

        def read(_):
            line = next(typed, EOFError())
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr("builtins.input", read)
        monkeypatch.setattr(conversation, "is_interactive", lambda: True)
        return run(["chat", "--run", finished]), capsys.readouterr().out

    return type_lines


def test_a_pipe_gets_one_answer_for_each_line(chat):
    assert chat(b"Who is Ripley?\n\n  \nWho is Spock?\n") == (0, "The bravest woman aboard.\nA Vulcan.\n", "")


def test_no_questions_are_answered_with_nothing(chat):
    assert chat(b"") == (0, "", "")


def test_unknown_words_are_told_on_stderr(chat):
    code, out, err = chat(b"Who is <pad>?\n")
    assert (code, out.count("\n"), err) == (0, 1, "xray: never heard of: <, pad, > (read as <unk>).\n")


def test_controls_neither_pass_nor_matter(chat):
    assert chat(b"\x1bWho is\x00 Ripley?\r\n")[1:] == ("The bravest woman aboard.\n", "")


def test_a_line_that_is_no_text_is_passed_over(chat):
    code, out, err = chat(b"\xff\xfe\nWho is Spock?\n")
    assert (code, out, err) == (0, "A Vulcan.\n", "xray: line 1 is not UTF-8: passed over.\n")


def test_an_endless_line_is_passed_over(chat):
    code, out, err = chat(b"who " * 5_000 + b"\nWho is Spock?\n")
    assert (code, out, err) == (0, "A Vulcan.\n", "xray: a line of 20,000 characters is no question: passed over.\n")


def test_a_long_question_is_cut_and_said_so(chat):
    assert chat(b"who " * 23 + b"\n")[2] == "xray: the last 4 words were cut: 19 is the most it can read.\n"


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(finished):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "xray", "chat", "--run", finished],
        input=b"Who is Spock?\n" * 3,
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_no_run_is_explained(tmp_path, capsys):
    assert run(["chat", "--run", str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().err == (
        f'xray: no trained model in {tmp_path}/nothing: run "xray train FILE.csv" first.\n'
    )


def test_the_banner_suggests_questions(talk):
    code, out = talk()
    assert code == 0
    assert out.count("  ask: ") == 3


def test_an_answer_is_given_at_the_terminal(talk):
    assert "bot > The bravest woman aboard.\n" in talk("Who is Ripley?")[1]


@pytest.mark.parametrize("word", ["/quit", "/exit", " /q "])
def test_quit_leaves(talk, word):
    code, out = talk(word, "Who is Ripley?")
    assert (code, "bot >" in out) == (0, False)


def test_one_interrupt_clears_the_line_and_two_leave(talk):
    code, out = talk(KeyboardInterrupt(), "Who is Ripley?", KeyboardInterrupt(), KeyboardInterrupt())
    assert (code, out.count("bot >")) == (130, 1)


def test_an_interrupted_answer_comes_back_to_the_prompt(talk, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("xray.learn.answers.chatbot.Chatbot.answer", interrupt)
    code, out = talk("Who is Ripley?")
    assert (code, "never mind" in out) == (0, True)


def test_why_shows_every_word_with_its_rivals(talk):
    rows = [line.split() for line in talk("Who is Spock?", "/why")[1].splitlines() if "%" in line]
    assert [row[1] for row in rows] == ["a", "vulcan", ".", "<eos>"]


def test_a_typing_error_brings_the_question_that_was_meant(talk):
    assert "did you mean: Who is Ripley?" in talk("Who is Riply?")[1]


def test_other_commands_give_help(talk):
    assert talk("/why", "/help")[1].count(conversation.HELP) == 3


def test_empty_lines_ask_again(talk):
    assert "bot >" not in talk("", "  ", "\x00")[1]


def test_a_narrow_terminal_without_unicode_is_enough(talk, monkeypatch):
    class Narrow(io.TextIOWrapper):
        def isatty(self):
            return True

    screen = Narrow(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(conversation, "Console", lambda **_: Console(file=screen, width=20, no_color=True))
    code, _ = talk("Who is שלום?", "/why")
    assert code == 0
    screen.flush()
    shown = screen.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert "\\u05e9" in shown.replace("\n", "")
