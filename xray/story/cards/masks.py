"""The masks that attentions read, one card for each that differs."""

from collections.abc import Iterator, Sequence

from xray.ir.flow.dataflow import read_flow
from xray.story.anatomy.attentions import Attention, Looking
from xray.story.anatomy.branches import Branch
from xray.story.anatomy.tree import Tower
from xray.story.canvas import Canvas
from xray.story.cards.mask_pictures import MaskCard, draw_masks
from xray.story.cards.told import Told
from xray.story.charts.chart import Node
from xray.story.charts.stage_names import name_branch
from xray.story.recognition.values.padding import read_proven
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
                cards += list_masks(tower, panel.chart.nodes, title, look, masked)
    kept: list[MaskCard] = []
    for card in cards:
        if all(card.facts != other.facts for other in kept):
            kept.append(card)
    return draw_masks(canvas, kept[:4], told.left, top, told.width) if kept else top


def list_masks(tower: Tower, nodes: Sequence[Node], title: str, look: Look, branch: Branch) -> Iterator[MaskCard]:
    """The masks of a panel; what they hide is told to be the future only where its attention looks back."""
    flow = read_flow(look.passes[0])
    causal = isinstance(branch, Attention) and (branch.causal or branch.blind == "hidden")
    for node in nodes:
        if node.surface != "mask" or not node.steps:
            continue
        for step in node.steps:
            known = (one for one in (node.beside, *step.inputs) if one is not None)
            record = next((one for one in known if one.mask is not None), None)
            sizes = () if node.record is None else node.record.shape[-2:]
            has_room = isinstance(branch, Attention) and branch.source == "self" and sizes[:1] < sizes[1:]
            facts = None if record is None else read_proven(flow, record, causal=causal, has_room=has_room)
            if record is None or facts is None:
                continue
            maker = look.passes[0].by_id.get(record.source or "", step)
            yield MaskCard(
                id=f"mask_{tower.name}_{title}".replace(" ", "_"),
                title=f"MASK OF {title}",
                shape=read_shape([(0, record)]),
                facts=facts,
                tooltip=describe([(look.passes[0], maker)]),
                steps=(look.identity(maker),),
            )
            break
