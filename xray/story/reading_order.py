"""What each station says in the reading order."""

from xray.story.journey import Tale

READING = {
    1: ("Words become ids, ids vectors; places are added.", "The question: ids, vectors, places; read once."),
    2: ("Every word of the question looks at every other.",) * 2,
    3: ("Each word alone, wider and back: the memory.",) * 2,
    4: ("Answers shifted by one: read a word, say the next.", "The answer starts with <sos>, grows by one each turn."),
    5: ("The answer looks at itself, never ahead.",) * 2,
    6: ("The answer asks, the memory holds keys and values.",) * 2,
    7: ("Each word of the answer alone, wider and back.",) * 2,
    8: ("A score for every word, compared with the target.", "Last row, softmax, argmax: the next word."),
    9: ("Gradients flow back, weights move, a new batch.", "The word is appended; decode again until <eos>."),
}
BOTH = {
    8: "Training: loss. Inference: softmax, argmax, a word.",
    9: "Gradients and a new batch, or append and go again.",
}


def reading_lines(tale: Tale) -> list[tuple[int, str]]:
    """What each station says in this poster."""
    place = 0 if "training" in tale.phases else 1
    both = BOTH if len(tale.phases) == 2 else {}
    lines = {number: both.get(number, sentences[place]) for number, sentences in READING.items()}
    if "training" in tale.phases and not tale.goes_back:
        lines[9] = READING[9][1] if both else ""
    return [(number, line) for number, line in lines.items() if line]
