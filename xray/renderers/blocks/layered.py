"""Any model as a layered drawing from bottom to top: blocks as clusters, steps as nodes, tensors as lines."""

import re
from collections.abc import Mapping, Sequence

from graphviz import Digraph

from xray.ir.trace import Trace
from xray.renderers.blocks.marks import NodeMark, mark_nodes, marked_lines, outline
from xray.renderers.blocks.nodes import (
    Drawn,
    describe_item,
    describe_shape,
    describe_times,
    name_item,
    shortened,
    surface_of,
)
from xray.renderers.blocks.plans import MOST_GROUPS, Roles, draw_trace
from xray.renderers.blocks.title import write_title
from xray.renderers.fonts import text_width
from xray.renderers.sheet.markup import clean, identity, table
from xray.renderers.sheet.paper import POINTS_PER_INCH, Paper, check_dots, longest_side, paper_size
from xray.renderers.themes import Theme
from xray.story.alarms.kinds import TITLES
from xray.story.alarms.whole import find_alarms
from xray.story.blocks.block_lines import Gate, list_entrances, list_exits, reads_alike
from xray.story.blocks.items import Item
from xray.story.blocks.opening import Choice
from xray.story.blocks.pass_groups import PassGroup, group_passes, read_sizes
from xray.story.compare.marks import Marks
from xray.story.layout import Line, Run, line_width
from xray.story.sheet.canvas.tooltip import describe

EARLIER = re.compile(r"(forward|decode|encode|training)(\d*):(.*)", re.DOTALL)
"""How a tensor's source names the pass that it was made in, where several have a step of that id."""
MOST_READERS = 12
"""What comes in is led to so many nodes; further ones are counted."""
FREE = 30
"""Points between what stands in a frame's corner and the middle of the frame, twice."""


def write_modules(
    trace: Trace,
    theme: Theme,
    dpi: int | None = None,
    paper: Paper | None = None,
    *,
    all_layers: bool = False,
    marks: Marks | None = None,
    choice: Choice | None = None,
    roles: Roles | None = None,
) -> str:
    """The trace as DOT, to be laid out by `dot`, scaled to the paper where one is named.

    Neighbours that are alike stand as one unless all are asked for, and so do passes that differ in lengths only. The
    blocks are opened as chosen; marked steps are outlined and listed under the title. `roles`, what each step is for,
    is found out where it is not given.

    Raises:
        UsageError: a PNG of that paper would have too many dots.
    """
    page = theme.surfaces["page"]
    alarms = find_alarms(trace)
    groups = group_passes(trace)
    drawn = draw_trace(trace, groups, alarms, choice or Choice(), roles, all_layers=all_layers)
    unseen = sum(len(group.passes) for group in groups[MOST_GROUPS:])
    graph = Digraph("modules")
    graph.attr(
        "graph",
        rankdir="BT",
        bgcolor=page.fill,
        pad="0.4",
        nodesep="0.3",
        ranksep="0.28",
        fontname=theme.font,
        id="poster",
        tooltip=clean(trace.title),
        labelloc="t",
        labeljust="l",
        label=write_title(trace, drawn, theme, marks, alarms, unseen),
        compound="true",
        **({"dpi": str(dpi)} if dpi else {}),
        **limit_size(dpi, paper),
    )
    graph.attr(
        "node", shape="box", style="rounded,filled", fontname=theme.font, fontsize="11", margin="0.12,0.06", label=""
    )
    graph.attr("edge", color=theme.lines["training"], penwidth="1.4", arrowsize="0.7", fontname=theme.font)
    for each in drawn:
        draw_group(graph, each, theme, mark_nodes(each, marks), drawn)
    return str(graph.source)


def limit_size(dpi: int | None, paper: Paper | None) -> dict[str, str]:
    """The attribute that scales a drawing to a paper, or down to what can be painted."""
    if paper is not None:
        if dpi is not None:
            check_dots(paper, dpi)
        width, height = (side / POINTS_PER_INCH for side in paper_size(paper))
        return {"size": f"{width:.4f},{height:.4f}!"}
    return {"size": f"{longest_side(dpi):.4f}"} if dpi is not None else {}


