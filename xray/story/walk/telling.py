"""The chatbot's walk: nine chapters for a training step and for every turn of inference, in the run's own words."""

from xray.ir.trace import Trace
from xray.story.walk.chapters import Chapter
from xray.story.walk.facts import gather_facts
from xray.story.walk.prose import fill_in
from xray.story.walk.scene import Scene, list_scenes
from xray.story.walk.stations import STATIONS

ATTENTION = (
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
EMBEDDING = ("words", "scale", "positions", "add")
OUT = ("head", "loss.flatten_logits", "loss.flatten_targets", "loss.cross_entropy")
NEXT_WORD = ("next_word.last_row", "next_word.softmax", "next_word.argmax")


def list_attention(path: str) -> tuple[str, ...]:
    """The steps of one attention in the order in which they are told."""
    return (*(f"{path}.{part}" for part in ATTENTION), f"{path}_add", f"{path}_norm")


def list_forward(path: str) -> tuple[str, ...]:
    """The steps of one feed-forward sublayer."""
    return (f"{path}.expand", f"{path}.activation", f"{path}.contract", f"{path}_add", f"{path}_norm")


TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("1_question_in", ("tokenize.src", "src_mask", *(f"encoder.embedding.{part}" for part in EMBEDDING))),
    ("2_encoder_self_attention", list_attention("encoder.layers.0.self_attention")),
    ("3_feed_forward", (*list_forward("encoder.layers.0.feed_forward"), "encoder")),
    (
        "4_answer_in",
        (
            *("tokenize.tgt", "shift", "tgt_mask.padding", "tgt_mask.causal", "tgt_mask.combine"),
            *(f"decoder.embedding.{part}" for part in EMBEDDING if part != "scale"),
        ),
    ),
    ("5_decoder_self_attention", list_attention("decoder.layers.0.self_attention")),
    ("6_cross_attention", list_attention("decoder.layers.0.cross_attention")),
    ("7_feed_forward", (*list_forward("decoder.layers.0.feed_forward"), "decoder")),
    ("8_out", (*OUT, *NEXT_WORD)),
    ("9_again", ("backward", "append")),
)
"""Station by station its text in `templates/walk`, and the steps to look at."""


def list_chapters(trace: Trace) -> tuple[Chapter, ...]:
    """All chapters of a trace, station by station; none where no words went through a pair of towers."""
    scenes = [write_chapters(scene) for scene in list_scenes(trace)]
    return tuple(chapters[station] for station in range(len(TEXTS)) for chapters in scenes)


def write_chapters(scene: Scene) -> tuple[Chapter, ...]:
    """The nine chapters of one scene."""
    facts = gather_facts(scene)
    chapters = []
    for station, (name, paths) in zip(STATIONS, TEXTS, strict=True):
        prose = fill_in(name, facts)
        steps = tuple(step.id for path in paths if (step := scene.step(path)) is not None)
        chapters.append(
            Chapter(
                station=station.number,
                title=station.title,
                phase=scene.phase,
                turn=scene.turn,
                text=prose.text,
                answers=prose.answers,
                debates=prose.debates,
                steps=steps,
            )
        )
    return tuple(chapters)
