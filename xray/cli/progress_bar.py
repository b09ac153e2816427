"""The progress bar of training on a terminal, drawn by rich."""

from rich import progress as rich_progress
from rich.console import Console
from rich.text import Text

from xray.cli.plain import encodable
from xray.cli.progress import Progress, show_time
from xray.learn.fit import Step
from xray.learn.training import Training


class Bar(Progress):
    """Epoch, bar, step, loss, tokens a second and time left, in one line on stderr."""

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self.console = Console(stderr=True, highlight=False)
        self.rich_progress = rich_progress.Progress(
            rich_progress.TextColumn("{task.fields[epoch]}"),
            rich_progress.BarColumn(bar_width=None),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("{task.fields[facts]}"),
            console=self.console,
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
            expand=True,
            refresh_per_second=5,
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
