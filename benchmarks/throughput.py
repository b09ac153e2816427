"""How far from the limit: the share of the machine's matrix throughput that a step at the paper's size reaches.

Run: python benchmarks/throughput.py [--rounds 5] [--pairs 16] [--words 32] [--preset lecture] [--compile]

The limit is what one large matrix product reaches here. The useful work of a step is that of its matrix products,
forward once and backward twice. On the CPU its own seconds are counted, which other programs do not lengthen, and
PyTorch's profiler tells where the rest of the time goes.
"""

import argparse
import os
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random

import torch
from timing import machine, print_table, ratios, take_turns
from torch.profiler import ProfilerActivity, profile

from xray.config import ModelConfig, TextConfig, TrainConfig
from xray.data.pairs import Pair
from xray.data.reading.source import Source
from xray.learn.presets import PRESETS
from xray.learn.runs.begin import begin_training
from xray.learn.runs.saved_training import Training

KINDS = {
    "matrix products": ("mm", "addmm", "bmm", "linear"),
    "attention": ("scaled_dot_product", "attention"),
    "softmax and loss": ("softmax", "nll_loss", "cross_entropy"),
    "normalisation": ("layer_norm",),
    "Adam and clipping": ("adam", "vector_norm", "cat"),
    "embedding": ("embedding", "index"),
    "dropout, sums and ReLU": ("dropout", "bernoulli", "add", "mul", "relu", "clamp_min", "threshold", "div", "sum"),
    "copies": ("copy_", "clone", "contiguous"),
}


def main() -> None:
    """Print where the time of a step goes."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--pairs", type=int, default=16)
    options.add_argument("--words", type=int, default=32)
    options.add_argument("--vocab", type=int, default=8000)
    options.add_argument("--preset", default="paper-base", choices=["paper-base", "lecture"])
    options.add_argument("--compile", action="store_true", help="measure a compiled model too")
    options.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    wanted = options.parse_args()
    print(f"{machine()}; device {wanted.device}\n")
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        training = opened.enter_context(begin(folder, wanted))
        compiled = opened.enter_context(begin(folder, wanted, compiled=True)) if wanted.compile else None
        measure(training, compiled, wanted)


def begin(folder: Path, wanted: argparse.Namespace, compiled: bool = False):  # noqa: ANN201  # a context of Training
    """A training of a preset on pairs of random words, all of one length."""
    chance = Random(0)
    words = [f"w{number}" for number in range(wanted.vocab - 4)]
    texts = [words[start : start + wanted.words] for start in range(0, len(words) - wanted.words, wanted.words)]
    texts += [chance.choices(words, k=wanted.words) for _ in range(wanted.pairs * 8)]
    pairs = [Pair(" ".join(text), " ".join(reversed(text[1:]))) for text in texts]
    path = folder / "pairs.csv"
    path.write_text("question,answer\n" + "".join(f"{pair.question},{pair.answer}\n" for pair in pairs))
    preset = PRESETS[wanted.preset]
    settings = {**preset.model, "tgt_vocab": wanted.vocab, "max_len": max(preset.model["max_len"], wanted.words + 2)}
    lessons = {**preset.training, "batch_tokens": 0, "batch": wanted.pairs, "precision": wanted.precision}
    config = TrainConfig(**{**lessons, "valid_share": 0.0, "compiled": compiled})
    place = folder / ("compiled" if compiled else "run")
    return begin_training(Source(path), place, settings, config, wanted.device, text=TextConfig())


def measure(training: Training, compiled: Training | None, wanted: argparse.Namespace) -> None:
    """Time the limit and a step in turns, and profile the step."""
    steps = training.trainer.go_on()
    kind = torch.bfloat16 if wanted.precision == "bfloat16" else torch.float32
    left, right = (torch.randn(2048, 2048, device=wanted.device, dtype=kind) for _ in range(2))
    contestants = {"limit": lambda: drop(left @ right), "step": lambda: drop(next(steps))}
    if compiled is not None:
        compiled_steps = compiled.trainer.go_on()
        before = everybody_s()
        next(compiled_steps)
        first_s = everybody_s() - before
        contestants["compiled"] = lambda: drop(next(compiled_steps))
    clock = time.process_time if wanted.device == "cpu" else time.perf_counter
    limit, step, *others = take_turns(contestants, wanted.rounds, clock=clock)
    if others:
        rows = [["the first step", f"{first_s:,.0f} s"], ["a step later", f"{1000 * others[0].middle:,.0f} ms"]]
        rows += [["a step that is not compiled takes as long as", ratios(step, others[0])]]
        print_table("Compiled", ["", "value"], rows)
    flops_of_limit = 2 * 2048**3
    work = useful_flops(training.facts.model, wanted.pairs, wanted.words)
    reached, possible = work / step.middle, flops_of_limit / limit.middle
    shares = sorted(
        a / b
        for a, b in zip((work / s for s in step.seconds), (flops_of_limit / s for s in limit.seconds), strict=True)
    )
    print_table(
        f"A step of {wanted.pairs} pairs of {wanted.words} words, {wanted.precision} ({wanted.rounds} rounds)",
        ["", "value"],
        [
            ["one large matrix product", f"{possible / 1e9:,.0f} GFLOP/s"],
            ["a step", f"{1000 * step.middle:,.0f} ms ({step.spread})"],
            ["useful work of a step", f"{work / 1e9:,.0f} GFLOP"],
            ["reached", f"{reached / 1e9:,.0f} GFLOP/s"],
            ["share of the limit", f"{reached / possible:.0%} ({shares[0]:.0%} to {shares[-1]:.0%})"],
        ],
    )
    if wanted.device == "cpu":  # elsewhere these seconds would be those of the calls alone
        tell_where_time_goes(steps)


def everybody_s() -> float:
    """The processor's seconds of this process and of the compilers that it has started."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def useful_flops(config: ModelConfig, pairs: int, words: int) -> float:
    """The floating-point operations of all matrix products of a step, backward twice as many as forward."""
    d, f, tokens = config.d_model, config.d_ff, pairs * words
    encoder = config.encoder_layers * (4 * d * d + 2 * d * f + 2 * words * d)
    decoder = config.decoder_layers * (8 * d * d + 2 * d * f + 4 * words * d)
    return 3 * 2 * tokens * (encoder + decoder + d * config.tgt_vocab)


def tell_where_time_goes(steps) -> None:  # noqa: ANN001  # an iterator of steps
    """The shares of a few steps, by kind of operation."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(3):
            next(steps)
    spent: Counter[str] = Counter()
    for event in profiled.key_averages():
        name = event.key.lower()
        found = next((kind for kind, words in KINDS.items() if any(word in name for word in words)), "everything else")
        spent[found] += event.self_cpu_time_total
    total = sum(spent.values())
    rows = [[kind, f"{time / total:.1%}"] for kind, time in spent.most_common()]
    print_table("Where the time of a step goes", ["kind", "share"], rows)


def drop(_: object) -> None:
    """Nothing: what was computed is not needed."""


if __name__ == "__main__":
    main()
