"""Any model as a layered drawing from bottom to top: blocks as clusters, steps as nodes, tensors as lines."""

from collections.abc import Mapping
from dataclasses import replace

from graphviz import Digraph
from graphviz.quoting import escape as protect

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.renderers.markup import clean, table
from xray.renderers.module_marks import NodeMark, list_marks, mark_nodes, marked_label, outline
from xray.renderers.module_nodes import Nodes, choose_nodes
from xray.renderers.paper import POINTS_PER_INCH, Paper, check_dots, longest_side, paper_size
from xray.renderers.themes import Theme
from xray.story.journey import describe
from xray.story.layout import Line, Run
from xray.story.marks import Marks
from xray.story.shapes import digits, read_shape, symbols
from xray.text import show_controls

MOST_LETTERS = 44
LARGEST_TITLE = 4.0


def write_modules(
    trace: Trace,
    theme: Theme,
    dpi: int | None = None,
    paper: Paper | None = None,
    *,
    all_layers: bool = False,
    marks: Marks | None = None,
) -> str:
    """The trace as DOT, to be laid out by `dot`, scaled to the paper where one is named.

    Layers that are alike stand as one unless all are asked for; marked steps are outlined and listed under the title.

    Raises:
        UsageError: a PNG of that paper would have too many dots.
    """
    page = theme.surfaces["page"]
    nodes = [choose_nodes(one_pass, place, all_layers=all_layers) for place, one_pass in enumerate(trace.passes)]
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
        label=title_label(trace, theme, marks, sum(len(one.names) for one in nodes)),
        compound="true",
        **({"dpi": str(dpi)} if dpi else {}),
        **limit_size(dpi, paper),
    )
    graph.attr(
        "node", shape="box", style="rounded,filled", fontname=theme.font, fontsize="11", margin="0.12,0.06", label=""
    )
    graph.attr("edge", color=theme.lines["training"], penwidth="1.4", arrowsize="0.7", fontname=theme.font)
    for each in nodes:
        draw_pass(graph, each, theme, mark_nodes(each, marks))
    return str(graph.source)


def limit_size(dpi: int | None, paper: Paper | None) -> dict[str, str]:
    """The attribute that scales a drawing to a paper, or down to what can be painted."""
    if paper is not None:
        if dpi is not None:
            check_dots(paper, dpi)
        width, height = (side / POINTS_PER_INCH for side in paper_size(paper))
        return {"size": f"{width:.4f},{height:.4f}!"}
    return {"size": f"{longest_side(dpi):.4f}"} if dpi is not None else {}


def title_label(trace: Trace, theme: Theme, marks: Marks | None, drawn: int) -> str:
    """Title, sizes and marks: the more nodes are drawn the larger, to be read first on a large drawing too."""
    scale = max(1.0, min(LARGEST_TITLE, (drawn / 15) ** 0.5))
    sizes = "   ".join(f"{name} {size:,}" for name, size in trace.sizes.items())
    lines: list[Line] = [(Run(shortened(trace.title), 26, "text", "black"),), (Run(sizes, 12, "quiet"),)]
    if marks is not None:
        lines += list_marks(marks)
    enlarged = [tuple(replace(run, size=round(run.size * scale)) for run in line) for line in lines if line[0].text]
    return table(enlarged, "page", theme, "LEFT")


def draw_pass(graph: Digraph, nodes: Nodes, theme: Theme, marked: Mapping[str, NodeMark]) -> None:
    """One pass: its blocks as nested clusters around their steps, and the tensors from step to step."""
    draw_inside(graph, None, nodes, theme, marked)
    draw_lines(graph, nodes, theme)


