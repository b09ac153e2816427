"""The masks that attentions read, one card for each that differs."""

from collections.abc import Iterator

from xray.ir.flow.dataflow import Flow, read_flow
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
from xray.story.sheet.planning import Panel


def draw_mask_cards(told: Told, canvas: Canvas, top: float) -> float:
    """The masks that attentions read, cell by cell where they were kept; of which tower, where there are several."""
    cards: list[MaskCard] = []
    is_one = len({tower.name for tower, _, _ in told.frames}) == 1
    for tower, frames, look in told.frames:
        for frame in frames:
            for panel in frame.panels:
                cards += list_masks(tower, panel, look, "" if is_one else f"{tower.name.upper()} ")
    kept: list[MaskCard] = []
    for card in cards:
        if all(card.facts != other.facts for other in kept):
            kept.append(card)
    return draw_masks(canvas, kept[:4], told.left, top, told.width) if kept else top


def list_masks(tower: Tower, panel: Panel, look: Look, of: str) -> Iterator[MaskCard]:
    """The masks of a panel; what they hide is told to be the future only where its attention looks back."""
    flow = read_flow(look.passes[0])
    for node in panel.chart.nodes:
        if node.surface != "mask" or not node.steps:
            continue
        branch = find_masked(flow, panel, node)
        title = of + name_branch(branch)
        causal = isinstance(branch, Attention) and (branch.causal or branch.blind == "hidden")
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


def find_masked(flow: Flow, panel: Panel, node: Node) -> Branch:
    """The branch of a panel whose scores a box masks; the first attention where none is known to."""
    places = {flow.places[step.id] for step in node.steps if step.id in flow.places}
    own = [one.branch for one in panel.staging.branches if one.site and not places.isdisjoint(one.site.scored)]
    branches = panel.staging.stage.branches
    return next((one for one in (*own, *branches) if isinstance(one, Looking)), branches[0])
