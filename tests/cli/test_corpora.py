"""What stands on the command line of `xray train`, as a corpus."""

from pathlib import Path

import pytest

from xray.cli.options.corpora import Columns, find_corpus
from xray.data.reading.hub import HubSource
from xray.data.reading.source import Source
from xray.errors import UsageError

BOOKS = Columns("translation.en", "translation.it")


def test_a_file_is_a_file():
    assert find_corpus(["a.csv", "b/c.jsonl"], Columns()).learn == (Source(Path("a.csv")), Source(Path("b/c.jsonl")))


def test_an_owner_and_a_name_are_a_data_set():
    (source,) = find_corpus(["Helsinki-NLP/opus_books"], BOOKS, config="en-it").learn
    assert source == HubSource("Helsinki-NLP/opus_books", "en-it", "train", "translation.en", "translation.it")


def test_a_folder_that_is_there_is_no_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "name").write_text("x")
    assert isinstance(find_corpus(["owner/name"], Columns()).learn[0], Source)


def test_a_split_to_measure_on_is_of_the_same_data_set():
    origin = find_corpus(["owner/name"], BOOKS, split="train[:90%]", valid_split="train[90%:]")
    assert [source.split for source in origin.sources if isinstance(source, HubSource)] == [
        "train[:90%]",
        "train[90%:]",
    ]


def test_files_to_measure_on_have_the_same_columns():
    assert find_corpus(["a.csv"], BOOKS, ["v.csv"]).held_out == (
        Source(Path("v.csv"), "translation.en", "translation.it"),
    )


def test_a_split_of_a_file_is_refused():
    with pytest.raises(UsageError, match=r"^--config, --split and --valid-split belong to data sets on the hub"):
        find_corpus(["a.csv"], Columns(), split="train")
