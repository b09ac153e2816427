"""A conversation with a chatbot: at a terminal with all comforts, on a pipe one answer for each line."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from random import Random

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from xray.cli.output import say, write_stdout
from xray.cli.screen.background import has_light_background
from xray.cli.screen.plain import encodable
from xray.cli.screen.terminal import colour_depth
from xray.config import SPECIAL_TOKENS
from xray.errors import UsageError
from xray.learn.answers.chatbot import Chatbot, Question
from xray.learn.answers.decode import Guess, guess_words
from xray.renderers.themes import load_theme
from xray.text import show_controls

LONGEST_LINE = 10_000
"""Characters; a longer line is no question."""

IDEAS = 3
CLOSE = 0.6
"""How alike a question must be to one that was taught to be proposed instead, from 0 to 1."""

PROMPT = "you > "
HELP = "/why  how sure I was of each word    /ideas  what to ask    /quit  leave"


def is_interactive() -> bool:
    """Whether a person types and reads, rather than a file or a pipe."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def answer_lines(chatbot: Chatbot) -> None:
    """Answer every line of stdin with one line on stdout; blank lines and lines that are no text are passed over."""
    for note in chatbot.notes:
        say(f"xray: {show_controls(note)}")
    for question in read_lines():
        text = answer_to(chatbot, question)
        if text is None:
            continue
        write_stdout(text + "\n")


def read_lines() -> Iterator[str]:
    """The lines of stdin that are text; of others it is said on stderr that they are passed over."""
    for number, line in enumerate(sys.stdin.buffer if sys.stdin is not None else (), 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            say(f"xray: line {number:,} is not UTF-8: passed over.")


def answer_to(chatbot: Chatbot, question: str) -> str | None:
    """The answer, fit to be shown, or None; what the model could not read is said on stderr."""
    if len(question) > LONGEST_LINE:
        say(f"xray: a line of {len(question):,} characters is no question: passed over.")
        return None
    try:
        read = chatbot.read(question)
    except UsageError:
        return None
    for remark in remarks_on(read):
        say(f"xray: {remark}.")
    return show_controls(chatbot.answer(question))


def remarks_on(question: Question) -> list[str]:
    """What of a question does not get through to the model."""
    remarks = []
    if question.unknown:
        shown = ", ".join(dict.fromkeys(show_controls(word) for word in question.unknown))
        remarks.append(f"never heard of: {shown} (read as {SPECIAL_TOKENS[0]})")
    if question.cut:
        remarks.append(f"the last {question.cut:,} words were cut: {len(question.words)} is the most it can read")
    return remarks


def converse(chatbot: Chatbot) -> None:
    """Question and answer at a terminal, until /quit, the end of the input, or Ctrl-C twice."""
    with suppress(ImportError):  # where it exists, it lets arrow keys edit the line and fetch earlier ones
        import readline  # noqa: F401
    console = Console(highlight=False)
    chance = Random()  # noqa: S311 - other ideas every time
    greet(chatbot, console, chance)
    last_question, interrupted = "", False
    while True:
        try:
            line = input(PROMPT).strip()
        except EOFError:
            console.print()
            return
        except KeyboardInterrupt:
            console.print()
            if interrupted:
                raise typer.Exit(130) from None
            interrupted = True
            tell(console, "Ctrl-C once more leaves, and so does /quit.", "dim")
            continue
        except UnicodeDecodeError:
            tell(console, "That was no text I can read. Try again?", "dim")
            continue
        interrupted = False
        if line in ("/quit", "/exit", "/q"):
            tell(console, "Live long and prosper.")
            return
        try:
            if line == "/ideas":
                show_ideas(chatbot, console, chance)
            elif line == "/why" and last_question:
                show_guesses(chatbot, console, last_question)
            elif line.startswith("/"):
                tell(console, HELP, "dim")
            elif line and reply(chatbot, console, line):
                last_question = line
        except KeyboardInterrupt:
            tell(console, " ... never mind.", "dim")


def tell(console: Console, text: str, style: str = "") -> None:
    """A line of the chatbot's or the program's, whatever characters the terminal knows."""
    console.print(Text(encodable(text, console.encoding), style=style))


@cache
def ink(role: str) -> str:
    """A colour that can be read on the terminal's background; none where that is not known."""
    light = has_light_background() if colour_depth(sys.stdout) else None
    return "" if light is None else load_theme("light" if light else "dark").accents[role]


def greet(chatbot: Chatbot, console: Console, chance: Random) -> None:
    """Who this is, and what to ask it."""
    size = sum(parameter.numel() for parameter in chatbot.model.parameters())
    title = Text(encodable(show_controls(chatbot.name), console.encoding), style="bold")
    words = chatbot.config.tgt_vocab - len(SPECIAL_TOKENS)
    about = Text(f"A transformer of {size:,} weights. It knows {words:,} words, and the world not at all.")
    console.print(Panel(about, title=title, title_align="left", expand=False))
    for note in chatbot.notes:
        tell(console, show_controls(note), ink("warning"))
    show_ideas(chatbot, console, chance)
    tell(console, HELP, "dim")


def show_ideas(chatbot: Chatbot, console: Console, chance: Random) -> None:
    """A few questions that it was taught."""
    known = chatbot.suggestions or tuple(pair.question for pair in chatbot.poster_pairs)
    for question in chance.sample(known, min(IDEAS, len(known))):
        tell(console, f"  ask: {show_controls(question)}", ink("title"))


def reply(chatbot: Chatbot, console: Console, question: str) -> bool:
    """Say the answer, after a remark on what could not be read; False if there was nothing to answer."""
    if len(question) > LONGEST_LINE:
        tell(console, f"{len(question):,} characters? Shorter, please.", "dim")
        return False
    try:
        read = chatbot.read(question)
    except UsageError:
        return False
    for remark in remarks_on(read):
        tell(console, f"  {remark}", ink("warning"))
    if read.unknown:
        for known in get_close_matches(question, chatbot.suggestions, 1, CLOSE):
            tell(console, f"  did you mean: {show_controls(known)}", ink("title"))
    answer = encodable(show_controls(chatbot.answer(question)), console.encoding)
    console.print(Text.assemble(("bot > ", f"bold {ink('station')}".strip()), answer))
    return True


def show_guesses(chatbot: Chatbot, console: Console, question: str) -> None:
    """How sure the model was of every word of its last answer, and what else it had in mind."""
    src, _ = chatbot.question_batch(question)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("turn", "word", "sure", "", "or rather"):
        table.add_column(heading, justify="right" if heading in ("turn", "sure") else "left", overflow="fold")
    for turn, guess in enumerate(guess_words(chatbot.model, src), 1):
        word, *rivals = name_guesses(chatbot, guess, console.encoding)
        share = guess.probabilities[0]
        bar = "█" * round(share * 10) if not console.options.ascii_only else "#" * round(share * 10)
        table.add_row(str(turn), Text(word), f"{share:.1%}", Text(bar, style=ink("station")), Text(", ".join(rivals)))
    console.print(table)


def name_guesses(chatbot: Chatbot, guess: Guess, encoding: str) -> list[str]:
    """The words of a guess, those behind the first with their probabilities."""
    words = [encodable(show_controls(word), encoding) for word in chatbot.tokenisers.tgt.words(guess.ids)]
    rivals = zip(words[1:], guess.probabilities[1:], strict=True)
    return [words[0], *(f"{word} {share:.1%}" for word, share in rivals)]