def draw_group(
    graph: Digraph, drawn: Drawn, theme: Theme, marked: Mapping[str, NodeMark], others: Sequence[Drawn]
) -> None:
    """The passes of a group as one: frames around nodes, and the tensors from node to node, in and out."""
    if len(others) == len(drawn.group.passes) == 1:
        draw_items(graph, drawn.plan.items, drawn, theme, marked, 0)
        draw_gates(graph, drawn, theme, others)
    else:
        with graph.subgraph(name=f"cluster_pass_{drawn.place}") as frame:
            style_frame(frame, describe_group(drawn.group), theme, 0)
            draw_items(frame, drawn.plan.items, drawn, theme, marked, 1)
            draw_gates(frame, drawn, theme, others)
    for flow in drawn.flows:
        tip = f"{flow.record.name} {read_sizes([flow.record]).plain}"
        graph.edge(drawn.name(flow.start), drawn.name(flow.end), tooltip=clean(tip))


def describe_group(group: PassGroup) -> list[Line]:
    """Which passes a frame stands for."""
    named = name_numbers(group.places)
    if len(group.passes) == 1:
        return [(Run(f"pass {named}", 16, "text", "bold"),)]
    lines: list[Line] = [
        (
            Run(f"passes {named}", 16, "text", "bold"),
            Run(f"  × {len(group.passes):,}", 16, "text", "black"),
            Run("   drawn once; sizes that change are first→last", 12, "quiet"),
        )
    ]
    missing = group.missing()
    if missing:
        more = f" and {len(missing) - 2:,} more" if len(missing) > 2 else ""
        lines.append((Run(f"Not in all of them: {', '.join(map(shortened, missing[:2]))}{more}", 12, "quiet"),))
    return lines


def name_numbers(numbers: Sequence[int]) -> str:
    """Numbers as they are said, "2 to 61" where they follow each other."""
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers[:6])) + (" …" if len(numbers) > 6 else "")


def draw_items(
    graph: Digraph,
    items: Sequence[Item],
    drawn: Drawn,
    theme: Theme,
    marked: Mapping[str, NodeMark],
    level: int,
    around: str = "",
) -> None:
    for item in items:
        if not item.is_frame:
            draw_node(graph, item, drawn, theme, marked.get(drawn.name(item.number)))
            continue
        with graph.subgraph(name=f"cluster_{drawn.place}_{level}_{item.first}") as frame:
            mark = marked.get(item.heads[0].id) if item.kind == "open" else None
            lines = describe_frame(item, around, is_side_by_side=reads_alike(drawn.plan.tree, item))
            lines = lines if mark is None else marked_lines(lines, mark, "accent:warning")
            style_frame(frame, lines, theme, level, failed=any(step.error for step in item.heads))
            if mark is not None:
                frame.attr(**outline(mark, theme))
            if item.kind == "open":
                frame.attr(tooltip=clean(describe([(drawn.group.shown, item.heads[0])])))
            inner = item.heads[0].path if item.kind == "open" else around
            draw_items(frame, item.inside, drawn, theme, marked, level + 1, inner)


def describe_frame(item: Item, around: str = "", *, is_side_by_side: bool = False) -> list[Line]:
    """What stands at the top of a frame: its name inside the frame `around` it, how often, and its class."""
    step = item.heads[0]
    if item.kind == "group":
        told = (Run("  each of the same input", 10, "quiet"),) if is_side_by_side else ()
        return [(Run("together", 12, "text", "semibold"), *describe_times(item), *told)]
    call = f", call {step.call + 1}" if step.call else ""
    path = name_item(item) if item.count > 1 else step.path.removeprefix(f"{around}.") + call
    lines: list[Line] = [(Run(shortened(path) or " ", 13, "text", "bold"), *describe_times(item))]
    module = shortened(step.module or step.op)
    return lines if module in ("", path) else [*lines, (Run(module, 11, "quiet"),)]


def style_frame(frame: Digraph, lines: Sequence[Line], theme: Theme, level: int, *, failed: bool = False) -> None:
    """The look of a frame, and what stands in its corner; so much is left free beside it that lines leave there.

    Graphviz hands what a frame has on to those inside it: each begins without a tooltip, and with a thin line.
    """
    on = "page" if level % 2 else "card"
    free = max((line_width(line, text_width) for line in lines), default=0) + FREE
    frame.attr(
        label=table(lines, on, theme, "LEFT", free),
        style="rounded,filled",
        fillcolor=theme.surfaces[on].fill,
        color=theme.lines["failure"] if failed else theme.surfaces["card"].line,
        labeljust="l",
        labelloc="b",
        margin="12",
        tooltip=" ",
        penwidth="1",
    )


