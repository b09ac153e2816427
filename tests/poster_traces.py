"""Traces of untrained transformers of any size, with made-up words, to be drawn."""

from dataclasses import replace

import torch

from xray.capture.axes import name_axes
from xray.capture.passes import record_inference, record_training
from xray.capture.values import preview_everything_small
from xray.config import PAD, SOS, SPECIAL_TOKENS, ModelConfig
from xray.ir.trace import Trace
from xray.learn.threads import fitting_threads
from xray.model.transformer import Transformer

WORDS = (
    "who",
    "is",
    "the",
    "captain",
    "of",
    "ship",
    "that",
    "flies",
    "past",
    "saturn",
    "and",
    "never",
    "favourite",
    "robot",
)


def draw_ids(rows, length, vocab, first=None):
    """Ids of so many sequences, the second half of them padded at their end."""
    ids = torch.randint(len(SPECIAL_TOKENS), vocab, (rows, length), generator=torch.Generator().manual_seed(rows))
    if first is not None:
        ids[:, 0] = first
    for row in range(rows):
        kept = max(1, length - row * length // (rows + 1))
        ids[row, kept:] = PAD
    return ids


def spell(ids, words=WORDS):
    def word(number):
        return SPECIAL_TOKENS[number] if number < len(SPECIAL_TOKENS) else words[number % len(words)]

    return tuple(tuple(word(number) for number in row) for row in ids.tolist())


def make_trace(phase="both", batch=8, src_len=10, tgt_len=14, turns=5, cached=False, words=WORDS, **settings):
    """A trace as `Run.trace` gives it, of a model and a batch of any size."""
    config = ModelConfig(**{"src_vocab": 1245, "max_len": max(64, src_len, tgt_len + 1), **settings})
    torch.manual_seed(0)
    model = Transformer(config)
    passes = ()
    with fitting_threads(config):
        if phase != "inference":
            src = draw_ids(batch, src_len, config.src_vocab)
            tgt = draw_ids(batch, tgt_len + 1, config.tgt_vocab, first=SOS)
            passes += record_training(
                model,
                src,
                tgt,
                src_words=spell(src, words),
                tgt_words=spell(tgt, words),
                label_smoothing=0.1,
                preview=preview_everything_small,
            )
        if phase != "training":
            src = draw_ids(1, max(1, src_len - 1), config.src_vocab)
            cache = model.make_cache() if cached else None
            passes += record_inference(
                model,
                src,
                src_words=spell(src, words),
                spell=lambda ids: spell(ids, words),
                max_turns=turns,
                cache=cache,
                preview=preview_everything_small,
            )
        passes = name_axes(passes, config, kv_cache=cached and phase != "training")
    lengths = {}
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


def resize(trace, under="", **sizes):
    """The same trace as if its axes had other sizes, at all steps or those under a path: shapes only, no values."""

    def resized(record):
        shape = tuple(sizes.get(axis, size) for axis, size in zip(record.axes, record.shape, strict=True))
        return replace(record, shape=shape, preview=record.preview if shape == record.shape else None)

    def rewritten(step):
        if not step.path.startswith(under):
            return step
        return replace(step, inputs=tuple(map(resized, step.inputs)), outputs=tuple(map(resized, step.outputs)))

    passes = tuple(replace(one, steps=tuple(map(rewritten, one.steps))) for one in trace.passes)
    return replace(trace, passes=passes, sizes=trace.sizes if under else {**trace.sizes, **sizes})


def break_off(trace, step_id, error, **changes):
    """The trace as it is left when that step of its first pass with it raises: nothing after it, no outputs around."""
    place = next(place for place, one in enumerate(trace.passes) if step_id in one.by_id)
    broken = trace.passes[place]
    last = [step.id for step in broken.steps].index(step_id)
    around, step = {step_id}, broken.by_id[step_id]
    while step.parent is not None:
        around.add(step.parent)
        step = broken.by_id[step.parent]
    steps = tuple(
        replace(step, outputs=(), error=error, **(changes if step.id == step_id else {})) if step.id in around else step
        for step in broken.steps[: last + 1]
    )
    return replace(trace, passes=(*trace.passes[:place], replace(broken, steps=steps)))
