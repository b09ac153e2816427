"""Stations 8 and 9: a score for every word of the vocabulary, and round again."""

from math import log

from xray.story.chapters import Answer, Chapter, Text
from xray.story.scene import PADDING, Scene, count, quote
from xray.story.telling import make_chapter
from xray.story.turns import list_candidates


def tell_out(scene: Scene) -> Chapter:
    """Station 8: logits, then a loss or a word."""
    text = tell_loss(scene) if scene.is_training else tell_word(scene)
    answers = (
        (answer_padding_ignored(scene), answer_flat(scene), answer_guess(scene))
        if scene.is_training
        else (answer_last_row(scene), answer_greedy(scene))
    )
    paths = (
        "head",
        "loss.flatten_logits",
        "loss.flatten_targets",
        "loss.cross_entropy",
        "next_word.last_row",
        "next_word.softmax",
        "next_word.argmax",
    )
    return make_chapter(scene, 8, text, (*answers, answer_shared_head(scene)), (), paths)


def tell_loss(scene: Scene) -> tuple[Text, ...]:
    loss = scene.loss()
    smoothing = scene.setting("label_smoothing", "0")
    number = f" Here it is {loss:.4f}." if loss is not None else ""
    smooth = (
        f" The wish is softened: a share of {smoothing} is spread over all words, so that the model need not be "
        "certain."
        if smoothing not in ("", "0", "0.0")
        else ""
    )
    return (
        (
            "One linear layer gives every place a score for every word of the vocabulary: ",
            scene.shape("head"),
            ". These are logits: any size, not yet probabilities.",
        ),
        (
            "Cross entropy asks at each place how probable the right word was. Batch and places are laid out in one "
            "row, ",
            scene.shape("loss.flatten_logits"),
            " against ",
            scene.shape("loss.flatten_targets"),
            f", and out comes a single number.{number}{smooth}",
        ),
    )


def tell_word(scene: Scene) -> tuple[Text, ...]:
    found = list_candidates(scene.answer)
    listed = ", ".join(f"“{word}” {chance:.1%}" for word, chance in found[:3])
    ranking = f" Ahead are {listed}." if listed else ""
    return (
        (
            "The linear layer gives every place a score for every word: ",
            scene.shape("head"),
            ". Only the last place is of use, the others guess words that are already there: ",
            scene.shape("next_word.last_row"),
            ".",
        ),
        (f"Softmax makes probabilities of the {scene.size('tgt_vocab'):,} scores.{ranking}",),
        (f"Greedy choice takes the largest: {quote(scene.words('new'))}.",),
    )


def answer_padding_ignored(scene: Scene) -> Answer:
    rows = scene.answer.tokens.get("targets", ())
    pads = sum(word == PADDING for row in rows for word in row)
    total = sum(len(row) for row in rows)
    return Answer(
        "Why is padding ignored in the loss?",
        (
            f"Of {count(total, 'place')} in this batch {pads} ask for {PADDING}. Nobody wants to hear that word; "
            "learning it is easy and would drown what matters. So those places count for nothing, and the mean is "
            f"taken over the {total - pads} others.",
        ),
    )


def answer_flat(scene: Scene) -> Answer:
    return Answer(
        "Why is everything flattened?",
        (
            "The loss does not care which answer a place belongs to; it compares one row of scores with one right "
            "word. ",
            scene.shape("head"),
            " becomes ",
            scene.shape("loss.flatten_logits"),
            ": the vocabulary stays the last axis.",
        ),
    )


def answer_guess(scene: Scene) -> Answer:
    loss, words = scene.loss(), scene.size("tgt_vocab")
    smoothing = float(scene.setting("label_smoothing", "0"))
    lowest = (
        f"the wish being softened by {smoothing:g}, even a perfect model cannot come below "
        f"{least_loss(smoothing, words):.2f}"
        if smoothing
        else "being certain and right costs 0"
    )
    seen = f" Here it is {loss:.4f}." if loss is not None else ""
    return Answer(
        "Is that number large?",
        (f"Blind guessing among {words:,} words costs ln {words:,} = {log(words):.2f}; {lowest}.{seen}",),
    )


def least_loss(smoothing: float, words: int) -> float:
    """The cross entropy of a model that says exactly the softened wish."""
    other = smoothing / words
    right = 1 - smoothing + other
    return -right * log(right) - (words - 1) * other * log(other)


