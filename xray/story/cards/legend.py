"""What colours, lines, outlines and cells mean, those that occur."""

from collections.abc import Collection, Sequence

from xray.story.anatomy.attentions import Looking
from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told, draw_card
from xray.story.layout import Cells, Line, Run, line_width
from xray.story.sentences.of_masks import list_letters
from xray.story.shapes import hue
from xray.story.sheet.canvas.look import CONDITION
from xray.story.type_sizes import LABEL, NOTE
from xray.story.wording import fit_text

LANES = {"q": "queries", "k": "keys", "v": "values"}
MOST_NAMED = 3
"""So many towers of one colour are named."""


def draw_legend(told: Told, canvas: Canvas, top: float) -> float:
    """What colours, lines and outlines mean, those that occur; beside them the cells, where masks are drawn."""
    entries = list_entries(told)
    letters = list_seen(told) if told.has_masks_beside else []

    def draw(y: float) -> float:
        start = y
        for kind, role, text in entries:
            draw_swatch(canvas, kind, role, told.left + 14, y)
            canvas.note(told.left + 48, y, (words(text, NOTE),), "card")
            y -= 17.5
        if letters:
            x = told.left + 48 + max(canvas.text_width(text, NOTE) for _, _, text in entries) + 18
            y = min(y, draw_letters(told, canvas, x, start, letters))
        return draw_axes(told, canvas, y)

    return draw_card(told, canvas, top, "COLOURS", draw)


def list_entries(told: Told) -> list[tuple[str, str, str]]:
    """What is told of colours: how it is shown, the role, and what it means."""
    nodes = list(told.nodes())
    entries: list[tuple[str, str, str]] = []
    asked = list_asked(told)
    givers = {link.source for link in told.anatomy.links}
    for role in dict.fromkeys(look.own for _, _, look in told.frames):
        names = list(dict.fromkeys(tower.name for tower, _, look in told.frames if look.own == role))
        is_of_others = role in asked and (givers.isdisjoint(names) or not asked[role].issubset(names))
        told_of = (
            f"{name_makers(names)}, or from {name_others(asked[role].difference(names))}"
            if is_of_others
            else name_makers(names, is_asked=role in asked)
        )
        entries.append(("fill", role, told_of))
    if told.has_between:
        entries.append(("fill", "card", "between towers"))
    if any(node.surface == "mask" for node in nodes):
        entries.append(("fill", "mask", "a mask is applied"))
    lanes = {node.key.rpartition("_")[2] for node in nodes if node.surface == "memory"}
    gives = told.has_ribbons and any(link.kind != "memory" for link in told.anatomy.links)
    memory = name_memory(lanes) if lanes else ""
    if lanes and not told.has_ribbons:  # given to the model (BLIP-2's Q-Former), or made by an earlier layer (Gemma 3n)
        made, what = {look.own for _, _, look in told.frames}, memory.removeprefix("memory: ")
        entries += [("fill", role, f"from elsewhere: {what}") for role in sorted(asked.keys() - made)]
    elif lanes or told.has_ribbons:  # those of joint attention may end at boxes of the stream's own (Evolla's rows)
        entries.append(("line", "ribbon", f"{memory}; or rows" if lanes and gives else memory or GIVEN))
    if told.has_condition:
        entries.append(("fill", CONDITION, name_condition(told)))
    elif told.has_brought:
        entries.append(("fill", CONDITION, "made beside the tower"))
    entries += [("line", role, f"{role} path") for role in told.roles if role != "forward"]
    entries.append(("outline", "boundary", "enters or leaves a sublayer"))
    if told.has_turns:
        entries.append(("line", "boundary", "goes on in the next column"))
    if told.marked:
        said = {"change": "changed", "failure": "failed", "alarm": "an alarm"}[told.marked]
        entries.append(("outline", "change" if told.marked == "change" else "failure", said))
    return entries


GIVEN = "what a tower gives another"


def list_asked(told: Told) -> dict[str, set[str | None]]:
    """The colours of what attentions take from beside their stream, each with the towers that are proven to give it.

    None is among these where it is not proven of one that it takes from such alone.
    """
    found: dict[str, set[str | None]] = {}
    for _, frames, look in told.frames:
        for panel in (one for frame in frames for one in frame.panels):
            if any(node.surface == "memory" for node in panel.chart.nodes):
                looking = [
                    one for one in panel.staging.stage.branches if isinstance(one, Looking) and one.leaves_stream
                ]
                sources = [None if getattr(one, "is_of_unknown", False) else one.source for one in looking]
                sources += [name for one in looking for name in getattr(one, "with_others", ())]
                found.setdefault(look.memory, set()).update(sources)
    return found


