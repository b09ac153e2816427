"""Files of pairs with anything in them: read, or refused in one sentence; nothing is left behind."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import read_pairs
from trust.amount import cases, try_many
from trust.mutations import HARD_TEXT, change_bytes
from trust.outcomes import assert_one_line

from xray.data.pairs import Pair
from xray.data.reading.rows import go_through
from xray.data.reading.source import Source
from xray.data.stages import report_nobody
from xray.errors import XRayError

CSV = 'question,answer\nWho is Ripley?,"A hero, of course."\nHi,"He said ""no"""\nשלום,👩‍🚀 é\n'.encode()
LINES = b'{"question": "Who?", "answer": "Me."}\n{"question": "a\\u0000b", "answer": null}\n'


@pytest.fixture(scope="module")
def place():
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def checked(path, data, **options):
    """The rows of such a file in blocks; None after a refusal in one plain line."""
    path.write_bytes(data)
    try:
        return list(go_through(Source(path, **options), path.parent, 0, [], report_nobody))
    except XRayError as error:
        assert_one_line(error, path.name, "encoding", "separator")
        return None


def test_changed_csv_is_checked_or_refused(place):
    def case(chance):
        checked(place / "pairs.csv", change_bytes(chance, CSV), skip_bad=chance.random() < 0.5)

    try_many(2000, case)


def test_changed_json_lines_are_checked_or_refused(place):
    def case(chance):
        checked(place / "pairs.jsonl", change_bytes(chance, LINES), skip_bad=chance.random() < 0.5)

    try_many(2000, case)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_any_bytes_are_checked_or_refused(place, suffix):
    try_many(300, lambda chance: checked(place / f"pairs{suffix}", chance.randbytes(chance.randrange(120))))


@pytest.mark.parametrize("encoding", ["latin-1", "utf16", "U8", "utf-32-be", "cp1252", "big5", "utf-7"])
def test_any_bytes_in_any_encoding_are_checked_or_refused(place, encoding):
    try_many(100, lambda chance: checked(place / "pairs.csv", change_bytes(chance, CSV), encoding=encoding))


def written(text):
    """A cell as a CSV writer would quote it."""
    return '"' + text.replace('"', '""') + '"'


CELLS = HARD_TEXT.filter(lambda text: "\x00" not in text).map(lambda text: text.encode(errors="replace").decode())


@cases(60)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_whatever_stands_in_quotes_is_read_as_it_stands(place, rows):
    path = place / "pairs.csv"
    text = "question,answer\n" + "".join(f"{written(asked)},{written(said)}\n" for asked, said in rows)
    path.write_text(text, encoding="utf-8", newline="")
    assert read_pairs(Source(path)) == tuple(Pair(*row) for row in rows)


HALVES = [chr(code) for code in range(0xD800, 0xE000)]


@cases(60)
@given(rows=st.lists(st.tuples(HARD_TEXT, HARD_TEXT), min_size=1, max_size=5))
def test_whatever_json_can_say_is_read_unless_it_holds_half_characters(place, rows):
    path = place / "pairs.jsonl"
    path.write_text("".join(json.dumps({"question": a, "answer": b}) + "\n" for a, b in rows))
    if any(half in text for row in rows for text in row for half in HALVES):
        read_or_refuse(Source(path))
    else:
        assert read_pairs(Source(path)) == tuple(Pair(*row) for row in rows)


def test_changed_csv_that_passes_the_checks_can_be_read(place):
    def case(chance):
        skip_bad = chance.random() < 0.5
        if checked(place / "pairs.csv", change_bytes(chance, CSV, most=1), skip_bad=skip_bad) is not None:
            read_or_refuse(Source(place / "pairs.csv", skip_bad=skip_bad))

    try_many(80, case)


def read_or_refuse(source):
    try:
        read_pairs(source)
    except XRayError as error:
        assert_one_line(error)
