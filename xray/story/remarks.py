"""What happens at each row, in plain words, for a poster that has the room."""

from xray.story.column import Column
from xray.story.labels import norm_label

ATTENTION = {
    "input": "one vector for every word",
    "norm": "every vector brought to mean 0, variance 1",
    "qkv": "three views of each word: what it looks for, what it offers, what it says",
    "heads": "d_model cut into heads; each head looks on its own",
    "kt": "keys laid on their side to meet every query",
    "scores": "how well each query meets each key",
    "mask": "what may not be seen gets a score of almost minus infinity",
    "softmax": "each row shares out one whole of attention",
    "values": "what the words say, mixed by weight",
    "concat": "the heads side by side again",
    "output": "lets the heads mix",
    "add": "what came in is added back, so nothing is lost",
}
REMARKS = {
    "self_attention": ATTENTION,
    "cross_attention": {
        **ATTENTION,
        "qkv": "queries come from the answer, keys and values from the question",
        "scores": "how well each answer word meets each question word",
    },
    "feed_forward": {
        "norm": "every vector brought to mean 0, variance 1",
        "expand": "each word alone: out to d_ff, negatives cut off",
        "contract": "and back to d_model",
        "add": "the way out of the layer, and into the next",
    },
}

RETOLD = {
    "mask": "what may not be seen is pushed to minus infinity, or nearly",
    "fused": "one matrix for all three, cut in three",
    "rotate": "turned by their place, so that scores tell how far apart two are",
    "cache": "kept from turn to turn, so that none is computed twice",
    "repeat": "every key head is shared by several query heads",
    "bias": "how far apart two are counts too",
    "gates": "each word alone: one way opens and closes what the other brings",
    "multiply": "what the gate lets through",
}
"""What other models have besides, or otherwise."""


def tell_rows(column: Column, name: str) -> dict[str, str]:
    """What happens in each row of a sublayer, as it was recorded."""
    told = dict(REMARKS[name])
    if not column.is_retold:
        return told
    told |= RETOLD
    if norm_label(column.main, f"{column.main.layer}.{name}_norm") == "RMS NORM":
        told["norm"] = "every vector brought to a mean square of 1"
    if name == "cross_attention":
        told["qkv"] = "queries come from the decoder, keys and values from the encoder"
        if column.is_alone:
            told["ribbon"] = "memory: its encoder runs in one kernel and is not seen into"
        told["scores"] = "how well each query meets each key of the memory"
    activation = column.main.step(f"{column.main.layer}.feed_forward.activation")
    if activation is not None and activation.op != "relu":
        told["expand"] = f"each word alone: out to d_ff, bent by {activation.op.upper()}"
    return told
