"""How well a chatbot knows what it was taught."""

from collections import defaultdict
from collections.abc import Sequence

import torch

from xray.data.pairs import Pair
from xray.data.tokens.tokeniser import split_text
from xray.learn.answers.chatbot import Chatbot
from xray.learn.answers.decode import answer_all


def count_right_answers(chatbot: Chatbot, pairs: Sequence[Pair]) -> tuple[int, int]:
    """How many of the different questions are answered word for word as they were taught, and how many there are.

    Where one question was taught several answers, each of them is right.
    """
    taught: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    for pair in pairs:
        taught[split_text(pair.question)].add(split_text(pair.answer))
    asked = {split_text(pair.question): pair.question for pair in pairs}
    tokenisers = chatbot.tokenisers
    questions = [torch.tensor(tokenisers.src.encode(asked[words])) for words in taught]
    longest = max(len(tokenisers.tgt.encode(pair.answer)) for pair in pairs)
    answers = answer_all(chatbot.model, questions, chatbot.device, longest + 1)
    said = [tokenisers.said(ids) for ids in answers]
    return sum(words in right for words, right in zip(said, taught.values(), strict=True)), len(taught)
