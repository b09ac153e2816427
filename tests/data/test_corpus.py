"""A corpus prepared in stages: what is done is not done again, and what comes out is the same."""

import os

import pytest
from small_runs import PAIRS, write_pairs

import xray.data.corpus.prepare
import xray.data.reading.rows
from xray.config import TextConfig
from xray.data.corpus.prepare import prepare_corpus
from xray.data.pairs import Pair
from xray.data.reading.origin import as_origin
from xray.data.stages import Stage
from xray.data.tokens.tokeniser import split_text
from xray.errors import DataError

MANY = PAIRS + tuple(Pair(f"Is {number} a word{number % 7}?", f"Yes, {number % 5}!") for number in range(83))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(xray.data.reading.rows, "BLOCK", 10)


def prepare(folder, kind="word", tell=lambda stage: None, max_len=19):
    """What was prepared, and the bytes of the stored corpus."""
    path = folder / "pairs.csv"
    if not path.exists():
        write_pairs(path, MANY)
    folder.joinpath("work").mkdir(exist_ok=True)
    target = folder / "work" / "corpus.arrow"
    text = TextConfig(tokeniser=kind, tgt_limit=80, src_limit=80)
    prepared = prepare_corpus(as_origin(path), text, "none", max_len, target, tell)
    return prepared, target.read_bytes()


def stop_after(told):
    """A listener that interrupts the preparation."""
    left = iter(range(told))

    def listen(stage):
        if next(left, None) is None:
            raise KeyboardInterrupt

    return listen


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_preparation_interrupted_again_and_again_ends_like_one_that_was_not(tmp_path, kind):
    (tmp_path / "once").mkdir()
    (tmp_path / "often").mkdir()
    write_pairs(tmp_path / "often" / "pairs.csv", MANY)
    prepared, stored = prepare(tmp_path / "once", kind)
    interrupted = 0
    for told in range(1, 60):
        try:
            ended, found = prepare(tmp_path / "often", kind, stop_after(told % 13))
        except KeyboardInterrupt:
            interrupted += 1
        else:
            break
    assert interrupted > 5
    assert found == stored
    assert (ended.digest, ended.lost, ended.notes) == (prepared.digest, prepared.lost, prepared.notes)
    assert ended.tokenisers.src.to_json() == prepared.tokenisers.src.to_json()


def test_what_was_read_is_not_read_again(tmp_path, monkeypatch):
    prepare(tmp_path)
    monkeypatch.setattr(xray.data.reading.rows, "go_through", None)
    monkeypatch.setattr(xray.data.corpus.prepare.WordNumbers, "cut", None)
    assert prepare(tmp_path)[0].learnt == len(MANY)


def test_a_file_that_has_changed_is_read_again(tmp_path):
    before, _ = prepare(tmp_path)
    write_pairs(tmp_path / "pairs.csv", MANY[:-1])
    assert prepare(tmp_path)[0].learnt == before.learnt - 1


def test_other_settings_are_prepared_anew(tmp_path):
    prepare(tmp_path)
    assert prepare(tmp_path, max_len=6)[0].learnt < len(MANY)


def test_a_block_that_was_half_written_is_written_again(tmp_path):
    _, stored = prepare(tmp_path)
    work = tmp_path / "work" / "corpus.work"
    for folder in ("rows-0", "cut-0"):
        (work / folder / "whole.json").unlink()
        last = work / folder / "0.arrows"
        os.truncate(last, last.stat().st_size * 2 // 3)
    assert prepare(tmp_path)[1] == stored


def test_every_stage_is_told_to_its_end(tmp_path):
    told = []
    prepare(tmp_path, "bpe", told.append)
    size = (tmp_path / "pairs.csv").stat().st_size
    last = {stage.name: stage for stage in told}
    assert last["reading pairs.csv"] == Stage("reading pairs.csv", size, size)
    assert [last[name].done for name in list(last)[1:4]] == [len(MANY)] * 3
    assert list(last)[1:4] == ["learning pieces of words", "cutting into tokens", "storing"]


def test_words_beyond_the_vocabulary_are_counted(tmp_path):
    prepared, _ = prepare(tmp_path)
    whole = {word for pair in MANY for word in split_text(pair.answer)}
    assert prepared.lost == len(whole - prepared.tokenisers.tgt.id_of_word.keys())


def test_a_corpus_without_a_pair_is_refused(tmp_path):
    write_pairs(tmp_path / "pairs.csv", [Pair("", "x")])
    with pytest.raises(DataError, match=r"^pairs\.csv has no pair to train on: of its 1 rows, 1 have a blank"):
        prepare(tmp_path)
