"""What several chapters need: steps that were really recorded, the strongest look, sizes in words."""

from collections.abc import Iterable

from xray.story.chapters import Answer, Chapter, Debate, Text
from xray.story.scene import Scene
from xray.story.stations import STATIONS
from xray.story.weights.reading import read_pictures

ATTENTION_PARTS = (
    "query",
    "key",
    "value",
    "split_query.view",
    "split_query.transpose",
    "transpose_key",
    "scores",
    "scale",
    "mask",
    "softmax",
    "weighted_sum",
    "concat",
    "output",
)
"""What happens in an attention, in the order in which it is told."""


def make_chapter(
    scene: Scene,
    station: int,
    text: Iterable[Text],
    answers: Iterable[Answer],
    debates: Iterable[Debate],
    paths: Iterable[str],
) -> Chapter:
    """A chapter of a scene; of the paths those that were recorded become its steps."""
    steps = [step.id for step in (scene.step(path) for path in paths) if step is not None]
    return Chapter(
        station=station,
        title=STATIONS[station - 1].title,
        phase=scene.phase,
        turn=scene.turn,
        text=tuple(text),
        answers=tuple(answers),
        debates=tuple(debates),
        steps=tuple(steps),
    )


def tell_strongest(scene: Scene, kind: str, asking: int = -1) -> str:
    """Whom a word of the first sequence looks at most in layer 1, head 1; nothing where no weights were kept.

    `asking` is the place of the word that asks, counted among the words that are no padding.
    """
    one_pass = scene.question if kind == "encoder" else scene.answer
    picture = next(iter(read_pictures(scene.trace, one_pass, kind)), None)
    if picture is None or not picture.queries or not picture.keys or len(picture.weights[0]) != len(picture.keys):
        return ""
    real = [place for place, word in enumerate(picture.queries[: len(picture.weights)]) if word != "<pad>"]
    row = real[asking if -len(real) <= asking < len(real) else -1]
    best = max(range(len(picture.keys)), key=lambda key: picture.weights[row][key])
    whom = "itself" if kind != "cross" and best == row else f"“{picture.keys[best]}”"
    share = picture.weights[row][best]
    return f"In layer 1, head 1, “{picture.queries[row]}” spends {share:.0%} of its attention on {whom}."


def attention_paths(side: str, name: str, layer: int = 0) -> tuple[str, ...]:
    """The steps of one attention in the order in which they are told."""
    path = f"{side}.layers.{layer}.{name}"
    return (*(f"{path}.{part}" for part in ATTENTION_PARTS), f"{path}_add", f"{path}_norm")


def feed_forward_paths(side: str, layer: int = 0) -> tuple[str, ...]:
    """The steps of one feed-forward sublayer."""
    path = f"{side}.layers.{layer}.feed_forward"
    return (f"{path}.expand", f"{path}.activation", f"{path}.contract", f"{path}_add", f"{path}_norm")


def tell_range(scene: Scene, path: str) -> str:
    """Between which two numbers a step's output lies, where that was recorded."""
    found = scene.statistics(path)
    if found is None or found.minimum is None or found.maximum is None:
        return ""
    return f"between {found.minimum:.3g} and {found.maximum:.3g}"


def layers_in_words(scene: Scene, side: str) -> str:
    """How many layers a side has: "all 3 decoder layers"."""
    layers = scene.trace.sizes.get(f"{side}_layers", 0)
    return f"the only {side} layer" if layers == 1 else f"all {layers} {side} layers"
