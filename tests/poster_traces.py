"""Traces of untrained transformers of any size, with made-up words, to be drawn."""

import torch
from changed_traces import WORDS

from xray.capture.axes.twin import name_axes
from xray.capture.targets.passes import record_inference, record_training
from xray.capture.values import preview_everything_small
from xray.config import PAD, SOS, SPECIAL_TOKENS, ModelConfig
from xray.ir.trace import Pass, Trace
from xray.learn.threads import fitting_threads
from xray.model.transformer import Transformer


def draw_ids(rows, length, vocab, first=None):
    """Ids of so many sequences, the second half of them padded at their end."""
    ids = torch.randint(len(SPECIAL_TOKENS), vocab, (rows, length), generator=torch.Generator().manual_seed(rows))
    if first is not None:
        ids[:, 0] = first
    for row in range(rows):
        kept = max(1, length - row * length // (rows + 1))
        ids[row, kept:] = PAD
    return ids


def spell(ids):
    def word(number):
        return SPECIAL_TOKENS[number] if number < len(SPECIAL_TOKENS) else WORDS[number % len(WORDS)]

    return tuple(tuple(word(number) for number in row) for row in ids.tolist())


def make_trace(phase="both", batch=8, src_len=10, tgt_len=14, turns=5, cached=False, **settings):
    """A trace as `Run.trace` gives it, of a model and a batch of any size."""
    config = ModelConfig(**{"src_vocab": 1245, "max_len": max(64, src_len, tgt_len + 1), **settings})
    torch.manual_seed(0)
    model = Transformer(config)
    passes: tuple[Pass, ...] = ()
    with fitting_threads(config):
        if phase != "inference":
            src = draw_ids(batch, src_len, config.src_vocab)
            tgt = draw_ids(batch, tgt_len + 1, config.tgt_vocab, first=SOS)
            passes += record_training(
                model,
                src,
                tgt,
                src_words=spell(src),
                tgt_words=spell(tgt),
                label_smoothing=0.1,
                preview=preview_everything_small,
            ).passes
        if phase != "training":
            src = draw_ids(1, max(1, src_len - 1), config.src_vocab)
            cache = model.make_cache() if cached else None
            passes += record_inference(
                model,
                src,
                src_words=spell(src),
                spell=spell,
                max_turns=turns,
                cache=cache,
                preview=preview_everything_small,
            ).passes
        passes = name_axes(passes, config, kv_cache=cached and phase != "training")
    lengths: dict[str, int] = {}
    for one in passes:
        lengths = {**one.sizes, **lengths}
    sizes = {name: getattr(config, name) for name in ("heads", "encoder_layers", "decoder_layers", "d_model", "d_k")}
    sizes |= {"d_ff": config.d_ff, "src_vocab": config.src_vocab, "tgt_vocab": config.tgt_vocab}
    sizes |= {name: lengths[name] for name in ("batch", "src_len", "tgt_len")}
    facts = {
        **config.to_dict(),
        "label_smoothing": 0.1,
        "trained": False,
        "run": None,
        "device": "cpu",
        "torch": "2",
        "kv_cache": cached,
    }
    return Trace(title="X-Ray Transformer", sizes=sizes, config=facts, passes=passes)
