"""What is kept for each pair of a large corpus lies in files without a name, and says what it would say in memory."""

import tempfile
from pathlib import Path

import pytest
import torch
from small_runs import begin_small

from xray.data import rows_on_disk
from xray.data.rows_on_disk import make_rows, numbers_without


def lies_in_file(tensor):
    """Whether the numbers of a tensor are those of a file that this process has mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        places, _, _, _, inode, *_ = line.split()
        first, last = (int(place, 16) for place in places.split("-"))
        if first <= tensor.data_ptr() < last:
            return inode != "0"
    return False


def train(folder):
    """The held-out pairs, the weights of a small run, and what it keeps for each pair."""
    folder.mkdir()
    with begin_small(folder, lessons={"valid_share": 0.3}) as training:
        for _ in training.go_on():
            pass
        kept = [training.train_pairs.numbers, training.train_pairs.lengths, training.train_pairs.corpus.lengths]
        return training.facts.held_out, training.checkpoint().tensors, kept


def test_a_run_is_the_same_with_its_rows_on_disk(tmp_path, monkeypatch):
    in_memory = train(tmp_path / "memory")
    monkeypatch.setattr(rows_on_disk, "FEW", 0)
    on_disk = train(tmp_path / "disk")
    assert on_disk[0] == in_memory[0]
    assert [name for name, one in in_memory[1].items() if not torch.equal(one, on_disk[1][name])] == []
    files = [{path.name for path in (tmp_path / place / "run").iterdir()} for place in ("memory", "disk")]
    assert files[0] == files[1]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what is mapped stands in /proc")
def test_many_rows_lie_in_files(tmp_path, monkeypatch):
    assert [lies_in_file(one) for one in train(tmp_path / "few")[2]] == [False] * 3
    monkeypatch.setattr(rows_on_disk, "FEW", 0)
    assert [lies_in_file(one) for one in train(tmp_path / "many")[2]] == [True] * 3


def test_rows_stay_in_memory_where_the_disk_is_full(tmp_path, monkeypatch):
    def refuse(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rows_on_disk, "FEW", 0)
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    rows = make_rows((5, 2), torch.int16, tmp_path)
    assert (rows.shape, rows.dtype) == ((5, 2), torch.int16)


def test_numbers_are_left_out_wherever_they_stand(monkeypatch):
    monkeypatch.setattr(rows_on_disk, "AT_A_TIME", 4)
    assert numbers_without(11, (0, 3, 4, 10), None).tolist() == [1, 2, 5, 6, 7, 8, 9]
