"""The progress bars of a preparation and of training on a terminal, drawn by rich."""

from rich import progress as rich_progress
from rich.console import Console
from rich.text import Text

from xray.cli.screen.plain import encodable
from xray.cli.screen.progress import Pace, Progress, show_time
from xray.data.stages import Stage
from xray.learn.runs.saved_training import Training
from xray.learn.steps.made import Step


class Bar(Progress):
    """Epoch, bar, step, loss, tokens a second and time left, in one line on stderr."""

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self.console = Console(stderr=True, highlight=False)
        self.rich_progress = make_bar(
            self.console,
            rich_progress.TextColumn("{task.fields[epoch]}"),
            rich_progress.BarColumn(bar_width=None),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("{task.fields[facts]}"),
        )
        self.task = self.rich_progress.add_task(
            "", total=self.trainer.steps, completed=self.trainer.steps_made, epoch="", facts=""
        )

    def show(self, step: Step) -> None:
        loss = "" if self.loss is None else f"loss {self.loss:.3f}  "
        self.rich_progress.update(
            self.task,
            completed=step.number,
            epoch=f"epoch {step.epoch}/{self.trainer.config.epochs}",
            facts=f"{loss}{self.tokens_a_second():,.0f} tokens/s  {show_time(self.left_s())} left",
        )

    def tell(self, line: str) -> None:
        self.console.print(Text(encodable(line, self.console.encoding)))


class StageBar:
    """The stages of a preparation, each with a bar, its share and the time left."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.rich_progress = make_bar(
            Console(stderr=True, highlight=False),
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(bar_width=None),
            rich_progress.TaskProgressColumn(),
            rich_progress.TextColumn("{task.fields[left]}"),
        )
        self.task = self.rich_progress.add_task("", total=None, left="")

    def __call__(self, stage: Stage) -> None:
        """A stage has moved."""
        self.rich_progress.update(
            self.task,
            description=stage.name,
            total=stage.total or None,
            completed=stage.done,
            left=f"{show_time(self.pace.left_s(stage))} left" if stage.total else "",
        )


def make_bar(console: Console, *columns: rich_progress.ProgressColumn) -> rich_progress.Progress:
    """A line of these columns below what is said, which goes when it is over."""
    return rich_progress.Progress(
        *columns,
        console=console,
        redirect_stdout=False,
        redirect_stderr=False,
        transient=True,
        expand=True,
        refresh_per_second=5,
    )
