"""Pairs from files of every kind, and one plain sentence for every file that cannot be read."""

import json
import os
import re
import socket
import threading
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from reading import read_pairs

from xray.data.pairs import Pair
from xray.data.reading.source import Source
from xray.errors import DataError

TWO = (Pair("Who is Ripley?", "A hero, of course."), Pair("Hi", 'He said "no"'))
CSV = 'question,answer\nWho is Ripley?,"A hero, of course."\nHi,"He said ""no"""\n'


def read(tmp_path, content, name="pairs.csv", **options):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_pairs(Source(path, **options))


def test_csv_gives_its_pairs_in_order(tmp_path):
    assert read(tmp_path, CSV) == TWO


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    assert read(tmp_path, b"\xef\xbb\xbf" + CSV.encode()) == TWO


def test_windows_line_ends_are_no_part_of_an_answer(tmp_path):
    assert read(tmp_path, CSV.replace("\n", "\r\n")) == TWO


def test_a_line_break_inside_quotes_belongs_to_the_cell(tmp_path):
    assert read(tmp_path, 'question,answer\n"a\nb",c\n') == (Pair("a\nb", "c"),)


def test_empty_lines_are_passed_over(tmp_path):
    assert read(tmp_path, CSV.replace("\nHi", "\n\nHi") + "\n\n") == TWO


@pytest.mark.parametrize("word", ["NA", "null", "None", "nan", "1", "true", "1e5", "007"])
def test_words_that_look_like_other_things_stay_words(tmp_path, word):
    assert read(tmp_path, f"question,answer\n{word},{word}\n") == (Pair(word, word),)


def test_blank_cells_are_empty_text(tmp_path):
    assert read(tmp_path, "question,answer\na,\n,b\n") == (Pair("a", ""), Pair("", "b"))


def test_columns_can_be_named(tmp_path):
    assert read(tmp_path, "id,,q,a\n1,x,b,c\n", question="q", answer="a") == (Pair("b", "c"),)


def test_tsv_is_separated_by_tabs(tmp_path):
    assert read(tmp_path, "question\tanswer\na, b\tc\n", name="pairs.tsv") == (Pair("a, b", "c"),)


def test_a_separator_can_be_given(tmp_path):
    assert read(tmp_path, "question;answer\na, b;c\n", separator=";") == (Pair("a, b", "c"),)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "cp1252"])
def test_an_encoding_can_be_given(tmp_path, encoding):
    content = "question,answer\ncafé,thé\n".encode(encoding)
    assert read(tmp_path, content, encoding=encoding) == (Pair("café", "thé"),)


def test_json_lines_give_their_pairs(tmp_path):
    lines = "\n".join(json.dumps({"answer": pair.answer, "n": 1, "question": pair.question}) for pair in TWO)
    assert read(tmp_path, lines, name="pairs.jsonl") == TWO


def test_null_in_json_lines_is_empty_text(tmp_path):
    assert read(tmp_path, '{"question": "a", "answer": null}\n{"question": "b", "answer": "c"}', name="p.jsonl") == (
        Pair("a", ""),
        Pair("b", "c"),
    )


def test_parquet_gives_its_pairs(tmp_path):
    table = pyarrow.table({"question": [pair.question for pair in TWO], "answer": [pair.answer for pair in TWO]})
    pyarrow.parquet.write_table(table, tmp_path / "pairs.parquet")
    assert read_pairs(Source(tmp_path / "pairs.parquet")) == TWO


def test_a_name_that_looks_like_a_pattern_is_a_name(tmp_path):
    assert read(tmp_path, CSV, name="pairs[1]*.csv") == TWO


def test_a_pipe_is_read_as_csv(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(CSV))
    writer.start()
    pairs = read_pairs(Source(pipe))
    writer.join()
    assert pairs == TWO


