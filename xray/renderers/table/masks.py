"""Masks drawn cell by cell with block characters: rows are queries, columns are keys, the words stand beside them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.text import Text

from xray.ir.records import BOTH, FUTURE, HIDDEN, PADDING, VISIBLE, TensorRecord
from xray.renderers.table.words import Words, flow
from xray.story.facts.mask_names import name_mask
from xray.story.facts.masks import MaskSquare, MaskStory, describe_blocks, quarter_blocks
from xray.story.wording import spell_share

MEANINGS = {
    VISIBLE: ("visible", "may be read"),
    PADDING: ("padding", "padding"),
    FUTURE: ("future", "future"),
    BOTH: ("both", "padding and future"),
    HIDDEN: ("hidden", "hidden"),
}
MOST_ROWS, MOST_KEYS = 24, 32
FEWEST_ROWS = 8
GAP = 2
GOOD_WORD, SHORTEST_WORD, LONGEST_WORD = 9, 6, 14


@dataclass(frozen=True)
class Frame:
    """How squares are set: how many side by side, how many rows and keys of each, how wide numbers and words are."""

    abreast: int
    rows: int
    keys: int
    number: int
    word: int

    @property
    def width(self) -> int:
        """The cells that one square takes from its row numbers to its last key."""
        return self.number + 1 + (self.word + 1 if self.word else 0) + 2 * self.keys


def draw_legend(stories: Sequence[MaskStory], words: Words, width: int) -> tuple[Text, ...]:
    """What the cells mean, as far as they occur, and how to read rows and columns."""
    seen = {letter for story in stories for square in story.squares for row in square.rows for letter in row}
    cells = [
        draw_cells(letter, words) + Text(f" {meaning} ", no_wrap=True)
        for letter, (_, meaning) in MEANINGS.items()
        if letter in seen
    ]
    reading = "A row is a query, the word that reads. A column is a key, the word that is read."
    return (*flow(cells, width), *flow(words.sentence(reading), width))


def draw_mask(story: MaskStory, words: Words, width: int, *, everything: bool = False) -> Iterator[Text]:
    """One mask: its shape, what it hides and from whom, then its cells, or their first corner where they are many.

    Of several squares a telling few are drawn, as many as fit side by side, unless everything is asked for.
    """
    yield from flow(describe_mask(story, words), width)
    squares = story.squares
    facts = story.record.mask
    if facts is not None and facts.blocks is not None:
        yield from flow(words.sentence(describe_blocks(facts.blocks) + "."), width)
    if not squares and facts is not None and facts.blocks is not None:
        for row in quarter_blocks(facts.blocks)[:MOST_ROWS]:
            yield draw_cells("".join(row[: fit_keys(len(row), width)]), words)
        return
    if not squares:
        yield from flow(words.sentence("Its cells were too many to keep."), width)
        return
    keys, rows = max(len(square.rows[0]) for square in squares), max(len(square.rows) for square in squares)
    if rows == 1:
        frame = Frame(1, 1, fit_keys(keys, width), len(str(len(squares))), 0)
        yield from draw_strips(squares, frame, words, width)
    else:
        frame = fit_frame(squares, words, width)
        shown = squares if everything else choose_squares(squares, frame.abreast)
        for begin in range(0, len(shown), frame.abreast):
            abreast = shown[begin : begin + frame.abreast]
            yield from join_blocks([draw_square(square, story, frame, words) for square in abreast], frame)
        if len(shown) < len(squares):
            yield from flow(words.sentence(f"{len(shown)} of {len(squares)} sequences drawn."), width)
    if frame.keys < keys or frame.rows < rows:
        corner = f"The first {min(rows, frame.rows):,} of {rows:,} rows and {frame.keys:,} of {keys:,} columns."
        yield from flow(words.sentence(corner), width)


def describe_mask(story: MaskStory, words: Words) -> Iterator[Text]:
    """The mask's name, shape, kind, the share that it hides, and who reads it."""
    facts = story.record.mask
    if facts is None:
        return
    dot = words.quiet(f" {words.signs.dot}")
    yield words.strong(story.step.path.removesuffix(".combine")) + dot
    yield words.shape(story.record) + dot
    share = spell_share(facts.hidden_share, short=True)
    kind = "hides nothing" if facts.hidden_share == 0 else f"{name_mask(facts)}, {share} hidden"
    kind = name_mask(facts) if facts.weighs and facts.kind == "none" else kind
    yield words.accent(kind, "boundary") + (dot if story.readers else "")
    for place, (name, count) in enumerate(Counter(story.readers).items()):
        times = f" {words.signs.times} {count}" if count > 1 else ""
        yield words.quiet(("read by " if place == 0 else "and ") + name + times)


