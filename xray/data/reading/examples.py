"""The corpora that come with X-Ray, in a checkout and in an installed wheel alike."""

from pathlib import Path

from xray.assets import PACKAGE
from xray.errors import DataError


def example_corpus() -> Path:
    """The path of `examples/movie_qa.csv`.

    Raises:
        DataError: the installation is incomplete.
    """
    for folder in (PACKAGE / "examples", PACKAGE.parent / "examples"):
        if (folder / "movie_qa.csv").is_file():
            return folder / "movie_qa.csv"
    raise DataError("examples/movie_qa.csv is not there: this installation of X-Ray is incomplete. Install it again.")
