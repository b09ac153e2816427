"""`xray walk`: the journey through the model, told station by station in the terminal; or asked, with --quiz."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xray.ir.trace import Step, Trace
    from xray.renderers.table.walk import Screen
    from xray.story.walk.quiz import Question
    from xray.story.walk.scene import Scene


HOW_TO_ANSWER = "Answer with a shape, as in 8x4x10x8; ? gives a hint, skip goes on, q leaves."
LEAVE, SKIP = ("q", "quit", "exit"), ("s", "skip")


def walk(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(help="A trace.json as xray trace writes it, or a model by its name.", show_default=False),
    ] = None,
    quiz: Annotated[bool, typer.Option("--quiz", help="Be asked for the next shape instead.")] = False,
    phase: Annotated[
        Literal["training", "inference"] | None,
        typer.Option(help="Which journey to walk.", show_default="training, where it was recorded"),
    ] = None,
    turn: Annotated[int | None, typer.Option(min=1, help="Which turn of inference.", show_default="the last")] = None,
    station: Annotated[int | None, typer.Option(min=1, help="Only this station.", show_default="all of them")] = None,
    ask: Annotated[str | None, typer.Option(help="The question to answer at inference.", show_default=False)] = None,
    run: Annotated[
        Path | None, typer.Option(help="The folder of a trained chatbot.", show_default="runs/movie_qa")
    ] = None,
    theme: Annotated[str, typer.Option(help="dark, light, or a theme file of your own (.toml).")] = "dark",
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the chatbot runs.")] = "auto",
) -> None:
    """Walk through the model from the question to the answer, with the words and numbers of a real run.

    At a terminal Enter goes on, b goes back, a number goes to that station, q leaves. --quiz asks which shape comes
    next, says whether that is right, and why; there ? gives a hint and skip shows the answer.
    """
    from xray.cli.options.requests import read_or_record
    from xray.cli.screen.painting import pick_theme
    from xray.cli.screen.terminal import stdout_screen

    screen = stdout_screen(context, pick_theme(theme))
    if turn is not None:
        phase = phase or "inference"
    wanted = phase or ("inference" if ask is not None else "training")
    trace = read_or_record(context, file, run, ask, wanted, 20, device, values="page")
    journey = choose_journey(trace, phase, wanted, turn)
    if quiz:
        ask_all(journey.questions, station, screen)
    else:
        show_all(journey, station, screen)


@dataclass(frozen=True)
class Journey:
    """What there is to walk: how many stations, what draws one, and what may be asked."""

    stations: int
    draw: "Callable[[int, Screen], str]"
    questions: "tuple[Question, ...]"


def choose_journey(trace: "Trace", phase: str | None, wanted: str, turn: int | None) -> Journey:
    """The chatbot's journey with its words, or the tour of any other network.

    Raises:
        UsageError: there is nothing to walk through, or no such phase or turn.
    """
    from xray.errors import UsageError
    from xray.renderers.table.walk import draw_chapter
    from xray.story.walk.quiz import make_quiz
    from xray.story.walk.scene import list_scenes
    from xray.story.walk.telling import write_chapters
    from xray.story.walk.tour import ask_tour, list_stops

    if list_scenes(trace):
        scene = choose_scene(trace, phase or wanted, turn, given=phase is not None)
        chapters = write_chapters(scene)
        steps: dict[str, Step] = {}
        for one_pass in (scene.question, scene.answer):
            for step in one_pass.steps:
                steps.setdefault(step.id, step)

        def draw(number: int, screen: "Screen") -> str:
            chapter = chapters[number - 1]
            listed = [steps[name] for name in steps if name in chapter.steps]
            return draw_chapter(chapter, scene.answer, listed, screen)

        return Journey(len(chapters), draw, make_quiz(scene))
    stops = list_stops(trace)
    if not stops:
        raise UsageError("this trace has no residual stream to walk along. Try: xray page")
    return Journey(
        len(stops),
        lambda number, screen: draw_chapter(
            stops[number - 1].chapter, stops[number - 1].one_pass, stops[number - 1].steps, screen
        ),
        ask_tour(trace),
    )


def choose_scene(trace: "Trace", phase: str, turn: int | None, *, given: bool) -> "Scene":
    """The scene that was asked for; where no phase was given, whichever there is.

    Raises:
        UsageError: the trace is of another model, or has no such phase or turn.
    """
    from xray.errors import UsageError
    from xray.story.walk.scene import list_scenes

    scenes = list_scenes(trace)
    found = [scene for scene in scenes if scene.phase == phase] or ([] if given else list(scenes))
    if not found:
        raise UsageError(f"the trace has no {phase}. Record it with: xray trace --phase {phase} -o trace.json")
    chosen = [scene for scene in found if turn is None or scene.turn == turn]
    if not chosen:
        raise UsageError(f"there is no turn {turn}. The answer took {len(found)} turns.")
    return chosen[-1]


def show_all(journey: Journey, station: int | None, screen: "Screen") -> None:
    """Every chapter, or one; at a terminal one after the other, as the reader likes.

    Raises:
        UsageError: there is no such station.
    """
    import sys

    from xray.cli.output import write_stdout
    from xray.errors import UsageError

    def show(number: int) -> None:
        write_stdout(journey.draw(number, screen) + "\n\n")

    if station is not None:
        if station > journey.stations:
            raise UsageError(f"there is no station {station}. This journey has {journey.stations}.")
        show(station)
        return
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()):
        for number in range(1, journey.stations + 1):
            show(number)
        return
    walk_by_hand(show, journey.stations)


def walk_by_hand(show: "Callable[[int], None]", last: int) -> None:
    """One station after the other, as the reader says."""
    from xray.cli.screen.asking import ask_line

    number = 1
    while number <= last:
        show(number)
        answer = ask_line(f"station {number} of {last}: Enter on, b back, 1 to {last}, q leave > ")
        if answer is None or answer.lower().startswith("q"):
            return
        if answer.lower().startswith("b"):
            number = max(1, number - 1)
        elif answer.isdecimal() and len(answer) < 4 and 1 <= int(answer) <= last:
            number = int(answer)
        else:
            number += 1


def ask_all(every: "Sequence[Question]", station: int | None, screen: "Screen") -> None:
    """The quiz: each question once, the answer checked and explained, the score at the end."""
    from xray.cli.output import write_stdout
    from xray.cli.screen.asking import ask_line
    from xray.errors import UsageError
    from xray.renderers.table.walk import draw_prompt, draw_text
    from xray.story.walk.quiz import is_right, list_hints, read_answer
    from xray.story.wording import plural

    questions = [one for one in every if station in (None, one.station)]
    if not questions:
        where = f" at station {station}. Leave out --station." if station else "."
        raise UsageError(f"there is nothing to ask{where}")
    write_stdout(draw_text((f"{plural(len(questions), 'question')}. {HOW_TO_ANSWER}",), screen) + "\n\n")
    asked = right = skipped = 0
    for number, question in enumerate(questions, start=1):
        write_stdout(draw_prompt(question, number, len(questions), screen) + "\n")
        hints = iter(list_hints(question))
        while (answer := ask_line("> ")) is not None:
            if answer.lower() in ("?", "hint"):
                hint = next(hints, ("There is no more to tell without telling it all: skip shows the answer.",))
                write_stdout(draw_text(hint, screen) + "\n")
            elif answer.lower() in LEAVE + SKIP or read_answer(answer) is not None:
                break
            else:
                write_stdout(draw_text((HOW_TO_ANSWER,), screen) + "\n")
        if answer is None or answer.lower() in LEAVE:
            break
        if answer.lower() in SKIP:
            skipped += 1
            verdict = "Skipped. "
        else:
            asked += 1
            good = is_right(question, answer)
            right += good
            verdict = "Right. " if good else "Not quite. "
        write_stdout(draw_text((verdict, *question.explanation), screen) + "\n\n")
    write_stdout(f"{right} of {asked} right{f', {skipped} skipped' if skipped else ''}.\n")