def test_reading_leaves_nothing_in_the_home_folder(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    read(tmp_path, CSV)
    assert list(home.iterdir()) == []


def test_reading_needs_no_network(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert read(tmp_path, CSV) == TWO


def test_reading_draws_no_progress_bar(tmp_path, capfd):
    read(tmp_path, CSV)
    assert capfd.readouterr() == ("", "")


SEPARATOR = 'p.csv has no column "question", "answer"; its columns are "question{0}answer". Is {1} its separator? '
BAD_FILES = {
    "empty": ("p.csv", "", "p.csv is empty. It should hold pairs under a header of column names."),
    "blank lines": ("p.csv", "\n\n", "p.csv is empty. It should hold pairs under a header of column names."),
    "only a header": ("p.csv", "question,answer\n", "p.csv has a header but no rows. Add pairs below it."),
    "missing column": (
        "p.csv",
        "question,reply\na,b\n",
        'p.csv has no column "answer"; its columns are "question", "reply". '
        "Name the right ones with --source and --target.",
    ),
    "semicolons": (
        "p.csv",
        "question;answer\na;b\n",
        SEPARATOR.format(";", '";"') + 'Then say --separator ";".',
    ),
    "tabs": (
        "p.csv",
        "question\tanswer\na\tb\n",
        SEPARATOR.format("\\x09", '"\\t" (a tab)') + 'Then say --separator "\\t".',
    ),
    "column twice": (
        "p.csv",
        "question,answer,answer\na,b,c\n",
        'p.csv has the column "answer" more than once. Rename or remove one of them.',
    ),
    "Latin-1": (
        "p.csv",
        b"question,answer\nhi,there\ncaf\xe9,x\n",
        "p.csv is not UTF-8: line 3, byte 4 of the line is 0xe9. Save it as UTF-8, or say what it is with --encoding.",
    ),
    "UTF-16": (
        "p.csv",
        CSV.encode("utf-16-le").join([b"\xff\xfe", b""]),
        "p.csv is UTF-16, not UTF-8 (it begins with the bytes ff fe). Save it as UTF-8, or pass --encoding utf-16.",
    ),
    "NUL": (
        "p.csv",
        b"question,answer\na\0b,c\n",
        "p.csv has a NUL byte in line 2: it looks binary or like UTF-16. Save it as UTF-8 text, or pass --encoding.",
    ),
    "one ragged row": (
        "p.csv",
        "question,answer\na,b\nc,d,e\n",
        "p.csv: 1 row has more or fewer cells than the 2 columns, in line 3. "
        "Put quotes around a cell that holds the separator, or leave such rows out with --skip-bad.",
    ),
    "ragged rows": (
        "p.csv",
        "question,answer\na\nb,c\nd\ne,f,g\nh\n",
        "p.csv: 4 rows have more or fewer cells than the 2 columns, the first in lines 2, 4, 5. "
        "Put quotes around a cell that holds the separator, or leave such rows out with --skip-bad.",
    ),
    "open quote": (
        "p.csv",
        'question,answer\na,b\nc,"d\ne,f\n',
        "p.csv has a quote that is not closed, opened in line 3, noticed in line 4. "
        'Close it; a quote within a cell is written "".',
    ),
    "huge cell": (
        "p.csv",
        "question,answer\na," + "b" * 140_000 + "\n",
        "p.csv has a cell of more than 131,072 characters in line 2. Is a quote not closed there?",
    ),
    "unknown suffix": (
        "p.docx",
        "question,answer\na,b\n",
        "cannot read p.docx: the suffix '.docx' is unknown. Give a .csv, .tsv, .jsonl or .parquet file of pairs.",
    ),
    "no JSON": (
        "p.jsonl",
        '{"question": "a", "answer": "b"}\n{"question": \n',
        "p.jsonl: line 2 is not JSON (Expecting value: line 2 column 1 (char 14)). Write one object in each line.",
    ),
    "a JSON array": (
        "p.json",
        '[\n{"question": "a", "answer": "b"}\n]',
        'p.json: line 1 is not an object. Write one in each line, as in {"question": "Hi!", "answer": "Hello!"}.',
    ),
    "a JSON line without an answer": (
        "p.jsonl",
        '{"question": "a", "answer": "b"}\n{"question": "c"}\n',
        'p.jsonl: line 2 has no "answer". Every line needs both.',
    ),
    "a number as answer": (
        "p.jsonl",
        '{"question": "a", "answer": 7}\n',
        'p.jsonl: line 1 holds 7 as "answer". Write text.',
    ),
    "blank JSON lines": (
        "p.jsonl",
        "\n\n",
        "p.jsonl has no rows. Write one object with its pair in each line.",
    ),
    "no Parquet": ("p.parquet", "PAR1 hello", "p.parquet is damaged, or not a Parquet file."),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_explained(tmp_path, name, content, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        read(tmp_path, content, name=name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"^cannot read .*nowhere.csv: no such file\. Give a file of pairs\.$"):
        read_pairs(Source(tmp_path / "nowhere.csv"))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match=r": it is a folder\. Give a file of pairs\.$"):
        read_pairs(Source(tmp_path))


def test_an_unknown_encoding_is_named(tmp_path):
    with pytest.raises(
        DataError, match=r"^the encoding 'utf-ate' is unknown\. Choose utf-8, utf-16, latin-1 or cp1252\.$"
    ):
        read(tmp_path, CSV, encoding="utf-ate")


def test_a_parquet_column_of_numbers_is_refused(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"question": [1], "answer": ["b"]}), tmp_path / "p.parquet")
    with pytest.raises(DataError, match=r'^p\.parquet holds int64 in its column "question"\. It should hold text\.$'):
        read_pairs(Source(tmp_path / "p.parquet"))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_refused_before_anything_is_read(device):
    if not Path(device).exists():
        pytest.skip(f"there is no {device} here")
    with pytest.raises(DataError, match=r"it is a device, and may have no end\. Give a file of pairs, or a pipe\."):
        read_pairs(Source(Path(device)))
