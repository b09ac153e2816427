"""A corpus stored once, and read from its file ever after."""

import pytest
import torch
from small_runs import PAIRS, write_pairs

from xray.config import EOS, PAD, SOS, TextConfig
from xray.data.blocks import BLOCK
from xray.data.corpus.prepare import prepare_corpus
from xray.data.corpus.stored import Part, StoredCorpus
from xray.data.pairs import Pair
from xray.data.reading.origin import Origin, as_origin, fingerprints, from_dict, to_dict
from xray.data.reading.source import Source
from xray.errors import DataError


def store(folder, origin=None, text=TextConfig(), max_len=19):  # noqa: B008  # frozen
    """What was prepared of the small corpus, and the stored corpus."""
    origin = origin or as_origin(write_pairs(folder / "pairs.csv"))
    prepared = prepare_corpus(origin, text, "none", max_len, folder / "corpus.arrow")
    return prepared, StoredCorpus(folder / "corpus.arrow")


def test_every_pair_comes_back_as_it_was(tmp_path):
    _, corpus = store(tmp_path)
    assert (tuple(corpus), corpus[:], corpus[3]) == (PAIRS, PAIRS, PAIRS[3])


def test_batches_are_padded_and_answers_framed(tmp_path):
    prepared, corpus = store(tmp_path)
    src, tgt = corpus.batch([0, 1])
    assert prepared.tokenisers.src.words(src[0].tolist()) == ("hello", "!", "<pad>", "<pad>")
    assert tgt[0].tolist()[0] == SOS
    assert tgt[0].tolist()[-2:] == [EOS, PAD]


def test_lengths_are_those_of_the_ids(tmp_path):
    _, corpus = store(tmp_path)
    src, tgt = corpus.batch(range(len(corpus)))
    assert torch.equal(corpus.lengths[:, 0], (src != PAD).sum(1))
    assert torch.equal(corpus.lengths[:, 1], (tgt != PAD).sum(1))


def test_blocks_are_one_corpus(tmp_path):
    many = tuple(Pair(f"question {number}", f"answer {number}") for number in range(2 * BLOCK + 7))
    _, corpus = store(tmp_path, as_origin(write_pairs(tmp_path / "many.csv", many)))
    numbers = [0, BLOCK - 1, BLOCK, 2 * BLOCK, 2 * BLOCK + 6]
    assert len(corpus.blocks) == 3
    assert [corpus[number] for number in numbers] == [many[number] for number in numbers]


def test_a_part_counts_from_its_own_first(tmp_path):
    _, corpus = store(tmp_path)
    part = Part(corpus, torch.tensor([2, 5, 11]))
    assert (len(part), part[1], part[:2]) == (3, PAIRS[5], (PAIRS[2], PAIRS[5]))
    assert torch.equal(part.batch([2, 0])[0], corpus.batch([11, 2])[0])


@pytest.mark.parametrize("content", [b"", b"hello", b"ARROW1"])
def test_a_damaged_corpus_is_refused(tmp_path, content):
    (tmp_path / "corpus.arrow").write_bytes(content)
    with pytest.raises(DataError, match=r"^corpus\.arrow is damaged, or no corpus\."):
        StoredCorpus(tmp_path / "corpus.arrow")


def test_several_files_are_one_corpus_in_their_order(tmp_path):
    files = [write_pairs(tmp_path / f"{name}.csv", pairs) for name, pairs in (("a", PAIRS[:5]), ("b", PAIRS[5:]))]
    _, corpus = store(tmp_path, Origin(tuple(Source(path) for path in files)))
    assert tuple(corpus) == PAIRS


def test_pairs_to_measure_on_stand_behind_and_teach_no_word(tmp_path):
    files = [write_pairs(tmp_path / f"{name}.csv", pairs) for name, pairs in (("a", PAIRS[:9]), ("b", PAIRS[9:]))]
    origin = Origin((Source(files[0]),), (Source(files[1]),))
    prepared, corpus = store(tmp_path, origin)
    assert (prepared.learnt, tuple(corpus)) == (9, PAIRS)
    assert "captain" not in prepared.tokenisers.src.id_of_word


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram"])
def test_too_long_pairs_are_counted_in_the_tokens_of_the_tokeniser(tmp_path, kind):
    text = TextConfig(tokeniser=kind, src_limit=90, tgt_limit=90)
    whole, everything = store(tmp_path, text=text, max_len=90)
    limit = int(everything.lengths.max()) - 2  # <sos> and <eos> are counted in lengths
    prepared, corpus = store(tmp_path, text=text, max_len=limit)
    long = len(PAIRS) - len(corpus)
    assert (whole.notes, 0 < long < 17) == ((), True)
    answers = f"(answers: {limit - 1} and <sos>)"
    assert prepared.notes[0].startswith(f"{long} of 17 pairs are longer than {limit} tokens {answers}")


def test_the_digest_tells_corpora_apart(tmp_path):
    one, _ = store(tmp_path)
    other, _ = store(tmp_path, as_origin(write_pairs(tmp_path / "other.csv", PAIRS[:-1])))
    assert one.digest != other.digest


def test_an_origin_goes_out_and_comes_back(tmp_path):
    origin = Origin((Source(tmp_path / "a.csv", "q", separator=";"),), (Source(tmp_path / "b.csv"),))
    assert from_dict(to_dict(origin)) == origin


def test_a_changed_file_has_another_fingerprint(tmp_path):
    path = write_pairs(tmp_path / "pairs.csv")
    before = fingerprints(as_origin(path))
    write_pairs(path, PAIRS[:-1])
    assert fingerprints(as_origin(path)) != before
