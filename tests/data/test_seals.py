"""Texts that are alike, found by their seals a part at a time."""

import numpy as np
import pytest

from xray.data.corpus.seals import Alike, Numbers, count_torn, cut_in_parts, scramble

ASKED = scramble(np.arange(60, dtype=np.uint64) % 17)
SAID = scramble(np.arange(60, dtype=np.uint64) % 4 + (np.arange(60) % 17 > 9))


@pytest.fixture(params=[1 << 18, 7], ids=["in one part", "in many"])
def part(monkeypatch, request):
    monkeypatch.setattr("xray.data.corpus.seals.PART", request.param)
    return request.param


def test_every_row_is_in_one_part(part):
    parts, places = cut_in_parts(ASKED)
    assert parts == (1 if part > 60 else 16)
    assert sorted(np.concatenate(list(places)).tolist()) == list(range(60))


def test_rows_with_the_same_seal_are_found_in_order(part, tmp_path):
    seals = Numbers(tmp_path, np.uint64)
    for block in np.split(ASKED, 5):
        seals.add(block)
    alike = Alike(seals, tmp_path)
    assert [alike.rows(number) for number in range(17)] == [list(range(number, 60, 17)) for number in range(17)]


def test_questions_with_several_answers_are_counted_the_same(part):
    answers = {}
    for question, answer in zip(ASKED.tolist(), SAID.tolist(), strict=True):
        answers.setdefault(question, set()).add(answer)
    assert count_torn(ASKED, SAID) == sum(len(one) > 1 for one in answers.values())


def test_no_numbers_are_none(tmp_path):
    assert Numbers(tmp_path, np.uint64).read().shape == (0,)
    assert count_torn(ASKED[:0], SAID[:0]) == 0


def test_the_files_of_numbers_leave_no_trace(tmp_path):
    seals = Numbers(tmp_path, np.uint64)
    seals.add(ASKED)
    assert seals.read().tolist() == ASKED.tolist()
    assert list(tmp_path.iterdir()) == []
