"""The tokenizer that stands beside a model's settings, as its `tokenizer.json`: words to ids and back."""

from collections.abc import Sequence
from typing import Any

from xray.errors import TraceError
from xray.sources.hub import Found, fetch_beside
from xray.text import show_controls

TOKENIZER = "tokenizer.json"
LOST = "�"
"""What stands for bytes that are no letter by themselves."""


class Tokeniser:
    """Words to ids and back, as a `tokenizer.json` says."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of a text, with the signs that the tokenizer puts around it."""
        return tuple(self._inner.encode(text).ids)

    def spell(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The letters of each id, as it adds them to those before; its own name where it adds no whole letter."""
        pieces, before = [], ""
        for count in range(1, len(ids) + 1):
            text: str = self._inner.decode(list(ids[:count]), skip_special_tokens=False)
            added = text[len(before) :] if text.startswith(before) else ""
            name: str | None = self._inner.id_to_token(ids[count - 1])
            pieces.append(added if added and LOST not in added else f"id {ids[count - 1]}" if name is None else name)
            before = text
        return tuple(pieces)


def find_tokeniser(found: Found) -> Tokeniser | None:
    """The tokenizer beside a model's settings, in its folder or on the hub; None where there is none.

    Raises:
        TraceError: there is one that cannot be read.
    """
    path = fetch_beside(found, TOKENIZER)
    if path is None:
        return None
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:  # it comes with transformers
        return None
    try:
        return Tokeniser(Tokenizer.from_file(str(path)))
    except Exception as error:  # whatever the parser makes of somebody's file
        reason = show_controls(" ".join(str(error).split())[:150]).rstrip(".")
        raise TraceError(
            f"cannot read {show_controls(str(path))}: {reason}. Put a whole {TOKENIZER} there, or take it away: then "
            "ids are made."
        ) from error
