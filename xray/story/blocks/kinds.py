"""What kind of work a step does, for its colour and the legend: weights, convolution, attention, reshaping ..."""

from typing import Literal, get_args

from xray.ir.trace import Step

Kind = Literal[
    "weights",
    "convolution",
    "attention",
    "normalisation",
    "activation",
    "joining",
    "pooling",
    "recurrent",
    "reshaping",
    "chance",
    "mask",
    "other",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

SAID: dict[Kind, str] = {
    "weights": "weights",
    "convolution": "convolution",
    "attention": "attention, products",
    "normalisation": "normalisation",
    "activation": "activation",
    "joining": "arithmetic, joins",
    "pooling": "along an axis, pooling",
    "recurrent": "recurrent",
    "reshaping": "reshaping",
    "chance": "dropout, identity",
    "mask": "mask",
    "other": "other",
}
"""The kinds as the legend says them."""

PARTS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("normalisation", ("norm",)),
    ("attention", ("attention", "softmax", "matmul", "bmm", "einsum", "scores", "tensordot")),
    ("recurrent", ("lstm", "gru", "rnn")),
    ("pooling", ("pool", "interpolate", "upsample", "unfold")),
    ("convolution", ("conv",)),
    ("chance", ("dropout", "identity", "rand", "bernoulli", "multinomial", "drop_path")),
    ("weights", ("linear", "embedding", "addmm", "baddbmm")),
    (
        "activation",
        ("relu", "elu", "silu", "sigmoid", "tanh", "swish", "mish", "activation", "softplus", "hardtanh", "glu"),
    ),
)
"""What an operation's word contains, the first that fits decides."""

WORDS: dict[str, Kind] = {
    **dict.fromkeys(
        (
            *("add", "sub", "mul", "div", "cat", "concat", "stack", "hstack", "vstack", "neg", "pow", "exp", "log"),
            *("sum_of", "rsub", "add_", "mul_", "sub_", "div_", "iadd", "where", "lerp", "sqrt", "rsqrt", "square"),
            *("index_add", "index_add_", "scatter_add", "true_divide", "addcmul", "addcdiv", "scale", "clamp"),
        ),
        "joining",
    ),
    **dict.fromkeys(("mean", "sum", "max", "min", "amax", "amin", "argmax", "topk", "var", "std", "cumsum"), "pooling"),
    **dict.fromkeys(
        (
            *("view", "reshape", "transpose", "permute", "flatten", "unflatten", "squeeze", "unsqueeze", "expand"),
            *("contiguous", "chunk", "split", "unbind", "select", "index", "getitem", "slice", "narrow", "to", "t"),
            *("repeat", "repeat_interleave", "expand_as", "view_as", "movedim", "swapaxes", "roll", "pad", "flip"),
            *("pixel_shuffle", "pixel_unshuffle", "gather", "type", "float", "half", "clone", "detach", "mT", "T"),
            *("split_heads", "concat_heads", "index_select", "tensor_split", "type_as", "bfloat16", "long", "item"),
        ),
        "reshaping",
    ),
}


def kind_of(step: Step) -> Kind:
    """The kind of a step that holds no other; a mask's maker is told by what it makes."""
    if any(record.role == "mask" for record in step.outputs):
        return "mask"
    op = step.op.lower()
    if op in WORDS:
        return WORDS[op]
    return next((kind for kind, parts in PARTS if any(part in op for part in parts)), "other")
