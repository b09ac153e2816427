"""Pairs from a data set on the Hugging Face hub, by its name."""

from dataclasses import dataclass
from typing import Any

from xray.errors import DataError
from xray.text import show_controls


@dataclass(frozen=True)
class HubSource:
    """A data set such as "Helsinki-NLP/opus_books", one of its configurations, and one of its splits."""

    repository: str
    config: str | None = None
    split: str = "train"
    question: str = "question"
    answer: str = "answer"

    @property
    def stem(self) -> str:
        """What a run on this data set is called."""
        return self.repository.rsplit("/", 1)[-1]

    @property
    def name(self) -> str:
        """The data set's name, fit to be shown."""
        return show_controls(self.repository + (f" ({self.config})" if self.config else ""))


def load_hub(source: HubSource) -> Any:  # noqa: ANN401  # datasets has no types
    """The data set as `datasets` keeps it: downloaded once, memory-mapped.

    Raises:
        DataError: it is not there, cannot be reached, or has no such configuration or split.
    """
    import datasets

    try:
        return datasets.load_dataset(source.repository, source.config, split=source.split)
    except Exception as error:  # whatever stands below: datasets, the hub's client and the network have no common kind
        cause = show_controls(" ".join(str(error).split())[:200]).rstrip(".")
        raise DataError(
            f"cannot load the data set {source.name}, split {show_controls(source.split)}: "
            f"{type(error).__name__}: {cause}. Check its name, --config, --split and the network, "
            "or give a file of pairs."
        ) from error