def draw_node(graph: Digraph, item: Item, drawn: Drawn, theme: Theme, mark: NodeMark | None) -> None:
    step, one_pass = item.heads[0], drawn.group.shown
    surface = surface_of(drawn.plan, item)
    paint = theme.surfaces[surface]
    lines = describe_item(drawn, item)
    alarm = drawn.alarms.get(item.number)
    pen = {"color": paint.line}
    if step.error and mark is None:
        lines.append((Run(shortened(step.error), 11, "text", "bold"),))
    if alarm is not None:
        lines.insert(0, (Run(f"ALARM: {TITLES[alarm.kind]}", 13, "text", "black"),))
        pen = {"color": theme.lines["failure"], "penwidth": "5"}
    graph.node(
        drawn.name(item.number),
        label=table(lines if mark is None else marked_lines(lines, mark), surface, theme),
        fillcolor=paint.fill,
        id=identity(f"{one_pass.key}/{step.id}"),
        tooltip=clean(describe([(one_pass, step)]) + (f"\n{alarm.text}" if alarm else "")),
        **(pen if mark is None else outline(mark, theme)),
        **({"peripheries": "2"} if surface == "op_block" or item.count > 1 else {}),
        **{"class": "step"},
    )


def draw_gates(graph: Digraph, drawn: Drawn, theme: Theme, others: Sequence[Drawn]) -> None:
    """What enters and leaves, each tensor as a node of its own outside of all blocks."""
    for number, gate in enumerate((*list_entrances(drawn.plan), *list_exits(drawn.plan))):
        name = f"p{drawn.place}_gate_{number}"
        surface = {"input": "training", "output": "inference"}.get(gate.kind, "op_other")
        maker = None if gate.kind == "output" else find_before(gate.record.source, others)
        draw_gate(graph, gate, name, surface, describe_gate(gate, drawn, maker), drawn, theme)
        for node in gate.nodes[:MOST_READERS]:
            ends = (drawn.name(node), name) if gate.kind == "output" else (name, drawn.name(node))
            graph.edge(*ends, tooltip=clean(gate.name))


def describe_gate(gate: Gate, drawn: Drawn, maker: tuple[Drawn, str] | None) -> str:
    """What is said beside the name of what enters or leaves."""
    if gate.rest:
        return f"and {gate.rest:,} more"
    if len(gate.nodes) > MOST_READERS:
        return f"{gate.kind}, read by {len(gate.nodes) - MOST_READERS:,} more"
    if maker is not None and maker[0] is not drawn:
        return f"made in pass {name_numbers(maker[0].group.places)}"
    if gate.kind == "before":
        return "of the turn before" if maker is not None else "of an earlier pass"
    return gate.kind if gate.kind in ("input", "constant") else ""


def find_before(source: str | None, others: Sequence[Drawn]) -> tuple[Drawn, str] | None:
    """The group and node of the step that made a tensor in an earlier pass; None where it is not drawn."""
    found = EARLIER.fullmatch(source or "")
    kind, number, step = (found[1], int(found[2] or 0), found[3]) if found else ("", 0, source)
    for one in others:
        if any((kind in ("", each.kind)) and each.number == number for each in one.group.passes):
            node = one.holder(step)
            if node is not None:
                return one, node
    return None


def draw_gate(graph: Digraph, gate: Gate, name: str, surface: str, note: str, drawn: Drawn, theme: Theme) -> None:
    look = theme.surfaces[surface]
    lines: list[Line] = [(Run(shortened(gate.name), 12, "text", "bold"),)]
    if note:
        lines[0] += (Run(f"  {note}", 10, "quiet"),)
    lines += describe_shape(drawn.read_gate(gate), 14)
    graph.node(
        name,
        label=table(lines, surface, theme),
        fillcolor=look.fill,
        color=look.line,
        tooltip=clean(f"{gate.name}\n{gate.record.source}" if gate.record.source else gate.name),
        style="rounded,filled,bold",
    )
