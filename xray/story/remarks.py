"""What happens at each row, in plain words, for a poster that has the room."""

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
