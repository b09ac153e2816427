"""Where a model's parameters are, as bars, and what its keys and values cost to keep."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xray.ir.trace import SAME_WEIGHTS
from xray.story.canvas import Canvas, words
from xray.story.journey import Journey, Tale
from xray.story.plan import LABEL, NOTE
from xray.story.rows import SUBLAYERS

NAMES = {"self_attention": "self-attention", "cross_attention": "cross-attention", "feed_forward": "feed-forward"}
STEP = 17.0
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Share:
    """Some of the parameters: what they belong to, and on which side."""

    name: str
    role: str
    count: int


def list_shares(tale: Tale) -> list[Share]:
    """The parameters by part, over all layers; what is left of the whole model last.

    A module that runs several times is counted once, and so are weights that two modules share: where they first ran.
    """
    seen: set[str] = set()
    found = [share for side in tale.sides for share in shares_of(tale.journeys(side)[0], seen)]
    last = tale.journeys(tale.sides[-1])[0]
    head = last.step("head")
    if head is not None and head.params:
        told = count_new(last, ["head"], seen)
        found.append(Share("head, shared with an embedding" if told.shared else "head", last.side, told.params))
    if tale.params > total(found) > 0:
        found.append(Share("norms and all else", "card", tale.params - total(found)))
    return [share for share in found if share.count or "shared" in share.name]


def total(shares: list[Share]) -> int:
    """All that is counted."""
    return sum(share.count for share in shares)


def shares_of(journey: Journey, seen: set[str]) -> Iterator[Share]:
    """Embedding, attentions and feed-forward of one side, without modules that were seen; those seen are added."""
    side, layers = journey.side, journey.layers
    parts = [step.path for step in journey.first.steps if step.parent == f"{side}.embedding#0"]
    embedding = count_new(journey, parts, seen)
    yield Share(f"{side} embedding{', shared' if embedding.shared else ''}", side, embedding.params)
    for name in SUBLAYERS[side]:
        told = count_new(journey, [f"{side}.layers.{layer}.{name}" for layer in layers], seen)
        if told.modules:
            shared = ", shared" if told.shared and not told.params else ""
            yield Share(f"{side} {NAMES[name]} × {told.modules}{shared}", side, told.params)


@dataclass(frozen=True)
class New:
    """The parameters that some modules add to what is counted already, how many modules, and how much they share."""

    params: int = 0
    modules: int = 0
    shared: int = 0


def count_new(journey: Journey, paths: list[str], seen: set[str]) -> New:
    """What those modules among some add that were not seen yet."""
    params = modules = shared = 0
    for path in paths:
        step, recorded = journey.step(path), journey.recorded(path)
        if step is None or recorded is None:
            continue
        module = f"{recorded.path}/{path.rpartition('.')[2]}"
        if module in seen:
            shared += step.params
            continue
        seen.add(module)
        same = count_shared(journey, path)
        params, modules, shared = params + step.params - same, modules + 1, shared + same
    return New(params, modules, shared)


def count_shared(journey: Journey, path: str) -> int:
    """How many of the parameters of a step, or of the steps inside it, another step used before."""
    inside = (one for one in journey.first.steps if one.path == path or one.path.startswith(f"{path}."))
    found = {one.path: one.settings[SAME_WEIGHTS] for one in inside if SAME_WEIGHTS in one.settings}
    return sum(count for count in found.values() if isinstance(count, int))


def draw_params(canvas: Canvas, tale: Tale, left: float, top: float, width: float) -> float:
    """A card with a bar for each part; gives the height left below it."""
    shares, notes = list_shares(tale), tell_memory(tale)
    if 0 < tale.params < total(shares):
        notes = [f"Some of these share weights: the whole has {tale.params:,}.", *notes]
    return draw_bars(canvas, "WHERE THE PARAMETERS ARE", shares, notes, left, top, width)


def draw_tensor_sizes(canvas: Canvas, tale: Tale, left: float, top: float, width: float) -> float:
    """A card with a bar for each of the tensors that grow largest; gives the height left below it."""
    shares = [
        share for side in tale.sides for share in tensors_of(tale.journeys(side)[0], is_last=side == tale.sides[-1])
    ]
    return draw_bars(canvas, "HOW MANY NUMBERS A TENSOR HOLDS", shares, [], left, top, width)


def tensors_of(journey: Journey, *, is_last: bool) -> Iterator[Share]:
    """The tensors of the layer that is shown, and the scores of all words, as they were in the first pass."""
    listed = [("vectors", f"{journey.layer}"), ("keys", f"{journey.layer}.self_attention.split_key")]
    for name in SUBLAYERS[journey.side][:-1]:
        listed.append((f"{NAMES[name]} scores", f"{journey.layer}.{name}.scores"))
    listed.append(("widest", f"{journey.layer}.feed_forward.expand"))
    for name, path in listed:
        step = journey.first.by_id.get(f"{path}#0")
        if step is not None and step.outputs:
            yield Share(f"{journey.side} {name}", journey.side, prod(step.outputs[0].shape))
    head = journey.first.by_id.get("head#0") if is_last else None
    if head is not None and head.outputs:
        yield Share("what leaves the head", journey.side, prod(head.outputs[0].shape))


def draw_bars(
    canvas: Canvas, title: str, shares: list[Share], notes: list[str], left: float, top: float, width: float
) -> float:
    """A card with a bar for each share, the longest as long as there is room, and notes under them."""
    longest = max((share.count for share in shares), default=0)
    if not longest:
        return top
    start = len(canvas.panels)
    canvas.note(left + 14, top - 9, (words(title, LABEL - 1, "accent:title", "bold"),), "card")
    y = top - 31
    label = max(canvas.text_width(share.name, NOTE) for share in shares) + 12
    count = max(canvas.text_width(f"{share.count:,}", NOTE) for share in shares) + 8
    room = width - 28 - label - count
    for share in shares:
        canvas.note(left + 14, y, (words(share.name, NOTE),), "card")
        x = left + 14 + label
        if share.count and room > 8:
            end = x + max(2.0, room * share.count / longest)
            canvas.panel(x, y - 11, end, y - 3, "line:leader" if share.role == "card" else f"line:{share.role}", 2)
        if share.count:
            canvas.note(left + width - 14, y, (words(f"{share.count:,}", NOTE, "quiet"),), "card", "right")
        y -= STEP
    for line in notes:
        canvas.note(left + 14, y - 2, (words(line, NOTE, "quiet"),), "card")
        y -= STEP
    canvas.panel(left, y - 5, left + width, top, "card", 12, "card", 1.0)
    canvas.panels.insert(start, canvas.panels.pop())
    return y - 5


def tell_memory(tale: Tale) -> list[str]:
    """What a cache of keys and values takes for each token; nothing where there is no decoder."""
    for journey in tale.decoder:
        step = journey.step(f"{journey.layer}.self_attention.split_key")
        if step is None or not step.outputs or len(step.outputs[0].shape) != 4:
            continue
        record = step.outputs[0]
        numbers = 2 * len(journey.layers) * prod((record.shape[1], record.shape[3]))
        size = BYTES.get(record.dtype)
        told = f", {numbers * size:,} bytes" if size else ""
        return [f"A cache of keys and values: {numbers:,} numbers{told} a token."]
    return []
