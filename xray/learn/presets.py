"""Recipes by name: the chatbot's, the paper's base model, and the lecture's translator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PresetName = Literal["movie", "paper-base", "lecture"]


@dataclass(frozen=True)
class Preset:
    """Settings that differ from the defaults of `ModelConfig`, `TrainConfig` and `TextConfig`."""

    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)


BASE_SIZES = {
    "d_model": 512,
    "heads": 8,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "d_ff": 2048,
    "dropout": 0.1,
}
WARMUP_STEPS = 4000

PRESETS: Mapping[PresetName, Preset] = {
    "movie": Preset(),
    # the paper, table 3 "base", sections 5.1 to 5.4; its highest rate is 512^-0.5 * 4000^-0.5, and it does not clip
    "paper-base": Preset(
        model={**BASE_SIZES, "max_len": 256, "sharing": "all", "tgt_vocab": 37_000},
        training={
            "batch_tokens": 25_000,
            "epochs": 20,
            "learning_rate": 512**-0.5 * WARMUP_STEPS**-0.5,
            "schedule": "inverse-sqrt",
            "warmup_steps": WARMUP_STEPS,
            "label_smoothing": 0.1,
            "clip": 0.0,
            "precision": "auto",
        },
        text={"tokeniser": "bpe"},
    ),
    # the lecture: pairs in eights, one learning rate from the first step to the last, a tenth held out, every word seen
    # at least twice; normalisation stands before the sublayer
    "lecture": Preset(
        model={**BASE_SIZES, "max_len": 350, "norm": "before", "tgt_vocab": 30_000},
        training={
            "batch": 8,
            "epochs": 20,
            "learning_rate": 1e-4,
            "schedule": "constant",
            "warmup": 0.0,
            "beta2": 0.999,
            "label_smoothing": 0.1,
            "clip": 0.0,
            "valid_share": 0.1,
        },
        text={"src_limit": 30_000, "min_frequency": 2},
    ),
}
