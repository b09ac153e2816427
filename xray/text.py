"""Text from outside (questions, words, names) made fit to be shown anywhere: nothing hidden, nothing obeyed."""

import unicodedata

BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def show_controls(text: str) -> str:
    """The text with control characters, bidi overrides and characters that XML forbids spelt out, as in `\\x1b`.

    Everything else stays as it is, right-to-left words and emoji included. Line breaks and tabs are controls too.
    """
    if text.isprintable():  # which no character to be spelt out is
        return text
    return "".join(spell_out(character) if must_be_spelt_out(character) else character for character in text)


def reason_of(error: BaseException) -> str:
    """Why the system refused, in its words."""
    if type(error) is RuntimeError:  # which pathlib says of a link to itself
        return "too many levels of symbolic links"
    return show_controls((getattr(error, "strerror", None) or str(error) or type(error).__name__).lower())


def must_be_spelt_out(character: str) -> bool:
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or character in BIDI_CONTROLS
        or code & 0xFFFE == 0xFFFE
        or 0xFDD0 <= code <= 0xFDEF
    )


def spell_out(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def say_at_least(count: int, unit: str = "") -> str:
    """That a number is so much or more, in three digits, rounded down: 1,239 is "at least 1.23 k"."""
    return f"at least {say_short(round_down(count), unit)}"


def round_down(count: int) -> int:
    """A number with nothing but zeros behind its first three digits: 1,239 is 1,230."""
    dropped: int = 10 ** max(0, len(str(count)) - 3)
    return count // dropped * dropped


def say_short(count: int, unit: str = "") -> str:
    """A number in three digits with its thousands as a letter: 1.23 k, 45.6 MB; below a thousand in full."""
    if count < 1000:
        return f"{count} {unit}".rstrip()
    size, letters = float(count), ["", "k", "M", "G", "T", "P", "E"]
    while float(f"{size:.3g}") >= 1000 and len(letters) > 1:
        size, letters = size / 1000, letters[1:]
    return f"{size:.{max(0, 3 - len(str(int(float(f'{size:.3g}')))))}f} {letters[0]}{unit}"
