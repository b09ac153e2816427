"""The words beside the rows and under the columns of a picture: tokens where they are known, else ids, else places."""

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Trace
from xray.story.body.reading import Reading, read_pass
from xray.story.body.together import name_towers
from xray.story.body.towers import Towering
from xray.story.entrance.given import find_input
from xray.story.weights.found import FoundAttention

Words = tuple[str, ...]


def name_axes(
    trace: Trace, one_pass: Pass, found: FoundAttention, sequence: int, sizes: tuple[int, int]
) -> tuple[Words, Words]:
    """The words that ask and the words that are looked at; with a cache the newest ask alone."""
    asking = name_words(trace, one_pass, found.kind.tower, sequence)
    seen = name_words(trace, one_pass, found.kind.source, sequence) if found.kind.crosses else asking
    return fit(asking, sizes[0]), fit(seen, sizes[1])


def fit(words: Words, count: int) -> Words:
    """So many words: the last ones where there are more, places by their number where they are not known."""
    if len(words) >= count > 0 and words:
        return words[-count:]
    return tuple(str(number + 1) for number in range(count))


def name_words(trace: Trace, one_pass: Pass, tower: str, sequence: int) -> Words:
    """The words that a tower reads: those of its pass, else those of the pass that it ran in."""
    keys = ("src",) if tower in ("encoder", "memory") else ("decoder_input", "tgt")
    for other in nearest(trace, one_pass):
        rows = next((other.tokens[key] for key in keys if key in other.tokens), ())
        if sequence < len(rows):
            return rows[sequence]
    for other in nearest(trace, one_pass):
        reading = read_pass(other)
        towering = find_tower(trace, reading, tower)
        if towering is not None:
            return name_ids(reading, towering, sequence)
    return ()


def nearest(trace: Trace, one_pass: Pass) -> tuple[Pass, ...]:
    """The passes of a recording from one of them on: itself, those before it, the last of them first, then the rest."""
    place = next((at for at, other in enumerate(trace.passes) if other is one_pass), 0)
    return (one_pass, *reversed(trace.passes[:place]), *trace.passes[place + 1 :])


def find_tower(trace: Trace, reading: Reading, tower: str) -> Towering | None:
    """The tower of a name in a pass."""
    names = name_towers(trace)
    return next((one for one in reading.towers if names[id(one)] == tower), None)


def name_ids(reading: Reading, towering: Towering, sequence: int) -> Words:
    """The ids that a tower reads, where their values were kept."""
    found = find_input(reading.flow, towering)
    if found is None or towering.tower.reads != "ids":
        return ()
    ids = found[1]
    preview = (ids if ids.preview is not None else find_given(reading, ids)).preview
    if preview is None or preview.shape != ids.shape or len(preview.shape) > 2:
        return ()
    rows = preview.rows()
    return tuple(f"id {value}" for value in rows[sequence]) if sequence < len(rows) else ()


def find_given(reading: Reading, ids: TensorRecord) -> TensorRecord:
    """The same tensor where the whole model was given it, if just one of its inputs can be that."""
    given = [
        record
        for step in reading.flow.steps
        if step.parent is None
        for record in step.inputs
        if record.preview is not None
        and record.given is None  # a mask or place ids, by their name
        and record.shape == ids.shape
        and record.source == ids.source
    ]
    return given[0] if len(given) == 1 else ids
