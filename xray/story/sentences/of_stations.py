"""The stations, in the order in which data passes them, and what happens at each."""

from collections.abc import Sequence

from xray.story.anatomy.tree import Attention, Convolution, Experts, FeedForward, Recurrence, Tower
from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told
from xray.story.sheet.placing import draw_station
from xray.story.sheet.words import Words
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import wrap


def draw_reading(told: Told, canvas: Canvas, top: float) -> float:
    """The stations, in the order in which data passes them."""
    canvas.note(told.left, top, (words("READ IT FROM THE BOTTOM UP", LABEL, "accent:station", "bold"),))
    y = top - 28
    for number, text in told.stations:
        lines = tuple(words(line, NOTE) for line in wrap(text, NOTE, told.width - 34, canvas.measure, 2))
        draw_station(canvas, told.left + 9, y, number, 9, "reading")
        canvas.note(told.left + 26, y + len(lines) * NOTE * 0.56, lines)
        y -= 19 if len(lines) == 1 else 31
    return y + 8


def describe_station(tower: Tower, branch: object) -> str:
    """What happens at the station of a branch; no more than is proven."""
    if isinstance(branch, Attention):
        if branch.source != "self":
            source = f"the {branch.source}" if branch.source else "another tensor"
            return f"The {tower.name} asks; keys and values come from {source}."
        if branch.beside:
            return f"Places look at each other, and at those of {branch.beside}."
        if branch.window:
            return f"Every place looks at no more than {branch.window} places."
        causal = branch.causal
        return {
            True: "Every place looks back, never ahead.",
            False: "Every place looks at every other.",
            None: "Places look at each other.",
        }[causal]
    if isinstance(branch, FeedForward):
        if branch.kernel is not None:
            return "Each place wider, mixed with its neighbours, and back."
        return "Each place alone, wider and back."
    if isinstance(branch, Experts):
        few = f"{branch.chosen} of {branch.experts} experts" if branch.chosen and branch.experts else "experts"
        return f"Each place alone, through {few}."
    if isinstance(branch, Recurrence):
        return "A state goes from place to place and is changed by each."
    if isinstance(branch, Convolution):
        return "Each place is mixed with its neighbours."
    return "Operations without a common name."


def describe_entrance(tower: Tower, reads: Sequence[Words] = ()) -> str:
    """What goes in; `reads` are the words of every phase."""
    parts = {part.part: part for part in tower.entrance}
    if reads:
        return describe_words(reads, "positions" in parts)
    patches = ", one for each patch" if "patches" in parts else ""
    first = {
        "ids": "Ids become vectors.",
        "image": f"An image becomes vectors{patches}.",
        "audio": "A signal becomes vectors.",
        "vectors": "Vectors come in.",
    }.get(tower.reads or "", "What goes in.")
    if "positions" not in parts:
        return first
    return first + (" Learned places are added." if parts["positions"].learned else " Places are added.")


def describe_words(reads: Sequence[Words], has_places: bool) -> str:
    """What goes in where words were recorded."""
    first = reads[0]
    if first.shift is not None:
        return "Answers shifted by one: read a word, say the next."
    if first.is_answer:
        start = first.read_in(first.first)
        return f"The answer starts with {' '.join(start)}, grows by one each turn."
    places = "; places are added" if has_places else ""
    if first.first.kind == "encode":
        return f"The question: ids, vectors{', places' if has_places else ''}; read once."
    return f"Words become ids, ids vectors{places}."
