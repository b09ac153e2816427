"""Which layer is of which frame, where a tower has several."""

from xray.story.canvas import Canvas, words
from xray.story.cards.told import Told, draw_card
from xray.story.charts.stage_chart import name_branch
from xray.story.sheet.planning import spell_layers
from xray.story.type_sizes import NOTE
from xray.story.wording import fit_text

MOST_KINDS = 6
SWATCHES = ("encoder", "decoder", "inference", "training", "station", "op_convolution", "op_activation", "op_pooling")
"""Surfaces by which kinds of layers are told apart on the card."""


def draw_pattern(told: Told, canvas: Canvas, top: float) -> float:
    """Which layer is of which frame, where a tower has several."""
    several = [tower for tower, _, _ in told.frames if len(tower.groups) > 1]
    if not several:
        return top

    def draw(y: float) -> float:
        for tower in several:
            kinds = {number: kind for kind, group in enumerate(tower.groups) for number in group.layers}
            step = min(13.0, (told.width - 28) / len(kinds))
            for place, number in enumerate(sorted(kinds)):
                x = told.left + 14 + place * step
                canvas.panel(x, y - 13, x + step - 1.5, y, SWATCHES[kinds[number] % len(SWATCHES)], 2)
            y -= 19
            for kind, group in enumerate(tower.groups[:MOST_KINDS]):
                canvas.panel(told.left + 14, y - 11, told.left + 26, y - 1, SWATCHES[kind % len(SWATCHES)], 2)
                branches = [name_branch(branch).lower() for stage in group.stages for branch in stage.branches]
                text = f"{spell_layers(group.layers)}: {', '.join(branches)}"
                text = fit_text(text, NOTE, told.width - 50, canvas.measure)
                y = canvas.note(told.left + 32, y, (words(text, NOTE),), "card").bottom - 3
            if len(tower.groups) > MOST_KINDS:
                text = f"and {len(tower.groups) - MOST_KINDS} more kinds"
                y = canvas.note(told.left + 32, y, (words(text, NOTE, "quiet"),), "card").bottom - 3
            y -= 4
        return y

    return draw_card(told, canvas, top, "WHICH LAYER IS WHICH", draw)
