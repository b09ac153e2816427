"""Traces that were recorded once and are kept as files, for tests that draw and tell but need no torch.

`recorders.py` says how each is made; `pytest tests/test_recorded.py -m "" --update-recordings` writes those anew that
have changed.
"""

import lzma
import re
from functools import cache
from pathlib import Path

from xray.ir.json_form import trace_from_json

FOLDER = Path(__file__).parent / "recorded_traces"
SMALL = {"encoder_layers": 1, "decoder_layers": 1}
POSTERS = {
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
"""Chatbots of every size and setting, as `poster_traces.make_trace` is told to make them: each is a poster to try."""

PARTS = {
    "one layer": SMALL,
    "one layer, training": {"phase": "training", **SMALL},
    "one layer, inference": {"phase": "inference", **SMALL},
    "three layers, two turns": {"turns": 2},
    "two and four layers, training": {"encoder_layers": 2, "decoder_layers": 4, "phase": "training"},
    "six layers, two turns": {"encoder_layers": 6, "decoder_layers": 6, "turns": 2},
    "fourteen layers": {"encoder_layers": 14, "decoder_layers": 14, "phase": "training"},
    "one and six layers": {"encoder_layers": 1, "decoder_layers": 6, "phase": "training"},
    "six and one layers": {"encoder_layers": 6, "decoder_layers": 1, "phase": "training"},
    "three layers, norm before": {"norm": "before"},
    "three layers, eight heads": {"heads": 8},
    "three layers, one word more": {"tgt_vocab": 951},
    "three layers, no cross mask": {"cross_mask": "none"},
    "training, batch 5": {"phase": "training", "batch": 5},
    "inference, four turns": {"phase": "inference", "turns": 4},
    "two heads, training": {"heads": 2, "phase": "training", **SMALL},
    "no cross mask, training": {"cross_mask": "none", "phase": "training", **SMALL},
    "decoder shares, training": {"sharing": "decoder", "phase": "training", **SMALL},
    "no scale, training": {"scale_embeddings": False, "phase": "training", **SMALL},
    "minus infinity, training": {"mask_value": "-inf", "phase": "training", **SMALL},
    "cached, inference": {"cached": True, "phase": "inference", **SMALL},
    "sixteen heads, length 512": {"src_len": 512, "tgt_len": 512, "batch": 2, "turns": 2, "heads": 16, **SMALL},
    "batch 7, lengths 11 and 13": {"src_len": 11, "tgt_len": 13, "batch": 7, **SMALL},
}
"""More chatbots, for tests of single parts."""

CHATBOTS = {**POSTERS, **PARTS}
FAMILIES = (
    "nn.Transformer",
    "nn.Transformer, length first",
    "nn.Transformer, norm first",
    "T5",
    "BART",
    "Marian",
    "BERT",
    "GPT-2",
    "Llama",
    "ViT",
    "Whisper",
)
"""The specimens of `families/specimens.py`."""

PHASES = ("inference", "training")


@cache
def recorded(name):
    """The trace of this name; it is frozen, so tests may share it."""
    return trace_from_json(lzma.decompress(path_of(name).read_bytes()).decode())


def path_of(name):
    """Where the trace of this name is kept."""
    return FOLDER / f"{re.sub('[^a-z0-9]+', '_', name.lower())}.json.xz"
