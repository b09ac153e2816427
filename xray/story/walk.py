"""The walk: nine chapters for a training step and for every turn of inference, told with the run's own words."""

from xray.ir.trace import Trace
from xray.story.chapters import Chapter
from xray.story.scene import Scene, list_scenes
from xray.story.walk_answer import tell_answer_in, tell_decoder_feed_forward, tell_looking_back
from xray.story.walk_cross import tell_cross_attention
from xray.story.walk_end import tell_again, tell_out
from xray.story.walk_question import tell_encoder_attention, tell_feed_forward, tell_question_in

TELLERS = (
    tell_question_in,
    tell_encoder_attention,
    tell_feed_forward,
    tell_answer_in,
    tell_looking_back,
    tell_cross_attention,
    tell_decoder_feed_forward,
    tell_out,
    tell_again,
)
"""Who tells which station, in order."""


def tell_walk(trace: Trace) -> tuple[Chapter, ...]:
    """All chapters of a trace, station by station; none for a trace that is not of X-Ray's transformer."""
    scenes = list_scenes(trace)
    return tuple(tell(scene) for tell in TELLERS for scene in scenes)


def tell_scene(scene: Scene) -> tuple[Chapter, ...]:
    """The nine chapters of one scene."""
    return tuple(tell(scene) for tell in TELLERS)
