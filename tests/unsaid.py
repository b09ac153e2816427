"""What a sheet says to be worked out in no box."""

from xray.story.cards.boxless import count_unsaid, find_unsaid


def list_unsaid(columns):
    """How often each operation stands in no box, by the part that it belongs to."""
    return count_unsaid(columns, find_unsaid(columns))
