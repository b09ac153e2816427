"""From sources to a stored corpus: read once as a stream, cut into ids, its vocabularies learnt, sifted and stored.

Every stage keeps what it has done on disk, so that a preparation that was killed goes on where it was.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice, starmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

from xray.config import EOS, SOS, UNK, Sharing, TextConfig
from xray.data.blocks import Blocks, one_ahead
from xray.data.corpus.cutting import Cutter, Ids, WordNumbers, as_column, as_rows, frame_rows, take_rows
from xray.data.corpus.sieve import Sieve, learnable
from xray.data.corpus.stored import CorpusWriter
from xray.data.reading import origin as origins
from xray.data.reading.origin import Origin
from xray.data.reading.rows import Rows, check_readable
from xray.data.reading.source import Source
from xray.data.stages import Stage, Tell, report_nobody
from xray.data.tokens.pieces import PieceTokeniser
from xray.data.tokens.spelling import PieceSpelling, Spelling
from xray.data.tokens.tokeniser import Tokeniser, WordTokeniser
from xray.data.tokens.tokenisers import EVERY_WORD, PIECES, SPELT, Tokenisers, tokeniser_from_json
from xray.scratch import write_aside

CUT = pyarrow.schema([("src", pyarrow.list_(pyarrow.int32())), ("tgt", pyarrow.list_(pyarrow.int32()))])
KEY = "key.json"

KIND = 1
"""The kind of what is kept of an unfinished preparation; it grows when another X-Ray could not go on with it."""


@dataclass(frozen=True)
class Prepared:
    """What is known of a corpus once it is stored: `learnt` pairs come first, those only to measure on behind them.

    `digest` is the SHA-256 of all its texts; `lost` counts the words of answers beyond the vocabulary.
    """

    tokenisers: Tokenisers
    learnt: int
    digest: str
    lost: int
    notes: tuple[str, ...]


def prepare_corpus(
    origin: Origin, text: TextConfig, sharing: Sharing, max_len: int, path: Path, tell: Tell = report_nobody
) -> Prepared:
    """Store at `path` the pairs of all sources that can be learnt, as text and as ids.

    Each source is gone through once, a block at a time, and never held in memory. What was done is kept in a folder
    beside `path`: called again for the same corpus, it goes on from there.

    Raises:
        DataError: a source cannot be read, or holds no pair that can be learnt.
    """
    for source in origin.sources:
        if isinstance(source, Source):
            check_readable(source)
    work, key = path.with_suffix(".work"), describe(origin, text, sharing, max_len)
    clear_unless_same(work, key)
    try:
        return prepare_in(work, origin, text, sharing, max_len, path, tell)
    except BaseException:
        if key is None:  # nobody could go on with it
            shutil.rmtree(work, ignore_errors=True)
        raise


def prepare_in(
    work: Path, origin: Origin, text: TextConfig, sharing: Sharing, max_len: int, path: Path, tell: Tell
) -> Prepared:
    """Prepare a corpus, going on with what is in the folder `work`."""
    rows = [Rows(source, work / f"rows-{number}", tell) for number, source in enumerate(origin.sources)]
    for source in rows:
        source.make_ready()
    learn = rows[: len(origin.learn)]
    if text.tokeniser == "word":
        words = CountedWords(len(learn), max_len)
        cut = cut_rows(rows, work, Cutter(words.numbers.cut), None, words, tell)
        learnt = words.to_vocabularies(text, sharing)
    else:
        learnt = learn_pieces(learn, work, text, sharing, tell)
        cut = cut_rows(rows, work, Cutter(learnt.src.encode_many), Cutter(learnt.tgt.encode_many), None, tell)
    storing = Storing(path, learnt, Sieve(max_len, work))
    count = storing.store(rows, cut, len(learn), tell)
    notes = tuple(note for source in rows for note in source.notes) + storing.sieve.notes(origin.name)
    tell(Stage("learning how words are written", 0, 0))
    spelling = Spelling.learn(storing.spelt) if text.tokeniser == "word" else PieceSpelling()
    return Prepared(Tokenisers(learnt.src, learnt.tgt, spelling), count, storing.digest.hexdigest(), learnt.lost, notes)


def describe(origin: Origin, text: TextConfig, sharing: Sharing, max_len: int) -> dict[str, Any] | None:
    """What a preparation depends on; None where it cannot be told whether a source has changed."""
    files: list[list[Any]] = []
    for source in origin.sources:
        if not isinstance(source, Source) or not source.path.is_file():
            return None
        facts = source.path.stat()
        files.append([facts.st_size, facts.st_mtime_ns, facts.st_ino])
    return {
        "kind": KIND,
        "origin": origins.to_dict(origin),
        "files": files,
        "text": text.to_dict(),
        "sharing": sharing,
        "max_len": max_len,
    }


def clear_unless_same(work: Path, key: dict[str, Any] | None) -> None:
    """Keep what an earlier preparation has done only if it was one of the same corpus."""
    known = work / KEY
    try:
        if key is not None and json.loads(known.read_text(encoding="utf-8")) == key:
            return
    except (OSError, ValueError):
        pass
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    known.write_text(json.dumps(key), encoding="utf-8")


def cut_rows(
    rows: list[Rows], work: Path, src: Cutter, tgt: Cutter | None, words: "CountedWords | None", tell: Tell
) -> list[Blocks]:
    """The ids of every block of rows, on disk in blocks of their own; with `words` they are those of its numbers."""
    every = []
    for number, source in enumerate(rows):
        cut, done = Blocks(work / f"cut-{number}", CUT), 0
        every.append(cut)
        for block, note in cut.with_notes():
            done += block.num_rows
            if words is not None:
                words.remember(note)
                words.count(number, as_rows(block["src"]), as_rows(block["tgt"]))
        if cut.is_whole:
            continue
        with cut.go_on() as write:
            for block in one_ahead(behind(source, done)):
                known = 0 if words is None else len(words)
                asked, said = src(block["question"]), (tgt or src)(block["answer"])
                columns = [as_column(*asked), as_column(*said)]
                write(pyarrow.record_batch(columns, schema=CUT), "" if words is None else words.note_since(known))
                if words is not None:
                    words.count(number, asked, said)
                done += block.num_rows
                report_rows("cutting into tokens", done, [source], tell)
        cut.close()
    return every


def report_rows(stage: str, done: int, rows: list[Rows], tell: Tell) -> None:
    """Tell how many of the rows are done, unless their reading is told at the same time."""
    totals = [source.total for source in rows]
    if None not in totals:
        tell(Stage(stage, done, sum(total or 0 for total in totals)))


def behind(rows: Iterable[Any], skip: int) -> Iterator[Any]:
    """The blocks behind the first `skip` rows, which are whole blocks."""
    for block in rows:
        if skip:
            skip -= block.num_rows
        else:
            yield block


class CountedWords:
    """All different words, and how often each stands in the questions and in the answers that are learnt."""

    def __init__(self, learn: int, max_len: int) -> None:
        self.learn = learn
        self.max_len = max_len
        self.numbers = WordNumbers()
        self.asked = self.said = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.numbers.number_of)

    def remember(self, note: str) -> None:
        """Take up the words of a block that was cut before."""
        known = self.numbers.number_of
        for word in note.split("\n") if note else ():
            known[word] = len(known)

    def note_since(self, known: int) -> str:
        """The words behind the first `known` ones, for `remember`; no word holds a line break."""
        return "\n".join(islice(self.numbers.number_of, known, None))

    def count(self, source: int, src: Ids, tgt: Ids) -> None:
        """Count the words of a block, if its source is learnt from; pairs that will be left out teach no word."""
        if source < self.learn:
            rows = np.flatnonzero(learnable(src, tgt, self.max_len))
            self.asked, self.said = (
                add_up(np.bincount(take_rows(*ids, rows)[0], minlength=len(self)), counts)
                for ids, counts in ((src, self.asked), (tgt, self.said))
            )

    def to_vocabularies(self, text: TextConfig, sharing: Sharing) -> "Vocabularies":
        """Both tokenisers, with the id there of each number."""
        words = list(self.numbers.number_of)
        none = np.zeros(len(words), dtype=np.int64)
        asked, said = add_up(none, self.asked), add_up(none, self.said)
        if sharing == "all":
            src = tgt = choose_words(words, asked + said, text.tgt_limit, text.min_frequency)
        else:
            src = choose_words(words, asked, text.src_limit, text.min_frequency)
            tgt = choose_words(words, said, text.tgt_limit, text.min_frequency)
        lost = int(((said > 0) & (tgt[1] == UNK)).sum())
        return Vocabularies(src[0], tgt[0], (src[1], tgt[1]), lost)


@dataclass(frozen=True)
class Vocabularies:
    """Both tokenisers; `ids` are those of the numbers that texts were cut into, None where these are ids already."""

    src: Tokeniser
    tgt: Tokeniser
    ids: tuple[Any, Any] | None = None
    lost: int = 0


def choose_words(words: list[str], counts: Any, limit: int, min_frequency: int) -> tuple[Tokeniser, Any]:  # noqa: ANN401
    """A vocabulary of the most frequent of these words, and the id there of each of them."""
    tokeniser = WordTokeniser.most_frequent(
        zip(words, counts.tolist(), strict=True), limit or EVERY_WORD, min_frequency
    )
    known = tokeniser.id_of_word
    return tokeniser, np.fromiter((known.get(word, UNK) for word in words), np.int32, len(words))


def add_up(longer: Any, shorter: Any) -> Any:  # noqa: ANN401  # arrays of counts
    """Counts, and more counts of the first of them."""
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


def learn_pieces(rows: list[Rows], work: Path, text: TextConfig, sharing: Sharing, tell: Tell) -> Vocabularies:
    """Both vocabularies of pieces, learnt once."""
    if sharing == "all":
        both = learn_kept(rows, ("question", "answer"), work / "both.json", text, text.tgt_limit, tell)
        return Vocabularies(both, both)
    return Vocabularies(
        learn_kept(rows, ("question",), work / "src.json", text, text.src_limit, tell),
        learn_kept(rows, ("answer",), work / "tgt.json", text, text.tgt_limit, tell),
    )


def learn_kept(
    rows: list[Rows], columns: tuple[str, ...], path: Path, text: TextConfig, limit: int, tell: Tell
) -> Tokeniser:
    """A vocabulary of pieces of some columns, which is kept in a file."""
    if not path.is_file():
        texts = told_columns(rows, columns, tell)
        learnt = PieceTokeniser.learn(text.tokeniser, texts, limit or PIECES, text.min_frequency)
        with write_aside(path) as file:
            file.write(learnt.to_json().encode())
    return tokeniser_from_json(text.tokeniser, path.read_text(encoding="utf-8"))


def told_columns(rows: list[Rows], columns: tuple[str, ...], tell: Tell) -> Iterator[list[str]]:
    """All texts of the columns, one column after the other, in blocks."""
    for column in columns:
        done = 0
        for block in one_ahead(chain.from_iterable(rows)):
            yield block[column].to_pylist()
            done += block.num_rows
            report_rows("learning pieces of words", done, rows, tell)


class Storing:
    """A corpus on its way into its file; pairs that cannot be learnt are left out on the way."""

    def __init__(self, path: Path, vocabularies: Vocabularies, sieve: Sieve) -> None:
        self.writer = CorpusWriter(path)
        self.ids = vocabularies.ids
        self.sieve = sieve
        self.digest = sha256()
        self.stored = 0
        self.spelt: list[str] = []

    def store(self, rows: list[Rows], cut: list[Blocks], learn: int, tell: Tell) -> int:
        """Store the pairs of all sources; the number of those of the first `learn` ones."""
        done = learnt = 0
        for number, (texts, ids) in enumerate(zip(rows, cut, strict=True)):
            for looked_at, kept, src, tgt in one_ahead(starmap(self.sift, zip(texts, ids, strict=True))):
                self.write(kept, src, tgt, teaches=number < learn)
                done += looked_at
                report_rows("storing", done, rows, tell)
            if number < learn:
                learnt = self.stored
        self.writer.close()
        return learnt

    def sift(self, texts: Any, cut: Any) -> tuple[int, Any, Ids, Ids]:  # noqa: ANN401  # Arrow rows
        """How many rows a block has, those that can be learnt, and their ids in the vocabularies."""
        src, tgt = as_rows(cut["src"]), as_rows(cut["tgt"])
        kept = self.sieve.sift(src, tgt)
        rows = np.flatnonzero(kept)
        src, tgt = take_rows(*src, rows), take_rows(*tgt, rows)
        if self.ids is not None:
            src, tgt = (self.ids[0][src[0]], src[1]), (self.ids[1][tgt[0]], tgt[1])
        return len(texts), texts.filter(pyarrow.array(kept)), src, frame_rows(*tgt, SOS, EOS)

    def write(self, texts: Any, src: Ids, tgt: Ids, teaches: bool) -> None:  # noqa: ANN401  # Arrow rows
        """Write the rows of a block."""
        if not len(texts):
            return
        pairs = pyarrow.compute.binary_join_element_wise(texts["question"], texts["answer"], "\0").to_pylist()
        self.digest.update("\0".join([""] * bool(self.stored) + pairs).encode())
        self.stored += len(texts)
        if teaches and len(self.spelt) < SPELT:
            self.spelt += texts["answer"][: SPELT - len(self.spelt)].to_pylist()
        self.writer.write(texts["question"], texts["answer"], src, tgt)
