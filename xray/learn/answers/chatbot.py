"""A chatbot: a model with all that belongs to it, its vocabularies and the pairs that the poster shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from xray.config import SPECIAL_TOKENS, UNK, ModelConfig, TrainConfig
from xray.data.batches import Batch, make_batch
from xray.data.pairs import Pair
from xray.data.tokens.tokenisers import Tokenisers
from xray.errors import UsageError
from xray.learn.answers.decode import GREEDY, Way, answer_all
from xray.model.transformer import Transformer

GOOD_LENGTH = 10
"""How many tokens a question may have to be shown as an example."""


@dataclass(frozen=True)
class Question:
    """A question as the model reads it: its words, their ids, and what did not get through.

    `cut` counts the words beyond the model's limit, which it does not see.
    """

    words: tuple[str, ...]
    ids: tuple[int, ...]
    cut: int = 0

    @property
    def seen(self) -> tuple[str, ...]:
        """The words as the model sees them: those it has never seen before are all `<unk>`."""
        return tuple(
            SPECIAL_TOKENS[UNK] if number == UNK else word for word, number in zip(self.words, self.ids, strict=True)
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """The words that the model has never seen; each is `<unk>` to it."""
        return tuple(word for word, number in zip(self.words, self.ids, strict=True) if number == UNK)


@dataclass(frozen=True)
class Chatbot:
    """A transformer that answers questions; `trained` is False where its weights are the ones it was born with.

    A batch of its training has `batch` pairs, or where that is not 0, pairs of `batch_tokens` tokens.
    """

    name: str
    model: Transformer
    tokenisers: Tokenisers
    poster_pairs: tuple[Pair, ...]
    device: torch.device
    trained: bool
    label_smoothing: float = 0.0
    batch: int = TrainConfig.batch
    batch_tokens: int = 0
    suggestions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    way: Way = GREEDY

    @property
    def config(self) -> ModelConfig:
        """What the model was built with."""
        return self.model.config

    @property
    def own_question(self) -> str:
        """One of the questions that it was taught, neither bare nor long."""
        known = self.suggestions or tuple(pair.question for pair in self.poster_pairs)
        lengths = [len(self.tokenisers.src.split(question)) for question in known]
        fitting = [length if length <= GOOD_LENGTH else -length for length in lengths]
        return known[max(range(len(known)), key=lambda place: (fitting[place], -place))]

    def read(self, question: str) -> Question:
        """The question as words and ids.

        Raises:
            UsageError: there is no word in it.
        """
        words = self.tokenisers.src.split(question)
        if not words:
            raise UsageError('the question is empty. Ask something, as in "Who is Ripley?".')
        limit = self.config.max_len
        return Question(words[:limit], self.tokenisers.src.encode(question)[:limit], max(0, len(words) - limit))

    def question_batch(self, question: str) -> tuple[torch.Tensor, Question]:
        """The ids of one question as the encoder takes them, (1, src_len), and what they stand for."""
        read = self.read(question)
        return torch.tensor([read.ids], device=self.device), read

    def answer(self, question: str) -> str:
        """The answer to a question, greedy unless `way` says otherwise, spelt as the corpus spells."""
        src, _ = self.question_batch(question)
        return self.write(self.way.decode(self.model, src)[0])

    def answer_many(self, questions: Sequence[Question], batch: int = 256) -> list[str]:
        """The answers to many questions, found in batches."""
        ids = [torch.tensor(question.ids) for question in questions]
        return [self.write(one) for one in answer_all(self.model, ids, self.device, batch=batch, way=self.way)]

    def write(self, ids: tuple[int, ...]) -> str:
        """Ids of an answer as a sentence; special tokens other than `<unk>` are left out."""
        kept = [number for number in ids if number == UNK or number >= len(SPECIAL_TOKENS)]
        return self.tokenisers.spelling.write(self.tokenisers.tgt.words(kept))

    def poster_batch(self) -> Batch:
        """The first pairs of the corpus as the batch that the poster draws."""
        return make_batch(self.poster_pairs, self.tokenisers, self.device)
