"""What is said of a run: what was recorded, untrained weights, unknown words, settings that are not the default."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

from xray.config import SPECIAL_TOKENS, UNK, ModelConfig
from xray.ir.flow.operation_kinds import LOSSES
from xray.ir.trace import CUTS, IN_PLACE_OF, SMALL_COPY, WHOLE_PARAMS, Step, Trace
from xray.story.facts.savings import count_savings
from xray.story.facts.totals import is_backward
from xray.story.sentences.of_ends import Again
from xray.story.sentences.sentence import Sentence, fixed, say_first
from xray.story.sheet.words import Words
from xray.story.wording import PADDING, plural, spell_share

UNKNOWN = SPECIAL_TOKENS[UNK]
DEFAULTS = {entry.name: entry.default for entry in fields(ModelConfig)}


def list_remarks(trace: Trace) -> list[str]:
    """All that has to be said of a run, from what the trace was built and recorded with."""
    return [text for one in OF_RUNS if (text := one.tell(trace))]


def describe_recording(trace: Trace, roles: Sequence[str]) -> str:
    """What was recorded: passes by what they are for, where that is known, else by their number."""
    return say_first(OF_RECORDINGS, (trace, tuple(roles)))


def has_words(trace: Trace, word: str) -> bool:
    """Whether a word was read or said."""
    return any(word in row for one in trace.passes for rows in one.tokens.values() for row in rows)


def has_set(trace: Trace, name: str, value: object) -> bool:
    """Whether a setting is known to have a value that is not the default."""
    return trace.config.get(name, DEFAULTS[name]) == value != DEFAULTS[name]


def describe_batch(trace: Trace) -> str:
    """What batches it was trained with, where they are not what is shown."""
    if not trace.passes_of("training"):
        return ""
    pairs, tokens = trace.config.get("batch"), trace.config.get("batch_tokens")
    shown = plural(trace.sizes.get("batch", 0), "pair")
    if tokens:
        return f"Trained with batches of {tokens:,} tokens: {shown} here."
    if isinstance(pairs, int) and pairs != trace.sizes.get("batch"):
        return f"Trained with batches of up to {pairs:,} pairs: {shown} here."
    return ""


def describe_savings(trace: Trace) -> str:
    saved = count_savings(trace)
    if saved is None:
        return ""
    share = spell_share(saved.share)
    return f"It takes {saved.cached:,} multiplications instead of {saved.recomputed:,}: {share} saved."


OF_RUNS: tuple[Sentence[Trace], ...] = (
    fixed(
        "untrained",
        "Untrained weights: every shape is exact, the words mean nothing yet.",
        lambda trace: trace.config.get("trained") is False,
    ),
    fixed(
        "unknown words",
        f"{UNKNOWN} stands for a word that it does not know.",
        lambda trace: has_words(trace, UNKNOWN),
    ),
    Sentence("batches", describe_batch),
    fixed(
        "norm before",
        "Layer norm stands before each sublayer, with a last one at the end.",
        lambda trace: has_set(trace, "norm", "before"),
    ),
    fixed(
        "no cross mask",
        "Cross-attention has no mask: padding of the question is seen.",
        lambda trace: has_set(trace, "cross_mask", "none"),
    ),
    fixed(
        "decoder shares",
        "The decoder's embedding and the output layer share their weights.",
        lambda trace: has_set(trace, "sharing", "decoder"),
    ),
    fixed(
        "all share",
        "Both embeddings and the output layer share their weights.",
        lambda trace: has_set(trace, "sharing", "all"),
    ),
    fixed(
        "no scale",
        "Embeddings are not scaled by √d_model.",
        lambda trace: has_set(trace, "scale_embeddings", False),
    ),
    fixed(
        "infinity",
        "Hidden scores become −infinity.",
        lambda trace: has_set(trace, "mask_value", "-inf"),
    ),
    fixed(
        "kept keys",
        "Key-value cache: each turn computes one new row; the question's keys and values once.",
        lambda trace: trace.config.get("kv_cache"),
    ),
    Sentence("savings", describe_savings),
)
"""What a reader must know of a run, in the order in which it is printed."""

Recording = tuple[Trace, tuple[str, ...]]


def count_backward(trace: Trace) -> int:
    """How many passes hold back-propagation, be it of others too whose losses are added up."""
    return sum(any(map(is_backward, one.steps)) for one in trace.passes)


def has_loss(trace: Trace) -> bool:
    """Whether a loss was worked out, or tried."""
    losses = (step for step in trace.steps if step.op in LOSSES)
    return any(losses) or any(record.role == "loss" for step in trace.steps for record in step.outputs)


def is_greedy(trace: Trace) -> bool:
    """Whether every new word is the likeliest one: nothing was drawn, and no others were kept beside it."""
    ops = {step.op for one in trace.passes if one.kind == "decode" for step in one.steps}
    return "argmax" in ops and not ops & {"multinomial", "topk"}


def name_role(trace: Trace, role: str) -> str:
    """What a phase recorded."""
    if role == "inference":
        return "one greedy answer" if is_greedy(trace) else "one answer"
    if count_backward(trace):
        return "one training step" if has_loss(trace) else "one forward pass, and back-propagation"
    called = {step.path for step in trace.steps if step.parent is None and step.module}
    # several where a method calls parts alone, as one does that makes a text word by word
    told = "one forward pass" if len(called) == 1 else "one run"
    return f"{told} and its loss" if has_loss(trace) else told


def describe_phases(recorded: Recording) -> str:
    trace, roles = recorded
    if not set(roles) <= {"training", "inference"}:
        return ""
    return f"Every tensor of {' and '.join(name_role(trace, role) for role in roles)}, recorded by hooks."


def describe_passes(recorded: Recording) -> str:
    trace, _ = recorded
    count, trained = len(trace.passes), count_backward(trace)
    if count == 1:
        return f"Every tensor of {name_role(trace, 'forward')}, recorded."
    told = f"{count} forward passes{f', and back-propagation behind {trained} of them' if trained else ''}"
    return f"Every tensor of {told}, recorded."


def describe_exchanged(trace: Trace) -> str:
    """Which modules took the place of which others while the model ran, and how often."""
    paths = {
        (step.path, step.module, step.settings[IN_PLACE_OF]) for step in trace.steps if IN_PLACE_OF in step.settings
    }
    counts = Counter((new, old) for _, new, old in paths)
    told = [
        f"{new} in the place of {old}{f', {count:,} times' if count > 1 else ''}"
        for (new, old), count in sorted(counts.items())
    ]
    return f"While it ran, the model put {'; '.join(told)}. What is drawn is what ran." if told else ""


def describe_copy(trace: Trace) -> str:
    if trace.config.get(SMALL_COPY) is not True:
        return ""
    cuts, params = trace.config.get(CUTS), trace.config.get(WHOLE_PARAMS)
    if not cuts or not isinstance(params, int):
        return (
            "It is a small copy of the model: fewer layers than its settings say, and fewer experts where these are "
            "over 8."
        )
    return f"It is a small copy of the model: {cuts}. The whole model has {params:,} parameters."


COPIED: Sentence[Trace] = Sentence("small copy", describe_copy)
"""What is said of a recording of a model that was too large to be run as it is."""
EXCHANGED: Sentence[Trace] = Sentence("exchanged modules", describe_exchanged)
"""What is said of modules that a model exchanged while it ran."""
OF_RECORDINGS: tuple[Sentence[Recording], ...] = (
    Sentence("phases", describe_phases),
    Sentence("passes", describe_passes),
)
"""What was recorded, the first that is proven."""


def describe_read(words: Words) -> str:
    """How much of its words a tower reads."""
    return say_first(OF_LENGTHS, words)


def describe_fillers(words: Words) -> str:
    """What the ids of a batch are, and which of them only fill up."""
    return "; ".join(text for one in OF_FILLERS if (text := one.tell(words)))


def describe_length(words: Words) -> str:
    """How long the rows of a batch are."""
    lengths = {len(row) for row in words.rows}
    if len(lengths) != 1:
        return ""
    return f"{lengths.pop()} tokens each{', padded' if words.is_padded else ''}"


OF_LENGTHS: tuple[Sentence[Words], ...] = (
    fixed("newest word", "only its newest word is read", lambda words: words.is_answer and words.reads_newest),
    fixed("one word more", "one word more each turn", lambda words: words.is_answer and words.grows),
    Sentence("length of rows", lambda words: "" if words.is_answer else describe_length(words)),
)
"""How much of its words is read, the first that is proven."""
READ: Sentence[Words] = fixed("all but the last", "all but the last", lambda words: words.is_shifted)
SAID: Sentence[Words] = fixed("all but the first", "all but the first", lambda words: words.is_shifted)
OF_FILLERS: tuple[Sentence[Words], ...] = (
    fixed("ids of words", "the same words as numbers", lambda words: words.rows),
    Sentence(
        "filler", lambda words: f"{SPECIAL_TOKENS.index(PADDING)} is {PADDING}, only filler" if words.is_padded else ""
    ),
)
"""What is said beside the ids of a batch."""


DERIVED: Sentence[Step] = fixed(
    "derived",
    "derived: one kernel does it all and stores what comes out alone",
    lambda step: step.settings.get("derived"),
)


def list_appending(again: Again) -> tuple[str, ...]:
    """The way of a new word, in as many words as there may be room for, the longest first."""
    return tuple(text for one in OF_APPENDING if (text := one.tell(again)))


OF_APPENDING: tuple[Sentence[Again], ...] = (
    Sentence("append", lambda again: f"append the word, decode again{again.until}" if again.is_looped else ""),
    fixed("append, shorter", "append it, decode again", lambda again: again.is_looped),
    fixed("append, shortest", "append it", lambda again: again.is_looped),
)


def list_remarks_of_loss(step: Step, targets: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Over what a loss is the mean, where words tell, and whether its targets are smoothed."""
    return tuple(text for one in OF_LOSSES if (text := one.tell((step, targets))))


def describe_places(loss: tuple[Step, Sequence[Sequence[str]]]) -> str:
    step, rows = loss
    places, heard = sum(map(len, rows)), sum(word != PADDING for row in rows for word in row)
    if not step.outputs or not places:
        return ""
    return f"mean over {heard} of {places} places; {places - heard} are {PADDING}, ignored"


def describe_smoothing(loss: tuple[Step, Sequence[Sequence[str]]]) -> str:
    share = loss[0].settings.get("label_smoothing")
    if not loss[0].outputs or not isinstance(share, float) or share <= 0:
        return ""
    return f"label smoothing {share:g}: that share of each target is spread over all words"


OF_LOSSES: tuple[Sentence[tuple[Step, Sequence[Sequence[str]]]], ...] = (
    fixed("failed loss", "no number came out", lambda loss: not loss[0].outputs),
    Sentence("mean of a loss", describe_places),
    Sentence("label smoothing", describe_smoothing),
)
"""What is said in the box of a loss."""
