"""A transformer in any hand-writing: how one may be written."""

from dataclasses import dataclass

VOCAB, LENGTH, SOURCE, NARROW = 53, 7, 5, 3
"""The sizes of the one input; a window, a prefix and a block each are as many places as the last one."""


@dataclass(frozen=True)
class Writing:
    """How a transformer is written. What stands in `CHOICES` first is the plainest."""

    kind: str = "decoder"
    device: str = "cpu"
    batch: int = 2
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
    head_width: int = 8
    value_width: int = 0
    projection: str = "three"
    product: str = "matmul"
    scale: str = "scores"
    mask: str = "causal"
    hiding: str = "masked_fill"
    extra: str = "none"
    softmax: str = "softmax"
    head_norm: bool = False
    positions: str = "none"
    turned: str = "all"
    curve: str = "gelu"
    gated: str = "no"
    feed_forward: str = "linear"
    biased: bool = True
    parallel: str = "no"
    layer_scale: bool = False
    residual: str = "plain"
    embedding: str = "plain"
    head: str = "vocabulary"
    tied: bool = False
    shared: bool = False


CHOICES: dict[str, tuple[object, ...]] = {
    "kind": ("decoder", "encoder", "both"),
    "device": ("cpu", "meta"),
    "batch": (2, 1),
    "layers": (2, 1, 3, 4),
    "layout": ("batch first", "places first"),
    "training": (False, True),
    "dropout": (0.0, 0.1),
    "width": (24, 36),
    "norm": ("layer", "rms", "spelt layer", "spelt rms", "spelt rms by pow"),
    "norm_place": ("before", "after", "both", "branch", "none"),
    "final_norm": (True, False),
    "heads": (3, 1, 2, 6),
    "sharing": (1, 2, 3, 6),
    "grouping": ("repeat_interleave", "expand", "einsum"),
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
        "packed",
        "addmm",
    ),
    "product": ("matmul", "einsum", "letters", "baddbmm", "sdpa", "module"),
    "scale": ("scores", "times", "q", "k", "both", "none", "odd"),
    "mask": ("causal", "none", "padding", "causal padding", "window", "sides", "prefix", "blocks"),
    "hiding": ("masked_fill", "where", "inf", "finfo", "buffer", "big", "is_causal"),
    "extra": ("none", "cap", "relative", "alibi"),
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
    "feed_forward": ("linear", "conv", "functional", "none"),
    "biased": (True, False),
    "parallel": ("no", "one norm", "two norms"),
    "layer_scale": (False, True),
    "residual": ("plain", "branch", "stream", "after"),
    "embedding": ("plain", "scaled", "normed"),
    "head": ("vocabulary", "none", "first", "mean"),
    "tied": (False, True),
    "shared": (False, True),
}
PLAIN = Writing()


def settle(choices: dict[str, object]) -> Writing:
    """A writing of some choices, where those that cannot stand together with others are the plainest."""
    told = {**vars(PLAIN), **choices}

    def plain(*names: str) -> None:
        told.update({name: getattr(PLAIN, name) for name in names})

    if told["kind"] == "encoder" and told["mask"] in ("causal", "causal padding", "window"):
        told["mask"] = {"causal": "none", "causal padding": "padding", "window": "sides"}[told["mask"]]
    if told["product"] == "module":
        plain("sharing", "projection", "scale", "extra", "softmax", "head_norm")
        told["head_width"] = told["width"] // told["heads"]
        if told["positions"].startswith("rotary"):
            plain("positions")
    if told["projection"] == "each head":
        plain("sharing", "extra", "head_norm")
        if told["product"] in ("baddbmm", "letters"):
            plain("product")
    if told["heads"] % told["sharing"]:
        plain("sharing")
    if told["projection"] in ("each head", "unbind", "by head", "chunk", "packed", "addmm") or told["product"] in (
        "module",
        "baddbmm",
    ):
        plain("value_width")
    if told["sharing"] > 1 and told["projection"] in ("chunk", "unbind", "by head", "packed", "addmm"):
        plain("projection")
    if told["sharing"] == 1 or told["product"] != "matmul":
        plain("grouping")
    if told["sharing"] > 1 and told["product"] not in ("matmul", "sdpa"):
        plain("sharing")
    if told["grouping"] == "einsum" or told["product"] in ("sdpa", "module"):
        plain("softmax")
    if told["product"] in ("sdpa", "module", "baddbmm"):
        if told["extra"] == "cap":
            plain("extra")
        if told["hiding"] in ("where",):
            plain("hiding")
    if told["hiding"] == "is_causal" and (
        told["product"] != "sdpa" or told["mask"] != "causal" or told["extra"] != "none"
    ):
        plain("hiding")
    if told["hiding"] == "buffer" and told["mask"] not in ("causal", "window"):
        plain("hiding")
    if told["parallel"] != "no" and (told["norm_place"] not in ("before", "none") or told["kind"] == "both"):
        plain("parallel")
    if told["feed_forward"] == "none":
        plain("parallel", "gated", "curve")
        told["layers"] = max(2, int(str(told["layers"])))  # a norm behind the only sum of all is taken for the last one
    if told["positions"] == "rotary complex" and told["layout"] == "places first":
        plain("layout")
    if not told["positions"].startswith("rotary") or told["head_width"] % 4:
        plain("turned")
    if told["head"] != "vocabulary":
        plain("tied")
    return Writing(**told)
