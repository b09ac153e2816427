"""Text for terminals that know fewer characters."""


def encodable(text: str, encoding: str | None) -> str:
    """The text with every character that the encoding lacks spelt out, as in `\\u2713`."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
