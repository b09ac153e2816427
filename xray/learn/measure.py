"""How well a chatbot knows what it was taught."""

from collections import defaultdict
from collections.abc import Sequence

import torch

from xray.data.pairs import Pair
from xray.data.tokeniser import split_text
from xray.learn.decode import answer_all
from xray.learn.run import Chatbot


def count_right_answers(chatbot: Chatbot, pairs: Sequence[Pair]) -> tuple[int, int]:
    """How many of the different questions are answered word for word as they were taught, and how many there are.

    Where one question was taught several answers, each of them is right.
    """
    taught: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for pair in pairs:
        taught[split_text(pair.question)].add(split_text(pair.answer))
    questions = [torch.tensor(chatbot.tokenisers.src.encode(" ".join(words))) for words in taught]
    longest = max(len(words) for right in taught.values() for words in right)
    answers = answer_all(chatbot.model, questions, chatbot.device, longest + 1)
    said = [chatbot.tokenisers.tgt.words(ids) for ids in answers]
    return sum(words in right for words, right in zip(said, taught.values(), strict=True)), len(taught)