def fit_keys(keys: int, width: int) -> int:
    """How many keys of a row can be drawn."""
    return max(1, min(keys, MOST_KEYS, (width - 4) // 2))


def fit_frame(squares: Sequence[MaskSquare], words: Words, width: int) -> Frame:
    """The frame that sets the most squares side by side and still leaves room for their words."""
    keys = fit_keys(max(len(square.rows[0]) for square in squares), width)
    rows = max(len(square.rows) for square in squares)
    rows = rows if rows <= MOST_ROWS else min(MOST_ROWS, max(keys, FEWEST_ROWS))
    number = len(str(rows))
    longest = max((Text(words.clean(word)).cell_len for square in squares for word in square.query_words), default=0)
    for wanted in (min(longest, GOOD_WORD), min(longest, SHORTEST_WORD)):
        abreast = (width + GAP) // (Frame(1, rows, keys, number, wanted).width + GAP)
        if abreast >= 2:
            break
    abreast = max(1, min(abreast, len(squares)))
    room = (width - GAP * (abreast - 1)) // abreast - Frame(1, rows, keys, number, 0).width - 1
    return Frame(abreast, rows, keys, number, min(longest, LONGEST_WORD, room) if room >= 3 else 0)


def choose_squares(squares: Sequence[MaskSquare], count: int) -> tuple[MaskSquare, ...]:
    """A few squares that show the most: the first, the one that hides most, the one that hides least, then the next."""
    wanted = [squares[0], min(squares, key=lambda each: each.visible), max(squares, key=lambda each: each.visible)]
    chosen = list(dict.fromkeys(square.index for square in (*wanted, *squares)))[:count]
    return tuple(square for square in squares if square.index in chosen)


def draw_square(square: MaskSquare, story: MaskStory, frame: Frame, words: Words) -> list[Text]:
    """One square: its name, a ruler over its columns, and a line for each row with the row's number and word."""
    margin = frame.width - 2 * frame.keys
    lines = [words.plain(name_square(square, story))] if len(story.squares) > 1 else []
    lines.append(Text(" " * margin) + draw_ruler(min(frame.keys, len(square.rows[0])), words))
    for number, row in enumerate(square.rows[: frame.rows]):
        label = words.quiet(f"{number + 1:>{frame.number}} ")
        if frame.word:
            word = words.word(square.query_words[number], frame.word) if square.query_words else ""
            label += Text(word) + Text(" " * (frame.word - Text(word).cell_len + 1))
        lines.append(label + draw_cells(row[: frame.keys], words))
    return lines


def draw_strips(squares: Sequence[MaskSquare], frame: Frame, words: Words, width: int) -> Iterator[Text]:
    """Masks of one row each, one below the other, with the words of the row after its cells."""
    several = len(squares) > 1
    margin = frame.number + 1 if several else 0
    yield Text(" " * margin) + draw_ruler(frame.keys, words)
    for number, square in enumerate(squares, start=1):
        label = words.quiet(f"{number:>{frame.number}} ") if several else Text()
        line = label + draw_cells(square.rows[0][: frame.keys], words)
        room = width - line.cell_len - 2
        if square.key_words and room >= SHORTEST_WORD:
            line += Text("  ") + Text(words.word(join_words(square.key_words, words), room))
        line.no_wrap = True
        yield line


def name_square(square: MaskSquare, story: MaskStory) -> str:
    """Which of several squares this is: `sequence 3`, `sequence 3, head 2`."""
    record: TensorRecord = story.record
    names = {"batch": "sequence", "heads": "head", "": "square"}
    parts = [
        f"{names.get(axis, axis)} {place + 1}"
        for place, axis, size in zip(square.index, record.axes, record.shape, strict=False)
        if size > 1
    ]
    return ", ".join(parts)


def draw_ruler(keys: int, words: Words) -> Text:
    """The numbers of the columns, every fifth and the first, each ending where its column ends."""
    marks = "".join(f"{number:2}" if number == 1 or number % 5 == 0 else "  " for number in range(1, keys + 1))
    return words.quiet(marks)


def draw_cells(row: str, words: Words) -> Text:
    """A row of cells, each with its own pattern and its own colour."""
    line = Text(no_wrap=True)
    for letter in row:
        role = MEANINGS.get(letter, MEANINGS[HIDDEN])[0]
        fill = words.theme.cells[role]
        ink = fill if letter == VISIBLE else words.theme.cells["grid"]
        line.append(words.signs.cells.get(letter, words.signs.cells[HIDDEN]), words.style(ink, fill))
    return line


def join_words(sequence: Sequence[str], words: Words) -> str:
    """A sequence as one string, equal words at its end counted instead of repeated."""
    last = len(sequence)
    while last > 1 and sequence[last - 2] == sequence[-1]:
        last -= 1
    repeats = len(sequence) - last + 1
    tail = f" {words.signs.times}{repeats}" if repeats > 1 else ""
    return " ".join(sequence[:last]) + tail


def join_blocks(blocks: Sequence[Sequence[Text]], frame: Frame) -> Iterator[Text]:
    """Blocks of lines set side by side."""
    for lines in zip_longest(*blocks, fillvalue=Text()):
        line = Text(no_wrap=True)
        for place, part in enumerate(lines):
            line += Text(" " * (place * (frame.width + GAP) - line.cell_len)) + part
        yield line
