"""The published page of families: a table of what was measured, and by name what is not drawn, or not as a poster."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
HEAD = """# Families of transformers

Every family of models in the [transformers](https://huggingface.co/docs/transformers) library (version {version}),
built from its own default settings, without weights, as `xray trace FOLDER` does it: recorded, and drawn. Where
defaults are lacking, or those of two parts do not fit together, the script fills them in and says which. Seconds are
those of one processor. Steps are the operations that were recorded, blocks included.

{summary}

The table is written by a script, `python benchmarks/families.py -o families.jsonl`, and then again with
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


def write_page(rows: Sequence[Row], version: str, reasons: Mapping[str, str]) -> str:
    """The page in Markdown; `reasons` say of families that are no posters why they are none."""
    rows = sorted(rows, key=lambda row: str(row["family"]).lower())
    recorded = [row for row in rows if row["steps"]]
    blocks = [row for row in recorded if row.get("drawn") == "blocks"]
    failed = [row for row in rows if not row["steps"]]
    posters = len(recorded) - len(blocks)
    summary = (
        f"Of {len(rows)} families {len(recorded)} are recorded: {posters} become posters, {len(blocks)} are drawn by "
        f"blocks, and {len(failed)} are not recorded."
    )
    parts = [HEAD.format(version=version, summary=summary)]
    parts.append("\n".join(list_lines(recorded)))
    parts.append("## Drawn by blocks\n\n" + "\n".join(list_blocks(blocks, reasons)))
    parts.append("## Not recorded\n\n" + "\n".join(f"- `{row['family']}`: {tidy(row['told'])}" for row in failed))
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def list_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table."""
    yield "| Family | Recorded | Steps | Drawn | Towers and their layers | Parameters | Record, s | Draw, s |"
    yield "|---|---|--:|---|---|--:|--:|--:|"
    for row in rows:
        way = next((word for start, word in WAYS.items() if str(row["told"]).startswith(start)), "")
        towers = ", ".join(" × ".join(tower.rsplit(" ", 1)) for tower in row.get("towers", ()))
        params = f"{row['params']:,}" if row.get("params") else ""
        cells = (f"`{row['family']}`", way, f"{row['steps']:,}", row["drawn"], towers, params)
        yield f"| {' | '.join(cells)} | {row['record_s']:.1f} | {row['draw_s']:.1f} |"


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
