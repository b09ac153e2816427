"""The masks that attentions read, one card for each that differs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xray.ir.flow.dataflow import read_flow
from xray.ir.flow.operation_kinds import CARRYING
from xray.ir.records import HIDDEN, PADDING, MaskFacts, TensorRecord
from xray.ir.trace import Step
from xray.story.anatomy.attentions import Looking
from xray.story.anatomy.tree import Tower
from xray.story.canvas import Canvas
from xray.story.cards.mask_pictures import MaskCard, draw_masks
from xray.story.cards.told import Told
from xray.story.charts.chart import Node
from xray.story.charts.stage_names import name_branch
from xray.story.recognition.addends import NEGATIONS
from xray.story.shapes import read_shape
from xray.story.sheet.canvas.look import Look
from xray.story.sheet.canvas.tooltip import describe


def draw_mask_cards(told: Told, canvas: Canvas, top: float) -> float:
    """The masks that attentions read, cell by cell where they were kept; of which tower, where there are several."""
    cards: list[MaskCard] = []
    is_one = len({tower.name for tower, _, _ in told.frames}) == 1
    for tower, frames, look in told.frames:
        for frame in frames:
            for panel in frame.panels:
                branches = panel.staging.stage.branches
                masked = next((one for one in branches if isinstance(one, Looking)), branches[0])
                title = name_branch(masked) if is_one else f"{tower.name.upper()} {name_branch(masked)}"
                cards += list_masks(tower, panel.chart.nodes, title, look)
    kept: list[MaskCard] = []
    for card in cards:
        if all(card.facts != other.facts for other in kept):
            kept.append(card)
    return draw_masks(canvas, kept[:4], told.left, top, told.width) if kept else top


def list_masks(tower: Tower, nodes: Sequence[Node], title: str, look: Look) -> Iterator[MaskCard]:
    """The masks of a panel."""
    for node in nodes:
        if node.surface != "mask" or not node.steps:
            continue
        for step in node.steps:
            known = (one for one in (node.beside, *step.inputs) if one is not None)
            record = next((one for one in known if one.mask is not None), None)
            if record is None or record.mask is None:
                continue
            maker = look.passes[0].by_id.get(record.source or "", step)
            yield MaskCard(
                id=f"mask_{tower.name}_{title}".replace(" ", "_"),
                title=f"MASK OF {title}",
                shape=read_shape([(0, record)]),
                facts=record.mask if hides_from_many(look, record) else leave_room(record.mask, node.record),
                tooltip=describe([(look.passes[0], maker)]),
                steps=(look.identity(maker),),
            )
            break


def hides_from_many(look: Look, mask: TensorRecord) -> bool:
    """Whether the tensor that a mask is, be it moved or compared since, is padding that many queries read elsewhere."""
    flow = read_flow(look.passes[0])

    def begin(record: TensorRecord) -> int | None:
        here = None if record.source is None else flow.places.get(record.source)
        while here is not None and flow.op(here) in CARRYING | NEGATIONS | {"eq", "ne"}:
            if len(flow.makers[here]) != 1 or flow.makers[here][0] is None:
                break
            here = flow.makers[here][0]
        return here

    def is_for_many(step: Step) -> bool:
        return any(len(one.shape) > 1 and one.shape[-2] > 1 for one in step.outputs)

    own = begin(mask)
    read = ((step, one) for step in flow.steps if is_for_many(step) for one in step.inputs if one.mask == mask.mask)
    return own is not None and any(begin(one) == own for _, one in read)


def leave_room(facts: MaskFacts, scores: TensorRecord | None) -> MaskFacts:
    """A mask as the scores read it: last keys that one query does not see may be room of a cache (LlamaGen)."""
    rows = [row for matrix in facts.cells or () for row in matrix]
    is_one = scores is not None and scores.shape[-2:-1] == (1,) and bool(rows)
    if facts.kind != "padding" or not is_one or any(PADDING in row.rstrip(PADDING) for row in rows):
        return facts
    cells = tuple(tuple(row.replace(PADDING, HIDDEN) for row in matrix) for matrix in facts.cells or ())
    return replace(facts, kind="custom", cells=cells)
