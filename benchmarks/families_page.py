"""The published page of families: a table of what was measured, and by name what is not drawn, or not as a poster."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from libraries import Library

Row = Mapping[str, Any]
HEAD = """# {title}

{what}

Seconds are those of one processor. Steps are the operations that were recorded, blocks included.

{summary}

The table is written by a script, `python benchmarks/families.py{option} -o families.jsonl`, and then again with
`--table families.jsonl`; it is run for every release.
"""
WAYS = {
    "without storage": "without storage",
    "with chance weights": "chance weights",
    "as a small copy": "small copy",
}
"""How a family was recorded, in two words."""


def read_rows(path: Path) -> list[Row]:
    """What was measured, a family a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_page(rows: Sequence[Row], library: Library, version: str) -> str:
    """The page in Markdown."""
    rows = sorted(rows, key=lambda row: (str(row.get("group", "")), str(row["family"]).lower()))
    recorded = [row for row in rows if row["steps"]]
    blocks = [row for row in recorded if row.get("drawn") == "blocks"]
    failed = [row for row in rows if not row["steps"]]
    summary = (
        f"Of {len(rows):,} {library.many} {len(recorded):,} are recorded: {len(recorded) - len(blocks):,} become "
        f"posters, {len(blocks):,} are drawn by blocks, and {len(failed):,} are not recorded."
    )
    option = "" if library.name == "transformers" else f" --library {library.name}"
    what = library.what.format(address=f"https://huggingface.co/docs/{library.name}", version=version)
    parts = [HEAD.format(title=library.title, what=what, summary=summary, option=option)]
    parts.append("\n".join(list_lines(recorded)))
    parts.append("## Drawn by blocks\n\n" + "\n".join(list_blocks(blocks, library.reasons)))
    if failed:
        parts.append("## Not recorded\n\n" + "\n".join(f"- `{row['family']}`: {tidy(row['told'])}" for row in failed))
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def list_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table: one for each group, or for each family where it is in none."""
    grouped = any(row.get("group") for row in rows)
    first = "Module | Models, posters" if grouped else "Family | Recorded"
    yield f"| {first} | Steps | Drawn | Towers and their layers | Parameters | Record, s | Draw, s |"
    yield "|---|---|--:|---|---|--:|--:|--:|"
    for group, some in groupby(rows, key=lambda row: row.get("group", "")):
        if not group:
            yield from (tell_line(row["family"], tell_way(row), row) for row in some)
            continue
        models = list(some)
        posters = [row for row in models if row["drawn"] == "poster"]
        shown = (posters or models)[0]
        yield tell_line(group, f"{len(models)}, {len(posters)}; `{shown['family']}`:", shown)


def tell_way(row: Row) -> str:
    """How a family was recorded."""
    return next((word for start, word in WAYS.items() if str(row["told"]).startswith(start)), "")


def tell_line(name: str, beside: str, row: Row) -> str:
    """A line of the table, with the figures of one family."""
    towers = ", ".join(" × ".join(tower.rsplit(" ", 1)) for tower in row.get("towers", ()))
    params = f"{row['params']:,}" if row.get("params") else ""
    cells = (f"`{name}`", beside, f"{row['steps']:,}", row["drawn"], towers, params)
    return f"| {' | '.join(cells)} | {row['record_s']:.1f} | {row['draw_s']:.1f} |"


def list_blocks(rows: Sequence[Row], reasons: Mapping[str, str]) -> Iterator[str]:
    """Which families are no posters, those with attention first, each with its reason."""
    yield "A poster shows layers on a residual stream. These show none, or none that was found:"
    yield ""
    for row in sorted(rows, key=lambda row: not row.get("attentions")):
        has = "has attention" if row.get("attentions") else "no attention found"
        told = reasons.get(str(row["family"]))
        yield f"- `{row['family']}` ({has}){': ' + told if told else ''}"


def tidy(told: str) -> str:
    """Why a family was not recorded, without the folder that it was built in."""
    told = re.sub(r"\S*/tmp\w+", "it", told.removeprefix("failed: "))
    sentence = re.split(r"(?<=[.:]) (?=[A-Z])", told)
    kept = ""
    for one in sentence:
        if kept and len(kept) + len(one) > 160:
            break
        kept = f"{kept} {one}".strip()
    return kept[:220].rstrip(" :,(").replace("|", "\\|")
