"""What the card says of what is looked up before the layers."""

from xray.story.anatomy.tree import Anatomy, EntrancePart
from xray.story.wording import join_words, plural

MINUS = " − "


def describe_columns(anatomy: Anatomy) -> str:
    """In which tables columns of ids are looked up of which each place has several, by argument."""
    tables: dict[str, list[EntrancePart]] = {}
    for part in (part for tower in anatomy.towers for part in tower.entrance if part.columns):
        tables.setdefault(part.argument, []).append(part)
    return " ".join(spell_tables(name, parts) for name, parts in tables.items())


def spell_tables(name: str, parts: list[EntrancePart]) -> str:
    """The tables in which columns of one argument are looked up, and how large they are."""
    sizes = [f"{part.size:,}" for part in parts if part.size]
    rows = sizes[0] if len(set(sizes)) == 1 else join_words(sizes)
    held = f"{plural(len(parts), 'table')} of {rows} rows" if len(sizes) == len(parts) else plural(len(parts), "table")
    told = f"{name or 'One tensor'} holds several ids for each place, looked up by column in {held}"
    is_one_each = all(len(part.columns) == len(part.columns[0]) == 1 for part in parts)
    return f"{told}." if is_one_each else f"{told}: {'; '.join(map(spell_columns, parts))}."


def spell_columns(part: EntrancePart) -> str:
    """The columns that are looked up in one table, each by its number, from 0."""
    return join_words([MINUS.join(map(str, own)) for own in part.columns])
