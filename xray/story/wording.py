"""Words made to fit: rows of tokens shortened in the middle, sentences broken into lines, long numbers grouped."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise, takewhile

from xray.config import PAD, SPECIAL_TOKENS
from xray.story.layout import Line, Measure, Run, Weight, line_width
from xray.text import show_controls

PADDING = SPECIAL_TOKENS[PAD]
ELLIPSIS = "…"
MOST_DRAWN = 1000
"""No line holds more characters than this."""
MOST_UNEVEN = 9
"""So many stretches of layers are told where they follow no rule."""
MOST_ODD = 3
"""So many last layers of a list may be at another distance than the others."""

LONGEST_WORD = 60


def fit_text(text: str, size: int, width: float, measure: Measure, weight: Weight = "regular") -> str:
    """The text itself where it fits the width, else its beginning and an ellipsis."""
    text = show_controls(text)
    if len(text) <= MOST_DRAWN and measure(text, size, weight) <= width:
        return text
    text = text[:MOST_DRAWN]
    over = bisect_left(
        range(2, len(text) + 1), True, key=lambda kept: measure(text[:kept] + ELLIPSIS, size, weight) > width
    )
    return text[: over + 1].rstrip() + ELLIPSIS


def wrap_words(
    words: Sequence[str], size: int, width: float, measure: Measure, most: int, weight: Weight = "regular"
) -> tuple[str, ...]:
    """The words on at most so many lines, each within the width; what is left over becomes an ellipsis."""
    lines: list[str] = []
    for word in words:
        piece = fit_text(word, size, width, measure, weight)
        if lines and measure(f"{lines[-1]} {piece}", size, weight) <= width:
            lines[-1] = f"{lines[-1]} {piece}"
        elif len(lines) < most:
            lines.append(piece)
        else:
            lines[-1] = fit_text(f"{lines[-1]} {ELLIPSIS}", size, width, measure, weight)
            if not lines[-1].endswith(ELLIPSIS):
                lines[-1] = lines[-1][:-2] + ELLIPSIS
            break
    return tuple(lines)


def wrap_evenly(
    words: Sequence[str], size: int, width: float, measure: Measure, most: int, weight: Weight = "regular"
) -> tuple[str, ...]:
    """The words on as many lines as they need, none of them wider than it has to be: no word is left alone."""
    lines = wrap_words(words, size, width, measure, most, weight)
    if " ".join(lines) != " ".join(words):
        return lines
    while len(lines) > 1:
        narrower = max(measure(line, size, weight) for line in lines) - 1
        closer = wrap_words(words, size, narrower, measure, most, weight)
        if len(closer) > len(lines) or " ".join(closer) != " ".join(words):
            break
        lines = closer
    return lines


def wrap(text: str, size: int, width: float, measure: Measure, most: int = 99) -> tuple[str, ...]:
    """A sentence broken into lines."""
    return wrap_words(text.split(" "), size, width, measure, most)


def token_lines(rows: Sequence[Sequence[str]], size: int, width: float, measure: Measure) -> tuple[Line, ...]:
    """Rows of tokens; where padding has to be counted in one, it is counted in all."""
    whole = [token_runs(*spelt(row, counted=False), size) for row in rows]
    if all(line_width(line, measure) <= width for line in whole):
        return tuple(whole)
    return tuple(token_line(row, size, width, measure, counted=True) for row in rows)


def spelt(tokens: Sequence[str], *, counted: bool) -> tuple[str, str]:
    """The words of a row and the padding after them, in full or counted."""
    words = [show_word(token) for token in tokens]
    length = len(words)
    while length and tokens[length - 1] == PADDING:
        length -= 1
    pads = len(words) - length
    padding = f" {PADDING}" * pads if not counted else f" {PADDING} ×{pads}" if pads else ""
    return " ".join(words[:length]), padding


def show_word(word: str) -> str:
    """A word as it is shown; of one that nobody wrote, its beginning."""
    shown = show_controls(word)
    return shown if len(shown) <= LONGEST_WORD else shown[:LONGEST_WORD] + ELLIPSIS


def token_line(tokens: Sequence[str], size: int, width: float, measure: Measure, *, counted: bool = False) -> Line:
    """A row of tokens, its padding quiet; where it is too long, padding is counted, then the middle left out."""
    for form in (False, True) if not counted else (True,):
        text, padding = spelt(tokens, counted=form)
        line = token_runs(text, padding, size)
        if line_width(line, measure) <= width:
            return line
    room = width - measure(padding, size, "regular") - 2
    words = [show_word(token) for token in tokens if token != PADDING]
    for kept in range(len(words) - 1, 2, -1):
        head = " ".join([*words[: (kept + 1) // 2], ELLIPSIS, *words[len(words) - kept // 2 :]])
        if measure(head, size, "regular") <= room:
            return token_runs(head, padding, size)
    return token_runs(fit_text(text, size, room, measure), padding, size)


def token_runs(words: str, padding: str, size: int) -> Line:
    runs = (Run(words, size, "text"), Run(padding, size, "quiet"))
    return tuple(run for run in runs if run.text)


def spell_steps(sizes: Sequence[int]) -> str:
    """By how many places one moves on: one number where that is so along every axis (PP-OCR's go down alone)."""
    return str(sizes[0]) if len(set(sizes)) == 1 else "×".join(map(str, sizes))


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun, "1 row", "1,024 rows"."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def spell_factor(value: float) -> str:
    """A number as one writes it: as it is where five digits are enough (1/64), else by its first four."""
    whole = f"{value:.5g}"
    return whole if float(whole) == value else f"{value:.4g}"


def spell_share(share: float, *, short: bool = False) -> str:
    """A share in per cent, as 43%; what is not all is told as no 100%, and what is not nothing as no 0%.

    In a table that is `short`: ">99%", "<1%".
    """
    told = f"{share:.0%}"
    if told == "100%" and share < 1:
        return ">99%" if short else "more than 99%"
    if told == "0%" and share > 0:
        return "<1%" if short else "less than 1%"
    return told


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Some words in a row, "and" or another one before the last."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def spell_layers(layers: Sequence[int], begun: int | None = None) -> str:
    """The numbers of layers from 1, as ranges; a long list is shortened in the middle, to so many at its beginning.

    Last ones, three at most, that are not as far from the one before as all others are from each other stand behind
    that (Beam, Zamba 2). Where those in the middle follow no rule they are counted, if they are too many to be told
    (NeoMME).
    """
    runs: list[list[int]] = []
    for number in layers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [f"{run[0] + 1}" if len(run) == 1 else f"{run[0] + 1}–{run[-1] + 1}" for run in runs]
    if len(told) <= (5 if begun is None else begun + 1):
        return ", ".join(told)
    most = MOST_UNEVEN if begun is None else begun
    begun = begun or 3
    apart = [later[0] - run[0] for run, later in pairwise(runs[begun - 1 :])]
    odd = len(list(takewhile(lambda gap: gap != apart[0], reversed(apart))))
    is_even = len({*apart[: len(apart) - odd]}) == 1 and odd <= min(MOST_ODD, len(apart) - 2)
    if not is_even and len(told) > most:
        return f"{', '.join(told[:begun])} and {sum(map(len, runs[begun:]))} more"
    ends = 1 + odd if is_even and len(told) > begun + odd + 1 else 1
    return f"{', '.join(told[:begun])} … {', '.join(told[-ends:])}" if is_even else ", ".join(told)


def spell_held(steps: Sequence[tuple[str, float]]) -> str:
    """What is done to numbers one after the other: between which bounds they are held, what is added to all of them."""
    told: list[str] = []
    for place, (name, value) in enumerate(steps):
        text = f"{value:g}".replace("-", "−")
        low = steps[place - 1][1] if place and name == "most" and steps[place - 1][0] == "least" else None
        if low is not None:
            told[-1] = f"within ±{text}" if low == -value else f"from {f'{low:g}'.replace('-', '−')} to {text}"
        else:
            sign = "+" if value > 0 else "−"
            told.append(f"{sign} {abs(value):g}" if name == "plus" else f"at {name} {text}")
    return ", ".join(told)
