"""How fast answers are said: one row for each word, from a cache, against everything computed again each turn.

Run: python benchmarks/decoding.py [--rounds 5] [--size paper-base] [--batch 1 64] [--words 16 64 256] [--device cpu]
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from timing import Timing, machine, print_table, ratios, take_turns
from torch import Tensor

from xray.config import EOS, SOS, ModelConfig
from xray.learn.answers.decode import decode_greedily, evaluation
from xray.learn.presets import BASE_SIZES
from xray.learn.runs.build import build_model
from xray.learn.threads import fitting_threads
from xray.model.fast.speaker import start_words
from xray.model.transformer import Transformer

DETERMINISTIC: dict[str, Any] = {**BASE_SIZES, "dropout": 0.0}
SIZES: dict[str, ModelConfig] = {
    "chatbot": ModelConfig(src_vocab=1245, tgt_vocab=950, max_len=300),
    "paper-base": ModelConfig(src_vocab=8000, tgt_vocab=8000, max_len=300, **DETERMINISTIC),
}


def main() -> None:
    """Print a table for each batch."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--size", choices=list(SIZES), default="chatbot")
    options.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    options.add_argument("--words", type=int, nargs="+", default=[16, 64, 256])
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    wanted = options.parse_args()
    print(f"{machine()}; device {wanted.device}\n")
    for batch in wanted.batch:
        compare(batch, wanted)


def compare(batch: int, wanted: argparse.Namespace) -> None:
    """Answers of each length, said in three ways in turns."""
    config = SIZES[wanted.size]
    model = silence_eos(build_model(config, 0).to(wanted.device).eval())
    src = torch.randint(4, config.src_vocab, (batch, 10), device=wanted.device)
    rows = []
    for words in wanted.words:
        ways: dict[str, Callable[[], None]] = {
            "cache": partial(say, model, src, words),
            "decoder": partial(decode_again, model, src, words),
            "everything": partial(compute_everything_again, model, src, words),
        }
        cache, decoder, everything = take_turns(ways, wanted.rounds, words)
        times = [milliseconds(one) for one in (cache, decoder, everything)]
        rows.append([str(words), *times, ratios(decoder, cache), ratios(everything, cache)])
    print_table(
        f"{wanted.size}, {batch} at a time: ms for a word of all of them ({wanted.rounds} rounds, in turns)",
        ["words", "X-Ray", "(a) decoder again", "(b) everything again", "faster than (a)", "faster than (b)"],
        rows,
    )


def silence_eos(model: Transformer) -> Transformer:
    """The model, unable to say that an answer is over: all have the length asked for."""
    with torch.no_grad():
        model.head.bias[EOS] = float("-inf")
    return model


def say(model: Transformer, src: Tensor, words: int) -> None:
    """X-Ray's greedy answer."""
    (said, *_) = decode_greedily(model, src, words)
    assert len(said) == words


@torch.inference_mode()
def decode_again(model: Transformer, src: Tensor, words: int) -> None:
    """The lecture's greedy answer: the question read once, the decoder run on the whole answer in every turn."""
    with evaluation(model), fitting_threads(model.config):
        memory, mask = model.encode(src)
        answer = start_words(src, SOS)
        for _ in range(words):
            word = model.decode(answer, memory, mask)[:, -1].argmax(dim=-1, keepdim=True)
            answer = torch.cat([answer, word], dim=1)


@torch.inference_mode()
def compute_everything_again(model: Transformer, src: Tensor, words: int) -> None:
    """The simplest greedy answer: the whole model run on the question and the answer so far in every turn."""
    with evaluation(model), fitting_threads(model.config):
        answer = start_words(src, SOS)
        for _ in range(words):
            word = model(src, answer)[:, -1].argmax(dim=-1, keepdim=True)
            answer = torch.cat([answer, word], dim=1)


def milliseconds(timing: Timing) -> str:
    """The median, and the spread."""
    return f"{1000 * timing.middle:.2f} ({timing.spread})"


if __name__ == "__main__":
    main()
