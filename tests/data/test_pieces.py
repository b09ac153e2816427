"""Pieces of words, and the ids that stand for them."""

import pytest
from small_runs import PAIRS

from xray.config import SPECIAL_TOKENS, TextConfig
from xray.data.tokens.pieces import PieceTokeniser
from xray.data.tokens.tokeniser import split_text
from xray.data.tokens.tokenisers import Tokenisers, tokeniser_from_json
from xray.errors import ConfigError, DataError

TEXTS = [pair.answer for pair in PAIRS] * 3
KINDS = ["bpe", "unigram"]


def learn(kind, limit=60, **options):
    return PieceTokeniser.learn(kind, TEXTS, limit, **options)


def tokenisers(kind, sharing="none"):
    text = TextConfig(tokeniser=kind, src_limit=70, tgt_limit=60)
    return Tokenisers.learn(PAIRS, sharing=sharing, text=text)


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_the_first_ids(kind):
    assert learn(kind).words(range(4)) == SPECIAL_TOKENS


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_stops_at_its_limit(kind):
    assert 40 < learn(kind).vocab <= 60


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["Kirk is my friend!", "A knight, of light.", "I am (one)..."])
def test_pieces_join_to_the_text_with_its_capitals(kind, text):
    both = tokenisers(kind)
    known = PieceTokeniser.learn(kind, [*TEXTS, text, text], 80)
    assert both.spelling.write(known.words(known.encode(text))) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_a_typed_special_token_is_not_special(kind, token):
    tokeniser = PieceTokeniser.learn(kind, [*TEXTS, *[f"a {token} b"] * 5], 90)
    assert not {1, 2, 3} & set(tokeniser.encode(f"a {token} b"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_letter_never_seen_is_unknown_but_keeps_its_spelling(kind):
    tokeniser = learn(kind)
    assert 0 in tokeniser.encode("Kirk ж")
    assert "ж" in tokeniser.split("Kirk ж")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", "   ", "\x00\t"])
def test_nothing_has_no_pieces(kind, text):
    assert (learn(kind).encode(text), learn(kind).split(text)) == ((), ())


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokeniser_survives_json(kind):
    tokeniser = learn(kind)
    again = tokeniser_from_json(kind, tokeniser.to_json())
    assert (again.kind, again.encode("The bravest woman ж")) == (kind, tokeniser.encode("The bravest woman ж"))


@pytest.mark.parametrize("kind", KINDS)
def test_many_texts_are_encoded_as_one_by_one(kind):
    tokeniser = learn(kind)
    assert tokeniser.encode_many(TEXTS[:7]) == [list(tokeniser.encode(text)) for text in TEXTS[:7]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_answer_is_told_by_its_words(kind):
    both = tokenisers(kind)
    answer = PAIRS[1].answer
    assert both.said(both.tgt.encode(answer)) == split_text(answer)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_vocabulary_of_pieces_is_one(kind):
    shared = tokenisers(kind, "all")
    assert shared.src is shared.tgt
    assert shared.tgt.vocab <= 60


def test_rare_pairs_of_pieces_are_not_merged():
    assert (
        PieceTokeniser.learn("bpe", TEXTS, 200, min_frequency=9).vocab < PieceTokeniser.learn("bpe", TEXTS, 200).vocab
    )


def test_rare_words_get_no_token():
    text = TextConfig(min_frequency=2)
    vocabulary = Tokenisers.learn(PAIRS, text=text).tgt.id_of_word
    assert ("friend" in vocabulary, "vulcan" in vocabulary) == (True, False)


def test_a_unigram_tokeniser_knows_no_frequency():
    with pytest.raises(ConfigError, match=r"^min_frequency=2 has no meaning for a unigram tokeniser"):
        TextConfig(tokeniser="unigram", min_frequency=2)


def test_a_vocabulary_too_small_for_the_letters_is_refused_with_the_remedy():
    with pytest.raises(DataError, match=r"no unigram vocabulary of 5 pieces can be learnt .* Allow more pieces"):
        learn("unigram", 5)
