"""Traces made into others: of other sizes, with other words, or broken off where a step failed."""

from dataclasses import replace

WORDS = (
    "who",
    "is",
    "the",
    "captain",
    "of",
    "ship",
    "that",
    "flies",
    "past",
    "saturn",
    "and",
    "never",
    "favourite",
    "robot",
)
"""What the chatbots say of which traces are kept: no corpus, but words of every length."""


def respell(trace, words):
    """The same trace with other words in the place of those."""
    said = {word: words[number % len(words)] for number, word in enumerate(WORDS)}

    def respelt(rows):
        return tuple(tuple(said.get(word, word) for word in row) for row in rows)

    passes = tuple(
        replace(one, tokens={name: respelt(rows) for name, rows in one.tokens.items()}) for one in trace.passes
    )
    return replace(trace, passes=passes)


def resize(trace, under="", **sizes):
    """The same trace as if its axes had other sizes, at all steps or those under a path: shapes only, no values."""

    def resized(record):
        shape = tuple(sizes.get(axis, size) for axis, size in zip(record.axes, record.shape, strict=True))
        return replace(record, shape=shape, preview=record.preview if shape == record.shape else None)

    def rewritten(step):
        if not step.path.startswith(under):
            return step
        return replace(step, inputs=tuple(map(resized, step.inputs)), outputs=tuple(map(resized, step.outputs)))

    passes = tuple(replace(one, steps=tuple(map(rewritten, one.steps))) for one in trace.passes)
    return replace(trace, passes=passes, sizes=trace.sizes if under else {**trace.sizes, **sizes})


def forget_arguments(trace):
    """The trace as it was recorded before it was noted which argument of the model a step reads."""

    def forget(step):
        return replace(step, inputs=tuple(replace(one, argument=None) for one in step.inputs))

    return replace(trace, passes=tuple(replace(one, steps=tuple(map(forget, one.steps))) for one in trace.passes))


def break_off(trace, step_id, error, **changes):
    """The trace as it is left when that step of its first pass with it raises: nothing after it, no outputs around."""
    place = next(place for place, one in enumerate(trace.passes) if step_id in one.by_id)
    broken = trace.passes[place]
    last = [step.id for step in broken.steps].index(step_id)
    around, step = {step_id}, broken.by_id[step_id]
    while step.parent is not None:
        around.add(step.parent)
        step = broken.by_id[step.parent]
    steps = tuple(
        replace(step, outputs=(), error=error, **(changes if step.id == step_id else {})) if step.id in around else step
        for step in broken.steps[: last + 1]
    )
    return replace(trace, passes=(*trace.passes[:place], replace(broken, steps=steps)))
