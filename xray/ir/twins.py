"""Twins: the same model recorded once more with one thing changed; what each of them is called, and what it changes."""

from collections.abc import Mapping

TWIN = "twin"
"""The setting of a trace that says which twin it is of."""
TWINS: Mapping[str, str] = {
    "kv-cache": "keys and values of earlier words are kept, so each turn computes its newest word only",
    "no-kv-cache": "keys and values are not kept, so each turn computes every word again",
    "no-cross-mask": "cross-attention has no mask: padding of the question is seen",
    "no-causal-mask": "no mask hides the future: every word sees all others",
    "no-scale": "scores are not multiplied by 1/√d_k before softmax",
    "no-embedding-scale": "embeddings are not multiplied by √d_model",
    "no-positions": "no positions are added to the embeddings",
}
"""What is changed in each twin that X-Ray can record by itself."""
