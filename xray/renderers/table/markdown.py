"""The tables of a trace as Markdown, for a README, an issue or a notebook."""

import re
from collections.abc import Iterator, Sequence

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Trace
from xray.renderers.table.alarms import list_alarms
from xray.renderers.table.heads import PASS_SENTENCES, PASS_TITLES, describe_trace, say_layers
from xray.renderers.table.steps import say_flops
from xray.story.alarms.kinds import TITLES, Alarm
from xray.story.facts.mask_names import name_mask
from xray.story.facts.outline import Row, Section, group_passes, outline_pass
from xray.story.facts.selection import Pick, pick_steps
from xray.story.failure.rules import find_misfit
from xray.story.roles.listing import list_roles
from xray.story.wording import spell_share
from xray.text import show_controls

SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~$&!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""What means something to Markdown; an underscore within a word does not."""
HEADINGS = ("#", "step", "operation, role", "input shapes → output shape", "axes", "mask", "parameters", "FLOPs")
MANY = 6
"""More tensors than this are counted."""


def write_markdown(trace: Trace, *, all_layers: bool = False, pick: Pick | None = None) -> str:
    """The steps of every pass as tables, a heading for each pass and each station, alike layers once."""
    lines = [f"# {clean(trace.title)}", "", " ".join(clean(part) for part in describe_trace(trace)), ""]
    if trace.sizes:
        lines += [", ".join(f"{clean(name)} {size:,}" for name, size in trace.sizes.items()), ""]
    if pick:
        lines += [f"Only {clean(pick.words)} are shown.", ""]
    lines += write_alarms(list_alarms(trace, pick or Pick()))
    roles = list_roles(trace)
    for group in group_passes(trace.passes):
        one = group[0]
        if pick and not pick_steps(one, pick):
            continue
        told = roles.get(one.key, {})
        lines += write_pass_head(one, len(group) - 1)
        for section in outline_pass(one, all_layers=all_layers, pick=pick, roles=told):
            lines += write_section(section)
    return "\n".join(lines).rstrip() + "\n"


def write_alarms(alarms: Sequence[Alarm]) -> Iterator[str]:
    """A heading, and an entry for each alarm: what is wrong, at which step and line, why, and what to do."""
    if not alarms:
        return
    yield from ("## Alarms", "")
    for alarm in alarms:
        where = ", ".join(clean(place) for place in (alarm.step, alarm.location) if place)
        yield f"- **{clean(TITLES[alarm.kind])}**, {where}: {clean(alarm.text)} {clean(alarm.remedy)}"
    yield ""


def write_pass_head(one_pass: Pass, alike: int) -> Iterator[str]:
    number = f" {one_pass.number}" if one_pass.number else ""
    yield from (f"## {PASS_TITLES[one_pass.kind].capitalize()}{number}", "")
    said = [PASS_SENTENCES[one_pass.kind], f"{len(one_pass.steps):,} steps, numbered as they ran."]
    if alike:
        said.append(f"{alike:,} more passes do the same operations in the same order.")
    yield from (" ".join(part for part in said if part), "")


def write_section(section: Section) -> Iterator[str]:
    """A heading where there is something to say, and the table of the steps."""
    station, layers = section.station, say_layers(section, "×").replace("  ", ": ")
    stack = section.fold.stack if section.fold is not None else ""
    title = f"{station.number} {station.title}" if station is not None else clean(stack)
    heading = ", ".join(part for part in (title, layers) if part)
    if heading:
        yield from (f"### {heading}", "")
    yield f"| {' | '.join(HEADINGS)} |"
    yield f"|{'|'.join(' ---: ' if name in ('#', 'parameters', 'FLOPs') else ' --- ' for name in HEADINGS)}|"
    for row in section.rows:
        yield f"| {' | '.join(list_cells(row))} |"
    yield ""


def list_cells(row: Row) -> list[str]:
    step = row.step
    name = clean(row.name) + (f", call {step.call + 1}" if step.call else "")
    facts = row.mask.mask if row.mask is not None else None
    mask = "" if facts is None else f"{name_mask(facts)} {spell_share(facts.hidden_share, short=True)}"
    shapes = f"{list_shapes(step.inputs)} → {list_shapes(step.outputs)}"
    known = dict.fromkeys(one.axes for one in step.outputs[:MANY])
    axes = "; ".join(" × ".join(clean(axis) or "?" for axis in one) for one in known if any(one))
    if step.error is not None:
        rule = "" if row.is_around_failure else find_misfit(step).rule
        axes = f"**failed**: {clean(' '.join(step.error.split()))}{f' ({clean(rule)})' if rule else ''}"
    return [
        str(row.number),
        "&nbsp;&nbsp;" * row.indent + (f"**{name}**" if row.is_block else name),
        clean(", ".join(part for part in (step.op, row.role) if part)),
        shapes.strip().removesuffix(" →"),
        axes,
        mask,
        f"{step.params:,}" if step.params else "",
        say_flops(row),
    ]


def list_shapes(records: Sequence[TensorRecord]) -> str:
    if len(records) > MANY:
        return f"{len(records):,} tensors"
    return ", ".join("×".join(map(str, one.shape)) or "1" for one in records)


def clean(text: str) -> str:
    """Text from anywhere that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\g<0>", show_controls(text))
