"""Documents whose commands and snippets have to run: their blocks, and the running of them, in order."""

import io
import re
import shlex
import subprocess
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import plain_environment
from trust.outcomes import call

ROOT = Path(__file__).parent.parent
FENCE = re.compile(
    r"^(?:<!-- (?P<remark>.*?) -->\n)?```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SET_UP = "python3 -m venv"
"""How a line begins that builds the environment in which these tests run."""

SHORTER = {"xray train": " --epochs 1", "torchrun": " --epochs 1"}
"""What a test adds to a command so that it does not take a minute."""


@dataclass(frozen=True)
class Block:
    """Something between fences: commands, Python to run, a file to write, or lines that the block before it shows."""

    kind: str
    text: str
    title: str
    remark: str
    line: int

    @property
    def exit_code(self) -> int:
        """What its commands end with, as the remark above it says: "ends with 1"; else 0."""
        found = re.fullmatch(r"ends with (\d+)", self.remark)
        return int(found[1]) if found else 0


def read_blocks(text):
    """The fenced blocks of a Markdown text, in order."""
    return [
        Block(
            found["kind"],
            found["text"],
            found["title"] or "",
            found["remark"] or "",
            text.count("\n", 0, found.start("kind")) + 1,
        )
        for found in FENCE.finditer(text)
    ]


def commands_of(blocks):
    """The lines of all console blocks."""
    return [line for block in blocks if block.kind == "console" for line in block.text.strip().splitlines()]


def shorten(command):
    """The command as a test runs it."""
    more = next((text for start, text in SHORTER.items() if command.startswith(start)), "")
    return command if "--epochs" in command or "--resume" in command else command + more


def run_shell(command, folder, answer=""):
    """A command line in a shell and a process of its own."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        input=answer,
        capture_output=True,
        text=True,
        check=False,
        env=plain_environment(COLUMNS="100"),
    )


class Reader:
    """Someone who does all that a page says, from top to bottom, in one folder: the working directory."""

    def __init__(self, answer="Who is Ripley?\n"):
        self.answer = answer
        self.names: dict[str, Any] = {"__name__": "page"}
        self.said = ""

    def follow(self, block):
        """Write the file, run the commands or the Python, or find the lines in what was said last."""
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.kind == "console":
            self.said = ""
            for command in block.text.strip().splitlines():
                code, said = self.run_command(command)
                assert code == block.exit_code, f"line {block.line}: {command} ended with {code}: {said[-2000:]}"
                self.said += said
        elif block.kind == "python":
            output = io.StringIO()
            with redirect_stdout(output):
                exec(compile(block.text, f"line {block.line}", "exec"), self.names)
            self.said = output.getvalue()
        elif block.kind == "text":
            self.compare(block)
        else:
            raise AssertionError(f"line {block.line}: nobody runs a {block.kind} block without a title")

    def run_command(self, command):
        """A command's exit code, and what it said on stdout and stderr; X-Ray's own run in this process."""
        if command.startswith((SET_UP, "xray demo")):
            return 0, ""  # run before the test began
        if command.startswith("xray ") and not set(command) & set("|>&$"):
            done = call(*shlex.split(shorten(command))[1:], stdin=self.answer.encode())
            return done.code, done.out.decode() + done.err
        ended = run_shell(shorten(command), Path.cwd(), self.answer)
        return ended.returncode, ended.stdout + ended.stderr

    def compare(self, block):
        """What each line shows must have been said, in that order; a line of dots stands for some left out."""
        said = iter(" ".join(line.split()) for line in self.said.splitlines())
        for line in block.text.splitlines():
            wanted = " ".join(line.split())
            found = wanted in ("", "...") or any(wanted in one for one in said)
            assert found, f"line {block.line}: nothing said {line!r}: {self.said}"
