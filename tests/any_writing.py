"""A transformer in any hand-writing: how one may be written."""

from dataclasses import dataclass

VOCAB, SOURCE, NARROW, PAST, ROOM = 53, 5, 3, 4, 16
"""The sizes of inputs; a window, a prefix and a block each are as many places as the third.

A cache holds the keys of as many places as the fourth before those of the input, and has room for the last in all.
"""


@dataclass(frozen=True)
class Writing:
    """How a transformer is written. What stands in `CHOICES` first is the plainest."""

    kind: str = "decoder"
    device: str = "cpu"
    batch: int = 2
    length: int = 7
    layers: int = 2
    layout: str = "batch first"
    training: bool = False
    dropout: float = 0.0
    width: int = 24
    norm: str = "layer"
    norm_place: str = "before"
    final_norm: bool = True
    heads: int = 3
    sharing: int = 1
    grouping: str = "repeat_interleave"
    merged: bool = False
    cache: str = "none"
    head_width: int = 8
    value_width: int = 0
    projection: str = "three"
    product: str = "matmul"
    scale: str = "scores"
    mask: str = "causal"
    hiding: str = "masked_fill"
    mask_given: bool = False
    extra: str = "none"
    softmax: str = "softmax"
    head_norm: bool = False
    positions: str = "none"
    turned: str = "all"
    curve: str = "gelu"
    gated: str = "no"
    swell: float = 4.0
    feed_forward: str = "linear"
    biased: bool = True
    parallel: str = "no"
    token_shift: str = "no"
    skips: bool = False
    context: int = 0
    context_norm: bool = False
    crossing_norm: bool = True
    layer_scale: bool = False
    residual: str = "plain"
    embedding: str = "plain"
    head: str = "vocabulary"
    tied: str = "no"
    table: str = "called"
    looked_up: str = "inside"
    shared: bool = False

    @property
    def d_ff(self) -> int:
        return int(self.width * self.swell)

    @property
    def past(self) -> int:
        """How many places stand before those of the input."""
        return 0 if self.cache == "none" else PAST


CHOICES: dict[str, tuple[object, ...]] = {
    "kind": ("decoder", "encoder", "both", "beside"),
    "device": ("cpu", "meta"),
    "batch": (2, 1, 9),
    "length": (7, 1, 6, 9),
    "layers": (2, 1, 3, 4),
    "layout": ("batch first", "places first"),
    "training": (False, True),
    "dropout": (0.0, 0.1),
    "width": (24, 36),
    "norm": (
        "layer",
        "rms",
        "spelt layer",
        "spelt rms",
        "spelt rms by pow",
        "spelt layer by std",
        "spelt rms from one",
        "layer alone",
        "rms alone",
    ),
    "norm_place": ("before", "after", "both", "branch", "none"),
    "final_norm": (True, False),
    "heads": (3, 1, 2, 6),
    "sharing": (1, 2, 3, 6),
    "grouping": ("repeat_interleave", "expand", "einsum", "one head"),
    "merged": (False, True),
    "cache": ("none", "cat", "slice", "index_copy", "whole"),
    "head_width": (8, 12, 10, 4),
    "value_width": (0, 14),
    "projection": (
        "three",
        "chunk",
        "split",
        "unbind",
        "by head",
        "functional",
        "einsum",
        "each head",
        "head modules",
        "packed",
        "addmm",
    ),
    "product": ("matmul", "einsum", "letters", "heads last", "baddbmm", "sdpa", "module"),
    "scale": ("scores", "times", "q", "k", "both", "none", "odd"),
    "mask": ("causal", "none", "padding", "causal padding", "window", "sides", "prefix", "blocks", "packed", "cut"),
    "hiding": (
        "masked_fill",
        "where",
        "inf",
        "finfo",
        "buffer",
        "big",
        "is_causal",
        "in place",
        "index put",
        "zeros of tril",
        "triu",
    ),
    "mask_given": (False, True),
    "extra": ("none", "cap", "relative", "alibi", "buckets", "rows", "skewed"),
    "softmax": ("softmax", "by hand", "by hand less max", "float32", "module"),
    "head_norm": (False, True),
    "positions": ("none", "learned", "sines kept", "sines", "rotary halves", "rotary pairs", "rotary complex"),
    "turned": ("all", "half"),
    "curve": (
        "gelu",
        "relu",
        "gelu tanh",
        "silu",
        "relu squared",
        "gelu by hand",
        "gelu tanh by hand",
        "silu by hand",
        "relu squared by mul",
        "relu by clamp",
        "relu by maximum",
        "relu by times",
        "tanh",
        "sigmoid",
        "leaky_relu",
        "softplus",
        "quick gelu",
        "relu cubed",
        "square",
    ),
    "gated": ("no", "two", "fused", "fused second"),
    "swell": (4.0, 2.0, 0.5),
    "feed_forward": ("linear", "conv", "functional", "none"),
    "biased": (True, False),
    "parallel": ("no", "one norm", "two norms"),
    "token_shift": ("no", "attention", "feed-forward", "both"),
    "skips": (False, True),
    "context": (0, 20),
    "context_norm": (False, True),
    "crossing_norm": (True, False),
    "layer_scale": (False, True),
    "residual": ("plain", "branch", "stream", "after"),
    "embedding": ("plain", "scaled", "divided", "normed"),
    "head": ("vocabulary", "none", "first", "mean"),
    "tied": ("no", "assigned", "by use"),
    "table": ("called", "indexed"),
    "looked_up": ("inside", "root"),
    "shared": (False, True),
}
PLAIN = Writing()
