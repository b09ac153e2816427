"""The configurations that every poster test runs over: what is traced, and with which options it is drawn."""

from functools import cache

import pytest
import torch
from families.recordings import RECORDINGS
from families.specimens import BY_NAME
from families.test_generation import record_generation
from poster_traces import break_off, make_trace, resize

import xray
from xray.story.difference import diff
from xray.story.marks import mark_changes, mark_failures

SMALL = {"encoder_layers": 1, "decoder_layers": 1}
HUGE = {"batch": 64, "heads": 16, "src_len": 512, "tgt_len": 512, "d_model": 1024, "d_k": 64, "d_ff": 4096}
SETTINGS = {
    "both": {},
    "training": {"phase": "training"},
    "inference": {"phase": "inference"},
    "one head": {"heads": 1, **SMALL},
    "two heads": {"heads": 2, **SMALL},
    "eight heads": {"heads": 8, **SMALL},
    "two and four layers": {"encoder_layers": 2, "decoder_layers": 4},
    "six and six layers": {"encoder_layers": 6, "decoder_layers": 6, "phase": "training"},
    "the paper's sizes": {"d_model": 512, "d_ff": 2048, "heads": 8, "tgt_vocab": 37000, "turns": 2, **SMALL},
    "batch 1": {"batch": 1, **SMALL},
    "batch 64": {"batch": 64, **SMALL},
    "length 1": {"src_len": 1, "tgt_len": 1, "turns": 1, **SMALL},
    "length 512": {"src_len": 512, "tgt_len": 512, "batch": 2, "turns": 2, **SMALL},
    "length 40": {"src_len": 40, "tgt_len": 33, "batch": 3, "turns": 20, **SMALL},
    "norm before": {"norm": "before", **SMALL},
    "norm before, training": {"norm": "before", "phase": "training", **SMALL},
    "no cross mask": {"cross_mask": "none", **SMALL},
    "decoder shares": {"sharing": "decoder", **SMALL},
    "all share": {"sharing": "all", "src_vocab": 950, **SMALL},
    "cached": {"cached": True, **SMALL},
}
"""What `make_trace` is given, for the cases that are nothing but a trace."""

WRONG_WIDTH = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (112x32 and 64x950)"


@cache
def default_trace(phase="both", layers=3, **settings):
    return make_trace(phase, encoder_layers=layers, decoder_layers=layers, **settings)


def differ(before, after, **options):
    return after, {"marks": mark_changes(diff(before, after), after), **options}


def fail(trace, step, error, **changes):
    broken = break_off(trace, step, error, **changes)
    return broken, {"marks": mark_failures(broken)}


def unlike(trace):
    return resize(resize(trace, "encoder.layers.1", d_ff=64), "decoder.layers.2", d_ff=256)


SPECIAL = {
    "huge": lambda: (resize(make_trace(**SMALL), **HUGE), {}),
    "all layers": lambda: (default_trace(), {"all_layers": True}),
    "all of six layers": lambda: (default_trace(layers=6, turns=2), {"all_layers": True}),
    "all of fourteen layers": lambda: (default_trace("training", layers=14), {"all_layers": True}),
    "all of one and six layers": lambda: (
        make_trace("training", encoder_layers=1, decoder_layers=6),
        {"all_layers": True},
    ),
    "all of six and one layers": lambda: (
        make_trace("training", encoder_layers=6, decoder_layers=1),
        {"all_layers": True},
    ),
    "all layers, norm before": lambda: (default_trace(norm="before"), {"all_layers": True}),
    "all layers, huge": lambda: (resize(default_trace("both"), **HUGE), {"all_layers": True}),
    "layers not alike": lambda: (unlike(default_trace()), {}),
    "layers not alike, inference": lambda: (unlike(default_trace("inference")), {}),
    "other heads": lambda: differ(default_trace(), default_trace(heads=8)),
    "other vocabulary": lambda: differ(default_trace(), default_trace(tgt_vocab=951)),
    "no cross mask any more": lambda: differ(default_trace(), default_trace(cross_mask="none")),
    "other order of norms": lambda: differ(default_trace(), default_trace(norm="before")),
    "other batch, training": lambda: differ(default_trace("training"), default_trace("training", batch=5)),
    "a turn more": lambda: differ(default_trace("inference", turns=4), default_trace("inference", turns=5)),
    "a layer that differs now": lambda: differ(default_trace(), unlike(default_trace()), all_layers=True),
    "huge difference": lambda: differ(default_trace(), resize(default_trace(), **HUGE)),
    "no difference": lambda: differ(default_trace(), default_trace()),
    "head fails": lambda: fail(
        default_trace("training"), "head#0", WRONG_WIDTH, settings={"in_features": 64, "out_features": 950}
    ),
    "loss fails": lambda: fail(default_trace("training"), "loss.cross_entropy#0", "ValueError: batch_size (112) (104)"),
    "a turn fails": lambda: fail(default_trace("inference"), "head#0", WRONG_WIDTH),
}
"""What needs more than settings: a trace with the options to draw it with."""

CASES = (*SETTINGS, *SPECIAL)
MARKED = (
    "other heads",
    "other vocabulary",
    "no cross mask any more",
    "other order of norms",
    "other batch, training",
    "a turn more",
    "a layer that differs now",
    "huge difference",
    "head fails",
    "loss fails",
    "a turn fails",
)
"""The cases in which something changed or failed."""


@cache
def record_llama(**sizes):
    """A model of the family without weights, of any size, and one forward pass of it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    length = sizes.pop("length", 5)
    with torch.device("meta"), torch.no_grad():
        model = LlamaForCausalLM(LlamaConfig(**sizes)).eval()
        return xray.trace(model, torch.zeros(1, length, dtype=torch.long))


LARGE = {
    "vocab_size": 128_256,
    "hidden_size": 16_384,
    "intermediate_size": 53_248,
    "num_hidden_layers": 4,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "length": 8192,
}
SMALLEST = {
    "vocab_size": 3,
    "hidden_size": 2,
    "intermediate_size": 1,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "length": 1,
}
OTHERS = {
    **{
        f"{name}, {phase}": lambda name=name, phase=phase: (RECORDINGS[phase](name), {})
        for name in BY_NAME
        for phase in RECORDINGS
    },
    **{
        f"{name} writes": lambda name=name: (record_generation(name), {})
        for name in ("GPT-2", "Llama", "BART", "T5", "Whisper")
    },
    "hundreds of billions": lambda: (record_llama(**LARGE), {}),
    "next to nothing": lambda: (record_llama(**SMALLEST), {}),
    "T5, all layers": lambda: (RECORDINGS["inference"]("T5"), {"all_layers": True}),
    "Llama, all layers": lambda: (RECORDINGS["inference"]("Llama"), {"all_layers": True}),
    "Llama, wider": lambda: differ(record_llama(**SMALLEST), record_llama(**SMALLEST | {"intermediate_size": 5})),
    "BERT, other phase": lambda: differ(RECORDINGS["training"]("BERT"), RECORDINGS["inference"]("BERT")),
}
"""Transformers that are not X-Ray's own, each recorded when it is asked for."""


@cache
def make_case(case):
    """The trace of a case, and what to draw it with."""
    if case in OTHERS:
        if not case.startswith("nn.Transformer"):
            pytest.importorskip("transformers", reason="transformers, whose models these are, is not installed")
        return OTHERS[case]()
    return SPECIAL[case]() if case in SPECIAL else (make_trace(**SETTINGS[case]), {})
