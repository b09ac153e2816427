"""Attention in formulas, as the steps of this model prove them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.branches import Unknown
from xray.story.anatomy.tree import Tower
from xray.story.attention.factors import ROOT_OF_ROOT, UNKNOWN_FACTOR
from xray.story.attention.square import OTHER_SCORES
from xray.story.branches.scored.biases import OF_QUERIES, OF_SCORES, OTHER_PARTS
from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told, draw_card
from xray.story.charts.chart import Chart, Node
from xray.story.charts.dropouts import drops_now
from xray.story.layout import Line, Measure, Run, line_width
from xray.story.passages.channels import MASKED
from xray.story.passages.learned_steps import LEARNED
from xray.story.sentences.of_parts import BENT, BOXES_AS_AT, HELD_CAP, describe_box
from xray.story.shapes import digits, hue, read_shape
from xray.story.sheet.planning import Panel
from xray.story.type_sizes import LABEL, NOTE

ADDENDS = {
    OTHER_PARTS: "scores of other parts",
    OF_QUERIES: "what is made of Q",
    OF_SCORES: OF_SCORES.removeprefix("+ ").lower(),
}
ADDED_ONCE = ("bias", "other scores", "earlier scores", *ADDENDS.values())
ATTENTION, WIDTH = "attention", "width of one head, d_k"
BEFORE_DROPOUT, SHARED_OUT = " before dropout", ("softmax", "shares", "zeroed")
MIXED = ("mix",)
"""What stands among the terms of scores where those of all heads are mixed."""
ALIKE = re.compile(f"{BOXES_AS_AT.format(station=r'[0-9]+')}$")
"""What is said of a closed panel whose boxes are those of an open one."""
MOST_FORMULAS = 3
"""So many different formulas of one name are told; where there are more, the first ones."""


def draw_formulas(told: Told, canvas: Canvas, top: float) -> float:
    """Attention as this model computes it, and how wide a head is; only what its steps prove."""
    lines = list_lines(told)
    if not lines:
        return top

    def draw(y: float) -> float:
        x, low = told.left + 14, y
        for name, line in lines:
            block = (words(name, NOTE, "quiet"), *wrap_formula(line, told.width - 24, canvas.measure))
            wide = max(line_width(one, canvas.measure) for one in block)
            if x > told.left + 14 and (not told.has_masks_beside or x + wide > told.left + told.width - 10):
                x, y = told.left + 14, low
            box = canvas.note(x, y, block, "card")
            x, low = x + wide + 18, box.bottom - 5
        return low

    return draw_card(told, canvas, top, "IN FORMULAS", draw)


def wrap_formula(line: Line, width: float, measure: Measure) -> tuple[Line, ...]:
    """A formula in lines that are no wider than that, broken before its terms alone."""
    found: list[Line] = [()]
    for place, run in enumerate(line):
        end = next((one for one in range(place + 1, len(line)) if line[one].text.startswith(" ")), len(line))
        if found[-1] and run.text.startswith(" ") and line_width((*found[-1], *line[place:end]), measure) > width:
            found.append(())
        found[-1] = (*found[-1], run)
    return tuple(found)


def list_lines(told: Told) -> list[tuple[str, Line]]:
    """The formulas of all attentions that are drawn, each with its stations where it is not that of all of them.

    So it is too where attentions that stand closed are not said to have the boxes of an open one, have heads of another
    width (Gemma 4), no sinks (MiMo), no mask (MaskFormer's Swin), or rows of another width, of which a factor may be
    made (MaxViT), and where channels look (XCiT). There is none of an attention that leaves a softmax out: it may be
    taken off what is drawn (timm's ViT with DiffParallel blocks).
    """
    found: dict[str, dict[tuple[Line, str], list[int]]] = {}
    splits: list[tuple[str, Line]] = []
    for tower, panel, branch in list_attentions(told):
        formulas = list_formulas(tower, branch, panel.chart.nodes)
        for name, remark, line in (one for one in formulas if one[0] != ATTENTION or not panel.leaves_out):
            found.setdefault(name, {}).setdefault((line, remark), []).append(panel.station)
        if told.has_masks_beside and not splits:
            splits += [("split into heads: no number changes", line) for line in list_splits(panel.chart)]
    everywhere = {panel.station for _, panel, _ in list_panels(told)}
    several = {name for name, alike in found.items() if len(alike) > 1 or everywhere != set().union(*alike.values())}
    closed = (node.extra for _, panel, _ in list_panels(told, are_open=False) for node in panel.chart.nodes)
    several |= {ATTENTION} if not all(map(ALIKE.search, closed)) else set()
    several |= {WIDTH} if len({branch.d_k for branch in list_all(told)}) > 1 else set()
    kinds = {(one.sinks, one.cap, one.earlier_scores, one.kept_scores, one.mixed_heads) for one in list_all(told)}
    of_channels = any(one.part == "channel_attention" for tower, _, _ in told.frames for one in tower.branches)
    several |= {ATTENTION} if len(kinds) > 1 or of_channels else set()
    unknown = [one for tower, _, _ in told.frames for one in tower.branches if isinstance(one, Unknown)]
    several |= {ATTENTION, WIDTH} if any(one.multiplies for one in unknown) else set()
    several |= {ATTENTION, WIDTH} if told.anatomy.attends_elsewhere else set()
    several |= {ATTENTION} if any(tower.d_model is None for tower, _, _ in told.frames) else set()
    masks = (mask for _, frames, _ in told.frames for frame in frames for mask in frame.masks)
    several |= {ATTENTION} if len({mask == "none" for mask in masks}) > 1 else set()
    lines = [
        (f"{name}{describe_stations(stations) if name in several else ''}{remark}", line)
        for name, alike in found.items()
        for (line, remark), stations in list(alike.items())[:MOST_FORMULAS]
    ]
    return lines + splits


def list_attentions(told: Told) -> Iterator[tuple[Tower, Panel, Attention]]:
    """The attentions that are drawn, from the first station on; none of which two share one panel."""
    for tower, panel, drawn in list_panels(told):
        if len(drawn) == 1:
            yield tower, panel, drawn[0]


def list_panels(told: Told, *, are_open: bool = True) -> Iterator[tuple[Tower, Panel, list[Attention]]]:
    """The panels in which attentions are drawn, or those that stand closed, each with these."""
    for tower, frames, _ in told.frames:
        for panel in (panel for frame in frames for panel in frame.panels if panel.is_open == are_open):
            drawn = [one.branch for one in panel.staging.branches if isinstance(one.branch, Attention)]
            if drawn:
                yield tower, panel, drawn


def list_all(told: Told) -> Iterator[Attention]:
    """Every attention of the towers that are drawn, be its panel open or closed."""
    return (one for tower, _, _ in told.frames for one in tower.branches if isinstance(one, Attention))


def describe_stations(stations: Sequence[int]) -> str:
    """At which stations something holds."""
    *others, last = map(str, sorted(stations))
    return f" at stations {', '.join(others)} and {last}" if others else f" at station {last}"


def list_formulas(tower: Tower, branch: Attention, nodes: Sequence[Node]) -> list[tuple[str, str, Line]]:
    """The formulas of the attention that is drawn, each with its name and a remark."""
    nodes = [replace(node, key=node.key.rpartition(":")[2]) for node in nodes]  # of branches beside each other
    attention = write_attention(branch, nodes)
    are_chosen = any(node.key.startswith("choose") and node.key.endswith("_q") for node in nodes)
    remark = "" if is_zeroed(nodes) else describe_box("formula-of-chosen" if are_chosen else "formula", branch)
    remark += BEFORE_DROPOUT if remark and any(drops_now(node) for node in nodes if node.key in SHARED_OUT) else ""
    lines = [(ATTENTION, remark, attention)] if attention else []
    width = () if is_cut_otherwise(branch, nodes) else write_width(tower, branch)
    return [*lines, (WIDTH, "", width)] if width else lines


def is_cut_otherwise(branch: Attention, nodes: Sequence[Node]) -> bool:
    """Whether boxes in which queries are cut into heads show other sizes than are known of the attention."""
    records = (node.record for node in nodes if node.key.startswith("heads") and node.key.endswith("_q"))
    cuts = [dict(zip(one.axes, one.shape, strict=False)) for one in records if one is not None]
    known = (("heads", branch.heads), ("d_k", branch.d_k))
    return any(cut.get(word, size) != size for cut in cuts for word, size in known)


def write_attention(branch: Attention, nodes: Sequence[Node]) -> Line:
    """The formula of an attention: its terms are those of its nodes; none where a sum is capped, or may be.

    Nor is there one where other scores share the softmax, or what weights and values make is added to (VITS).
    """
    keys = {node.key.rstrip("0123456789") for node in nodes}
    if any(node.key.endswith("scores") and BENT in node.extra for node in nodes):
        return ()
    if "joined" in keys or any("tail" in node.key and node.label.startswith("+ ") for node in nodes):
        return ()
    cap = f"{branch.cap:g}" if branch.cap else "c" if any(HELD_CAP in node.extra for node in nodes) else ""
    below = [one.key for one in nodes if one.row < max((node.row for node in nodes if node.key == "cap"), default=0)]
    if cap and not (keys.isdisjoint(("bias", "kinds", "factor")) and keys.isdisjoint(key[:4] for key in below)):
        return ()
    later = list_later(nodes)
    around = [term for term in reversed(later) if not isinstance(term, str)]
    factors = [term for term in around if term != MIXED]
    if len(factors) > 1 or (UNKNOWN_FACTOR,) in factors or keys & {"scaled_weights", "changed_weights", "changed"}:
        return ()  # such as the two around a tanh (Gemma 4's ear)
    if "highest" in keys and not is_own_last(nodes):
        return ()
    q, k = (write_operand(letter, nodes) for letter in "QK")
    begin, end = ("( softmax( ", ") , 0 where a mask says so )") if is_zeroed(nodes) else ("softmax( ", ")")
    for node in sorted(
        (one for one in nodes if one.key[:5] in ("mixed", "norme") and "_weights" in one.key), key=lambda node: node.row
    ):
        begin, end = f"{'mix' if node.key.startswith('mixed') else 'norm'}( {begin}", f"{end} )"
    begin += "".join("mix( " if term == MIXED else "( " for term in around)
    runs = [Run(f"{begin}{cap and f'{cap}·tanh( '}{q}·{k}", LABEL)]
    runs += [Run("T", LABEL, "text", "regular", "sup")]
    runs += [run for factor in list_factors(nodes) for run in write_factor(factor)]
    runs += [Run(f" / {cap} )", LABEL)] if cap else []
    for term in later:
        closed = [] if isinstance(term, str) or term == MIXED else write_factor(*term)
        runs += [Run(f" + {term}" if isinstance(term, str) else " )", LABEL), *closed]
    if "highest" in keys:
        runs += [Run(f" , {branch.kept_scores:,} highest" if branch.kept_scores else " , some replaced", LABEL)]
    is_behind = "shares" in keys
    runs += [Run(" , sink", LABEL)] if branch.sinks and not is_behind else []
    return (*runs, Run(f" {end} · V × share" if is_behind else f" {end} · V", LABEL))


def is_own_last(nodes: Sequence[Node]) -> bool:
    """Whether nothing is added to scores, or multiplies them, behind what hides some by what they are themselves."""
    rows = {node.key.rstrip("0123456789"): node.row for node in nodes}
    return all(rows.get(key, -1) < rows["highest"] for key in ("mask", "bias", "kinds", "factor", "cap"))


def is_zeroed(nodes: Sequence[Node]) -> bool:
    """Whether some of what a softmax gives is made 0: the rows of places that are filled up, say (LED)."""
    return any(node.key == "zeroed" for node in nodes)


def write_operand(letter: str, nodes: Sequence[Node]) -> str:
    """Queries or keys, in brackets with what stays theirs in the product: learned numbers, one for each channel.

    Where something is added to them behind that, the letter stands for the sum (Chameleon); where they are normalised,
    for what they are then, as it does where these numbers are those of the norm (x-transformers).
    """
    lane = [node for node in nodes if node.key.endswith(f"_{letter.lower()}")]
    scaled = [node for node in lane if is_scaled(node, nodes) and LEARNED in name_scaling(node)]
    top = max((node.row for node in lane if node.label.startswith("+ ")), default=-1)
    made = max((node.row for node in lane if node.key.startswith("linear")), default=-1)
    is_normed = any(node.key.startswith("norm") and node.row > made for node in lane)
    told = "".join(name_scaling(node).lower() for node in scaled if node.row > top and not is_normed)
    return f"({letter}{told})" if told else letter


def list_later(nodes: Sequence[Node]) -> list[str | tuple[str]]:
    """What is done to the scores, in order: terms that are added, and what all is multiplied by (XLNet).

    Each is told once, but for masks: one may be added twice (Swin V2).
    """
    found: list[str | tuple[str]] = []
    for node in sorted(nodes, key=lambda one: one.row):
        kind = node.key.rstrip("0123456789").replace("kinds", "bias")
        kind = "mask" if kind.endswith("_mask") else kind
        if node.label in OTHER_SCORES.values():
            kind = "other scores" if node.label == OTHER_SCORES[None] else "earlier scores"
        kind = ADDENDS.get(node.label, kind)
        if kind == "mask" or (kind in ADDED_ONCE and kind not in found):
            found.append(kind)
        elif kind == "mix":
            found.append(MIXED)
        elif kind == "factor":
            found.append((node.label.removeprefix("SCORES "),))
    return found


def write_factor(factor: str) -> list[Run]:
    """A factor as it is written behind what it multiplies; nothing where no number is known that it is."""
    if factor == ROOT_OF_ROOT:
        return [Run(" / √√d_k", LABEL)]
    if "√d_k" in factor:
        return [Run(" / √d", LABEL), Run("k", LABEL, "text", "regular", "sub")]
    return [Run(f" {factor}", LABEL)] if "·" in factor else []


def list_factors(nodes: Sequence[Node]) -> list[str]:
    """By what numbers queries, keys and scores are multiplied, as their boxes tell it; twice √√ is √."""
    scores = next((node.label.replace("K·Q", "Q·K") for node in nodes if node.key.endswith("scores")), "")
    scaled = [name_scaling(node) for node in nodes if is_scaled(node, nodes)]
    scaled = [name for name in scaled if LEARNED not in name]
    factors = list(filter(None, map(str.strip, (*scaled, scores.removeprefix("SCORES Q·K^T")))))
    if factors.count(ROOT_OF_ROOT) == 2:
        return ["÷ √d_k", *(factor for factor in factors if factor != ROOT_OF_ROOT)]
    return factors


def write_width(tower: Tower, branch: Attention) -> Line:
    """How wide a head is, beside the width of its stream; none where one of the three is not known."""
    if not (branch.heads and branch.d_k and tower.d_model):
        return ()
    if branch.heads * branch.d_k != tower.d_model:
        return (
            Run("heads × d_k = ", LABEL),
            Run(f"{branch.heads} × {branch.d_k} = {branch.heads * branch.d_k:,}", LABEL, hue("d_k"), "bold"),
            Run(f", d_model {tower.d_model:,}", LABEL),
        )
    return (
        Run("d_model / heads = ", LABEL),
        Run(f"{tower.d_model:,}", LABEL, hue("d_model"), "bold"),
        Run(" / ", LABEL),
        Run(str(branch.heads), LABEL, hue("heads"), "bold"),
        Run(" = ", LABEL),
        Run(str(branch.d_k), LABEL, hue("d_k"), "bold"),
    )


def is_scaled(node: Node, nodes: Sequence[Node]) -> bool:
    """Whether a node multiplies queries or keys behind the last layer that makes them."""
    made = [one.row for one in nodes if one.key.startswith("linear") and one.key[-2:] == node.key[-2:]]
    is_own = node.key[-2:] in ("_q", "_k")
    return node.key.startswith("scale") and is_own and node.row > max(made, default=-1)


def name_scaling(node: Node) -> str:
    """By what a node multiplies queries or keys: what it tells, or that it scales them.

    Nothing where each place has a number of its own, as of a mask: the letter stands for what that makes (LAVT).
    """
    if node.label.startswith(MASKED):
        return ""
    return node.label[1:] if node.label[:2] in ("Q ", "K ") else UNKNOWN_FACTOR


def list_splits(chart: Chart) -> Iterator[Line]:
    """The way of the queries from the width of the stream to heads, as the recorded steps take it."""
    node = next((one for one in chart.nodes if one.key == "heads0_q" and len(one.steps) > 1), None)
    if node is not None:
        blocks = {step.parent for step in node.steps}
        moves = tuple(step for step in reversed(node.steps) if step.inputs and step.outputs and step.id not in blocks)
        line: Line = digits(read_shape([(0, moves[0].inputs[0])]), LABEL)
        for step in moves:
            line = (*line, Run(f" {step.op} → ", NOTE, "quiet"), *digits(read_shape([(0, step.outputs[0])]), LABEL))
        yield line
