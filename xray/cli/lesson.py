"""A training watched: progress, sample answers, a clean stop, and what came of it."""

from collections.abc import Sequence
from shlex import quote

import typer

from xray.cli.output import say
from xray.cli.screen.progress import Progress
from xray.cli.screen.progress_choice import open_progress
from xray.cli.screen.stopping import StopRequest, listen_for_stop
from xray.cli.watching import Watching, say_what_is_best, show_curve
from xray.data.pairs import Pair
from xray.learn.answers.chatbot import Chatbot
from xray.learn.answers.right_answers import count_right_answers
from xray.learn.runs.saved_training import Training
from xray.learn.steps.made import Epoch, Step
from xray.story.wording import plural
from xray.text import show_controls

PAUSES = 6
"""How often in a run sample answers are shown."""

SAMPLES = 3
STOPPED = 130
"""The exit code of a process that stops because another one was asked to."""

MOST_ASKED = 2000
"""The most pairs that are asked at the end; of a larger corpus only the first ones."""


def teach(training: Training, watching: Watching | None = None) -> Chatbot:
    """Train to the end while telling how it goes, then say how much was learnt; the chatbot that came of it.

    Raises:
        typer.Exit: Ctrl-C or SIGTERM asked to stop; everything is saved.
    """
    watching = watching or Watching()
    if not training.world.is_writer:
        return help_silently(training)
    introduce(training)
    with listen_for_stop() as stop:
        with open_progress(training) as progress, watching.of(training) as watch:
            for made in training.go_on():
                watch(made)
                if isinstance(made, Step):
                    progress.show_step(made)
                else:
                    show_epoch(training, made, progress)
                if is_over(training, stop):
                    break
        if training.world.stop_agreed and not training.trainer.is_finished:
            leave(training, stop)
    return sum_up(training, watching)


def help_silently(training: Training) -> Chatbot:
    """The part of a process that computes and says nothing; the writer speaks for all.

    Raises:
        typer.Exit: all processes agreed to stop.
    """
    with listen_for_stop() as stop:
        for _ in training.go_on():
            if is_over(training, stop):
                break
        if training.world.stop_agreed and not training.trainer.is_finished:
            if training.world.shards:
                training.save()
            raise typer.Exit(stop.exit_code if stop.signal is not None else STOPPED)
    return training.chatbot()


def is_over(training: Training, stop: StopRequest) -> bool:
    """Pass the wish to stop on to the other processes; whether all of them stop now."""
    training.world.stop_wanted = stop.signal is not None
    return training.world.stop_agreed


def introduce(training: Training) -> None:
    """What is about to be learnt, and what there is to know about the pairs."""
    config, trainer = training.facts.model, training.trainer
    for note in training.notes:
        say(f"note: {note}.")
    weights = sum(parameter.numel() for parameter in trainer.model.parameters())
    say(
        f"{training.facts.name}: {len(training.train_pairs):,} pairs to learn, {len(training.valid_pairs):,} held out; "
        f"{weights:,} weights, {config.encoder_layers}+{config.decoder_layers} layers, {config.heads} heads, "
        f"d_model {config.d_model}, {config.src_vocab:,} words in, {config.tgt_vocab:,} out; on {trainer.device}."
    )
    if trainer.steps_made:
        say(f"going on after epoch {trainer.epoch} of {trainer.config.epochs}, step {trainer.steps_made:,}.")


def show_epoch(training: Training, epoch: Epoch, progress: Progress) -> None:
    """Now and then the losses and a few answers, so that one sees it learn."""
    epochs = training.trainer.config.epochs
    pause = max(1, epochs // PAUSES)
    if epoch.number not in (1, epochs) and epoch.number % pause:
        return
    valid = "" if epoch.valid_loss is None else f", held out {epoch.valid_loss:.3f}"
    progress.tell(f"epoch {epoch.number} of {epochs}: loss {epoch.loss:.3f}{valid}, {progress.pace()}")
    chatbot = training.chatbot()
    for pair in choose_samples(training.train_pairs, epoch.number):
        answer = chatbot.answer(pair.question)
        mark = "x" if answer == pair.answer else " "
        progress.tell(f"  [{mark}] {show_controls(pair.question)} {show_controls(answer)}")


def choose_samples(pairs: Sequence[Pair], epoch: int) -> list[Pair]:
    """Other pairs every time, from all over the corpus."""
    stride = max(1, len(pairs) // SAMPLES)
    numbers = dict.fromkeys((epoch * 7 + place * stride) % len(pairs) for place in range(SAMPLES))
    return [pairs[number] for number in numbers]


def leave(training: Training, stop: StopRequest) -> None:
    """Save, say how to go on, and leave with the signal's exit code."""
    training.save()
    trainer = training.trainer
    say(
        f"stopped in epoch {trainer.epoch + 1} of {trainer.config.epochs}, step {trainer.steps_made:,} of "
        f"{trainer.steps:,}; everything is kept. Go on with: "
        f"xray train --resume --run {quote(show_controls(str(training.folder.path)))}"
    )
    raise typer.Exit(stop.exit_code if stop.signal is not None else STOPPED)


def sum_up(training: Training, watching: Watching) -> Chatbot:
    """Show how it went, ask what was taught, and say how much of it is known."""
    trainer, chatbot = training.trainer, training.chatbot()
    show_curve(training)
    right, asked = count_right_answers(chatbot, training.train_pairs[:MOST_ASKED])
    say(
        f"trained {plural(trainer.epoch, 'epoch')} in {trainer.elapsed_s:.0f} s; answers {right:,} of {asked:,} "
        f"questions word for word ({right / asked:.1%})."
    )
    say_what_is_best(training)
    watching.describe_scores(training, chatbot)
    folder = quote(show_controls(str(training.folder.path)))
    say(f"kept in {folder}. Talk to it: xray chat --run {folder}")
    return chatbot
