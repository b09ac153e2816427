"""Any model as a Mermaid flowchart by blocks, which GitHub, GitLab and many editors draw from text."""

from collections.abc import Iterator, Sequence

from xray.ir.trace import Trace
from xray.renderers.blocks.layered import (
    MOST_READERS,
    describe_frame,
    describe_gate,
    describe_group,
    find_before,
)
from xray.renderers.blocks.nodes import Drawn, describe_item, describe_shape
from xray.renderers.blocks.plans import MOST_GROUPS, draw_plans
from xray.renderers.themes import Theme, load_theme
from xray.story.alarms.whole import find_alarms
from xray.story.blocks.block_lines import list_entrances, list_exits
from xray.story.blocks.items import Item
from xray.story.blocks.opening import Choice, check_choice
from xray.story.blocks.pass_groups import group_passes
from xray.story.layout import Line
from xray.story.roles.listing import list_roles
from xray.text import show_controls

ENTITIES = str.maketrans({letter: f"#{ord(letter)};" for letter in '#"<>&`\\{}[]()|;%'})
"""What means something to Mermaid, spelt so that it means itself."""


def write_mermaid(
    trace: Trace, *, theme: Theme | None = None, all_layers: bool = False, blocks: Choice | None = None
) -> str:
    """The trace as a flowchart from bottom to top: blocks as frames, steps as nodes with their shapes.

    Raises:
        UsageError: a pattern in `blocks` fits no block.
    """
    choice = blocks or Choice()
    check_choice(trace, choice)
    groups = group_passes(trace)[:MOST_GROUPS]
    drawn = draw_plans(groups, find_alarms(trace), list_roles(trace), choice, all_layers=all_layers)
    failure = (theme or load_theme()).lines["failure"]
    lines = ["---", f'title: "{escape(trace.title)}"', "---", "flowchart BT"]
    for each in drawn:
        lines += write_group(each, drawn)
    lines.append(f"    classDef failed stroke:{failure},stroke-width:4px")
    return "\n".join(lines) + "\n"


def write_group(drawn: Drawn, others: Sequence[Drawn]) -> Iterator[str]:
    """The passes of a group: frames around nodes, the tensors from node to node, in and out."""
    alone = len(others) == len(drawn.group.passes) == 1
    if not alone:
        yield f'    subgraph p{drawn.place}["{write_lines(describe_group(drawn.group))}"]'
    yield from write_items(drawn, drawn.plan.items, 1 if alone else 2)
    if not alone:
        yield "    end"
    for flow in drawn.flows:
        yield f"    {drawn.name(flow.start)} --> {drawn.name(flow.end)}"
    for number, gate in enumerate((*list_entrances(drawn.plan), *list_exits(drawn.plan))):
        name, is_exit = f"p{drawn.place}_gate_{number}", gate.kind == "output"
        note = describe_gate(gate, drawn, None if is_exit else find_before(gate.record.source, others))
        shape = [write_line(line) for line in describe_shape(drawn.read_gate(gate), 1)]
        yield f'    {name}(["{"<br/>".join([escape(f"{gate.name} {note}".strip()), *shape])}"])'
        for node in gate.nodes[:MOST_READERS]:
            yield f"    {drawn.name(node)} --> {name}" if is_exit else f"    {name} --> {drawn.name(node)}"


def write_items(drawn: Drawn, items: Sequence[Item], level: int, around: str = "") -> Iterator[str]:
    indent = "    " * level
    for item in items:
        failed = ":::failed" if any(step.error for step in item.heads) else ""
        if not item.is_frame:
            begin, end = ("[[", "]]") if item.kind in ("closed", "bundle") else ("[", "]")
            yield f'{indent}{drawn.name(item.number)}{begin}"{write_lines(describe_item(drawn, item))}"{end}{failed}'
            continue
        name = f"p{drawn.place}_frame_{level}_{item.first}"
        yield f'{indent}subgraph {name}["{"  ".join(map(write_line, describe_frame(item, around)))}"]'
        yield from write_items(drawn, item.inside, level + 1, item.heads[0].path if item.kind == "open" else around)
        yield f"{indent}end"
        if failed:
            yield f"{indent}class {name} failed"


def write_lines(lines: Sequence[Line]) -> str:
    return "<br/>".join(write_line(line) for line in lines)


def write_line(line: Line) -> str:
    return escape("".join(run.text for run in line).strip())


def escape(text: str) -> str:
    """Text from anywhere as Mermaid shows it."""
    return show_controls(text).translate(ENTITIES)
