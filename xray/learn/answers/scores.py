"""How near answers come to those wanted, by torchmetrics: wrong letters, wrong words, BLEU."""

from collections.abc import Sequence
from dataclasses import dataclass

from xray.data.pairs import Pair
from xray.errors import UsageError
from xray.learn.answers.chatbot import Chatbot


@dataclass(frozen=True)
class Scores:
    """`letters` and `words` are error rates, 0 where all is right; `bleu` is out of 100."""

    letters: float
    words: float
    bleu: float


def score_answers(chatbot: Chatbot, pairs: Sequence[Pair]) -> Scores:
    """The scores of a chatbot's answers to the questions of some pairs.

    Raises:
        UsageError: torchmetrics is not installed.
    """
    try:
        from torchmetrics.functional.text import bleu_score, char_error_rate, word_error_rate
    except ImportError as error:
        raise UsageError(
            'scores need the package torchmetrics. Install it: pip install "transformer-xray[scores]"'
        ) from error
    said = chatbot.answer_many([chatbot.read(pair.question) for pair in pairs])
    wanted = [pair.answer for pair in pairs]
    return Scores(
        letters=float(char_error_rate(said, wanted)),
        words=float(word_error_rate(said, wanted)),
        bleu=100 * float(bleu_score(said, [[answer] for answer in wanted])),
    )
