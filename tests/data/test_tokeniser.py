"""Words, and the ids that stand for them."""

import pytest

from xray.config import SPECIAL_TOKENS, UNK
from xray.data.tokens.tokeniser import WordTokeniser, split_as_written, split_text
from xray.errors import RunError

TEXTS = ["the ship, the crew", "The end!", "a crew"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "What's your favourite character in The Expanse series?",
            ["what's", "your", "favourite", "character", "in", "the", "expanse", "series", "?"],
        ),
        ("It\u2019s", ["it's"]),
        ("'quoted' rock'n'roll", ["'", "quoted", "'", "rock'n'roll"]),
        ("Wait... what?!", ["wait", ".", ".", ".", "what", "?", "!"]),
        ("R2-D2", ["r2", "-", "d2"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("👩\u200d🚀 ok👍🏽 🇩🇪🇫🇷", ["👩\u200d🚀", "ok", "👍🏽", "🇩🇪", "🇫🇷"]),
        ("<pad> <script>", ["<", "pad", ">", "<", "script", ">"]),
        ("a\x00b\x1b[0m\u202ec", ["a", "b", "[", "0m", "c"]),
        ("\udc80x", ["\ufffd", "x"]),
        (" \t\n", []),
        ("我爱AI技术。", ["我", "爱", "ai", "技", "术", "。"]),
        ("ロボットはどこ？", ["ロボット", "は", "ど", "こ", "？"]),
        ("한국어 단어", ["한국어", "단어"]),
    ],
)
def test_text_is_cut_into_words_and_marks(text, words):
    assert list(split_text(text)) == words


def test_special_tokens_have_the_first_ids():
    assert WordTokeniser.learn(TEXTS, 100).words(range(4)) == SPECIAL_TOKENS


def test_frequent_words_have_low_ids():
    assert WordTokeniser.learn(TEXTS, 100).words(range(4, 6)) == ("the", "crew")


def test_the_vocabulary_stops_at_its_limit():
    assert WordTokeniser.learn(TEXTS, 6).vocab == 6


def test_an_unknown_word_is_unk():
    assert WordTokeniser.learn(TEXTS, 100).encode("the nebula")[1] == UNK


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_a_typed_special_token_is_not_special(token):
    tokeniser = WordTokeniser.learn([*TEXTS, token], 100)
    assert not {0, 1, 2, 3} & set(tokeniser.encode(token))


def test_ids_come_back_as_words():
    tokeniser = WordTokeniser.learn(TEXTS, 100)
    assert tokeniser.words(tokeniser.encode("The CREW, the end!")) == ("the", "crew", ",", "the", "end", "!")


def test_a_tokeniser_survives_json():
    tokeniser = WordTokeniser.learn([*TEXTS, "<eos>"], 100)
    again = WordTokeniser.from_json(tokeniser.to_json())
    assert again.encode("The crew! <eos>") == tokeniser.encode("The crew! <eos>")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"model": 3}'])
def test_a_damaged_tokeniser_is_refused(text):
    with pytest.raises(RunError, match=r"^the tokeniser is damaged: "):
        WordTokeniser.from_json(text)


def test_the_same_texts_give_the_same_vocabulary():
    assert WordTokeniser.learn(TEXTS, 100).to_json() == WordTokeniser.learn(TEXTS, 100).to_json()


def test_words_as_written_know_what_they_touch():
    assert split_as_written("Who, X-Ray?") == (
        ("Who", False),
        (",", True),
        ("X", False),
        ("-", True),
        ("Ray", True),
        ("?", True),
    )
