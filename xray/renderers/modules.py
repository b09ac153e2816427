"""Any model as a layered drawing from bottom to top: blocks as clusters, steps as nodes, tensors as lines."""

from collections import defaultdict
from collections.abc import Mapping

from graphviz import Digraph
from graphviz.quoting import escape as protect

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.renderers.markup import clean, write_run
from xray.renderers.themes import Theme
from xray.story.journey import describe
from xray.story.layout import Line, Run
from xray.story.shapes import digits, read_shape, symbols
from xray.text import show_controls

MOST_NODES = 300
"""More steps than this are drawn as the blocks that hold them."""

MOST_LETTERS = 44


def write_modules(trace: Trace, theme: Theme, dpi: int | None = None) -> str:
    """The trace as DOT, to be laid out by `dot`."""
    page = theme.surfaces["page"]
    graph = Digraph("modules")
    graph.attr(
        "graph",
        rankdir="BT",
        bgcolor=page.fill,
        pad="0.4",
        nodesep="0.25",
        ranksep="0.35",
        fontname=theme.font,
        id="poster",
        tooltip=clean(trace.title),
        labelloc="t",
        labeljust="l",
        label=title_label(trace, theme),
        compound="true",
        **({"dpi": str(dpi)} if dpi else {}),
    )
    graph.attr(
        "node", shape="box", style="rounded,filled", fontname=theme.font, fontsize="11", margin="0.12,0.06", label=""
    )
    graph.attr("edge", color=theme.lines["training"], penwidth="1.4", arrowsize="0.7", fontname=theme.font)
    for place, one_pass in enumerate(trace.passes):
        draw_pass(graph, one_pass, place, theme)
    return str(graph.source)


def title_label(trace: Trace, theme: Theme) -> str:
    sizes = "   ".join(f"{name} {size:,}" for name, size in trace.sizes.items())
    lines: list[Line] = [(Run(shortened(trace.title), 26, "text", "black"),), (Run(sizes, 12, "quiet"),)]
    return table([line for line in lines if line[0].text], "page", theme)


def draw_pass(graph: Digraph, one_pass: Pass, place: int, theme: Theme) -> None:
    """One pass: its blocks as nested clusters around their steps, and the tensors from step to step."""
    shown = shown_steps(one_pass)
    names = {step.id: f"p{place}_s{number}" for number, step in enumerate(shown)}
    inside: dict[str | None, list[Step]] = defaultdict(list)
    for step in one_pass.steps:
        inside[step.parent].append(step)
    draw_inside(graph, None, inside, names, one_pass, place, theme)
    draw_lines(graph, one_pass, names, place, theme)


def shown_steps(one_pass: Pass) -> list[Step]:
    """The leaves; where they are too many, the deepest blocks that are few enough stand for what they hold."""
    leaves = list(one_pass.leaves)
    if len(leaves) <= MOST_NODES:
        return leaves
    depth = max(step.depth for step in one_pass.steps)
    while depth > 0:
        depth -= 1
        found = [
            step
            for step in one_pass.steps
            if step.depth == depth or (step.depth < depth and step.id not in one_pass.blocks)
        ]
        if len(found) <= MOST_NODES:
            return found
    return found


def draw_inside(
    graph: Digraph,
    parent: str | None,
    inside: Mapping[str | None, list[Step]],
    names: Mapping[str, str],
    one_pass: Pass,
    place: int,
    theme: Theme,
) -> None:
    for step in inside.get(parent, ()):
        if step.id in names:
            draw_step(graph, step, names[step.id], one_pass, theme)
        elif step.id in one_pass.blocks:
            with graph.subgraph(name=f"cluster_{place}_{len(step.id)}_{one_pass.steps.index(step)}") as cluster:
                name = (Run(shortened(step.path), 12, "text", "bold"), Run(f"  {shortened(step.module)}", 11, "quiet"))
                surface = theme.surfaces["card"]
                cluster.attr(
                    label=table([name], "card", theme),
                    style="rounded,filled",
                    fillcolor=surface.fill,
                    color=surface.line,
                    labeljust="l",
                    labelloc="t",
                    tooltip=clean(describe([(one_pass.number, step)])),
                    margin="14",
                )
                draw_inside(cluster, step.id, inside, names, one_pass, place, theme)


def draw_step(graph: Digraph, step: Step, name: str, one_pass: Pass, theme: Theme) -> None:
    masked = any(record.role == "mask" for record in step.outputs)
    surface = "decoder" if step.error else "mask" if masked else "encoder"
    lines: list[Line] = [
        (
            Run(shortened(step.path.rsplit(".", 1)[-1]), 12, "text", "semibold"),
            Run(f"  {shortened(step.op)}", 11, "quiet"),
        )
    ]
    for record in step.outputs[:2]:
        shape = read_shape([(one_pass.number, record)])
        lines.append(digits(shape, 17))
        if any(shape.axes):
            lines.append(symbols(shape, 11))
    if step.error:
        lines.append((Run(shortened(step.error), 11, "text", "bold"),))
    look = theme.surfaces[surface]
    graph.node(
        name,
        label=table(lines, surface, theme),
        fillcolor=look.fill,
        color=look.line,
        id=protect(f"{one_pass.kind}/{show_controls(step.id)}"),
        tooltip=clean(describe([(one_pass.number, step)])),
        **{"class": "step"},
    )


def draw_lines(graph: Digraph, one_pass: Pass, names: Mapping[str, str], place: int, theme: Theme) -> None:
    """A line for each tensor from step to step; what comes from outside has a node of its own."""
    drawn: set[tuple[str, str]] = set()
    for step in one_pass.steps:
        if step.id not in names:
            continue
        for number, record in enumerate(step.inputs):
            start = holder(record.source, names, one_pass)
            if record.source is None:
                start = f"p{place}_in_{names[step.id]}_{number}"
                draw_input(graph, record, start, one_pass, theme)
            if start is not None and start != names[step.id] and (start, names[step.id]) not in drawn:
                drawn.add((start, names[step.id]))
                tip = f"{record.name} {read_shape([(one_pass.number, record)]).plain}"
                graph.edge(start, names[step.id], tooltip=clean(tip))


def draw_input(graph: Digraph, record: TensorRecord, name: str, one_pass: Pass, theme: Theme) -> None:
    look = theme.surfaces["training"]
    shape = read_shape([(one_pass.number, record)])
    lines: list[Line] = [(Run(shortened(record.name), 11, "text", "semibold"),), digits(shape, 13)]
    graph.node(
        name, label=table(lines, "training", theme), fillcolor=look.fill, color=look.line, tooltip=clean(record.name)
    )


def holder(source: str | None, names: Mapping[str, str], one_pass: Pass) -> str | None:
    """The node that stands for a step: its own, or that of the block it was folded into."""
    while source is not None and source not in names:
        step = one_pass.by_id.get(source)
        source = step.parent if step is not None else None
    return names[source] if source is not None else None


def table(lines: list[Line], on: str, theme: Theme) -> str:
    """Lines of text as an HTML-like label."""
    rows = "".join(f"<TR><TD>{''.join(write_run(run, on, theme, 1) for run in line)}</TD></TR>" for line in lines)
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">{rows}</TABLE>>' if rows else ""


def shortened(text: str) -> str:
    """A name from outside, fit to be shown and no longer than a label."""
    text = show_controls(text)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
