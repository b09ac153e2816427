"""Corpora of every kind: inner columns, rows that cannot be read, data sets by name."""

import json
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from reading import read_pairs, read_with_notes

from xray.data.pairs import Pair
from xray.data.reading.hub import HubSource
from xray.data.reading.rows import Rows
from xray.data.reading.source import Source
from xray.errors import DataError

BOOK = (
    ("Source: Project Gutenberg", "Fonte: Liber Liber"),
    ("Jane Eyre", "Jane Eyre"),
    ("There was no possibility of taking a walk that day.", "I. In quel giorno era impossibile passeggiare."),
)
PAIRS = tuple(Pair(*texts) for texts in BOOK)
ROWS = [{"id": str(number), "translation": {"en": en, "it": it}} for number, (en, it) in enumerate(BOOK)]
COLUMNS: dict[str, Any] = {"question": "translation.en", "answer": "translation.it"}


@pytest.fixture
def json_lines(tmp_path):
    path = tmp_path / "opus_books.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def parquet(tmp_path):
    path = tmp_path / "opus_books.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    return path


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder laid out as a data set on the hub, which `datasets` loads by the same way but without the network."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "opus_books"
    (folder / "en-it").mkdir(parents=True)
    table = pyarrow.Table.from_pylist(ROWS)
    pyarrow.parquet.write_table(table, folder / "en-it" / "train-00000-of-00001.parquet")
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: en-it\n  data_files:\n  - split: train\n    path: en-it/train-*\n---\n"
    )
    return str(folder)


def test_inner_columns_of_json_lines_are_named_with_a_dot(json_lines):
    assert read_pairs(Source(json_lines, **COLUMNS)) == PAIRS


def test_inner_columns_of_parquet_are_named_with_a_dot(parquet):
    assert read_pairs(Source(parquet, **COLUMNS)) == PAIRS


def test_a_column_whose_name_has_a_dot_is_itself(tmp_path):
    (tmp_path / "p.csv").write_text("translation.en,translation.it\na,b\n")
    assert read_pairs(Source(tmp_path / "p.csv", **COLUMNS)) == (Pair("a", "b"),)


@pytest.mark.parametrize("kind", ["json_lines", "parquet"])
def test_a_missing_inner_column_names_those_there_are(kind, request):
    source = Source(request.getfixturevalue(kind), "translation.en", "translation.fr")
    with pytest.raises(
        DataError,
        match=r'has no column "translation\.fr"; its columns are "id", "translation\.en", "translation\.it"\.',
    ):
        read_pairs(source)


def test_a_data_set_is_found_by_name_config_and_split(repository):
    assert read_pairs(HubSource(repository, "en-it", "train", **COLUMNS)) == PAIRS


def test_a_missing_split_is_explained(repository):
    message = r"^cannot load the data set .*opus_books \(en-it\), split test: ValueError: .*test.* Check its name"
    with pytest.raises(DataError, match=message):
        read_pairs(HubSource(repository, "en-it", "test", **COLUMNS))


def test_a_missing_column_of_a_data_set_is_explained(repository):
    with pytest.raises(DataError, match=r'has no column "question", "answer"; its columns are .*"translation\.en"'):
        read_pairs(HubSource(repository, "en-it"))


def read_leaving_out(path, **columns):
    return read_with_notes(Source(path, **columns, skip_bad=True))


def test_ragged_rows_can_be_left_out(tmp_path):
    (tmp_path / "p.csv").write_text('question,answer\na\nb,"c\nd"\ne,f,g\nh,i\n')
    assert read_leaving_out(tmp_path / "p.csv") == (
        (Pair("b", "c\nd"), Pair("h", "i")),
        ("2 rows of p.csv cannot be read: left out",),
    )


def test_left_out_rows_respect_encoding_and_separator(tmp_path):
    (tmp_path / "p.csv").write_bytes("question;answer\ncafé;thé\nx\n".encode("latin-1"))
    source = Source(tmp_path / "p.csv", encoding="latin-1", separator=";", skip_bad=True)
    assert read_pairs(source) == (Pair("café", "thé"),)


def test_bad_lines_of_json_can_be_left_out(tmp_path):
    lines = [json.dumps(ROWS[0]), "{", "[]", json.dumps({"translation": {"en": 3, "it": "x"}}), json.dumps(ROWS[1])]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    assert read_leaving_out(tmp_path / "p.jsonl", **COLUMNS) == (
        PAIRS[:2],
        ("3 rows of p.jsonl cannot be read: left out",),
    )


def test_without_bad_rows_nothing_is_said(json_lines):
    assert read_leaving_out(json_lines, **COLUMNS) == (PAIRS, ())


def test_a_file_of_bad_rows_only_is_refused(tmp_path):
    (tmp_path / "p.jsonl").write_text("{\n[]\n")
    with pytest.raises(DataError, match=r"^p\.jsonl has no rows\."):
        read_leaving_out(tmp_path / "p.jsonl")


def test_rows_can_be_gone_through_more_than_once(json_lines, tmp_path):
    rows = Rows(Source(json_lines, **COLUMNS), tmp_path / "rows")
    assert ([block.num_rows for block in rows], [block.num_rows for block in rows], rows.total) == ([3], [3], 3)
