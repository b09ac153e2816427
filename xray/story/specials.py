"""In what a transformer differs from the one in the paper, in sentences; each is said only if it was recorded."""

from xray.story.canvas import Canvas, words
from xray.story.journey import Journey, Tale
from xray.story.labels import norm_label, repeats
from xray.story.nodes import held_shape
from xray.story.plan import LABEL, NOTE
from xray.story.recognition.retold_scores import CAPPED
from xray.story.recognition.retold_sublayers import BETWEEN
from xray.story.rows import SUBLAYERS, has_sublayer, is_fused, stands_norm_first
from xray.story.wording import wrap

PARTS = ("scores", "scale", "mask", "softmax", "weighted_sum", "transpose_key")


def draw_specials(canvas: Canvas, tale: Tale, left: float, top: float, width: float) -> float:
    """A card with a line for everything that is special; gives the height left below it."""
    sentences = list_specials(tale)
    if not sentences:
        return top
    start = len(canvas.panels)
    title = words("WHAT THIS MODEL DOES ITS OWN WAY", LABEL - 1, "accent:title", "bold")
    canvas.note(left + 14, top - 9, (title,), "card")
    y = top - 29
    for sentence in sentences:
        lines = tuple(words(line, NOTE) for line in wrap(sentence, NOTE, width - 40, canvas.measure))
        canvas.note(left + 14, y, (words("•", NOTE, "quiet"),), "card")
        y = canvas.note(left + 26, y, lines, "card").bottom - 4
    canvas.panel(left, y - 4, left + width, top, "card", 12, "card", 1.0)
    canvas.panels.insert(start, canvas.panels.pop())
    return y - 4


def list_specials(tale: Tale) -> list[str]:
    """All that can be said, the outermost first."""
    mains = [tale.journeys(side)[0] for side in tale.sides]
    telling = (tell_norm, tell_between, tell_places, tell_cap, tell_projection, tell_heads, tell_gate)
    told = [tell(journey) for journey in mains for tell in telling]
    told += [tell_kernel(mains), tell_cache(tale)]
    more = len(tale.trace.passes_of("forward")) - 1
    if tale.phases == ("forward",) and more > 0:
        told.append(f"This is the first of {more + 1} recorded passes.")
    return list(dict.fromkeys(sentence for sentence in told if sentence))


def attentions(journey: Journey) -> list[str]:
    """The paths of the attentions in the layer that is shown."""
    names = [name for name in SUBLAYERS[journey.side] if name != "feed_forward" and has_sublayer((journey,), name)]
    return [f"{journey.layer}.{name}" for name in names]


def tell_norm(journey: Journey) -> str:
    """Which norm, and where it stands."""
    path = f"{journey.layer}.self_attention_norm"
    if not journey.steps(path):
        return ""
    first = stands_norm_first((journey,), "self_attention")
    if norm_label(journey, path) == "RMS NORM":
        where = ", before each sublayer" if first else ""
        return f"RMS norm{where}: divided by the root mean square; no mean is taken away."
    return "The norm stands before each sublayer, not after it." if first else ""


def tell_between(journey: Journey) -> str:
    """What happens to the result of a sublayer before it is added."""
    names = [name for name in SUBLAYERS[journey.side] if journey.steps(f"{journey.layer}.{name}_add")]
    sums = [journey.step(f"{journey.layer}.{name}_add") for name in names]
    found = {str(step.settings[BETWEEN]) for step in sums if step is not None and BETWEEN in step.settings}
    told = {"norm": "goes through a norm of its own", "scale": "is scaled"}
    ways = " and ".join(words for kind, words in told.items() if kind in found)
    return f"What a sublayer gives {ways} before it is added: not drawn." if ways else ""


def tell_places(journey: Journey) -> str:
    """How places are told apart, where nothing is added to the words."""
    for path in attentions(journey):
        if journey.steps(f"{path}.rotate_query"):
            return "Rotary places: queries and keys are turned by their place; nothing is added to the words."
        if journey.steps(f"{path}.bias"):
            return "Relative places: how far apart two words are is added to their score."
    return ""


def tell_cap(journey: Journey) -> str:
    """Scores that tanh keeps small."""
    softmaxes = (journey.step(f"{path}.softmax") for path in attentions(journey))
    capped = any(step is not None and step.settings.get(CAPPED) for step in softmaxes)
    return (
        "Soft cap: scores are divided, bent by tanh and multiplied back before the softmax: not drawn."
        if capped
        else ""
    )


def tell_projection(journey: Journey) -> str:
    """One linear layer for queries, keys and values."""
    for path in attentions(journey):
        if is_fused(journey, path):
            return "One linear layer makes Q, K and V at once; each takes its slice."
    return ""


def tell_heads(journey: Journey) -> str:
    """Key heads that serve several query heads each."""
    for path in attentions(journey):
        times = repeats(journey, path)
        if times:
            return f"Grouped queries: each key head serves {times} query heads."
    return ""


def tell_gate(journey: Journey) -> str:
    """A feed-forward with a gate."""
    path = f"{journey.layer}.feed_forward"
    if not journey.steps(f"{path}.gate"):
        return ""
    activation = journey.step(f"{path}.activation")
    name = activation.op.upper() if activation is not None else "the activation"
    return f"Gated feed-forward: {name} of one linear layer, times another, then down."


def tell_kernel(journeys: list[Journey]) -> str:
    """Attention that never stores its squares."""
    wide = (journey.step(f"{journey.layer}.feed_forward.expand") for journey in journeys)
    if any(step is not None and step.settings.get("derived") for step in wide):
        return "A whole layer runs in one kernel: what is marked “derived” is never stored; its shape follows from x."
    steps = (journey.step(f"{path}.{part}") for journey in journeys for path in attentions(journey) for part in PARTS)
    if any(step is not None and step.settings.get("derived") for step in steps):
        return "Attention runs in one kernel: what is marked “derived” is never stored; its shape follows from Q, K, V."
    return ""


def tell_cache(tale: Tale) -> str:
    """Keys and values that are kept from turn to turn."""
    for journey in tale.decoder:
        if journey.phase == "inference" and len(journey.passes) > 1:
            for path in attentions(journey):
                held = held_shape(journey, path, "key")
                if held is not None:
                    return f"Key-value cache: it holds {held.plain} keys, and as many values, in each layer."
    return ""
