"""A chapter of the walk, or a question of the quiz, for the terminal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import StringIO
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.text import Text as Line

from xray.ir.trace import Pass, Step
from xray.renderers.table.words import ASCII, UNICODE, Depth, Words, flow
from xray.renderers.themes import Theme, load_theme
from xray.story.walk.chapters import Chapter, Debate, Text
from xray.story.walk.quiz import Question
from xray.story.walk.turns import list_candidates

NARROWEST = 24
WIDEST = 100
"""Longer lines are hard to read."""


@dataclass(frozen=True)
class Screen:
    """What the terminal is like: its width in cells, its colours, whether it knows more than ASCII."""

    width: int = 80
    colour: Literal[False] | Depth = False
    theme: Theme = field(default_factory=load_theme)
    ascii_only: bool = False
    widest: int = WIDEST
    painted: bool = False
    """Whether text brings the theme's own page to stand on, since the terminal's background may not suit it."""

    @property
    def columns(self) -> int:
        """How long a line of text is."""
        return max(NARROWEST, min(self.width, self.widest))

    @property
    def words(self) -> Words:
        """How words and shapes look here."""
        return Words(self.theme, ASCII if self.ascii_only else UNICODE, self.colour or "truecolor")


def draw_chapter(chapter: Chapter, answer: Pass, steps: Iterable[Step], screen: Screen) -> str:
    """A station's text, its steps, the words that might come next, its questions and the texts' disagreements.

    `answer` is the pass that reads the answer, `steps` are the chapter's own.
    """
    return print_all(chapter_parts(chapter, answer, steps, screen.words, screen.columns), screen)


def draw_text(text: Text, screen: Screen) -> str:
    """A text by itself, broken into lines."""
    return print_all(flow(pieces(text, screen.words), screen.columns), screen)


def draw_prompt(question: Question, number: int, count: int, screen: Screen) -> str:
    """A question with its number."""
    return draw_text((f"{number} of {count} · {question.title}: ", *question.prompt), screen)


def chapter_parts(
    chapter: Chapter, answer: Pass, steps: Iterable[Step], words: Words, width: int
) -> Iterator[RenderableType]:
    where = f"inference, turn {chapter.turn}" if chapter.phase == "inference" else chapter.phase
    pill = (f" {chapter.station} ", words.surface("station") + Style(bold=True))
    yield Line.assemble(pill, (f" {chapter.title} ", Style(bold=True)), words.quiet(where))
    for text in chapter.text:
        yield from (Line(), *flow(pieces(text, words), width))
    yield Line()
    for step in steps:
        name = words.quiet(words.cut(words.clean(step.path), max(8, width - 24)))
        shape = words.shape(step.outputs[0]) if step.outputs else Line("")
        yield Line.assemble("  ", name, " " * max(1, width - 26 - name.cell_len), shape, no_wrap=True)
    if chapter.station >= 8 and chapter.phase != "forward":
        yield from candidate_lines(answer, words, width)
    for one in chapter.answers:
        yield from (Line(), words.accent(one.question, "title", bold=True))
        yield Padding(Group(*flow(pieces(one.text, words), width - 2)), (0, 0, 0, 2))
    for debate in chapter.debates:
        yield from debate_lines(debate, words, width)


def candidate_lines(one_pass: Pass, words: Words, width: int) -> Iterator[RenderableType]:
    """The words that might come next, with bars as long as they are likely."""
    found = list_candidates(one_pass)[:5]
    if found:
        yield Line()
    room = max(4, width - 30)
    block = words.signs.cells["."][0]
    for word, chance in found:
        bar = block * max(1, round(chance * room)) if chance >= 0.005 else ""
        name = Line(words.word(word, 16), no_wrap=True)
        yield Line.assemble(
            "  ",
            name,
            " " * max(1, 18 - name.cell_len),
            f"{chance:6.1%} ",
            (bar, words.bold_accent("inference")),
            no_wrap=True,
        )


def debate_lines(debate: Debate, words: Words, width: int) -> Iterator[RenderableType]:
    yield from (Line(), words.accent(debate.topic, "warning", bold=True))
    for one in debate.opinions:
        mark = "this run → " if one.is_used else ""
        mark = mark if words.signs is UNICODE else mark.replace("→", "->")
        said = [words.accent(mark.strip(), "inference", bold=True)] if mark else []
        said += [words.strong(word) for word in f"{one.who}:".split()] + pieces((one.says,), words)
        yield Padding(Group(*flow(said, width - 2)), (0, 0, 0, 2))
        yield Padding(Group(*flow([words.quiet(word) for word in one.example.split(" ")], width - 4)), (0, 0, 0, 4))
    yield Padding(Group(*flow(words.sentence(debate.remark), width - 2)), (0, 0, 0, 2))


def pieces(text: Text, words: Words) -> list[Line]:
    """A text as pieces that a line may break between: words with what is glued to them, shapes whole."""
    found: list[Line] = []
    glued = False
    for part in text:
        parts = [words.plain(word) for word in part.split(" ")] if isinstance(part, str) else [words.shape(part)]
        for place, piece in enumerate(parts):
            if place or not glued or not found:
                found.append(piece)
            else:
                found[-1] = Line.assemble(found[-1], piece, no_wrap=True)
        glued = not isinstance(part, str) or (bool(part) and not part.endswith(" "))
    return [piece for piece in found if piece.plain]


def print_all(parts: Iterable[RenderableType], screen: Screen) -> str:
    out = StringIO()
    console = Console(
        file=out,
        width=screen.columns,
        color_system="truecolor" if screen.colour else None,
        no_color=not screen.colour,
        force_terminal=False,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    if screen.colour and screen.painted:
        parts = [Padding(Group(*parts), 0, style=screen.words.surface("page"))]
    for part in parts:
        console.print(part)
    lines = out.getvalue().split("\n")
    return "\n".join(line.rstrip() if not screen.colour else line for line in lines).rstrip("\n")