def name_memory(lanes: Collection[str]) -> str:
    """What comes from elsewhere into attentions, by the lanes that it goes through: queries alone, maybe (GCViT)."""
    held = {letter for lane in lanes if {*LANES}.issuperset(lane) for letter in lane}
    *former, last = (name for letter, name in LANES.items() if letter in held) if held else ("keys", "values")
    return f"memory: {', '.join(former)} and {last}" if former else f"memory: {last}"


def name_condition(told: Told) -> str:
    """What a condition does to a stream where norms of it are scaled or shifted so; else where it is made (Gemma 4)."""
    stages = (stage for tower, _, _ in told.frames for group in tower.groups for stage in group.stages)
    modulates = any(stage.norm.adaptive for stage in stages)
    if any(tower.looked_at for tower, _, _ in told.frames) and not modulates:
        return "looked at: made beside the stream"
    done = dict.fromkeys(way for tower, _, _ in told.frames for way in tower.conditioned)
    return f"condition: {', '.join(done)}" if modulates and done else "condition: made beside the stream"


def name_makers(names: Sequence[str], *, is_asked: bool = False) -> str:
    """What a colour says: which towers made what has it; how many, where they are more than have room.

    Where attentions of others ask one of them, their keys and values have its colour and are made of what it gave.
    """
    made = "comes from" if is_asked else "made by"
    if len(names) == 1:
        return f"{made} the {names[0]}"
    told = f"the {', '.join(names[:-1])} and {names[-1]}" if len(names) <= MOST_NAMED else f"{len(names)}"
    return f"{made} {told} towers"


def name_others(givers: Collection[str | None]) -> str:
    """From where else what has a colour comes: towers that are proven to give it (Kandinsky 6), or not known."""
    known = [f"the {name}" for name in sorted(name for name in givers if name is not None)][:MOST_NAMED]
    is_all = known and None not in givers and len(known) == len(givers)
    return " or ".join(known if is_all else [*known, "elsewhere"])


def list_seen(told: Told) -> list[tuple[str, str]]:
    """The cells of masks that occur, and what they mean."""
    masks = {record.mask for step in told.trace.steps for record in step.inputs if record.mask is not None}
    return list_letters({letter for mask in masks for matrix in mask.cells or () for row in matrix for letter in row})


def draw_letters(told: Told, canvas: Canvas, x: float, y: float, letters: Sequence[tuple[str, str]]) -> float:
    """What the cells of a mask mean, beside the colours."""
    heading = fit_text("ROW = QUERY, COLUMN = KEY", NOTE, told.left + told.width - 6 - x, canvas.measure, "bold")
    canvas.note(x, y + 19, (words(heading, NOTE, "accent:title", "bold"),), "card")
    for letter, text in letters:
        canvas.cells.append(Cells(f"legend_{letter}", x, y, 12, ((letter,),), "legend"))
        canvas.note(x + 20, y, (words(text, NOTE),), "card")
        y -= 17.5
    notes: list[Line] = [(Run("1", LABEL, "axis:other", "bold"), Run("  in a mask: broadcast", NOTE))]
    if "inference" in told.roles:
        notes.append((Run("t", LABEL, "axis:tgt_len", "bold"), Run("  the turn: 1, 2, 3 …", NOTE)))
    return canvas.note(x, y, tuple(notes), "card").bottom


def draw_axes(told: Told, canvas: Canvas, y: float) -> float:
    """The axis words that occur, each in the hue that its digits have everywhere."""
    seen = dict.fromkeys(
        axis for node in told.nodes() if node.record for axis in node.record.axes if axis not in ("", "1")
    )
    line: Line = ()
    for axis in seen:
        piece = Run(axis + "   ", NOTE, hue(axis), "semibold")
        if line and line_width((*line, piece), canvas.measure) > told.width - 28:
            y = canvas.note(told.left + 14, y - 2, (line,), "card").bottom
            line = ()
        line = (*line, piece)
    return canvas.note(told.left + 14, y - 2, (line,), "card").bottom if line else y


def draw_swatch(canvas: Canvas, kind: str, role: str, left: float, top: float) -> None:
    """A sample of a colour, a line or an outline."""
    middle = top - 6.5
    if kind == "line":
        ends, dashed = ((left, middle), (left + 26, middle)), role == "inference"
        canvas.line(*ends, role=role, width=3, dashed=dashed, kind="legend", head_size=0.5 if dashed else 0.6)
    elif kind == "outline":
        canvas.panel(left + 1, middle - 5, left + 25, middle + 5, "card", 4, role, 2.2)
    else:
        canvas.panel(left, middle - 6, left + 26, middle + 6, role, 4)
