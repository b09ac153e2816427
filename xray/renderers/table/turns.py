"""The turns of decoding as one table: a row for each word that the answer grew by."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from xray.renderers.table.words import Words, flow
from xray.story.walk.turns import Turn

READS, CACHED = "the decoder reads", "the answer so far"
"""What the words of a turn are: all that is read, or where a cache holds the others, more than that."""

HEADINGS = ("turn", READS, "next word", "tgt_len", "mask", "scores", "cross scores")
LONGEST_WORD = 16


def draw_turns(turns: Sequence[Turn], words: Words, width: int) -> Iterator[RenderableType]:
    """One row for each turn: what the decoder read, the shapes that grow with it, and the word that it chose."""
    rows = [list(turn_cells(turn, words)) for turn in turns]
    natural = [max(Text(title).cell_len, *(row[n].cell_len for row in rows)) for n, title in enumerate(HEADINGS)]
    for kept, shortest_read in ((7, 26), (6, len(READS))):
        widths = natural[:kept]
        room = width - sum(widths) - 2 * (kept - 1)
        if room >= 0 or widths[1] + room >= shortest_read:
            widths[1] += min(room, 0)
            widths[-1] += max(room, 0)
            yield tabulate(turns, rows, widths, words)
            return
    yield from list_turn_lines(turns, rows, words, width)


def turn_cells(turn: Turn, words: Words) -> Iterator[Text]:
    """What each column says of a turn, the words that were read in full."""
    yield words.quiet(str(turn.number))
    yield Text(" ".join(words.word(word, LONGEST_WORD) for word in turn.words))
    yield Text(words.word(turn.chosen, LONGEST_WORD), words.bold_accent("inference"), no_wrap=True)
    yield Text(str(turn.tgt_len), words.axis("tgt_len"))
    for record in (turn.mask, turn.scores, turn.cross_scores):
        yield Text() if record is None else words.shape(record)


def tabulate(turns: Sequence[Turn], rows: Sequence[Sequence[Text]], widths: Sequence[int], words: Words) -> Table:
    """The turns as a table of columns with these widths; what was read is cut at its beginning."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    for width in widths[:-1]:
        table.add_column(width=width + 1, no_wrap=True, overflow="crop")
    table.add_column(width=widths[-1], no_wrap=True, overflow="crop")
    is_cached = any(turn.is_cached for turn in turns)
    headings = [CACHED if is_cached and title == READS else title for title in HEADINGS]
    table.add_row(*map(words.quiet, headings[: len(widths)]))
    for place, (turn, row) in enumerate(zip(turns, rows, strict=True)):
        cells = (row[0], last_words(turn.words, widths[1], words), *row[2 : len(widths)])
        table.add_row(*cells, style=words.surface("card") if place % 2 else None)
    return table


def last_words(said: Sequence[str], width: int, words: Words) -> Text:
    """The words of an answer, those at its end where not all fit."""
    kept: list[str] = []
    for word in reversed(said):
        shown = words.word(word, LONGEST_WORD)
        missing = len(said) > len(kept) + 1
        room = width - (Text(words.signs.more).cell_len + 1 if missing else 0)
        if Text(" ".join([shown, *kept])).cell_len > room:
            return words.quiet(words.signs.more + " ") + Text(" ".join(kept))
        kept.insert(0, shown)
    return Text(" ".join(kept), no_wrap=True)


def list_turn_lines(turns: Sequence[Turn], rows: Sequence[Sequence[Text]], words: Words, width: int) -> Iterator[Text]:
    """The turns where there is no room for a table: each on a few lines."""
    for turn, row in zip(turns, rows, strict=True):
        yield words.strong(f"turn {turn.number}")
        yield Text("  ") + last_words(turn.words, width - 2, words)
        pieces = [words.quiet("tgt_len"), row[3], words.quiet("mask"), row[4], words.quiet("scores"), row[5]]
        for line in flow(pieces, width - 2):
            yield Text("  ") + line
        word = Text(words.word(turn.chosen, width - 6), words.bold_accent("inference"))
        yield Text("  ") + words.quiet(f"{words.signs.arrow} ") + word
