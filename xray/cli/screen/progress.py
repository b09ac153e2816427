"""How training shows that it moves, and lines that do so where there is no terminal."""

import time
from abc import ABC, abstractmethod

from xray.cli.output import say
from xray.data.stages import Stage
from xray.learn.runs.saved_training import Training
from xray.learn.steps.made import Step

QUIET_S = 10.0
"""How long there may be no line where there is no bar."""


class Progress(ABC):
    """Where training is, and how fast: tokens a second, and the time that is left at this pace."""

    def __init__(self, training: Training) -> None:
        self.trainer = training.trainer
        self.started = time.monotonic()
        self.first_step = self.trainer.steps_made
        self.tokens = 0
        self.loss: float | None = None

    def show_step(self, step: Step) -> None:
        """A step was made."""
        self.tokens += step.tokens
        self.loss = step.loss if step.loss is not None else self.loss
        self.show(step)

    def tokens_a_second(self) -> float:
        """Answer tokens learnt from, since this process began."""
        return self.tokens / max(1e-9, time.monotonic() - self.started)

    def left_s(self) -> float:
        """The seconds until the end, if it goes on like this."""
        made = self.trainer.steps_made - self.first_step
        return (time.monotonic() - self.started) / max(1, made) * (self.trainer.steps - self.trainer.steps_made)

    def pace(self) -> str:
        """How fast, in words."""
        return f"{self.tokens_a_second():,.0f} tokens/s, {show_time(self.left_s())} left"

    @abstractmethod
    def show(self, step: Step) -> None:
        """Move the bar, or write a line."""

    @abstractmethod
    def tell(self, line: str) -> None:
        """A line that stays."""


class Lines(Progress):
    """For files and pipes: no cursor movement, and a line at least every few seconds."""

    last_line = 0.0

    def show(self, step: Step) -> None:
        if time.monotonic() - max(self.last_line, self.started) > QUIET_S:
            loss = "" if self.loss is None else f", loss {self.loss:.3f}"
            self.tell(f"epoch {step.epoch} of {self.trainer.config.epochs}, step {step.number:,}{loss}, {self.pace()}")

    def tell(self, line: str) -> None:
        self.last_line = time.monotonic()
        say(line)


class StageLines:
    """The stages of a preparation for files and pipes: a line at least every few seconds."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.last_line = time.monotonic()

    def __call__(self, stage: Stage) -> None:
        """A stage has moved."""
        left_s = self.pace.left_s(stage)
        if time.monotonic() - self.last_line > QUIET_S:
            self.last_line = time.monotonic()
            far = f": {stage.done / stage.total:.0%}, {show_time(left_s)} left" if stage.total else ""
            say(stage.name + far)


class Pace:
    """How long a stage will still take, if it goes on as since it was first heard of."""

    def __init__(self) -> None:
        self.name = ""
        self.began, self.began_at = 0, 0.0

    def left_s(self, stage: Stage) -> float:
        """The seconds until a stage is over."""
        now = time.monotonic()
        if stage.name != self.name:
            self.name, self.began, self.began_at = stage.name, stage.done, now
        return (now - self.began_at) / max(1, stage.done - self.began) * (stage.total - stage.done)


def show_time(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{rest} s" if not minutes else f"{minutes} min {rest:02d} s"
