"""Points on which the texts about transformers differ, each side with what it looks like in this run."""

from xray.ir.records import VISIBLE
from xray.story.chapters import Debate, Opinion
from xray.story.scene import PADDING, Scene, quote

PAPER = "the paper (“Attention Is All You Need”)"
INFOGRAPHIC = "Javier Ideami's X-Ray Transformer infographic"
LECTURE = "Umar Jamil's lecture “Coding a Transformer from scratch on PyTorch”"
BEGINNERS = "GabMartino's notes “TransformerForDummies”"
TRANSLATOR = "JitheshPavan's notes “GPT_Translator”"
"""The texts, each by its author and title; where to find them stands in docs/explanation/choices.md."""

PICTURED = 10
SHADES = {True: "□", False: "■"}


def debate_question_tokens(scene: Scene) -> Debate:
    """Whether the question is framed by special tokens."""
    words = list(scene.real_words("src"))
    return Debate(
        "Does the question get <sos> and <eos>?",
        (
            Opinion(INFOGRAPHIC, "No: it is there as a whole and has no beginning to wait for.", quote(words), True),
            Opinion(
                LECTURE, "Yes, both: they tell the encoder where it ends.", quote(["<sos>", *words, "<eos>"]), False
            ),
        ),
        "Either works, as long as training and use agree; it costs two tokens of every question.",
    )


def debate_mask_value(scene: Scene) -> Debate:
    """What a hidden score becomes."""
    finite = scene.setting("mask_value", "finite") == "finite"
    keys = scene.size("src_len")
    return Debate(
        "What does a hidden score become?",
        (
            Opinion(
                f"{TRANSLATOR}, {PAPER}",
                "Minus infinity: e to that power is exactly 0.",
                f"a row with all {keys} keys hidden: 0 / 0 = NaN",
                not finite,
            ),
            Opinion(
                f"{BEGINNERS}, {LECTURE}",
                "A large negative number (−1e15, −1e9; here the lowest there is), for numerical safety.",
                f"a row with all {keys} keys hidden: 1/{keys} = {1 / max(1, keys):.3f} for each",
                finite,
            ),
        ),
        "Where at least one key is visible both give the same weights. X-Ray's model never lets a NaN through: with "
        "−inf it sets such rows to zero.",
    )


def debate_padding_rows(scene: Scene) -> Debate:
    """Whether padding may ask."""
    words = scene.words("src")
    pads = sum(word == PADDING for word in words)
    return Debate(
        "Does the padding mask hide columns, or rows too?",
        (
            Opinion(
                f"{INFOGRAPHIC}, {LECTURE}",
                "Columns: nobody looks at padding. What padding itself looks at does not matter.",
                f"{pads} of {len(words)} columns hidden in the first question",
                True,
            ),
            Opinion(
                BEGINNERS,
                "Rows and columns: a padded word shall not ask either.",
                f"{pads} columns and {pads} rows, {len(words) ** 2 - (len(words) - pads) ** 2} of {len(words) ** 2} "
                "cells",
                False,
            ),
        ),
        "With the rows hidden as well, a padded query has no visible key left, which is how NaN comes in. The loss "
        "ignores those rows anyway.",
    )


def debate_norm(scene: Scene) -> Debate:
    """Where layer norm stands."""
    before = scene.setting("norm", "after") == "before"
    return Debate(
        "Does layer norm come before or after?",
        (
            Opinion(
                f"{PAPER}, {INFOGRAPHIC}",
                "After the sum, so that what leaves a layer is always normalised.",
                "x = norm(x + sublayer(x))",
                not before,
            ),
            Opinion(
                LECTURE,
                "Before the sublayer, as most code does today, with one more norm at the very end.",
                "x = x + sublayer(norm(x))",
                before,
            ),
        ),
        "Norm first leaves the sum untouched from bottom to top and trains without a warm-up; the paper warms up.",
    )


def debate_cross_mask(scene: Scene) -> Debate:
    """Whether cross-attention hides the question's padding."""
    padded = scene.setting("cross_mask", "padding") == "padding"
    words = scene.words("src")
    mask = scene.shape("src_mask")
    cells = mask.mask.cells if not isinstance(mask, str) and mask.mask is not None else None
    row = cells[0][0] if cells else "." * len(words)
    shown = "".join(SHADES[cell == VISIBLE] for cell in row[:PICTURED])
    return Debate(
        "Does cross-attention need a mask?",
        (
            Opinion(
                f"{INFOGRAPHIC}, {LECTURE}, {TRANSLATOR}",
                "Yes, the padding mask of the question: no answer word should learn from filler.",
                f"{shown}  □ may be looked at, ■ hidden",
                padded,
            ),
            Opinion(
                BEGINNERS,
                "No: the paper lets every answer place look at all places of the input, which the encoder has worked "
                "through.",
                f"{SHADES[True] * len(shown)}  all may be looked at",
                not padded,
            ),
        ),
        "For a question without padding, as at inference, both are the same. In a batch the first is safer: the "
        "vectors that stand for filler hold whatever the encoder made of nothing.",
    )


def debate_shift(scene: Scene) -> Debate:
    """How input and target are cut from one answer."""
    words = whole_answer(scene)
    return Debate(
        "How is the answer shifted?",
        (
            Opinion(
                INFOGRAPHIC,
                "Cut: the decoder reads all but the last token, the target is all but the first.",
                f"{quote(words[:-1])} → {quote(words[1:])}",
                True,
            ),
            Opinion(
                LECTURE,
                "Build two: one with only <sos> put before it, one with only <eos> put behind it.",
                f"{quote(words[:-1])} → {quote(words[1:])}",
                False,
            ),
            Opinion(
                BEGINNERS,
                "Roll the answer one place to the left and overwrite the end with padding.",
                f"{quote(words)} → {quote([*words[1:], PADDING])}",
                False,
            ),
        ),
        "All three teach the same: at each place, say the next word. The paper's diagram calls it “shifted right”, "
        "seen from the decoder's input.",
    )


def whole_answer(scene: Scene) -> list[str]:
    """The first answer of the batch, or the one that inference ends up with, framed by its special tokens."""
    last = scene.trace.passes_of("decode")[-1:]
    if scene.is_training or not last:
        return list(scene.real_words("tgt"))
    return [word for name in ("decoder_input", "new") for word in last[0].tokens.get(name, ((),))[0]]
