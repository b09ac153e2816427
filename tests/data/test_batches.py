"""Rectangles of ids."""

import pytest
import torch
from small_runs import PAIRS

from xray.config import EOS, PAD, SOS, UNK
from xray.data.batches import count_batches, group_by_length, make_batch
from xray.data.pairs import Pair
from xray.data.tokens.tokenisers import Tokenisers

TOKENISERS = Tokenisers.learn(PAIRS)


def lengths_of(count):
    return torch.tensor([(1 + number % 5, 2 + number % 7) for number in range(count)])


def test_a_batch_is_as_wide_as_its_longest_pair():
    batch = make_batch(PAIRS[:8], TOKENISERS)
    assert (batch.src.shape, batch.tgt.shape) == ((8, 5), (8, 10))


def test_questions_stand_bare_and_answers_between_sos_and_eos():
    batch = make_batch(PAIRS[:2], TOKENISERS)
    assert batch.src_words[0] == ("hello", "!", "<pad>", "<pad>")
    assert batch.tgt_words[0] == ("<sos>", "hello", ",", "friend", "!", "<eos>", "<pad>")


def test_ids_are_those_of_the_words():
    batch = make_batch(PAIRS[:2], TOKENISERS)
    assert TOKENISERS.src.words(batch.src[1].tolist()) == batch.src_words[1]
    assert TOKENISERS.tgt.words(batch.tgt[0].tolist()) == batch.tgt_words[0]


def test_padding_stands_behind_eos_only():
    tgt = make_batch(PAIRS, TOKENISERS).tgt
    assert torch.equal((tgt == PAD).sum(1), tgt.shape[1] - 1 - (tgt == EOS).int().argmax(1))
    assert bool((tgt[:, 0] == SOS).all())


def test_an_unknown_word_goes_in_as_unk():
    batch = make_batch([Pair("who is zorg", "yes")], TOKENISERS)
    assert (batch.src_words[0][2], batch.src[0, 2].item()) == ("<unk>", UNK)


def test_every_pair_is_in_one_batch_of_an_epoch():
    batches = group_by_length(lengths_of(53), 11, "seed")
    assert sorted(torch.cat(list(batches)).tolist()) == list(range(53))


def test_batches_hold_pairs_of_similar_length():
    lengths = lengths_of(77)
    spans = [lengths[batch, 1].unique() for batch in group_by_length(lengths, 11, "seed")]
    assert max(len(span) for span in spans) == 1


def test_the_seed_alone_decides_the_order():
    order, again, other = (torch.cat(list(group_by_length(lengths_of(53), 11, seed))) for seed in ("7/0", "7/0", "7/1"))
    assert torch.equal(order, again)
    assert not torch.equal(order, other)


@pytest.mark.parametrize("tokens", [7, 29, 1000])
def test_a_batch_by_tokens_holds_no_more_than_they(tokens):
    lengths = lengths_of(77)
    batches = group_by_length(lengths, 1, "seed", tokens)
    assert all(len(batch) == 1 or len(batch) * int(lengths[batch].max()) <= tokens for batch in batches)


def test_batches_by_tokens_hold_every_pair_once():
    assert sorted(torch.cat(list(group_by_length(lengths_of(77), 1, "seed", 29))).tolist()) == list(range(77))


@pytest.mark.parametrize("tokens", [0, 29])
def test_every_epoch_has_as_many_batches_as_were_counted(tokens):
    numbers = {len(group_by_length(lengths_of(77), 11, str(seed), tokens)) for seed in range(5)}
    assert numbers == {count_batches(lengths_of(77), 11, tokens)}


def test_a_shared_vocabulary_is_one():
    tokenisers = Tokenisers.learn(PAIRS, sharing="all")
    assert tokenisers.src is tokenisers.tgt


@pytest.mark.parametrize("tokens", [0, 60])
def test_many_pairs_are_put_in_order_as_few_are(monkeypatch, tokens):
    lengths = torch.randint(2, 30, (500, 2), generator=torch.Generator().manual_seed(1), dtype=torch.int16)
    at_once = [batch.tolist() for batch in group_by_length(lengths, 8, "5/2", tokens)]
    monkeypatch.setattr("xray.data.batches.AT_A_TIME", 70)
    assert [batch.tolist() for batch in group_by_length(lengths, 8, "5/2", tokens)] == at_once
