"""Texts of `templates/walk` filled in: paragraphs with shapes in them, questions with answers, points of debate."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, FunctionLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from xray.assets import read_template
from xray.ir.records import TensorRecord
from xray.story.walk.chapters import Answer, Debate, Opinion, Text

PLACED = re.compile("\x02(\\d+)\x03")
"""Stands in a text for a shape; no word of a run holds such characters, they are made visible before."""
HERE = " [here]"


@dataclass(frozen=True)
class Prose:
    """A station's text, the questions that it raises, and the points on which the texts differ."""

    text: tuple[Text, ...]
    answers: tuple[Answer, ...]
    debates: tuple[Debate, ...]


@pass_context
def place(context: Context, value: object) -> object:
    """A sign in the place of a shape, which is kept; anything else as it is."""
    if not isinstance(value, TensorRecord):
        return value
    shapes: list[TensorRecord] = context["shapes"]
    shapes.append(value)
    return f"\x02{len(shapes) - 1}\x03"


@cache
def make_environment() -> Environment:
    """Templates as they stand: what is not known is an error and no gap."""
    return Environment(
        loader=FunctionLoader(read_template),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=place,
        autoescape=False,  # noqa: S701  # it becomes text, and whoever shows it escapes it
    )


def fill_in(name: str, facts: Mapping[str, object]) -> Prose:
    """The text of a template, filled in with facts."""
    shapes: list[TensorRecord] = []
    template = make_environment().get_template(f"walk/{name}.md")
    blocks = cut_blocks(template.render(facts, shapes=shapes))
    text: list[Text] = []
    answers: list[Answer] = []
    debates: list[Debate] = []
    for head, body in cut_sections(blocks):
        if head.startswith("? "):
            answers.append(Answer(head[2:], split_shapes(" ".join(body), shapes)))
        elif head.startswith("! "):
            debates.append(read_debate(head[2:], body))
        else:
            text += [split_shapes(block, shapes) for block in body]
    return Prose(tuple(text), tuple(answers), tuple(debates))


def cut_blocks(rendered: str) -> list[str]:
    """Paragraphs, each in one line but for those of a debate, whose lines each begin with a sign."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", rendered):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if lines:
            found.append(("\n" if lines[0].startswith("* ") else " ").join(lines))
    return found


def cut_sections(blocks: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each question and each debate with the paragraphs below it; what stands before them under no heading."""
    head = ""
    body: list[str] = []
    for block in blocks:
        if block.startswith(("? ", "! ")):
            yield head, body
            head, body = block, []
        else:
            body.append(block)
    yield head, body


def read_debate(topic: str, body: list[str]) -> Debate:
    """A debate: who says what, and a remark."""
    opinions = []
    remarks = []
    for block in body:
        if not block.startswith("* "):
            remarks.append(block)
            continue
        who, says, example = (line[2:] for line in join_lines(block))
        opinions.append(Opinion(who.removesuffix(HERE), says, example, who.endswith(HERE)))
    return Debate(topic, tuple(opinions), " ".join(remarks))


def join_lines(block: str) -> list[str]:
    """The three parts of an opinion, each in one line."""
    found: list[str] = []
    for line in block.splitlines():
        if line.startswith(("* ", "- ", "> ")):
            found.append(line)
        else:
            found[-1] += f" {line}"
    return found


def split_shapes(block: str, shapes: list[TensorRecord]) -> Text:
    """A paragraph with the shapes in their places."""
    parts = PLACED.split(block)
    return tuple(shapes[int(part)] if number % 2 else part for number, part in enumerate(parts) if part)