def answer_last_row(scene: Scene) -> Answer:
    turn = scene.turn
    return Answer(
        "Why only the last row?",
        (
            "In training every place has a target, so every row counts. Here the words before the last are given; "
            "their rows "
            + (
                "do not exist yet, as this is the first turn."
                if turn == 1
                else f"only say again what turns 1 to {turn - 1} said."
            ),
        ),
    )


def answer_greedy(scene: Scene) -> Answer:
    return Answer(
        "Could it say something else?",
        (
            "Yes: one could draw a word by its probability, or keep several answers alive and choose at the end. "
            "Greedy choice takes the best word each time, which need not make the best sentence, but gives the same "
            "answer every time.",
        ),
    )


def answer_shared_head(scene: Scene) -> Answer:
    tied = scene.setting("sharing", "none") != "none"
    head = scene.step("head")
    own = "It uses the decoder's embedding turned round." if tied else "Here it has weights of its own"
    number = f" ({head.params:,})." if head is not None and not tied else "" if tied else "."
    return Answer(
        "Does this layer share its weights?",
        (
            f"{own}{number} A word's score is its row times the vector of the place, so a word scores high where the "
            "vector points the way its own embedding would.",
        ),
    )


def tell_again(scene: Scene) -> Chapter:
    """Station 9: back-propagation and the next batch, or the new word and the next turn."""
    text = tell_backward(scene) if scene.is_training else tell_append(scene)
    return make_chapter(scene, 9, text, (answer_difference(scene), *more_answers(scene)), (), ("backward", "append"))


def tell_backward(scene: Scene) -> tuple[Text, ...]:
    step = scene.step("backward")
    gradients = step.outputs if step is not None else ()
    numbers = sum(size_of(record.shape) for record in gradients)
    return (
        (
            "From the one number the way is gone back, and for every weight it is found how the loss would change "
            f"with it: {count(len(gradients), 'gradient')} with {numbers:,} numbers, each tensor with the shape of "
            "its weights.",
        ),
        (
            "The optimiser moves all weights a little against them. Then the next batch comes in at station 1, with "
            "other words, other lengths, and the same shapes but for those.",
        ),
    )


def tell_append(scene: Scene) -> tuple[Text, ...]:
    new = scene.words("new")
    turns = len(scene.trace.passes_of("decode"))
    last = scene.turn == turns
    ended = bool(new) and new[0] == "<eos>"
    end = (
        "It is <eos>, so the loop ends."
        if ended
        else "The most turns allowed are reached, so the loop ends without <eos>."
        if last
        else f"It is not <eos>, so turn {scene.turn + 1} begins."
    )
    return (
        (
            f"The word {quote(new)} is put behind the answer, which grows from ",
            scene.entry("append", "answer"),
            " to ",
            scene.shape("append"),
            f". {end}",
        ),
        (f"The whole answer: “{scene.setting('answer')}”.",) if last else ("The encoder does not run again.",),
    )


def answer_difference(scene: Scene) -> Answer:
    turns = len(scene.trace.passes_of("decode"))
    told = f" ({turns} turns for this answer)" if turns else ""
    return Answer(
        "What differs between training and inference?",
        (
            "In training the right answer is known: all its places go through at once, in a batch, with padding, "
            "dropout and a loss. At inference there is one question, encoded once, and the decoder runs once for "
            f"every new word{told}, reading its own words instead of the right ones. Weights, layers and masks are "
            "the same.",
        ),
    )


def more_answers(scene: Scene) -> tuple[Answer, ...]:
    if not scene.is_training:
        return (
            Answer(
                "Is it not wasteful to read everything again?",
                (
                    "It is: thanks to the causal mask the earlier words' keys and values come out the same every "
                    "turn. A key-value cache keeps them, so that only the newest word has to be worked on.",
                ),
            ),
        )
    return (
        Answer(
            "Does the decoder ever see its own mistakes in training?",
            (
                "No. It is always given the right words so far, whatever it would have said: teacher forcing. That is "
                "what lets all places be learnt at once; the price is that at inference it may meet its own errors "
                "unprepared.",
            ),
        ),
    )


def size_of(shape: tuple[int, ...]) -> int:
    """How many numbers a tensor of a shape holds."""
    total = 1
    for size in shape:
        total *= size
    return total