def draw_inside(graph: Digraph, parent: str | None, nodes: Nodes, theme: Theme, marked: Mapping[str, NodeMark]) -> None:
    one_pass = nodes.one_pass
    for step in nodes.inside.get(parent, ()):
        if step.id in nodes.names:
            draw_step(graph, step, nodes, theme, marked.get(nodes.names[step.id]))
        elif step.id in one_pass.blocks:
            with graph.subgraph(name=f"cluster_{nodes.place}_{len(step.id)}_{one_pass.steps.index(step)}") as cluster:
                name = (Run(shortened(step.path), 12, "text", "bold"), Run(f"  {shortened(step.module)}", 11, "quiet"))
                surface = theme.surfaces["card"]
                cluster.attr(
                    label=table([(*name, *tell_times(nodes, step))], "card", theme),
                    style="rounded,filled",
                    fillcolor=surface.fill,
                    color=theme.lines["failure"] if step.error else surface.line,
                    labeljust="l",
                    labelloc="t",
                    tooltip=clean(describe([(one_pass.number, step)])),
                    margin="14",
                )
                draw_inside(cluster, step.id, nodes, theme, marked)


def tell_times(nodes: Nodes, step: Step) -> Line:
    """How many layers a step or block stands for, where it is the root of one that stands for several."""
    count = nodes.counts.get(step.path)
    return (Run(f"  × {count}", 14, "text", "bold"),) if count else ()


def draw_step(graph: Digraph, step: Step, nodes: Nodes, theme: Theme, mark: NodeMark | None) -> None:
    one_pass = nodes.one_pass
    masked = any(record.role == "mask" for record in step.outputs)
    surface = "failure" if step.error else "mask" if masked else "encoder"
    lines: list[Line] = [
        (
            Run(shortened(step.path.rsplit(".", 1)[-1]), 12, "text", "semibold"),
            Run(f"  {shortened(step.op)}", 11, "quiet"),
            *tell_times(nodes, step),
        )
    ]
    for record in step.outputs[:2]:
        shape = read_shape([(one_pass.number, record)])
        lines.append(digits(shape, 17))
        if any(shape.axes):
            lines.append(symbols(shape, 11))
    if step.error and mark is None:
        lines.append((Run(shortened(step.error), 11, "text", "bold"),))
    paint = theme.surfaces[surface]
    graph.node(
        nodes.names[step.id],
        label=table(lines, surface, theme) if mark is None else marked_label(lines, mark, surface, theme),
        fillcolor=paint.fill,
        id=protect(f"{one_pass.kind}{one_pass.number or ''}/{show_controls(step.id)}"),
        tooltip=clean(describe([(one_pass.number, step)])),
        **({"color": paint.line} if mark is None else outline(mark, theme)),
        **{"class": "step"},
    )


def draw_lines(graph: Digraph, nodes: Nodes, theme: Theme) -> None:
    """A line for each tensor from step to step; what comes from outside has a node of its own."""
    drawn: set[tuple[str, str]] = set()
    for step in nodes.one_pass.steps:
        name = nodes.names.get(step.id)
        if name is None:
            continue
        for number, record in enumerate(step.inputs):
            start = nodes.holder(record.source)
            if record.source is None:
                start = f"p{nodes.place}_in_{name}_{number}"
                draw_input(graph, record, start, nodes.one_pass, theme)
            if start is not None and start != name and (start, name) not in drawn:
                drawn.add((start, name))
                tip = f"{record.name} {read_shape([(nodes.one_pass.number, record)]).plain}"
                graph.edge(start, name, tooltip=clean(tip))


def draw_input(graph: Digraph, record: TensorRecord, name: str, one_pass: Pass, theme: Theme) -> None:
    look = theme.surfaces["training"]
    shape = read_shape([(one_pass.number, record)])
    lines: list[Line] = [(Run(shortened(record.name), 11, "text", "semibold"),), digits(shape, 13)]
    graph.node(
        name, label=table(lines, "training", theme), fillcolor=look.fill, color=look.line, tooltip=clean(record.name)
    )


def shortened(text: str) -> str:
    """A name from outside, fit to be shown and no longer than a label."""
    text = show_controls(text)
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"
