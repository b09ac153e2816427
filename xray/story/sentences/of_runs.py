"""What a reader must know of a run: untrained weights, unknown words, every setting that is not the default."""

from collections.abc import Iterator
from dataclasses import fields

from xray.config import SPECIAL_TOKENS, UNK, ModelConfig
from xray.ir.trace import Trace
from xray.story.facts.savings import count_savings
from xray.story.wording import plural

UNKNOWN = SPECIAL_TOKENS[UNK]
SETTINGS: dict[str, dict[object, str]] = {
    "norm": {"before": "Layer norm stands before each sublayer, with a last one at the end."},
    "cross_mask": {"none": "Cross-attention has no mask: padding of the question is seen."},
    "sharing": {
        "decoder": "The decoder's embedding and the output layer share their weights.",
        "all": "Both embeddings and the output layer share their weights.",
    },
    "scale_embeddings": {False: "Embeddings are not scaled by √d_model."},
    "mask_value": {"-inf": "Hidden scores become −infinity."},
}
"""What each setting means where it is not the default."""


def list_remarks(trace: Trace) -> list[str]:
    """All that has to be said of a run, from what the trace was built and recorded with."""
    config = trace.config
    found = []
    if config.get("trained") is False:
        found.append("Untrained weights: every shape is exact, the words mean nothing yet.")
    if any(UNKNOWN in row for one in trace.passes for rows in one.tokens.values() for row in rows):
        found.append(f"{UNKNOWN} stands for a word that it does not know.")
    if trace.passes_of("training"):
        found += list_batch(trace)
    found += list_settings(trace)
    if config.get("kv_cache"):
        found.append("Key-value cache: each turn computes one new row; the question's keys and values once.")
    saved = count_savings(trace)
    return found if saved is None else [*found, saved.sentence]


def list_batch(trace: Trace) -> list[str]:
    """What batches it was trained with, where they are not what is shown."""
    pairs, tokens = trace.config.get("batch"), trace.config.get("batch_tokens")
    shown = plural(trace.sizes.get("batch", 0), "pair")
    if tokens:
        return [f"Trained with batches of {tokens:,} tokens: {shown} here."]
    if isinstance(pairs, int) and pairs != trace.sizes.get("batch"):
        return [f"Trained with batches of up to {pairs:,} pairs: {shown} here."]
    return []


def list_settings(trace: Trace) -> Iterator[str]:
    """The settings that are not the default."""
    defaults = {entry.name: entry.default for entry in fields(ModelConfig)}
    for name, sentences in SETTINGS.items():
        value = trace.config.get(name, defaults[name])
        if value != defaults[name] and value in sentences:
            yield sentences[value]
