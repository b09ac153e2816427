"""Beam search: several answers followed at once, and the one that is likeliest as a whole is given."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from xray.config import EOS, PAD, SOS
from xray.model.fast.speaker import Speaker, start_words
from xray.model.transformer import Transformer

NEVER_SAID = (PAD, SOS)


@dataclass
class Finished:
    """The best answer to a question that has come to its end so far."""

    ids: tuple[int, ...] = ()
    score: float = field(default=float("-inf"))


def length_factor(words: int, penalty: float) -> float:
    """What the log probability of an answer of so many words is divided by.

    Without it (`penalty` 0) every word makes an answer less likely, and short ones win (Wu et al. 2016, equation 14).
    """
    return ((5 + words) / 6) ** penalty  # type: ignore[no-any-return]


def search_beams(model: Transformer, src: Tensor, longest: int, beam: int, penalty: float) -> list[tuple[int, ...]]:
    """The likeliest answer to each question among those that `beam` beams find, without `<sos>` and `<eos>`.

    A question is done when none of its beams can beat its best finished answer any more.

    Shapes:
        src: (batch, src_len)
    """
    speaker, count = Speaker(model, src), src.shape[0]
    best = [Finished() for _ in range(count)]
    asked = list(range(count))  # the questions that are not done, by their numbers
    logits = speaker.hear(start_words(src, SOS))  # (batch, tgt_vocab)
    speaker.keep(torch.arange(count, device=src.device).repeat_interleave(beam))
    logits = logits.repeat_interleave(beam, dim=0)  # (batch * beam, tgt_vocab)
    scores = torch.full((count, beam), float("-inf"), device=src.device)
    scores[:, 0] = 0.0  # all beams begin alike, so only one of them counts
    said = torch.zeros(count, beam, 0, dtype=torch.long, device=src.device)
    for words in range(1, longest + 2):
        tried, parents, ids = extend(scores, logits, beam)  # (batch, 2 * beam) each
        chosen = note_finished(best, asked, tried, parents, ids, said, words, penalty)
        parents, ids, scores = (values.gather(1, chosen[:, :beam]) for values in (parents, ids, tried))
        said = torch.cat([said.gather(1, parents[..., None].expand(-1, -1, said.shape[2])), ids[..., None]], dim=2)
        hopes = scores.max(dim=1).values / length_factor(longest + 1, penalty)
        left = [row for row, hope in enumerate(hopes.tolist()) if hope > best[asked[row]].score]
        if words > longest or not left:
            break
        rows = torch.tensor(left, device=src.device)
        speaker.keep((rows[:, None] * beam + parents[rows]).reshape(-1))
        asked, said, scores = [asked[row] for row in left], said[rows], scores[rows]
        logits = speaker.hear(ids[rows].reshape(-1, 1))
    for row, number in enumerate(asked):  # answers that never came to an end
        if best[number].score == float("-inf"):
            best[number].ids = tuple(said[row, 0].tolist()[:longest])
    return [one.ids for one in best]


def extend(scores: Tensor, logits: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of all beams of a question: their scores, the beams they continue, and their new words.

    There are twice as many as beams, since each beam may propose to end.

    Shapes:
        scores: (batch, beam)
        logits: (batch * beam, tgt_vocab)
        out:    (batch, 2 * beam) each
    """
    chances = torch.log_softmax(logits.float(), dim=-1)  # (batch * beam, tgt_vocab)
    chances[:, list(NEVER_SAID)] = float("-inf")
    vocab = chances.shape[1]
    all_scores = (scores.reshape(-1, 1) + chances).view(scores.shape[0], beam * vocab)
    tried, places = all_scores.topk(min(2 * beam, beam * vocab), dim=1)
    return tried, places // vocab, places % vocab


def note_finished(
    best: list[Finished],
    asked: list[int],
    tried: Tensor,
    parents: Tensor,
    ids: Tensor,
    said: Tensor,
    words: int,
    penalty: float,
) -> Tensor:
    """Keep the answers that end here if they are the best so far; the order with those that go on first."""
    ends = ids == EOS
    for row, column in ends.nonzero().tolist():
        score = float(tried[row, column]) / length_factor(words, penalty)
        if score > best[asked[row]].score:
            best[asked[row]] = Finished(tuple(said[row, parents[row, column]].tolist()), score)
    return ends.int().argsort(dim=1, stable=True)
