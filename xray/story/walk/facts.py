"""What the texts of the walk may speak of: the words and numbers of one scene."""

from collections.abc import Callable, Mapping
from math import log, prod, sqrt

from xray.ir.records import VISIBLE
from xray.story.walk.scene import PADDING, Scene, quote
from xray.story.walk.turns import list_candidates
from xray.story.weights.reading import read_pictures
from xray.story.wording import plural, spell_share

AUTHORS = {
    "paper": "the paper (“Attention Is All You Need”)",
    "infographic": "Javier Ideami's X-Ray Transformer infographic",
    "lecture": "Umar Jamil's lecture “Coding a Transformer from scratch on PyTorch”",
    "beginners": "GabMartino's notes “TransformerForDummies”",
    "translator": "JitheshPavan's notes “GPT_Translator”",
}
"""The texts, each by its author and title; where to find them stands in docs/explanation/choices.md."""
PICTURED = 10
TOOLS: Mapping[str, Callable[..., object]] = {
    "count": plural,
    "quote": quote,
    "thousands": lambda number: f"{number:,}",
    "share": spell_share,
    "sqrt": sqrt,
    "log": log,
}
"""How numbers and words are written."""


def gather_facts(scene: Scene) -> dict[str, object]:
    """Everything that a station's text may use, by the name that it has there."""
    turns = len(scene.trace.passes_of("decode"))
    return {
        **AUTHORS,
        **TOOLS,
        "padding": PADDING,
        "training": scene.is_training,
        "turn": scene.turn,
        "turns": turns,
        "shape": scene.shape,
        "given": scene.given,
        "size": scene.size,
        "setting": scene.setting,
        "words": scene.words,
        "real_words": scene.real_words,
        "rows": lambda name: scene.question.tokens.get(name, ()),
        "vocab": lambda side: scene.trace.sizes.get(f"{side}_vocab", 0),
        "layers": lambda side: scene.trace.sizes.get(f"{side}_layers", 0),
        "all_layers": lambda side: describe_layers(scene, side),
        "params": scene.params,
        "hidden": lambda path: measure_hidden(scene, path),
        "range": lambda path: describe_range(scene, path),
        "strongest": lambda kind, asking=-1: describe_strongest(scene, kind, asking),
        "loss": scene.loss(),
        "least_loss": least_loss,
        "candidates": list_candidates(scene.answer),
        "targets": count_targets(scene),
        "gradients": count_gradients(scene),
        "sight": find_sight(scene),
        "question_cells": list_question_cells(scene),
        "whole_answer": whole_answer(scene),
    }


def describe_strongest(scene: Scene, kind: str, asking: int = -1) -> str:
    """Whom a word of the first sequence looks at most in layer 1, head 1; nothing where no weights were kept.

    `asking` is the place of the word that asks, counted among the words that are no padding.
    """
    one_pass = scene.question if kind == "encoder" else scene.answer
    picture = next(iter(read_pictures(scene.trace, one_pass, kind)), None)
    if picture is None or not picture.queries or not picture.keys or len(picture.weights[0]) != len(picture.keys):
        return ""
    real = [place for place, word in enumerate(picture.queries[: len(picture.weights)]) if word != PADDING]
    row = real[asking if -len(real) <= asking < len(real) else -1]
    best = max(range(len(picture.keys)), key=lambda key: picture.weights[row][key])
    whom = "itself" if kind != "cross" and best == row else f"“{picture.keys[best]}”"
    share = picture.weights[row][best]
    return f"In layer 1, head 1, “{picture.queries[row]}” spends {spell_share(share)} of its attention on {whom}."


def describe_range(scene: Scene, path: str) -> str:
    """Between which two numbers a step's output lies, where that was recorded."""
    found = scene.statistics(path)
    if found is None or found.minimum is None or found.maximum is None:
        return ""
    return f"between {found.minimum:.3g} and {found.maximum:.3g}"


def describe_layers(scene: Scene, side: str) -> str:
    """How many layers a side has: "all 3 decoder layers"."""
    layers = scene.trace.sizes.get(f"{side}_layers", 0)
    return f"the only {side} layer" if layers == 1 else f"all {layers} {side} layers"


def measure_hidden(scene: Scene, path: str) -> float | None:
    """What share of its cells a mask hides; None where that is not known."""
    record = scene.shape(path)
    return None if isinstance(record, str) or record.mask is None else record.mask.hidden_share


def least_loss(smoothing: float, words: int) -> float:
    """The cross entropy of a model that says exactly the softened wish."""
    other = smoothing / words
    right = 1 - smoothing + other
    return -right * log(right) - (words - 1) * other * log(other)


def count_targets(scene: Scene) -> Mapping[str, int]:
    """How many places have a target, and how many of them are padding."""
    rows = scene.answer.tokens.get("targets", ())
    return {"all": sum(map(len, rows)), "padding": sum(word == PADDING for row in rows for word in row)}


def count_gradients(scene: Scene) -> Mapping[str, int]:
    """How many tensors of gradients there are, and how many numbers they hold."""
    step = scene.step("backward")
    found = step.outputs if step is not None else ()
    return {"all": len(found), "numbers": sum(prod(record.shape) for record in found)}


def find_sight(scene: Scene) -> Mapping[str, object] | None:
    """A word of the answer with those that it sees and those that come later; None where the mask is not known."""
    words = scene.real_words("decoder_input")
    record = scene.shape("tgt_mask.combine")
    facts = record.mask if not isinstance(record, str) else None
    if not words or facts is None or not facts.cells or len(facts.cells[0]) < len(words):
        return None
    if scene.setting("kv_cache", "False") == "True":
        return {"word": words[-1]}
    asking = min(len(words) - 1, max(0, len(words) // 2))
    seen = [word for word, cell in zip(words, facts.cells[0][asking], strict=False) if cell == VISIBLE]
    return {"word": words[asking], "seen": seen, "later": words[asking + 1 :]}


def list_question_cells(scene: Scene) -> tuple[bool, ...]:
    """For the first words of the question whether they may be looked at."""
    record = scene.shape("src_mask")
    cells = record.mask.cells if not isinstance(record, str) and record.mask is not None else None
    row = cells[0][0] if cells else VISIBLE * len(scene.words("src"))
    return tuple(cell == VISIBLE for cell in row[:PICTURED])


def whole_answer(scene: Scene) -> list[str]:
    """The first answer of the batch, or the one that inference ends up with, framed by its special tokens."""
    last = scene.trace.passes_of("decode")[-1:]
    if scene.is_training or not last:
        return list(scene.real_words("tgt"))
    return [word for name in ("decoder_input", "new") for word in last[0].tokens.get(name, ((),))[0]]
